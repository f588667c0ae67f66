//! TLS over a non-blocking socket.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use super::explain::HandshakeError;

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
    /// What was sent as early data, to be sent again if the server rejects it. `None` if none was sent.
    early_data: Option<Vec<u8>>,
    /// The CPU time of the handshake.
    cpu: Duration,
}

/// What happened to early data (RFC 8446 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// None was sent: the session does not allow it.
    NotSent,
    /// The server processed it.
    Accepted,
    /// The server discarded it, and it was sent again after the handshake.
    Rejected,
}

/// The result of a handshake.
#[derive(Debug, Clone, Copy)]
pub struct Handshake {
    /// Whether it continued an earlier session.
    pub is_resumed: bool,
    /// What happened to early data.
    pub early_data: EarlyData,
    /// The CPU time that this side spent.
    pub cpu: Duration,
}

impl Session {
    pub(super) fn new(security: &Security) -> io::Result<Self> {
        let begun = cpu_time();
        let tls = ClientConnection::new(security.config.clone(), security.name.clone());
        let tls = tls.map_err(io::Error::other)?;
        Ok(Self { tls, is_truncated: false, early_data: None, cpu: cpu_time().saturating_sub(begun) })
    }

    /// Sends as much as the session allows as early data, before the handshake. Returns the number of bytes.
    pub(super) fn write_early(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(mut writer) = self.tls.early_data() else { return Ok(0) };
        let written = writer.write(bytes)?;
        self.early_data = Some(bytes[..written].to_vec());
        Ok(written)
    }

    /// Continues the handshake as far as possible. Returns true when it is complete.
    pub(super) fn handshake<T: Read + Write>(&mut self, socket: &mut T) -> io::Result<bool> {
        let begun = cpu_time();
        let result = self.continue_handshake(socket);
        self.cpu += cpu_time().saturating_sub(begun);
        result
    }

    fn continue_handshake<T: Read + Write>(&mut self, socket: &mut T) -> io::Result<bool> {
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
        if let Some(early_data) = self.early_data.as_ref().filter(|_| !self.tls.is_early_data_accepted()) {
            // The session has room: it limits early data to less than its buffer.
            self.tls.writer().write_all(early_data)?;
        }
        match self.flush(socket) {
            // A server can respond to early data and close the connection before it has the end of the handshake. Its
            // response is in the socket.
            Err(_) if self.result().early_data == EarlyData::Accepted => Ok(true),
            result => result.map(|_| true),
        }
    }

    /// The result of the handshake, after it.
    pub(super) fn result(&self) -> Handshake {
        Handshake {
            is_resumed: self.tls.handshake_kind() == Some(HandshakeKind::Resumed),
            early_data: match self.early_data {
                None => EarlyData::NotSent,
                Some(_) if self.tls.is_early_data_accepted() => EarlyData::Accepted,
                Some(_) => EarlyData::Rejected,
            },
            cpu: self.cpu,
        }
    }

    /// The session of rustls, for its details.
    pub(super) fn tls(&self) -> &ClientConnection {
        &self.tls
    }

    /// The protocol version and the cipher suite.
    pub(super) fn version_and_suite(&self) -> Option<(&'static str, String)> {
        let version = match self.tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.tls.negotiated_cipher_suite()?.suite();
        Some((version, suite.as_str().unwrap_or("unknown suite").replacen("TLS13", "TLS", 1)))
    }

    /// The group of the key exchange, such as `X25519MLKEM768`; `None` in a session that was resumed without one.
    pub(super) fn key_exchange_group(&self) -> Option<String> {
        let group = self.tls.negotiated_key_exchange_group()?.name();
        Some(format!("{group:?}"))
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, HandshakeError(error)));
        }
        Ok(read)
    }
}

fn eof_error(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

/// The CPU time of this thread. Reading it takes 0.2 µs, and a handshake a hundred µs.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
