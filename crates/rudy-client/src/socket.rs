//! The socket of a connection to an upstream.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};

use rudy_net::close::CloseMode;
use rudy_net::network;
use rudy_net::transport::{PeerClose, Stream, Wire as _};
use rudy_service::Piped;
use rudy_tls::ClientSession;
use tokio::io::ReadBuf;

use super::kernel_socket::KernelSocket;
pub use super::kernel_socket::register;

/// A connection to an upstream.
#[derive(Debug)]
pub struct Socket {
    io: Io,
    /// The TLS session; `None` for an unencrypted connection.
    pub(super) tls: Option<Box<ClientSession>>,
    /// The address of the other end, unless that is a Unix socket.
    address: Option<SocketAddr>,
}

#[derive(Debug)]
enum Io {
    Kernel(KernelSocket),
    /// Of another network.
    Other(Stream),
}

impl Socket {
    /// Connects. Waits without limit while the backlog of the upstream is full: the caller sets the timeout.
    ///
    /// # Errors
    ///
    /// Nothing listens at the address, or there is no descriptor for the socket.
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let connecting = network::current().map(|network| network.connect(address));
        let io = match connecting {
            None => Io::Kernel(KernelSocket::connect(address).await?),
            Some(connecting) => Io::Other(connecting.await?),
        };
        Ok(Self { io, tls: None, address: Some(address) })
    }

    /// As [`Self::connect`], to a Unix socket.
    pub(super) async fn connect_unix(path: &Path) -> io::Result<Self> {
        Ok(Self { io: Io::Kernel(KernelSocket::connect_unix(path).await?), tls: None, address: None })
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
        match (&mut self.io, &self.tls) {
            (Io::Kernel(socket), None) => socket.is_usable(check_kernel),
            (Io::Kernel(socket), Some(_)) => socket.is_here() && self.has_no_plaintext(),
            (Io::Other(_), None) => self.has_no_input(),
            (Io::Other(_), Some(_)) => self.has_no_plaintext(),
        }
    }

    /// Returns whether the kernel has nothing to read.
    #[must_use]
    pub fn has_no_input(&self) -> bool {
        match &self.io {
            Io::Kernel(socket) => socket.has_no_input(),
            Io::Other(stream) => !stream.has_unread() && stream.peer_close() == PeerClose::None,
        }
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
        match &mut self.io {
            Io::Kernel(socket) => socket.poll_receive(cx, buffer),
            Io::Other(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                ready!(stream.poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Reads what the kernel has, without asking the runtime, which may not have seen the event yet. `None` if there is nothing; 0 at the
    /// end.
    pub fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.tls.is_some() { self.decrypt_now(buffer) } else { self.receive_now(buffer) }
    }

    /// As [`Self::read_now`], without decryption.
    pub(super) fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.io {
            Io::Kernel(socket) => socket.receive_now(buffer),
            Io::Other(_) => match self.poll_receive(&mut Context::from_waker(Waker::noop()), buffer) {
                Poll::Ready(read) => read.map(Some),
                Poll::Pending => Ok(None),
            },
        }
    }

    /// Moves up to `max` received bytes into a pipe. `None` if there are none as far as the runtime knows, and over TLS.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub fn take_piped(&mut self, max: u64) -> io::Result<Option<Piped>> {
        match &mut self.io {
            Io::Kernel(socket) if self.tls.is_none() => socket.take_piped(max),
            _ => Ok(None),
        }
    }

    /// Whether bytes of a pipe can be sent as they are: without TLS.
    #[must_use]
    pub fn accepts_piped(&self) -> bool {
        matches!(self.io, Io::Kernel(_)) && self.tls.is_none()
    }

    /// Sends bytes of a pipe, and returns their number.
    ///
    /// # Errors
    ///
    /// The connection is broken, or [does not accept](Self::accepts_piped) pipes.
    pub fn poll_send_piped(&mut self, cx: &mut Context<'_>, piped: &mut Piped) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Kernel(socket) if self.tls.is_none() => socket.poll_send_piped(cx, piped),
            _ => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Resets the connection when it is dropped: the other end must not take what it has received for everything.
    pub fn abort(&self) {
        match &self.io {
            Io::Kernel(socket) => socket.abort(),
            Io::Other(stream) => stream.finish(CloseMode::Reset, false, false),
        }
    }

    /// Writes to the socket.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Kernel(socket) => socket.poll_send(cx, bytes),
            Io::Other(stream) => stream.poll_write(cx, &[IoSlice::new(bytes)], false),
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
        match &self.io {
            Io::Kernel(socket) => socket.stop_writing(),
            Io::Other(stream) => stream.stop_writing(),
        }
    }

    /// Removes the waker of the last request, so that it neither wakes nor keeps alive that request's task.
    pub fn clear_waker(&mut self) {
        if let Io::Kernel(socket) = &mut self.io {
            socket.clear_waker();
        }
    }
}
