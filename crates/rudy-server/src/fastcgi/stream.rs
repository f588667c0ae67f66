//! The socket of a connection to an app.

use std::io;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Handle};

use super::upstream::Upstream;

/// Where a socket is watched: by one of the runtimes, of which the engines have one for each core or one for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home(Option<runtime::Id>);

impl Home {
    /// Where whoever asks is run.
    pub(super) fn here() -> Self {
        Self(Handle::try_current().ok().map(|handle| handle.id()))
    }
}

/// A connection to an app. A [`Home`] watches it, whichever core uses it.
///
/// It is watched for what can be read, and only while a body is larger than the socket takes for room as well: a Unix socket
/// tells of room whenever its peer has read anything, which would wake us once more for each request.
#[derive(Debug)]
pub(super) struct Stream {
    socket: AsyncFd<OwnedFd>,
    /// The same socket, watched for room.
    room: Option<AsyncFd<OwnedFd>>,
}

/// The first pause before a Unix socket is tried again whose queue is full, and the longest: each is twice the one before it.
/// TCP waits in the kernel; a Unix socket says no at once, and has nothing that says when to come back.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(64);

impl Stream {
    /// Connects. Where the app accepts nobody for now, and its queue is full, this waits for ever: the time is the caller's to
    /// bound.
    pub(super) async fn connect(upstream: &Upstream) -> io::Result<Self> {
        let socket = match upstream {
            Upstream::Ip(address) => {
                let stream = TcpStream::connect(address).await?;
                // Records are written whole; whatever waits for more of them waits in vain.
                stream.set_nodelay(true)?;
                stream.into_std()?.into()
            }
            Upstream::Unix(path) => connect_unix(path).await?.into_std()?.into(),
        };
        Ok(Self { socket: watched(socket, Interest::READABLE)?, room: None })
    }

    /// Has it watched here from now on. For a moment it has two descriptors: a runtime lets go of a socket only with its own.
    pub(super) fn move_here(&mut self) -> io::Result<()> {
        self.socket = self.watch_for(Interest::READABLE)?;
        self.room = None;
        Ok(())
    }

    /// Reads; 0 is the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let wanted = room.len();
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
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
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |socket: &OwnedFd| send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        loop {
            if let Some(room) = &self.room {
                let mut ready = ready!(room.poll_write_ready(cx))?;
                if let Ok(sent) = ready.try_io(|socket| write(socket.get_ref()).map_err(Into::into)) {
                    return Poll::Ready(sent);
                }
                continue;
            }
            match write(self.socket.get_ref()) {
                Ok(sent) => return Poll::Ready(Ok(sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.room = Some(self.watch_for(Interest::WRITABLE)?),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Wakes nobody any more until it is read again. What it would wake holds it.
    pub(super) fn hush(&mut self) {
        // A runtime that is over has no waker either.
        let _ = self.socket.poll_read_ready(&mut Context::from_waker(Waker::noop()));
    }

    /// Everything has been sent: whether there is room is of no interest any more.
    pub(super) fn rest(&mut self) {
        self.room = None;
    }

    /// As [`Self::is_quiet`], and the kernel is asked in any case: what has just happened the runtime may not know.
    pub(super) fn is_surely_quiet(&mut self) -> bool {
        let peeked = recv(&self.socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN)) && self.is_quiet()
    }

    /// Whether nothing has happened on a connection on which nothing is to happen: the app has neither closed it nor said
    /// anything. Asks the runtime, which has been told, and the kernel only where it has.
    pub(super) fn is_quiet(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        self.poll_read(cx, &mut [0]).is_pending()
    }

    fn watch_for(&self, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
        watched(self.socket.as_fd().try_clone_to_owned()?, interest)
    }
}

/// connect(2): `EAGAIN` is a Unix socket whose queue is full.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let mut pauses = retry_pauses();
    loop {
        match (UnixStream::connect(path).await, pauses.next()) {
            (Err(error), Some(pause)) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(pause).await;
            }
            (connected, _) => return connected,
        }
    }
}

/// The pauses between attempts; they have no end.
fn retry_pauses() -> impl Iterator<Item = Duration> {
    iter::successors(Some(RETRY_PAUSE), |pause| Some((*pause * 2).min(RETRY_PAUSE_MAX)))
}

fn watched(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: what an `OwnedFd` names is open as long as that lives, and this one is the `AsyncFd`'s own.
    #[expect(unsafe_code, reason = "tokio's own sockets are always watched for room as well")]
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_whose_queue_is_full_is_tried_soon_and_then_sixteen_times_a_second() {
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
