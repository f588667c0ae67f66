//! What handshakes for a site need.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::by_key_type::ByKeyType;
use crate::configs::Configs;
use crate::site_settings::SiteSettings;
use crate::{Certificate, ClientCertificateUse, ClientHello, Names, Policy, TicketKeys, Ticketer};

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
    /// Whether clients may connect over QUIC.
    pub(crate) has_http3: bool,
    certificates: Arc<ByKeyType>,
    configs: Configs,
}

impl TlsSite {
    /// Creates the site. Its tickets are encrypted with `keys`.
    ///
    /// # Errors
    ///
    /// The settings are inconsistent.
    pub fn new(settings: &SiteSettings, keys: &Arc<TicketKeys>) -> Result<Self, rustls::Error> {
        let policy = settings.policy();
        let client_certificates = settings.client_certificates.as_ref().map(|clients| clients.usage);
        let ticketer = Ticketer::new(keys.clone(), policy, client_certificates.is_some());
        let certificates = Arc::new(ByKeyType::new(settings.certificates.clone()));
        Ok(Self {
            policy,
            names: Arc::new(common_names(certificates.all())),
            client_certificates,
            has_early_data: settings.early_data.is_some(),
            has_http3: settings.http3,
            configs: Configs::new(settings, &certificates, &ticketer)?,
            certificates,
        })
    }

    /// Returns the settings of rustls for a client.
    pub(crate) fn config(&self, hello: &ClientHello) -> Arc<ServerConfig> {
        self.configs.of(hello)
    }

    /// Returns the settings of rustls for a client that connects over QUIC.
    pub(crate) fn quic_config(&self, hello: &ClientHello) -> Arc<ServerConfig> {
        self.configs.quic_of(hello)
    }

    /// Whether a certificate is valid for this server name, in lower case.
    #[must_use]
    pub fn has_certificate_for(&self, name: &str) -> bool {
        self.certificates.all().any(|certificate| certificate.names.include(name))
    }

    /// Returns the names that a client may use a connection for if it sent this server name.
    pub(crate) fn names(&self, server_name: Option<&str>) -> Arc<Names> {
        let chosen: Vec<_> = self.certificates.named(server_name).collect();
        if chosen.len() == self.certificates.as_slice().len() {
            return self.names.clone();
        }
        Arc::new(common_names(chosen.into_iter()))
    }

    /// Returns the certificates, the preferred one first.
    #[must_use]
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        self.certificates.as_slice()
    }
}

/// Returns the names that all certificates are valid for.
fn common_names<'a>(certificates: impl Iterator<Item = &'a Certificate>) -> Names {
    let names = certificates.map(|certificate| certificate.names.clone());
    names.reduce(|all, names| all.intersection(&names)).unwrap_or_default()
}
