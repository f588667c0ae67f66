//! The TLS settings of a site.

use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::client_hello::normalized;
use crate::crypto::{provider, sha256};
use crate::single_use::SessionsOfPolicy;
use crate::{
    Certificate, ClientCertificateUse, ClientCertificates, KeyLogFile, Names, Policy, SingleUseSessions,
    TicketKeys, Ticketer,
};

/// The maximum early data of a connection: a record, as in nginx. A request without a body is a tenth of it.
const EARLY_DATA_BYTES_MAX: u32 = 16 * 1024;

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
    /// The client certificates that are requested.
    pub client_certificates: Option<ClientCertificates>,
    /// Whether HTTP/2 is offered, before HTTP/1.1.
    pub http2: bool,
    /// Where the secrets of sessions are written.
    pub key_log: Option<Arc<KeyLogFile>>,
    /// Accepts early data in resumed sessions, which are kept here. Clients have no certificates then: a client is
    /// known only when the handshake is complete.
    pub early_data: Option<SingleUseSessions>,
}

/// What handshakes for a site need.
#[derive(Debug)]
pub struct TlsSite {
    /// The policy.
    pub policy: Policy,
    /// The names that all certificates of the site are valid for.
    names: Arc<Names>,
    /// What it does with client certificates; `None` if it does not ask for them.
    pub client_certificates: Option<ClientCertificateUse>,
    /// Whether it accepts early data.
    pub has_early_data: bool,
    certificates: Arc<ByKeyType>,
    /// With our order of cipher suites.
    pub(crate) config: Arc<ServerConfig>,
    /// With the client's order.
    pub(crate) config_for_chacha: Arc<ServerConfig>,
}

impl TlsSite {
    /// Creates the site. Its tickets are encrypted with `keys`.
    ///
    /// # Errors
    ///
    /// The settings are inconsistent.
    pub fn new(settings: SiteSettings, keys: &Arc<TicketKeys>) -> Result<Self, rustls::Error> {
        let versions: &[&SupportedProtocolVersion] = match settings.min_version {
            Version::Tls12 => &[&version::TLS13, &version::TLS12],
            Version::Tls13 => &[&version::TLS13],
        };
        let policy = settings.policy();
        let client_certificates = settings.client_certificates.as_ref().map(|clients| clients.usage);
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
        let builder = match settings.client_certificates {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier),
            None => builder.with_no_client_auth(),
        };
        let certificates = Arc::new(ByKeyType::new(settings.certificates));
        let mut config = builder.with_cert_resolver(certificates.clone());
        let http2 = settings.http2.then(|| b"h2".to_vec());
        config.alpn_protocols = http2.into_iter().chain([b"http/1.1".to_vec()]).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if let Some(key_log) = settings.key_log {
            config.key_log = key_log;
        }
        let ticketer = Ticketer::new(keys.clone(), policy, client_certificates.is_some());
        let has_early_data = settings.early_data.is_some();
        if let Some(sessions) = settings.early_data {
            config.max_early_data_size = EARLY_DATA_BYTES_MAX;
            // Responds to early data before the handshake is complete, which saves the round trip.
            config.send_half_rtt_data = true;
            config.session_storage = Arc::new(SessionsOfPolicy { sessions, ticketer });
        } else {
            config.ticketer = Arc::new(ticketer);
        }
        let config_for_chacha = Arc::new(config.clone());
        config.ignore_client_order = true;
        Ok(Self {
            policy,
            names: Arc::new(common_names(certificates.all())),
            client_certificates,
            has_early_data,
            certificates,
            config: Arc::new(config),
            config_for_chacha,
        })
    }

    /// Returns the settings of rustls for a client.
    pub(crate) fn config(&self, hello: &crate::ClientHello) -> Arc<ServerConfig> {
        if hello.prefers_chacha { &self.config_for_chacha } else { &self.config }.clone()
    }

    /// Whether a certificate is valid for this server name, in lower case.
    #[must_use]
    pub fn has_certificate_for(&self, name: &str) -> bool {
        self.certificates.all().any(|certificate| certificate.names.include(name))
    }

    /// Returns the names that a client may use a connection for if it sent this server name.
    pub(crate) fn names(&self, server_name: Option<&str>) -> Arc<Names> {
        let chosen: Vec<_> = self.certificates.named(server_name).collect();
        if chosen.len() == self.certificates.0.len() {
            return self.names.clone();
        }
        Arc::new(common_names(chosen.into_iter()))
    }

    /// Returns the certificates, the preferred one first.
    #[must_use]
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.certificates.0
    }
}

impl SiteSettings {
    fn policy(&self) -> Policy {
        let version = [self.min_version as u8];
        let clients = self.client_certificates.as_ref().map_or(&[][..], |clients| &clients.digest);
        Policy(sha256(&[&version, clients].concat()))
    }
}

/// Returns the names that all certificates are valid for.
fn common_names<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> Names {
    let names = certificates.map(|certificate| certificate.names.clone());
    names.reduce(|all, names| all.intersection(&names)).unwrap_or_default()
}

/// Chooses among the certificates for the server name the first whose key can sign with a scheme of the client, in the order
/// of [`crate::KeyType`].
#[derive(Debug)]
struct ByKeyType(Vec<Arc<Certificate>>);

impl ByKeyType {
    fn new(mut certificates: Vec<Arc<Certificate>>) -> Self {
        certificates.sort_by_key(|certificate| certificate.key_type);
        Self(certificates)
    }

    fn all(&self) -> impl Iterator<Item = &Certificate> + Clone {
        self.0.iter().map(Arc::as_ref)
    }

    /// Returns the certificates for a server name; all, if none is valid for it.
    fn named(&self, server_name: Option<&str>) -> impl Iterator<Item = &Certificate> + Clone {
        let includes = |certificate: &Certificate, name| certificate.names.include(name);
        let name = server_name.filter(|name| self.all().any(|certificate| includes(certificate, name)));
        self.all().filter(move |certificate| name.is_none_or(|name| includes(certificate, name)))
    }
}

impl ResolvesServerCert for ByKeyType {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(normalized);
        let mut keys = self.named(name.as_deref()).map(|certificate| &certificate.key);
        let first = keys.clone().next();
        let suitable = keys.find(|key| key.key.choose_scheme(hello.signature_schemes()).is_some());
        // With none, rustls would send `access_denied`; with one that does not suit, it sends `handshake_failure`, as clients expect.
        suitable.or(first).cloned()
    }
}
