//! The TLS settings of a site.

use std::sync::Arc;

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use crate::{Certificate, ClientCertificateUse, ClientCertificates, KeyLogFile, Names, TicketKeys, Ticketer};

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
    /// The certificates, at least one.
    pub certificates: Vec<Certificate>,
    /// The minimum protocol version.
    pub min_version: Version,
    /// The client certificates that are requested.
    pub client_certificates: Option<ClientCertificates>,
    /// Where the secrets of sessions are written.
    pub key_log: Option<Arc<KeyLogFile>>,
}

/// The hash of everything that decides whether a client is accepted: the minimum version, and what client certificates
/// are requested and used. A session of another policy is never resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy(pub [u8; 32]);

/// What handshakes for a site need.
#[derive(Debug)]
pub struct TlsSite {
    /// The policy.
    pub policy: Policy,
    /// The names that all certificates of the site are valid for.
    pub names: Arc<Names>,
    /// What it does with client certificates; `None` if it does not ask for them.
    pub client_certificates: Option<ClientCertificateUse>,
    certificates: Arc<ByKeyType>,
    pub(crate) config: Arc<ServerConfig>,
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
        let names = settings.certificates.iter().map(|certificate| certificate.names.clone());
        let names = names.reduce(|all, names| all.intersection(&names)).unwrap_or_default();
        let certificates = Arc::new(ByKeyType::new(settings.certificates));
        let mut config = builder.with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if let Some(key_log) = settings.key_log {
            config.key_log = key_log;
        }
        config.ticketer = Arc::new(Ticketer::new(keys.clone(), policy, client_certificates.is_some()));
        Ok(Self {
            policy,
            names: Arc::new(names),
            client_certificates,
            certificates,
            config: Arc::new(config),
        })
    }

    /// Returns the certificates, the preferred one first.
    #[must_use]
    pub fn certificates(&self) -> &[Certificate] {
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

/// Returns the SHA-256 hash.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// The cryptography. The group of post-quantum key exchange is preferred (`prefer-post-quantum`).
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<Arc<CryptoProvider>> =
        std::sync::LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// Chooses the first certificate whose key can sign with a scheme of the client, in the order of [`crate::KeyType`].
#[derive(Debug)]
struct ByKeyType(Vec<Certificate>);

impl ByKeyType {
    fn new(mut certificates: Vec<Certificate>) -> Self {
        certificates.sort_by_key(|certificate| certificate.key_type);
        Self(certificates)
    }
}

impl ResolvesServerCert for ByKeyType {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let keys = self.0.iter().map(|certificate| &certificate.key);
        keys.into_iter().find(|key| key.key.choose_scheme(hello.signature_schemes()).is_some()).cloned()
    }
}
