//! The TLS of a QUIC connection (RFC 9001), on the side of the server: messages of the handshake in and out, without records. The site is
//! chosen by the first message, before its settings are needed.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rudy_runtime::clock;
use rustls::quic::{DirectionalKeys, KeyChange, ServerConnection, Suite, Version};
use rustls::{CipherSuite, Error};

use crate::crypto::provider;
use crate::session::result;
use crate::{ClientHello, Tls, TlsSite, explain_rejection};

/// The maximum size of a first message. Post-quantum key exchange makes it about 1.7 KiB.
const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// The start of a record with a message of the handshake (RFC 8446 §5.1), in which [`ClientHello::read`] expects the first one.
const RECORD_START: [u8; 3] = [22, 3, 1];

/// Chooses the site for a client.
pub type ChooseSite = Arc<dyn Fn(&ClientHello) -> Option<Arc<TlsSite>> + Send + Sync>;

/// The server's side of a handshake over QUIC.
pub enum Session {
    /// Waits for the first message of the client.
    Waiting(Waiting),
    /// Has chosen a site.
    Chosen {
        /// The session.
        connection: Box<ServerConnection>,
        /// The site.
        site: Arc<TlsSite>,
        /// The server name that the client has sent.
        server_name: Option<String>,
    },
    /// Has completed the handshake, with this result. The session of rustls has no further use: QUIC updates keys without it.
    Complete(Result<Arc<Tls>, String>),
}

/// What is needed to begin a session.
pub struct Waiting {
    received: Vec<u8>,
    version: Version,
    /// The encoded transport parameters of this side (RFC 9000 §18).
    parameters: Vec<u8>,
    choose: ChooseSite,
}

/// Why a handshake fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The alert for the client.
    pub alert: u8,
    /// What is wrong.
    pub reason: String,
}

impl Session {
    /// Creates a session that chooses its site by the first message of the client. `parameters` are the encoded transport parameters.
    #[must_use]
    pub fn new(version: Version, parameters: Vec<u8>, choose: ChooseSite) -> Self {
        Self::Waiting(Waiting { received: Vec::new(), version, parameters, choose })
    }

    /// Reads messages of the client.
    ///
    /// # Errors
    ///
    /// The client violates the protocol, no site has its server name, or both have no common parameters.
    pub fn read(&mut self, messages: &[u8]) -> Result<(), Failure> {
        if let Self::Waiting(waiting) = self {
            waiting.received.extend_from_slice(messages);
            if let Some(chosen) = waiting.start()? {
                *self = chosen;
            }
            return Ok(());
        }
        self.read_chosen(messages)
    }

    fn read_chosen(&mut self, messages: &[u8]) -> Result<(), Failure> {
        let Self::Chosen { connection, .. } = self else {
            // RFC 9001 §6, and clients have no certificates to send later (§4.4).
            let reason = "a message of TLS after the handshake".to_owned();
            return Err(Failure { alert: UNEXPECTED_MESSAGE, reason });
        };
        connection.read_hs(messages).map_err(|error| Failure {
            alert: connection.alert().map_or(INTERNAL_ERROR, u8::from),
            reason: explain_rejection(&error).unwrap_or_else(|| error.to_string()),
        })
    }

    /// Appends messages for the client. Returns the keys that protect what follows them. Call it until there is neither.
    pub fn write(&mut self, messages: &mut Vec<u8>) -> Option<KeyChange> {
        let Self::Chosen { connection, .. } = self else { return None };
        let before = messages.len();
        let change = connection.write_hs(messages);
        let is_over = change.is_none() && messages.len() == before && !connection.is_handshaking();
        if is_over {
            // The session of rustls is 5 KiB with its buffers, and the keys of records, which QUIC does not have.
            *self = Self::Complete(self.result().map(Arc::new).map_err(|error| error.to_string()));
        }
        change
    }

    /// Returns the encoded transport parameters of the client.
    #[must_use]
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        match self {
            Self::Waiting(_) | Self::Complete(_) => None,
            Self::Chosen { connection, .. } => connection.quic_transport_parameters(),
        }
    }

    /// Returns the keys of early data, if it is accepted and the handshake is in progress.
    #[must_use]
    pub fn early_keys(&self) -> Option<DirectionalKeys> {
        match self {
            Self::Waiting(_) | Self::Complete(_) => None,
            Self::Chosen { connection, .. } => connection.zero_rtt_keys(),
        }
    }

    /// Returns what early data is handled with: what will be the result of the handshake.
    #[must_use]
    pub fn early_outcome(&self) -> Option<Arc<Tls>> {
        self.early_keys().and_then(|_| self.result().ok()).map(Arc::new)
    }

    /// Whether the handshake is in progress.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        match self {
            Self::Waiting(_) => true,
            Self::Chosen { connection, .. } => connection.is_handshaking(),
            Self::Complete(_) => false,
        }
    }

    /// Returns the result of the handshake, once it is complete; why it is not accepted if the client's certificate cannot be read, or has
    /// expired since the session was established.
    #[must_use]
    pub fn outcome(&self) -> Option<&Result<Arc<Tls>, String>> {
        match self {
            Self::Waiting(_) | Self::Chosen { .. } => None,
            Self::Complete(outcome) => Some(outcome),
        }
    }

    fn result(&self) -> Result<Tls, Error> {
        let Self::Chosen { connection, site, server_name } = self else {
            return Err(Error::HandshakeNotComplete);
        };
        let tls = result(connection, site, server_name.clone())?;
        if tls.client_certificate.as_ref().is_some_and(|client| !client.is_valid_at(clock::utc())) {
            let reason = "the client certificate of the resumed session has expired";
            return Err(Error::General(reason.to_owned()));
        }
        Ok(tls)
    }
}

