//! A TLS session of a client as a state machine, without a socket.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// What a client needs for sessions with one server. Sessions of one configuration resume each other.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A session with a server.
#[derive(Debug)]
pub struct ClientSession {
    connection: ClientConnection,
    /// Encrypted bytes that were not sent yet.
    output: Vec<u8>,
}

/// Whether an error of [`ClientSession::receive`] means that the certificate of the server is not trusted.
#[must_use]
pub fn is_untrusted_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::InvalidCertificate(_)))
}

impl ClientTls {
    /// Creates the settings for a server. `None` if its name is neither a host name nor an IP address.
    #[must_use]
    pub fn new(config: Arc<ClientConfig>, name: &str) -> Option<Self> {
        let name = ServerName::try_from(name.to_owned()).ok()?;
        Some(Self { config, name })
    }

    /// Begins a session.
    ///
    /// # Errors
    ///
    /// The configuration does not suit the server.
    pub fn session(&self) -> io::Result<ClientSession> {
        let connection =
            ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
        Ok(ClientSession { connection, output: Vec::new() })
    }
}

impl ClientSession {
    /// Whether the handshake is not complete.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Receives bytes from the socket; none at its end. Take the decrypted bytes out with [`Self::read`] before the next call.
    ///
    /// # Errors
    ///
    /// The server violated the protocol, or its certificate is not trusted. [`Self::output`] then has an alert for it.
    pub fn receive(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            self.connection.read_tls(&mut bytes)?;
            let processed = self.connection.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads decrypted bytes: 0 after a regular end, `None` if more must be received.
    ///
    /// # Errors
    ///
    /// The connection has ended without the end of the session, so that bytes may be missing.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.connection.reader().read(buffer) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Encrypts bytes. Returns how many: not all, while much was not sent yet.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.writer().write(bytes)
    }

    /// Ends the sending direction.
    pub fn finish(&mut self) {
        self.connection.send_close_notify();
    }

    /// Returns encrypted bytes to send.
    ///
    /// # Errors
    ///
    /// None in practice: the bytes go to memory.
    pub fn output(&mut self) -> io::Result<&[u8]> {
        if self.output.is_empty() {
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.output)?;
            }
        }
        Ok(&self.output)
    }

    /// Removes the first bytes of [`Self::output`], which were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
    }
}
