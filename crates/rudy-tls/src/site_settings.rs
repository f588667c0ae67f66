//! The TLS settings of a site.

use std::sync::Arc;

use crate::client_hello::CHALLENGE_PROTOCOL;
use crate::crypto::sha256;
use crate::{Certificate, ClientCertificates, KeyLogFile, Policy, SingleUseSessions};

/// A protocol version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// The TLS settings of a site.
#[derive(Debug, Default)]
pub struct SiteSettings {
    /// The certificates. Without one, handshakes fail.
    pub certificates: Vec<Arc<Certificate>>,
    /// The minimum protocol version.
    pub min_version: Version,
    /// The cipher suites by their names in the registry of IANA, the preferred one first. Empty for the usual ones.
    pub cipher_suites: Vec<&'static str>,
    /// The groups of key exchanges by their names in the registry, the preferred one first. Empty for the usual ones.
    pub groups: Vec<&'static str>,
    /// Issues no session tickets, so that no session is resumed. Early data needs them.
    pub has_no_tickets: bool,
    /// The client certificates that are requested.
    pub client_certificates: Option<ClientCertificates>,
    /// Whether HTTP/2 is offered, before HTTP/1.1.
    pub http2: bool,
    /// Whether clients may connect over QUIC, for HTTP/3.
    pub http3: bool,
    /// The protocols that are offered instead of those of HTTP: it is for connections that do not speak HTTP. Without one, a client is
    /// accepted whatever it offers.
    pub other_protocols: Option<Vec<String>>,
    /// Whether it is only for the challenge of an authority.
    pub is_challenge: bool,
    /// Where the secrets of sessions are written.
    pub key_log: Option<Arc<KeyLogFile>>,
    /// Accepts early data in resumed sessions, which are kept here. Clients have no certificates then: a client is
    /// known only when the handshake is complete.
    pub early_data: Option<SingleUseSessions>,
}

impl SiteSettings {
    /// The protocols that are offered (ALPN, RFC 7301).
    pub(crate) fn protocols(&self) -> Vec<Vec<u8>> {
        if let Some(others) = &self.other_protocols {
            return others.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        }
        let protocols: &[&[u8]] = match (self.is_challenge, self.http2) {
            (true, _) => &[CHALLENGE_PROTOCOL],
            (false, true) => &[b"h2", b"http/1.1"],
            (false, false) => &[b"http/1.1"],
        };
        protocols.iter().map(|protocol| protocol.to_vec()).collect()
    }

    /// Returns what its tickets are bound to.
    pub(crate) fn policy(&self) -> Policy {
        if self.is_challenge {
            return Policy(sha256(CHALLENGE_PROTOCOL));
        }
        let version = [self.min_version as u8];
        let clients = self.client_certificates.as_ref().map_or(&[][..], |clients| &clients.digest);
        Policy(sha256(&[&version, clients, &self.restrictions()].concat()))
    }

    /// The hash of what is not as usual in handshakes. Empty if all is, so that the sessions of an older version stay valid.
    fn restrictions(&self) -> Vec<u8> {
        let Self { cipher_suites, groups, has_no_tickets, .. } = self;
        if cipher_suites.is_empty() && groups.is_empty() && !has_no_tickets {
            return Vec::new();
        }
        sha256(format!("{cipher_suites:?} {groups:?} {has_no_tickets}").as_bytes()).to_vec()
    }
}