/// The alerts that rustls does not choose here (RFC 8446 §6).
const UNRECOGNIZED_NAME: u8 = 112;
const NO_APPLICATION_PROTOCOL: u8 = 120;
const INTERNAL_ERROR: u8 = 80;
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;

impl Waiting {
    /// Chooses the site, once the first message is complete.
    fn start(&mut self) -> Result<Option<Session>, Failure> {
        let Ok(length) = u16::try_from(self.received.len().min(CLIENT_HELLO_BYTES_MAX)) else {
            return Ok(None);
        };
        let message = &self.received[..length.into()];
        let record = [&RECORD_START[..], &length.to_be_bytes(), message].concat();
        let hello = match ClientHello::read(&record) {
            Ok(Some(hello)) => hello,
            Ok(None) if self.received.len() < CLIENT_HELLO_BYTES_MAX => return Ok(None),
            Ok(None) => {
                return Err(Failure {
                    alert: DECODE_ERROR,
                    reason: "the ClientHello is too long".to_owned(),
                });
            }
            Err(rejected) => {
                // The last byte of a record with an alert is its description.
                let alert = rejected.alert.last().copied().unwrap_or(DECODE_ERROR);
                return Err(Failure { alert, reason: rejected.reason });
            }
        };
        let Some(site) = (self.choose)(&hello) else {
            return Err(Failure { alert: UNRECOGNIZED_NAME, reason: hello.no_site() });
        };
        if !site.has_http3 {
            let reason = "the site has no HTTP/3".to_owned();
            return Err(Failure { alert: NO_APPLICATION_PROTOCOL, reason });
        }
        let parameters = std::mem::take(&mut self.parameters);
        let internal = |error: Error| Failure { alert: INTERNAL_ERROR, reason: error.to_string() };
        let connection =
            ServerConnection::new(site.quic_config(&hello), self.version, parameters).map_err(internal)?;
        let mut chosen =
            Session::Chosen { connection: Box::new(connection), site, server_name: hello.server_name };
        chosen.read(&std::mem::take(&mut self.received))?;
        Ok(Some(chosen))
    }
}

/// Returns the cipher suite that protects the first packets (RFC 9001 §5.2).
#[must_use]
pub fn initial_suite() -> Suite {
    let suites = &provider().cipher_suites;
    let initial = suites.iter().find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let suite = initial.and_then(|suite| suite.tls13()?.quic_suite());
    suite.expect("aws-lc-rs has the suite of RFC 9001")
}

/// Returns the integrity tag of a Retry packet (RFC 9001 §5.8). `original` is the id that the client has chosen.
#[must_use]
pub fn retry_tag(original: &[u8], packet: &[u8]) -> [u8; 16] {
    const KEY: [u8; 16] = *b"\xbe\x0c\x69\x0b\x9f\x66\x57\x5a\x1d\x76\x6b\x54\xe3\x68\xc8\x4e";
    const NONCE: [u8; 12] = *b"\x46\x15\x99\xd3\x5d\x63\x2b\xf2\x23\x98\x25\xbb";
    let pseudo_packet = [&[u8::try_from(original.len()).unwrap_or(u8::MAX)], original, packet].concat();
    let key = UnboundKey::new(&AES_128_GCM, &KEY).map(LessSafeKey::new);
    let nonce = Nonce::assume_unique_for_key(NONCE);
    let tag = key.and_then(|key| key.seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut []));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(
        tag.expect("the key has the size of the cipher, and there is no plaintext").as_ref(),
    );
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_retry_is_that_of_the_example() {
        // RFC 9001 appendix A.4.
        let packet = b"\xff\x00\x00\x00\x01\x00\x08\xf0\x67\xa5\x50\x2a\x42\x62\xb5token";
        let tag = b"\x04\xa2\x65\xba\x2e\xff\x4d\x82\x90\x58\xfb\x3f\x0f\x24\x96\xba";
        assert_eq!(retry_tag(b"\x83\x94\xc8\xf0\x3e\x51\x57\x08", packet), *tag);
    }
}
