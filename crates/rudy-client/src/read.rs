//! Reads from a connection into a buffer that all connections of a thread share.

use std::cell::RefCell;
use std::task::{Context, Poll, ready};

use super::{Cause, ProtocolCause, Socket};

/// The most that is read at a time. Larger reads save system calls, but delay the first byte that the client gets.
pub const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// The read buffer of all connections of this thread. A connection stores only what it cannot decode yet.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Lends the read buffer of this thread, of [`READ_BYTES`].
pub fn with_buffer<T>(use_buffer: impl FnOnce(&mut [u8]) -> T) -> T {
    READ.with_borrow_mut(|buffer| use_buffer(&mut buffer[..READ_BYTES]))
}

/// Reads once, at most `max` bytes. `decode` gets them after the `unused` ones of the last read, and returns those that it does not use
/// either; it gets `None` at the end of the connection.
pub fn poll_decode<P: ProtocolCause>(
    cx: &mut Context<'_>,
    socket: &mut Socket,
    unused: &mut Vec<u8>,
    max: usize,
    decode: impl for<'a> FnOnce(Option<&'a [u8]>) -> Result<&'a [u8], Cause<P>>,
) -> Poll<Result<(), Cause<P>>> {
    READ.with_borrow_mut(|buffer| {
        let (start, end) = (unused.len(), unused.len() + max);
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        buffer[..start].copy_from_slice(unused);
        let received =
            ready!(socket.poll_read(cx, &mut buffer[start..end])).map_err(Cause::ConnectionLost)?;
        let rest = decode((received > 0).then(|| &buffer[..start + received]))?;
        unused.clear();
        unused.extend_from_slice(rest);
        Poll::Ready(Ok(()))
    })
}
