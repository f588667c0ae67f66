//! TLS over a non-blocking socket.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::explain::explain;

/// The parameters of a TLS session: the trusted certificates and the server name.
#[derive(Debug, Clone)]
pub struct Security {
    /// Shared, because it holds the tickets for session resumption.
    pub config: Arc<ClientConfig>,
    /// The name that the certificate must have. It is also sent as SNI.
    pub name: ServerName<'static>,
}

#[derive(Debug)]
pub(super) struct Session {
    tls: ClientConnection,
    is_truncated: bool,
}

impl Session {
    pub(super) fn new(security: &Security) -> io::Result<Self> {
        let connection = ClientConnection::new(security.config.clone(), security.name.clone());
        connection.map(|tls| Self { tls, is_truncated: false }).map_err(io::Error::other)
    }

    /// Continues the handshake as far as possible. Returns true when it is complete.
    pub(super) fn handshake<T: Read + Write>(&mut self, socket: &mut T) -> io::Result<bool> {
        while self.tls.is_handshaking() {
            self.flush(socket)?;
            if !self.tls.is_handshaking() {
                break;
            }
            match self.read_records(socket) {
                Ok(0) => return Err(eof_error("the server closed the connection during the TLS handshake")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flush(socket)?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.flush(socket)?;
        Ok(true)
    }

    /// The protocol version and the cipher suite, in curl's notation.
    pub(super) fn negotiated(&self) -> Option<String> {
        let version = match self.tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.tls.negotiated_cipher_suite()?.suite();
        Some(format!("{version} / {}", suite.as_str().unwrap_or("unknown suite").replacen("TLS13", "TLS", 1)))
    }

    /// The protocol that the server has chosen with ALPN.
    pub(super) fn application_protocol(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    pub(super) fn wants_to_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether the socket ended without a TLS close.
    pub(super) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    pub(super) fn read<T: Read + Write>(&mut self, socket: &mut T, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a TLS close, the data may be truncated; the HTTP framing shows whether it is.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_truncated = true;
                    return Ok(0);
                }
                result => return result,
            }
            // rustls remembers the end of the socket and reports it with the next read.
            self.read_records(socket)?;
        }
    }

    pub(super) fn write<T: Read + Write>(&mut self, socket: &mut T, bytes: &[u8]) -> io::Result<usize> {
        // rustls has a bounded buffer, and accepts nothing more until a part is sent.
        self.flush(socket)?;
        match self.tls.writer().write(bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            written => {
                self.flush(socket)?;
                Ok(written)
            }
        }
    }

    /// Sends the buffered records. Returns true when the buffer is empty.
    pub(super) fn flush<T: Write>(&mut self, socket: &mut T) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    pub(super) fn send_close_notify<T: Write>(&mut self, socket: &mut T) {
        self.tls.send_close_notify();
        // On an error the peer is gone, and a read reports the end of the socket.
        let _ = self.flush(socket);
    }

    /// Reads from the socket and decrypts. 0 is the end of the socket.
    fn read_records<T: Read + Write>(&mut self, socket: &mut T) -> io::Result<usize> {
        let read = self.tls.read_tls(socket)?;
        if let Err(error) = self.tls.process_new_packets() {
            // Send the alert that describes the error to the peer.
            let _ = self.flush(socket);
            let kind = io::ErrorKind::InvalidData;
            return Err(match explain(&error) {
                Some(why) => io::Error::new(kind, why),
                None => io::Error::new(kind, error),
            });
        }
        Ok(read)
    }
}

fn eof_error(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}
