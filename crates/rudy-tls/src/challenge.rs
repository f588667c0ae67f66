//! The proof of control of a name in a TLS handshake (ACME's `tls-alpn-01`, RFC 8737).

use std::error::Error;
use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, KeyPair};

use crate::{Certificate, SiteSettings, TlsSite};

/// Creates the settings for the handshake of an authority, with a certificate for `name` that contains `digest`.
///
/// Nothing else can be done with such a connection: its policy is that of no site.
///
/// # Errors
///
/// The name is invalid, or the system provides no random bytes.
pub fn challenge_site(name: &str, digest: &[u8; 32]) -> Result<TlsSite, Box<dyn Error + Send + Sync>> {
    let key = KeyPair::generate()?;
    let mut certificate = CertificateParams::new([name.to_owned()])?;
    certificate.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let pem = certificate.self_signed(&key)?.pem();
    let certificate = Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes())?;
    let certificates = vec![Arc::new(certificate)];
    let settings =
        SiteSettings { certificates, is_challenge: true, has_no_tickets: true, ..SiteSettings::default() };
    Ok(TlsSite::new(&settings, &Arc::default())?)
}
