//! The choice of the certificate for a client.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::Certificate;
use crate::client_hello::normalized;

/// Chooses among the certificates for the server name the first whose key can sign with a scheme of the client, in the order
/// of [`crate::KeyType`].
#[derive(Debug)]
pub(crate) struct ByKeyType(Vec<Arc<Certificate>>);

impl ByKeyType {
    pub(crate) fn new(mut certificates: Vec<Arc<Certificate>>) -> Self {
        certificates.sort_by_key(|certificate| certificate.key_type);
        Self(certificates)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Certificate> + Clone {
        self.0.iter().map(Arc::as_ref)
    }

    pub(crate) fn as_slice(&self) -> &[Arc<Certificate>] {
        &self.0
    }

    /// Returns the certificates for a server name; all, if none is valid for it.
    pub(crate) fn named(&self, server_name: Option<&str>) -> impl Iterator<Item = &Certificate> + Clone {
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
