//! The stream of a client: plain, or TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::wire::TIMEOUT;

/// An address of the server, and the settings of the client if it expects TLS.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) socket: SocketAddr,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Address {
    /// Returns the address for a client that speaks HTTP/2.
    pub(super) fn with_http2(&self) -> Self {
        let tls = self.tls.as_deref().map(|config| {
            let mut config = config.clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(config)
        });
        Self { tls, ..self.clone() }
    }
}

/// The host that all requests name.
pub(super) const HOST: &str = "soak";

/// A stream.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects, and completes the handshake.
    pub(super) fn open(address: &Address) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address.socket, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        socket.set_nodelay(true)?;
        let Some(config) = &address.tls else { return Ok(Self::Plain(socket)) };
        let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Whether there is data, or the end. Does not wait.
    pub(super) fn has_input(&mut self) -> bool {
        let mut poll = || {
            self.socket().set_nonblocking(true)?;
            let polled = match self {
                Self::Plain(socket) => socket.peek(&mut [0]).map(|_| true),
                Self::Tls(stream) => receive(stream),
            };
            self.socket().set_nonblocking(false)?;
            polled
        };
        poll().unwrap_or_else(|error| error.kind() != ErrorKind::WouldBlock)
    }

    /// Closes the sending side.
    pub(super) fn half_close(&mut self) {
        // Both fail only if the peer has reset the connection.
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

/// Whether data has arrived, and not only tickets.
fn receive(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> io::Result<bool> {
    loop {
        let is_end = stream.conn.read_tls(&mut stream.sock)? == 0;
        let state = stream.conn.process_new_packets().map_err(io::Error::other)?;
        if is_end || state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() {
            return Ok(true);
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            // Not through `StreamOwned`, which first sends what could not be sent: after an early response, the server no longer reads.
            Self::Tls(stream) => loop {
                match stream.conn.reader().read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => return result,
                }
                stream.conn.read_tls(&mut stream.sock)?;
                stream.conn.process_new_packets().map_err(io::Error::other)?;
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
