//! A socket of the kernel, for connections to upstreams.

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rudy_net::close::{self, CloseMode};
use rudy_service::{Piped, current_runtime};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::Id;

/// A socket, registered with the runtime of the worker that uses it.
///
/// It is registered for reading only, and for writing while the socket buffer is full: a Unix socket becomes
/// writable whenever its peer reads, which would cause an extra wake-up for each request.
#[derive(Debug)]
pub(super) struct KernelSocket {
    registered: AsyncFd<OwnedFd>,
    /// The same socket, registered for writing.
    writable: Option<AsyncFd<OwnedFd>>,
    /// The runtime that it is registered with.
    runtime: Option<Id>,
}

/// The first and the longest pause before a Unix socket with a full backlog is tried again; each pause is
/// twice the previous one. TCP waits in the kernel, but a Unix socket fails at once and has no event for free
/// space.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(64);

impl KernelSocket {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // Messages are written whole; Nagle's algorithm would only delay them.
        stream.set_nodelay(true)?;
        Self::new(stream.into_std()?.into())
    }

    pub(super) async fn connect_unix(path: &Path) -> io::Result<Self> {
        Self::new(connect_unix(path).await?)
    }

    fn new(socket: OwnedFd) -> io::Result<Self> {
        let registered = register(socket, Interest::READABLE)?;
        Ok(Self { registered, writable: None, runtime: current_runtime() })
    }

    /// See [`Socket::is_usable`](super::Socket::is_usable), for one without TLS.
    pub(super) fn is_usable(&mut self, check_kernel: bool) -> bool {
        if self.runtime != current_runtime() {
            // The new runtime does not know its readiness.
            return self.has_no_input() && self.move_to_current_runtime().is_ok();
        }
        if check_kernel {
            return self.has_no_input();
        }
        let read = self.registered.try_io(Interest::READABLE, |socket| {
            recv(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT).map_err(Into::into)
        });
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Registers the socket with the current runtime, unless it is. Returns whether it is now.
    pub(super) fn is_here(&mut self) -> bool {
        self.runtime == current_runtime() || self.move_to_current_runtime().is_ok()
    }

    /// Registers the socket with the current runtime. For a moment it has two descriptors, because a runtime
    /// deregisters a socket together with its descriptor.
    fn move_to_current_runtime(&mut self) -> io::Result<()> {
        self.registered = self.register(Interest::READABLE)?;
        self.writable = None;
        self.runtime = current_runtime();
        Ok(())
    }

    /// Returns whether the kernel has nothing to read.
    pub(super) fn has_no_input(&self) -> bool {
        let peeked = recv(&self.registered, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN))
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let wanted = buffer.len();
        loop {
            let mut ready = ready!(self.registered.poll_read_ready(cx))?;
            let read = |socket: &AsyncFd<OwnedFd>| {
                recv(socket, &mut *buffer, RecvFlags::DONTWAIT).map(|(count, _)| count).map_err(Into::into)
            };
            match ready.try_io(read) {
                Ok(Ok(count)) => {
                    if (1..wanted).contains(&count) {
                        // A short read means that the buffer is empty (epoll(7), "edge-triggered"); reading
                        // again would cost another system call.
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

    /// Reads what the kernel has; `None` if there is nothing.
    pub(super) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.registered, buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// See [`Socket::take_piped`](super::Socket::take_piped).
    pub(super) fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
        // The read that follows registers the waker again.
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(mut ready)) = self.registered.poll_read_ready(cx) else { return Ok(None) };
        let piped = ready.try_io(|socket| Piped::receive(socket.get_ref(), max));
        piped.map_or(Ok(None), Piped::received)
    }

    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write(cx, |socket| send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))
    }

    /// See [`Socket::poll_send_piped`](super::Socket::poll_send_piped).
    pub(super) fn poll_send_piped(
        &mut self,
        cx: &mut Context<'_>,
        piped: &mut Piped,
    ) -> Poll<io::Result<usize>> {
        self.poll_write(cx, |socket| piped.send(socket))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&OwnedFd) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(writable) = &self.writable {
                let mut ready = ready!(writable.poll_write_ready(cx))?;
                if let Ok(sent) = ready.try_io(|socket| write(socket.get_ref()).map_err(Into::into)) {
                    return Poll::Ready(sent);
                }
                continue;
            }
            match write(self.registered.get_ref()) {
                Ok(sent) => return Poll::Ready(Ok(sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.writable = Some(self.register(Interest::WRITABLE)?),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Resets the connection when it is closed.
    pub(super) fn abort(&self) {
        close::finish(&self.registered, CloseMode::Reset, false, false);
    }

    pub(super) fn stop_writing(&self) -> io::Result<()> {
        close::stop_writing(&self.registered)
    }

    /// Removes the waker for writing. The runtime has none for reading: it has taken it when it reported the end of the response.
    pub(super) fn clear_waker(&mut self) {
        self.writable = None;
    }

    fn register(&self, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
        register(self.registered.as_fd().try_clone_to_owned()?, interest)
    }
}

/// connect(2): `EAGAIN` means that the backlog of a Unix socket is full.
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

/// Returns the pauses between attempts, without end.
fn retry_pauses() -> impl Iterator<Item = Duration> {
    iter::successors(Some(RETRY_PAUSE), |pause| Some((*pause * 2).min(RETRY_PAUSE_MAX)))
}

/// Registers a descriptor with the current runtime.
pub fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor of an `OwnedFd` is open as long as it lives, and the `AsyncFd` owns this one.
    #[expect(unsafe_code, reason = "tokio's own sockets are always registered for writing as well")]
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    registered.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_backlog_is_retried_soon_and_then_sixteen_times_per_second() {
        let first: Vec<_> = retry_pauses().take(8).map(|pause| pause.as_millis()).collect();
        assert_eq!(first, [1, 2, 4, 8, 16, 32, 64, 64]);
        let mut left = Duration::from_secs(1);
        let attempts = retry_pauses().take_while(|pause| {
            let fits = *pause <= left;
            left = left.saturating_sub(*pause);
            fits
        });
        // Six pauses of 63 ms in total, and fourteen of 64 ms.
        assert_eq!(attempts.count(), 20);
    }
}
