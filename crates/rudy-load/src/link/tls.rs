//! TLS around a socket that does not block.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::tls::explain;

/// What a session begins with: whom to trust, and who is to prove itself.
#[derive(Debug, Clone)]
pub struct Security {
    /// Made once, because it holds the tickets by which sessions are resumed.
    pub config: Arc<ClientConfig>,
    /// The name that the certificate must have, and that is sent as SNI.
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

    /// True once the handshake is done.
    pub(super) fn handshake<T: Read + Write>(&mut self, wire: &mut T) -> io::Result<bool> {
        while self.tls.is_handshaking() {
            self.flush(wire)?;
            if !self.tls.is_handshaking() {
                break;
            }
            match self.pull(wire) {
                Ok(0) => return Err(ended("the server closed the connection during the TLS handshake")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flush(wire)?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.flush(wire)?;
        Ok(true)
    }

    /// The protocol's version and the cipher suite, as curl writes them.
    pub(super) fn agreed(&self) -> Option<String> {
        let version = match self.tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.tls.negotiated_cipher_suite()?.suite();
        Some(format!("{version} / {}", suite.as_str().unwrap_or("unknown suite").replacen("TLS13", "TLS", 1)))
    }

    pub(super) fn wants_to_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether the socket ended without a goodbye from TLS.
    pub(super) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    pub(super) fn read<T: Read + Write>(&mut self, wire: &mut T, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a goodbye from TLS what came may be cut short; the framing of HTTP tells whether it is.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_truncated = true;
                    return Ok(0);
                }
                result => return result,
            }
            // The end of the socket is remembered there, and told by the next look.
            self.pull(wire)?;
        }
    }

    pub(super) fn write<T: Read + Write>(&mut self, wire: &mut T, bytes: &[u8]) -> io::Result<usize> {
        // rustls has a bound on what it holds; beyond that it takes nothing until some of it is sent.
        self.flush(wire)?;
        match self.tls.writer().write(bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            written => {
                self.flush(wire)?;
                Ok(written)
            }
        }
    }

    /// True when nothing is left to send.
    pub(super) fn flush<T: Write>(&mut self, wire: &mut T) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(wire) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    pub(super) fn say_goodbye<T: Write>(&mut self, wire: &mut T) {
        self.tls.send_close_notify();
        // A peer that cannot take it has gone, and the socket's own end tells it.
        let _ = self.flush(wire);
    }

    /// Reads from the socket and decrypts. 0 is the end of the socket.
    fn pull<T: Read + Write>(&mut self, wire: &mut T) -> io::Result<usize> {
        let read = self.tls.read_tls(wire)?;
        if let Err(error) = self.tls.process_new_packets() {
            // The peer is told why by an alert.
            let _ = self.flush(wire);
            let kind = io::ErrorKind::InvalidData;
            return Err(match explain(&error) {
                Some(why) => io::Error::new(kind, why),
                None => io::Error::new(kind, error),
            });
        }
        Ok(read)
    }
}

fn ended(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}
