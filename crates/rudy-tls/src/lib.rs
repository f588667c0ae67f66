//! TLS without sockets: sessions as state machines, the settings of a site, its certificates, tickets, and what a client trusts.
//!
//! rustls and aws-lc-rs implement the protocol and the cryptography. Only this crate and the clients over
//! `rudy-request` use them.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod by_key_type;
mod certificate;
mod challenge;
mod client;
mod client_certificates;
mod client_hello;
mod client_verifier;
mod configs;
mod crypto;
mod generate;
mod handshake;
mod key_log;
mod names;
pub mod quic;
mod sections;
mod session;
mod single_use;
mod site;
mod site_settings;
mod subject;
mod tickets;

pub use certificate::{Certificate, CertificateError, KeyType, authority_certificate};
pub use challenge::challenge_site;
pub use client::{
    ClientSession, ClientSettings, ClientTls, Inspection, Inspector, OcspState, OcspStatus, Problem,
    RevocationLists, ServerCertificate, Trust, TrustError, in_words, is_untrusted_certificate, same_error,
};
pub use client_certificates::{
    ClientCertificate, ClientCertificateUse, ClientCertificates, ClientCertificatesError, explain_rejection,
};
pub use client_hello::{ClientHello, RejectedHello, UNRECOGNIZED_NAME};
pub use crypto::sha256;
pub use generate::{authority, certificate_request, self_signed, self_signed_with, signed_by_authority};
pub use handshake::PendingHandshake;
pub use key_log::KeyLogFile;
pub use names::Names;
pub use session::{RECORD_OVERHEAD_BYTES, RECORD_PLAINTEXT_BYTES_MAX, Session};
pub use single_use::SingleUseSessions;
pub use site::TlsSite;
pub use site_settings::{SiteSettings, Version};
pub use tickets::{Policy, TICKET_KEY_BYTES, TicketKey, TicketKeys, Ticketer};

use std::sync::Arc;

/// The result of a TLS handshake.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The protocol version, as OpenSSL and Apache write it: `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The group of the key exchange, such as `X25519MLKEM768`; empty for a resumption without one.
    pub group: &'static str,
    /// The server name that the client sent (SNI, RFC 6066 §3).
    pub server_name: Option<Box<str>>,
    /// Whether the site asks for client certificates.
    pub asks_clients: bool,
    /// The client's certificate, which the site accepts. A resumed session has that of its first handshake.
    pub client_certificate: Option<ClientCertificate>,
    /// Whether the session was resumed, without a certificate.
    pub is_resumed: bool,
    /// Whether the handshake is not complete: what was received is early data, which a third party may have recorded
    /// and sent again (RFC 8470 §3).
    pub is_early: bool,
    /// The handshake, while it is not complete.
    pub handshake: Option<Arc<PendingHandshake>>,
    /// What client and server have agreed on (ALPN, RFC 7301).
    pub protocol: Protocol,
    /// Whether the site has HTTP/3.
    pub has_http3: bool,
    /// The policy of the site that the client was accepted by.
    pub policy: Policy,
    /// The names that the site has a certificate for, of those that the client may have received.
    pub names: Arc<Names>,
}

/// A protocol that client and server agree on in a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, also without an agreement.
    Http1,
    /// HTTP/2 (RFC 9113 §3.2).
    Http2,
    /// HTTP/3 (RFC 9114 §3.1), over QUIC only.
    Http3,
}

impl Protocol {
    /// Returns the protocol with this identifier.
    fn of_alpn(identifier: Option<&[u8]>) -> Self {
        match identifier {
            Some(b"h2") => Self::Http2,
            Some(HTTP3) => Self::Http3,
            _ => Self::Http1,
        }
    }
}

/// The identifier of HTTP/3 (RFC 9114 §3.1).
const HTTP3: &[u8] = b"h3";
