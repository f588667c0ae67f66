//! The socket of a connection to an upstream.

use std::future::poll_fn;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rudy_net::close;
use rudy_service::{Piped, current_runtime};
use rudy_tls::ClientSession;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::Id;

/// A connection to an upstream, registered with the runtime of the worker that uses it.
///
/// It is registered for reading only, and for writing while the socket buffer is full: a Unix socket becomes
/// writable whenever its peer reads, which would cause an extra wake-up for each request.
#[derive(Debug)]
pub struct Socket {
    registered: AsyncFd<OwnedFd>,
    /// The same socket, registered for writing.
    writable: Option<AsyncFd<OwnedFd>>,
    /// The TLS session; `None` for an unencrypted connection.
    pub(super) tls: Option<Box<ClientSession>>,
    /// The runtime that it is registered with.
    runtime: Option<Id>,
    /// The address of the other end, unless that is a Unix socket.
    address: Option<SocketAddr>,
}

/// The first and the longest pause before a Unix socket with a full backlog is tried again; each pause is
/// twice the previous one. TCP waits in the kernel, but a Unix socket fails at once and has no event for free
/// space.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(64);

impl Socket {
    /// Connects. Waits without limit while the backlog of the upstream is full: the caller sets the timeout.
    ///
    /// # Errors
    ///
    /// Nothing listens at the address, or there is no descriptor for the socket.
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // Messages are written whole; Nagle's algorithm would only delay them.
        stream.set_nodelay(true)?;
        Self::new(stream.into_std()?.into(), Some(address))
    }

    /// As [`Self::connect`], to a Unix socket.
    pub(super) async fn connect_unix(path: &Path) -> io::Result<Self> {
        Self::new(connect_unix(path).await?, None)
    }

    fn new(socket: OwnedFd, address: Option<SocketAddr>) -> io::Result<Self> {
        let registered = register(socket, Interest::READABLE)?;
        Ok(Self { registered, writable: None, tls: None, runtime: current_runtime(), address })
    }

    /// The address of the other end, unless that is a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns whether the other end has chosen HTTP/2 in the TLS handshake.
    #[must_use]
    pub fn has_chosen_http2(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_http2())
    }

    /// Returns whether an idle connection can be used for another request: nothing was received on it, not
    /// even its end. Asks the runtime, and the kernel only after an event or with `check_kernel`. Moves the
    /// socket to the current runtime.
    pub fn is_usable(&mut self, check_kernel: bool) -> bool {
        if self.tls.is_some() {
            let is_here = self.runtime == current_runtime() || self.move_to_current_runtime().is_ok();
            return is_here && self.has_no_plaintext();
        }
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

    /// Registers the socket with the current runtime. For a moment it has two descriptors, because a runtime
    /// deregisters a socket together with its descriptor.
    fn move_to_current_runtime(&mut self) -> io::Result<()> {
        self.registered = self.register(Interest::READABLE)?;
        self.writable = None;
        self.runtime = current_runtime();
        Ok(())
    }

    /// Returns whether the kernel has nothing to read.
    #[must_use]
    pub fn has_no_input(&self) -> bool {
        let peeked = recv(&self.registered, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(Errno::AGAIN))
    }

    /// Reads; returns 0 at the end.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.tls.is_some() { self.poll_decrypt(cx, buffer) } else { self.poll_receive(cx, buffer) }
    }

    /// Writes as many bytes as the socket accepts.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.tls.is_some() { self.poll_encrypt(cx, bytes) } else { self.poll_send(cx, bytes) }
    }

    /// Sends what was written and is not sent yet.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tls.is_some() { self.poll_send_encrypted(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Reads from the socket.
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

    /// Reads what the kernel has, without asking the runtime, which may not have seen the event yet. `None` if there is nothing; 0 at the
    /// end.
    pub fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.tls.is_some() { self.decrypt_now(buffer) } else { self.receive_now(buffer) }
    }

    /// As [`Self::read_now`], without decryption.
    pub(super) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(&self.registered, buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves up to `max` received bytes into a pipe. `None` if there are none as far as the runtime knows, and over TLS.
    pub fn take_piped(&mut self, max: u64) -> Option<Piped> {
        if self.tls.is_some() {
            return None;
        }
        // The read that follows registers the waker again.
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(mut ready)) = self.registered.poll_read_ready(cx) else { return None };
        let piped = ready.try_io(|socket| Piped::receive(socket.get_ref(), max)).ok()?;
        piped.ok().filter(|piped| piped.length() > 0)
    }

    /// Writes to the socket.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |socket: &OwnedFd| send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
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

    /// Writes all bytes of a short message to a new connection, whose socket buffer is empty.
    pub(super) async fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| self.poll_send(cx, bytes)).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Tells the other end that nothing more is sent.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.finish();
            // If the socket is full, the other end notices the end without the end of the session.
            let _ = self.poll_send_encrypted(&mut Context::from_waker(Waker::noop()))?;
        }
        close::stop_writing(&self.registered)
    }

    /// Removes the waker of the last request, so that it neither wakes nor keeps alive that request's task. The runtime has none for
    /// reading: it has taken it when it reported the end of the response.
    pub fn clear_waker(&mut self) {
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
