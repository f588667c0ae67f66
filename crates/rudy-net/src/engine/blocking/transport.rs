//! A socket that one thread has to itself, and on which it blocks.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::open::Open;
use crate::close::stop_writing;
use crate::transport::{self, Transport};

/// How much later than it should a read may give up: as exact as the worker's timers are. Within it the kernel's receive
/// timeout is left as it is, so that a keep-alive connection costs no call for it.
const TIMEOUT_SLACK: Duration = Duration::from_millis(100);

/// The shortest receive timeout that is set. It is counted in microseconds, and none of them means no timeout at all.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The next request is waited for in `read(2)`. Everything else is tried without blocking, and what it waits for is left
/// with the thread's parker, because there a handler, a body and a deadline may have to be heard as well.
pub(super) struct Blocking {
    open: Arc<Open>,
    /// The socket's receive timeout.
    timeout: Option<Duration>,
    /// Whether the descriptor itself is set not to block, as `sendfile` needs it, which has no flag for that.
    is_nonblocking: bool,
}

impl Blocking {
    /// The socket of `open`, which blocks and has no timeout.
    pub(super) fn new(open: Arc<Open>) -> Self {
        Self { open, timeout: None, is_nonblocking: false }
    }

    /// Blocks until something has come or the time is over. `None` at that time.
    fn read_until(&mut self, buffer: &mut ReadBuf<'_>, until: Instant) -> Option<io::Result<()>> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if let Err(error) = self.block_for(left) {
                return Some(Err(error));
            }
            match self.receive(buffer, RecvFlags::empty()) {
                // The timeout may have been shorter than the time left.
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return Some(result.map_err(Into::into)),
            }
        }
    }

    /// Has reads block, and for about this time.
    pub(super) fn block_for(&mut self, time: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        let serves = |timeout| time / 2 <= timeout && timeout <= time + TIMEOUT_SLACK;
        if !self.timeout.is_some_and(serves) {
            self.timeout = Some(time.max(TIMEOUT_MIN));
            self.open.socket.set_read_timeout(self.timeout)?;
        }
        Ok(())
    }

    fn set_nonblocking(&mut self, nonblocking: bool) -> io::Result<()> {
        if self.is_nonblocking != nonblocking {
            rustix::io::ioctl_fionbio(&self.open.socket, nonblocking)?;
            self.is_nonblocking = nonblocking;
        }
        Ok(())
    }

    fn receive(&self, buffer: &mut ReadBuf<'_>, flags: RecvFlags) -> rustix::io::Result<()> {
        let (bytes, _) = rustix::net::recv(&self.open.socket, buffer.initialize_unfilled(), flags)?;
        buffer.advance(bytes);
        Ok(())
    }

    /// Tries until it works, fails or would block.
    fn when_writable<R>(
        &self,
        cx: &Context<'_>,
        mut operation: impl FnMut(&socket2::Socket) -> rustix::io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            match operation(&self.open.socket) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.open.parker.wait_to_write(cx);
                    return Poll::Pending;
                }
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
    }
}

/// NOSIGNAL: a peer that has gone is an error to handle here, not a signal.
const SEND_FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl AsFd for Blocking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.socket.as_fd()
    }
}

impl AsyncRead for Blocking {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What the kernel has queued would be read still, and a peer that never stops sending would keep its thread.
        if self.open.is_cut() {
            return Poll::Ready(Ok(()));
        }
        loop {
            match self.receive(buffer, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.open.parker.wait_to_read(cx);
                    return Poll::Pending;
                }
                result => return Poll::Ready(result.map_err(Into::into)),
            }
        }
    }
}

impl AsyncWrite for Blocking {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.when_writable(cx, |socket| rustix::net::send(socket, bytes, SEND_FLAGS))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.when_writable(cx, |socket| {
            rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(stop_writing(&self.open.socket))
    }
}

impl Transport for Blocking {
    const BLOCKS: bool = true;

    fn poll_read_request(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        until: Option<Instant>,
        is_idle: bool,
    ) -> Poll<io::Result<()>> {
        // In the middle of a head even a stopping server waits for the rest of it.
        if (is_idle && self.open.begin_idle()) || (!is_idle && !self.open.is_cut()) {
            let result = until.and_then(|until| self.read_until(buffer, until));
            self.open.end_idle();
            if let Some(result) = result {
                return Poll::Ready(result);
            }
        }
        // The time is over, or the server is about to end: what is there already still counts.
        Pin::new(self).poll_read(cx, buffer)
    }

    fn poll_write_more(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.when_writable(cx, |socket| rustix::net::send(socket, bytes, SEND_FLAGS | SendFlags::MORE))
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        mut offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        self.set_nonblocking(true)?;
        self.when_writable(cx, |socket| rustix::fs::sendfile(socket, file, Some(&mut offset), length))
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        transport::unacknowledged(&self.open.socket)
    }

    fn has_unread(&self) -> bool {
        transport::has_unread(&self.open.socket)
    }
}
