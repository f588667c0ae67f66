//! The one way in which a connection ends, on the server's side and on the client's.
//!
//! Four steps: stop writing, read what still comes, stop reading, close. Each may fail, because the peer has gone or never
//! answers, and none keeps the next from being taken: what returns the descriptor is the drop of its owner, which no error
//! and no panic prevents. A program that skipped the last step where the third failed has run out of descriptors.
//!
//! A socket that is closed with unread bytes in it sends a reset, and the reset may overtake an answer that the peer has
//! not read yet. So after the last byte we stop writing, and read and throw away what still comes, until the peer closes
//! too or its time or bytes are used up (RFC 9112 §9.6). `SHUT_RD` comes after that: it does not empty the socket.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use crate::scratch::with_scratch;

/// What is read and thrown away at most where nobody can wait: a request, or what a socket holds of an upload.
const AT_ONCE_BYTES: usize = 64 * 1024;

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// We have said everything, and the peer may still be sending: it is waited for.
    Finished,
    /// The peer has said that it sends nothing more, or nothing was under way: nobody is waited for.
    Quiet,
    /// What we sent stays incomplete, and the peer must not take it for a whole; or the connection is broken already. It is
    /// reset, which leaves nothing behind on either side.
    Cut,
}

/// For how much of what a peer still sends a close waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linger {
    /// How long, the first two steps taken together.
    pub time: Duration,
    /// How many bytes.
    pub bytes: u64,
}

/// Ends a connection: in order, or by a reset where it is [`Ending::Cut`]. What goes wrong concerns nobody any more, and is
/// not told.
///
/// `io` is a socket, or TLS around one: its shutdown may wait for the peer, its descriptor is the socket's, and its drop
/// closes that. The future must be polled on a tokio runtime with time; dropped before its end, polled or not, it takes the
/// steps that are left as [`close_at_once`] does.
pub fn close<T>(io: T, ending: Ending, linger: Linger) -> impl Future<Output = ()>
where
    T: AsyncRead + AsyncWrite + AsFd + Unpin,
{
    Closing::new(io, ending).close(ending, linger)
}

/// Ends a connection without waiting, where nothing can wait: no task, no time, no runtime. The same steps, but what the
/// peer sends from now on is answered by a reset.
pub fn close_at_once(io: impl AsFd, ending: Ending) {
    drop(Closing::new(io, ending));
}

/// A connection that is closed when it is dropped, in the way that its ending asks for.
pub(crate) struct Closing<T: AsFd> {
    io: T,
    ending: Ending,
    has_stopped_writing: bool,
    has_drained: bool,
}

impl<T: AsFd> Closing<T> {
    pub(crate) fn new(io: T, ending: Ending) -> Self {
        Self { io, ending, has_stopped_writing: false, has_drained: false }
    }
}

impl<T: AsyncRead + AsyncWrite + AsFd + Unpin> Closing<T> {
    /// The first two steps, as far as they have to wait; the others, and what is left of these, follow with the drop.
    pub(crate) async fn close(mut self, ending: Ending, linger: Linger) {
        self.ending = ending;
        let time = match ending {
            Ending::Finished => linger.time,
            Ending::Quiet => Duration::ZERO,
            Ending::Cut => return,
        };
        let begun = Instant::now();
        // 1. Stop writing. What lies over the socket says goodbye first; if it cannot, the socket ends without it.
        self.has_stopped_writing = matches!(timeout(time, self.io.shutdown()).await, Ok(Ok(())));
        if ending == Ending::Finished {
            if !self.has_stopped_writing {
                // Nor may the peer wait for the end of what we say while we wait for the end of what it says.
                self.has_stopped_writing = stop_writing(&self.io).is_ok();
            }
            // 2. Read what still comes.
            let left = time.saturating_sub(begun.elapsed());
            self.has_drained = timeout(left, drain(&mut self.io, linger.bytes)).await.is_ok();
        }
    }
}

impl<T: AsFd> Drop for Closing<T> {
    /// Takes the steps that are left, each whatever became of the one before.
    fn drop(&mut self) {
        if self.ending == Ending::Cut {
            // If this fails the peer sees an orderly close, which a length or a missing last chunk still gives away.
            let _ = reset_on_close(&self.io);
            return;
        }
        // 1. Stop writing. It fails where the peer has gone.
        if !self.has_stopped_writing {
            let _ = stop_writing(&self.io);
        }
        // 2. Read what still comes.
        if !self.has_drained {
            drain_at_once(&self.io);
        }
        // 3. Stop reading.
        stop_reading(&self.io);
        // 4. Close: `io` is dropped behind this function.
    }
}

/// Reads and throws away until the peer closes, or has sent `most` bytes.
async fn drain<T: AsyncRead + Unpin>(io: &mut T, most: u64) {
    let mut drained = 0;
    while drained < most {
        match read_some(io).await {
            Ok(read @ 1..) => drained += read as u64,
            Ok(0) | Err(_) => return,
        }
    }
}

async fn read_some<T: AsyncRead + Unpin>(io: &mut T) -> io::Result<usize> {
    std::future::poll_fn(|cx| {
        with_scratch(Instant::now(), |scratch| {
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

/// Reads and throws away what the kernel has, up to [`AT_ONCE_BYTES`].
fn drain_at_once(socket: impl AsFd) {
    let mut buffer = [0; 4096];
    for _ in 0..AT_ONCE_BYTES / buffer.len() {
        match rustix::net::recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => {}
            Ok((_, 0)) | Err(_) => return,
        }
    }
}

/// The first step by itself, for a socket that others hold too.
pub(crate) fn stop_writing(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// The third step by itself. It also has a thread that blocks in a read come back from it: with what the kernel has queued,
/// then with the end of input.
pub(crate) fn stop_reading(socket: impl AsFd) {
    // It fails where the connection is broken: then no read blocks, and nothing comes any more.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Makes the coming close a reset: the only way to say "cut" where the end of the connection is the end of the body.
fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}
