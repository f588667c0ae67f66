//! A TLS session as a state machine: records in, plaintext out, and the reverse. It has no socket.
//!
//! It uses [`rustls::unbuffered`], which works in the buffers of the caller: the buffered connection of rustls keeps
//! 4 KiB while it is idle.

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion};

use crate::crypto::cipher_name;
use crate::{ClientCertificate, ClientHello, Protocol, Tls, TlsSite};

/// The maximum plaintext in a record (RFC 8446 §5.1).
pub const RECORD_PLAINTEXT_BYTES_MAX: usize = 16 * 1024;

/// The maximum number of bytes that a record takes in addition to its plaintext: header, nonce, content type and tag.
pub const RECORD_OVERHEAD_BYTES: usize = 5 + 8 + 1 + 16;

/// The content type of an alert (RFC 8446 §5.1), and of encrypted records in TLS 1.3, which hides the one inside.
const ALERT_RECORD: u8 = 21;
const ENCRYPTED_RECORD: u8 = 23;

/// The server's side of a session.
pub struct Session {
    connection: UnbufferedServerConnection,
    has_peer_closed: bool,
    has_early_data: bool,
    /// Whether a call has failed. rustls would panic if it had to send a second alert.
    has_failed: bool,
}

impl Session {
    /// Creates a session with the settings of a site for this client. Its handshake begins with the next bytes.
    ///
    /// # Errors
    ///
    /// The settings are inconsistent.
    pub fn new(site: &TlsSite, hello: &ClientHello) -> Result<Self, Error> {
        let connection = UnbufferedServerConnection::new(site.config(hello))?;
        Ok(Self { connection, has_peer_closed: false, has_early_data: false, has_failed: false })
    }

