//! The socket of a connection to an upstream.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

use super::worker;

/// A connection to an upstream, watched by the runtime of the [worker](worker::here) that uses it.
///
/// It is watched for what can be read, and only while more is sent than the socket takes for room as well: a Unix socket
/// reports room whenever its peer has read anything, which would wake us once more for each request.
#[derive(Debug)]
pub(crate) struct Socket {
    watched: AsyncFd<OwnedFd>,
    /// The same socket, watched for room.
    room: Option<AsyncFd<OwnedFd>>,
    /// Whose runtime watches it.
    worker: usize,
    /// Where it leads to, if that is no Unix socket.
    address: Option<SocketAddr>,
}

/// The first pause before a Unix socket is tried again whose queue is full, and the longest: each is twice the one before it.
/// TCP waits in the kernel; a Unix socket says no at once, and has nothing that says when to come back.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(64);

impl Socket {
    /// Connects. While the upstream accepts no connection and its backlog is full, this waits without end: the caller bounds the
    /// time.
    ///
    /// # Errors
    ///
    /// There is nothing at the address, or no descriptor for the socket.
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // Messages are written whole; to wait for more of them would only delay them.
        stream.set_nodelay(true)?;
        Self::new(stream.into_std()?.into(), Some(address))
    }

    /// As [`Self::connect`], to a Unix socket.
    pub(super) async fn connect_unix(path: &Path) -> io::Result<Self> {
        Self::new(connect_unix(path).await?, None)
    }

    fn new(socket: OwnedFd, address: Option<SocketAddr>) -> io::Result<Self> {
        let watched = watched(socket, Interest::READABLE)?;
        Ok(Self { watched, room: None, worker: worker::here(), address })
    }

    /// Where it leads to, if that is no Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether a kept connection can be used for another request: nothing has come on it, not even its end. Asks the runtime,
    /// and the kernel only where that has heard of something, or to be `sure`. Moves the socket to this worker's runtime.
    pub(crate) fn is_usable(&mut self, sure: bool) -> bool {
        if self.worker != worker::here() {
            // Its readiness is unknown to the new runtime.
            return self.is_quiet() && self.move_here().is_ok();
        }
        if sure {
            return self.is_quiet();
        }
        self.poll_read(&mut Context::from_waker(Waker::noop()), &mut [0]).is_pending()
    }

    /// Has this worker's runtime watch it. For a moment it has two descriptors: a runtime releases a socket only with its own.
    fn move_here(&mut self) -> io::Result<()> {
        self.watched = self.watch_for(Interest::READABLE)?;
        self.room = None;
        self.worker = worker::here();
        Ok(())
    }

    /// Whether the kernel has nothing to read.
    fn is_quiet(&self) -> bool {
        let peeked = recv(&self.watched, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN))
    }

    /// Reads; 0 is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let wanted = room.len();
        loop {
            let mut ready = ready!(self.watched.poll_read_ready(cx))?;
            let read = |socket: &AsyncFd<OwnedFd>| {
                recv(socket, &mut *room, RecvFlags::DONTWAIT).map(|(count, _)| count).map_err(Into::into)
            };
            match ready.try_io(read) {
                Ok(Ok(count)) => {
                    if (1..wanted).contains(&count) {
                        // That was all there is (epoll(7), "edge-triggered"): asking again would be one system call more.
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// Writes as much as there is room for.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |socket: &OwnedFd| send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        loop {
            if let Some(room) = &self.room {
                let mut ready = ready!(room.poll_write_ready(cx))?;
                if let Ok(sent) = ready.try_io(|socket| write(socket.get_ref()).map_err(Into::into)) {
                    return Poll::Ready(sent);
                }
                continue;
            }
            match write(self.watched.get_ref()) {
                Ok(sent) => return Poll::Ready(Ok(sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.room = Some(self.watch_for(Interest::WRITABLE)?),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// The request is over: the socket wakes the request's task no more, and does not keep it alive.
    pub(crate) fn rest(&mut self) {
        self.room = None;
        // A runtime that has ended has no waker either.
        let _ = self.watched.poll_read_ready(&mut Context::from_waker(Waker::noop()));
    }

    fn watch_for(&self, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
        watched(self.watched.as_fd().try_clone_to_owned()?, interest)
    }
}

/// connect(2): `EAGAIN` is a Unix socket whose queue is full.
async fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for pause in retry_pauses() {
        match connect(&socket, &address) {
            Err(Errno::AGAIN) => tokio::time::sleep(pause).await,
            Err(Errno::INTR) => {}
            connected => return connected.map(|()| socket).map_err(Into::into),
        }
    }
    unreachable!("the pauses have no end")
}

/// The pauses between attempts; they have no end.
fn retry_pauses() -> impl Iterator<Item = Duration> {
    iter::successors(Some(RETRY_PAUSE), |pause| Some((*pause * 2).min(RETRY_PAUSE_MAX)))
}

/// Has the runtime of this task watch a descriptor.
pub(crate) fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: what an `OwnedFd` names is open as long as that lives, and this one is the `AsyncFd`'s own.
    #[expect(unsafe_code, reason = "tokio's own sockets are always watched for room as well")]
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_whose_backlog_is_full_is_tried_soon_and_then_sixteen_times_a_second() {
        let first: Vec<_> = retry_pauses().take(8).map(|pause| pause.as_millis()).collect();
        assert_eq!(first, [1, 2, 4, 8, 16, 32, 64, 64]);
        let mut left = Duration::from_secs(1);
        let attempts = retry_pauses().take_while(|pause| {
            let fits = *pause <= left;
            left = left.saturating_sub(*pause);
            fits
        });
        // Six pauses of 63 ms together, and fourteen of 64 ms.
        assert_eq!(attempts.count(), 20);
    }
}
