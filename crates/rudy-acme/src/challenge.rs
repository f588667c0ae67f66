//! What an authority asks for as a proof that we control a name.

use std::fmt;
use std::future::Future;

use instant_acme::{ChallengeHandle, ChallengeType};
use serde::{Deserialize, Serialize};

/// A kind of challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// A file over plain HTTP, on port 80 (RFC 8555 §8.3).
    Http01,
    /// A certificate in a TLS handshake, on port 443 (RFC 8737).
    TlsAlpn01,
    /// A TXT record (RFC 8555 §8.4), the only kind for wildcards.
    Dns01,
}

impl fmt::Display for ChallengeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        })
    }
}

impl From<ChallengeKind> for ChallengeType {
    fn from(kind: ChallengeKind) -> Self {
        match kind {
            ChallengeKind::Http01 => Self::Http01,
            ChallengeKind::TlsAlpn01 => Self::TlsAlpn01,
            ChallengeKind::Dns01 => Self::Dns01,
        }
    }
}

/// A challenge with what proves the control of the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Challenge {
    /// The file `/.well-known/acme-challenge/TOKEN`.
    #[serde(rename = "http-01")]
    Http01 {
        /// The name of the file: letters, digits, `-` and `_`.
        token: String,
        /// Its content.
        content: String,
    },
    /// A handshake with the protocol `acme-tls/1`.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01 {
        /// The server name.
        name: String,
        /// The value of the extension `acmeIdentifier` in the certificate.
        digest: [u8; 32],
    },
    /// A TXT record.
    #[serde(rename = "dns-01")]
    Dns01 {
        /// The name of the record, such as `_acme-challenge.example.org`.
        record: String,
        /// Its value.
        value: String,
    },
}

impl Challenge {
    /// Returns the challenge for a name; a wildcard is proved by the name below which it is. `None` if the token is not one of
    /// RFC 8555 §8.3: it becomes a part of a path.
    pub(crate) fn new(kind: ChallengeKind, name: &str, handle: &ChallengeHandle<'_>) -> Option<Self> {
        let (token, name) = (&handle.token, name.strip_prefix("*.").unwrap_or(name));
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let authorization = handle.key_authorization();
        Some(match kind {
            ChallengeKind::Http01 => {
                (!token.is_empty() && token.len() <= 128 && token.bytes().all(is_safe)).then_some(())?;
                Self::Http01 { token: token.clone(), content: authorization.as_str().to_owned() }
            }
            ChallengeKind::TlsAlpn01 => Self::TlsAlpn01 {
                name: name.to_owned(),
                digest: authorization.digest().as_ref().try_into().ok()?,
            },
            ChallengeKind::Dns01 => {
                Self::Dns01 { record: format!("_acme-challenge.{name}"), value: authorization.dns_value() }
            }
        })
    }
}

/// Publishes challenges where the authority looks for them.
pub trait Publish {
    /// Publishes a challenge, and returns when the authority can see it.
    fn publish(&self, challenge: &Challenge) -> impl Future<Output = Published> + Send;

    /// Removes what was published. An error is reported in another way, because the certificate does not depend on it.
    fn remove(&self, challenge: &Challenge) -> impl Future<Output = ()> + Send;
}

/// Whether a challenge was published; the error says why not.
pub type Published = Result<(), String>;
