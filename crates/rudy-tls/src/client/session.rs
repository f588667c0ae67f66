//! A TLS session of a client as a state machine, without a socket.

use std::io::{self, Read, Write};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::{Trust, TrustError};
use crate::Certificate;

/// The name of HTTP/2 in ALPN.
const HTTP2: &[u8] = b"h2";

/// The certificates that a client trusts, and the one that it presents, for sessions with any server. Sessions resume each other.
#[derive(Debug)]
pub struct ClientSettings(ArcSwap<ClientConfig>);

/// What a client needs for sessions with one server.
#[derive(Debug, Clone)]
pub struct ClientTls {
    settings: Arc<ClientSettings>,
    name: ServerName<'static>,
    offers_http2: bool,
}

/// A session with a server.
#[derive(Debug)]
pub struct ClientSession {
    connection: ClientConnection,
    /// Decrypted bytes that were not read, before those in the connection.
    plaintext: Vec<u8>,
    /// Encrypted bytes that were not sent yet.
    output: Vec<u8>,
}

/// Whether an error of [`ClientSession::receive`] means that the certificate of the server is not trusted.
#[must_use]
pub fn is_untrusted_certificate(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::InvalidCertificate(_)))
}

/// Returns an error with the same kind, meaning and text, for another request that fails because of it.
#[must_use]
pub fn same_error(error: &io::Error) -> io::Error {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(of_tls) => io::Error::new(error.kind(), of_tls.clone()),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl ClientSettings {
    /// Creates settings; `certificate` is presented to servers that ask for one.
    ///
    /// # Errors
    ///
    /// The trusted certificates cannot be used.
    pub fn new(trust: &Trust, certificate: Option<&Certificate>) -> Result<Self, TrustError> {
        trust.client_config_with(certificate).map(|config| Self(ArcSwap::new(config)))
    }

    /// Uses other settings for sessions that begin from now on, which resume none from before.
    pub fn replace(&self, by: &Self) {
        self.0.store(by.0.load_full());
    }
}

impl ClientTls {
    /// Creates the settings for a server. `None` if its name is neither a host name nor an IP address.
    #[must_use]
    pub fn new(settings: Arc<ClientSettings>, name: &str) -> Option<Self> {
        let name = ServerName::try_from(name.to_owned()).ok()?;
        Some(Self { settings, name, offers_http2: false })
    }

    /// Also offers HTTP/2 by ALPN, first of all (RFC 9113 §3.2).
    #[must_use]
    pub fn with_http2(self) -> Self {
        Self { offers_http2: true, ..self }
    }

    /// Begins a session.
    ///
    /// # Errors
    ///
    /// The configuration does not suit the server.
    pub fn session(&self) -> io::Result<ClientSession> {
        let config = self.settings.0.load_full();
        let http2 = self.offers_http2.then(|| HTTP2.to_vec());
        let protocols = http2.into_iter().chain(config.alpn_protocols.iter().cloned()).collect();
        let connection = ClientConnection::new_with_alpn(config, self.name.clone(), protocols);
        let connection = connection.map_err(io::Error::other)?;
        Ok(ClientSession { connection, plaintext: Vec::new(), output: Vec::new() })
    }
}

impl ClientSession {
    /// Whether the handshake is not complete.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the server has chosen HTTP/2, after the handshake.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(HTTP2)
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
            let state = processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if bytes.is_empty() {
                return Ok(());
            }
            // The connection reads nothing more while it has 16 KiB: the end of one record may be followed by others.
            let start = self.plaintext.len();
            self.plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            self.connection.reader().read_exact(&mut self.plaintext[start..])?;
        }
    }

    /// Reads decrypted bytes: 0 after a regular end, `None` if more must be received.
    ///
    /// # Errors
    ///
    /// The connection has ended without the end of the session, so that bytes may be missing.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.plaintext.is_empty() {
            let read = buffer.len().min(self.plaintext.len());
            buffer[..read].copy_from_slice(&self.plaintext[..read]);
            self.plaintext.drain(..read);
            return Ok(Some(read));
        }
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection};

    use super::*;
    use crate::self_signed;

    /// A session after the handshake, and its server.
    fn sessions() -> (ClientSession, ServerConnection) {
        let pem = self_signed(&["localhost".to_owned()], SystemTime::UNIX_EPOCH).unwrap();
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .unwrap();
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        server.set_buffer_limit(None);
        let settings = ClientSettings::new(&Trust::All, None).unwrap();
        let tls = ClientTls::new(Arc::new(settings), "localhost").unwrap();
        let mut client = tls.with_http2().session().unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let output = client.output().unwrap().to_vec();
            client.sent(output.len());
            server.read_tls(&mut &output[..]).unwrap();
            server.process_new_packets().unwrap();
            let mut output = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut output).unwrap();
            }
            client.receive(&output).unwrap();
        }
        (client, server)
    }

    #[test]
    fn records_of_any_size_are_decrypted_however_they_are_split() {
        let (mut client, mut server) = sessions();
        assert!(!client.is_http2(), "the server chooses nothing");
        let mut sent = Vec::new();
        for length in [16_384, 100, 16_384, 16_384, 9, 5000] {
            let piece = vec![b'a' + u8::try_from(sent.len() % 26).unwrap(); length];
            server.writer().write_all(&piece).unwrap();
            sent.extend_from_slice(&piece);
        }
        let mut encrypted = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut encrypted).unwrap();
        }
        let (mut received, mut buffer) = (Vec::new(), vec![0; 10_000]);
        for piece in encrypted.chunks(16_000) {
            client.receive(piece).unwrap();
            while let Some(read) = client.read(&mut buffer).unwrap() {
                received.extend_from_slice(&buffer[..read]);
            }
        }
        assert!(received == sent);
    }
}