    /// Whether the handshake is in progress.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether data can be sent: the handshake is complete, or the peer has sent early data.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.has_early_data || !self.is_handshaking()
    }

    /// Whether the peer has announced the end of its data (`close_notify`).
    #[must_use]
    pub fn has_peer_closed(&self) -> bool {
        self.has_peer_closed
    }

    /// Returns the result of the handshake with `site`, which was chosen by this server name.
    ///
    /// # Errors
    ///
    /// The client's certificate cannot be read: it must not count as none.
    pub fn result(&self, site: &TlsSite, server_name: Option<String>) -> Result<Tls, Error> {
        result(&self.connection, site, server_name)
    }

    /// Processes the complete records in `input`, which are decrypted in place. Returns how many bytes the session no
    /// longer needs; the next call must begin with the rest. Passes the plaintext of each record to `receive`. Appends
    /// to `output` what the peer must receive: handshake messages, tickets, key updates.
    ///
    /// # Errors
    ///
    /// The peer violates the protocol, or no common parameters exist. `output` then ends with the alert for it.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        mut receive: impl FnMut(&[u8]),
    ) -> Result<usize, Error> {
        self.check()?;
        let mut consumed = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut input[consumed..]);
            let mut needs_input = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        receive(record?.payload);
                    }
                }
                Ok(ConnectionState::ReadEarlyData(mut early)) => {
                    self.has_early_data = true;
                    while let Some(record) = early.next_record() {
                        receive(record?.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => append(output, |room| data.encode(room))?,
                // The caller sends the output in order, so it counts as sent.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.has_peer_closed = true,
                Ok(_) => needs_input = true,
                Err(error) => {
                    self.has_failed = true;
                    self.take_alert(&mut input[consumed + discard..], output)?;
                    return Err(error);
                }
            }
            consumed += discard;
            if needs_input {
                return Ok(consumed);
            }
        }
    }

    /// Encrypts `plaintext` as one record, or several if it is longer than [`RECORD_PLAINTEXT_BYTES_MAX`], at the
    /// start of `output`. Returns their length. `output` needs room for [`RECORD_OVERHEAD_BYTES`] for each record.
    ///
    /// `rest` is the input that the last [`Self::receive`] left. rustls has positions in it, and would panic without.
    ///
    /// # Errors
    ///
    /// The handshake is not complete, or `output` is too small.
    pub fn send(&mut self, rest: &mut [u8], plaintext: &[u8], output: &mut [u8]) -> Result<usize, Error> {
        match self.process(rest)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                traffic.encrypt(plaintext, output).map_err(|_| Error::EncryptError)
            }
            _ => Err(Error::HandshakeNotComplete),
        }
    }

    /// Appends the announcement that no more data follows (`close_notify`). For `rest` see [`Self::send`].
    ///
    /// # Errors
    ///
    /// The handshake is not complete.
    pub fn close(&mut self, rest: &mut [u8], output: &mut Vec<u8>) -> Result<(), Error> {
        match self.process(rest)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                append(output, |room| traffic.queue_close_notify(room))
            }
            _ => Err(Error::HandshakeNotComplete),
        }
    }

    /// Returns the state of the session before new input.
    fn process<'c, 'i>(
        &'c mut self,
        rest: &'i mut [u8],
    ) -> Result<ConnectionState<'c, 'i, ServerConnectionData>, Error> {
        self.check()?;
        let state = self.connection.process_tls_records(rest).state;
        self.has_failed = state.is_err();
        state
    }

    fn check(&self) -> Result<(), Error> {
        if self.has_failed { Err(Error::General("the session has failed before".to_owned())) } else { Ok(()) }
    }

    /// Appends the messages that were due before the last error, and the alert for it, if there is one. Stops at the alert:
    /// rustls would process the invalid record again, and panic.
    fn take_alert(&mut self, rest: &mut [u8], output: &mut Vec<u8>) -> Result<(), Error> {
        while let Ok(ConnectionState::EncodeTlsData(mut data)) =
            self.connection.process_tls_records(rest).state
        {
            let start = output.len();
            append(output, |room| data.encode(room))?;
            if matches!(output.get(start), Some(&(ALERT_RECORD | ENCRYPTED_RECORD))) {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the result of a handshake with `site`, which was chosen by this server name.
pub(crate) fn result(
    connection: &CommonState,
    site: &TlsSite,
    server_name: Option<String>,
) -> Result<Tls, Error> {
    let client = site.client_certificates.zip(connection.peer_certificates().and_then(<[_]>::first));
    let client = client.map(|(usage, first)| ClientCertificate::read(first, usage.is_forwarded));
    let group = connection.negotiated_key_exchange_group();
    Ok(Tls {
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: connection.negotiated_cipher_suite().map_or("", |suite| cipher_name(suite.suite())),
        group: group.and_then(|group| group.name().as_str()).unwrap_or_default(),
        names: site.names(server_name.as_deref()),
        server_name: server_name.map(Into::into),
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        is_early: connection.is_handshaking(),
        handshake: connection.is_handshaking().then(Default::default),
        protocol: Protocol::of_alpn(connection.alpn_protocol()),
        has_http3: site.has_http3,
        policy: site.policy,
        asks_clients: site.client_certificates.is_some(),
        client_certificate: client.transpose()?,
    })
}

/// Why a message was not written.
trait Shortage {
    /// The room that it needs, if that is why.
    fn needed(&self) -> Option<usize>;
}

impl Shortage for EncodeError {
    fn needed(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(error) => Some(error.required_size),
            Self::AlreadyEncoded => None,
        }
    }
}

impl Shortage for EncryptError {
    fn needed(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(error) => Some(error.required_size),
            Self::EncryptExhausted => None,
        }
    }
}

/// Lets `write` write behind the content of `output`. Its first call finds out how much room it needs.
fn append<E: Shortage>(
    output: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<(), Error> {
    let start = output.len();
    let result = match write(&mut []) {
        Err(error) if let Some(needed) = error.needed() => {
            output.resize(start + needed, 0);
            write(&mut output[start..])
        }
        result => result,
    };
    output.truncate(start + result.as_ref().copied().unwrap_or(0));
    result.map(drop).map_err(|_| Error::EncryptError)
}
