//! The one way in which a connection ends.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::Poll;

use rustix::net::Shutdown;
use tokio::io::{AsyncWriteExt, ReadBuf};

use crate::Limits;
use crate::scratch::with_scratch;
use crate::transport::Transport;

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// We have said everything, and the peer may still be sending.
    Finished,
    /// The peer has said that it sends nothing more, or nothing was under way.
    Quiet,
    /// An answer stays incomplete, and the peer must not take it for a whole one.
    Cut,
    /// The connection is broken already.
    Broken,
}

/// Ends a connection. Each step may fail without keeping the next from happening; the descriptor is returned in any
/// case, because `io` is dropped here.
///
/// A socket that is closed with unread bytes in it sends a reset, and the reset may overtake an answer that the peer has
/// not read yet. So after the last byte we stop writing, and read and throw away what still comes, until the peer closes
/// too or its time or bytes are used up (RFC 9112 §9.6).
pub(crate) async fn close<T: Transport>(mut io: T, ending: Ending, limits: &Limits) {
    match ending {
        Ending::Broken => {}
        Ending::Cut => {
            // If this fails the peer sees an orderly close, which a length or a missing last chunk still gives away.
            let _ = io.reset_on_close();
        }
        Ending::Quiet => {
            let _ = io.shutdown().await;
        }
        Ending::Finished => {
            // A peer that has gone makes this fail; then the drain ends at once.
            let _ = io.shutdown().await;
            let _ = tokio::time::timeout(limits.linger_time, drain(&mut io, limits.linger_bytes)).await;
        }
    }
}

/// Reads and throws away until the peer closes, or has sent `most` bytes.
async fn drain<T: Transport>(io: &mut T, most: u64) {
    let mut drained = 0;
    while drained < most {
        match read_some(io).await {
            Ok(read @ 1..) => drained += read as u64,
            Ok(0) | Err(_) => return,
        }
    }
}

async fn read_some<T: Transport>(io: &mut T) -> io::Result<usize> {
    std::future::poll_fn(|cx| {
        with_scratch(std::time::Instant::now(), |scratch| {
            let mut buffer = ReadBuf::new(&mut scratch.input);
            match Pin::new(&mut *io).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
    })
    .await
}

/// The first step by itself, for a socket that others hold too.
pub(crate) fn stop_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// Has a thread that blocks in a read come back from it: with what the kernel has queued, then with the end of input.
pub(crate) fn stop_reading(socket: impl AsFd) {
    // It fails where the connection is broken, and then no read blocks.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}
