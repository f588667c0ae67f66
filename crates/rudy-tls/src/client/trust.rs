//! The certificates that a client accepts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::Inspector;
use super::file_verifier::FileVerifier;
use crate::Certificate;

/// The certificates to accept from a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those that the operating system trusts.
    #[default]
    Platform,
    /// Those in this PEM file, and those signed by one of them.
    File(PathBuf),
    /// All certificates. The connection is encrypted, but the server is not authenticated.
    All,
}

/// The error of a TLS client that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The certificate file cannot be read.
    #[error("{}: cannot read certificates in PEM format: {error}", .0.display(), error = .1)]
    File(PathBuf, io::Error),
    /// The file is not PEM, or has no certificate.
    #[error("{}: {why}", .0.display(), why = .1)]
    Unusable(PathBuf, String),
    /// A certificate in the file, or the set of the operating system, is invalid.
    #[error("the trusted certificates cannot be used: {0}")]
    Rejected(rustls::Error),
}

impl Trust {
    /// Builds a client configuration that offers HTTP/1.1 by ALPN (RFC 7301). Build it once and share it: it
    /// holds the tickets for session resumption.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        self.client_config_with(None)
    }

    /// As [`Self::client_config`], with a certificate for servers that ask for one.
    pub(super) fn client_config_with(
        &self,
        certificate: Option<&Certificate>,
    ) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = provider();
        let mut config = configure(self.verifier(&provider)?, provider)?;
        if let Some(certificate) = certificate {
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from((*certificate.key).clone()));
        }
        Ok(Arc::new(config))
    }

    /// Builds a client configuration that accepts every certificate, and the inspector that finds what is wrong with
    /// those of a server.
    pub fn inspecting_config(&self) -> Result<(ClientConfig, Arc<Inspector>), TrustError> {
        let provider = provider();
        let authorities = match self {
            Self::File(path) => FileVerifier::read(path, provider.clone())?.certificates,
            Self::Platform | Self::All => Vec::new(),
        };
        let inspector = Arc::new(Inspector::new(self.verifier(&provider)?, authorities));
        Ok((configure(inspector.clone(), provider)?, inspector))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let provider = provider.clone();
        Ok(match self {
            Self::Platform => Arc::new(Verifier::new(provider).map_err(TrustError::Rejected)?),
            Self::File(path) => Arc::new(FileVerifier::read(path, provider)?),
            Self::All => Arc::new(AcceptAll(provider)),
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn configure(
    verifier: Arc<dyn ServerCertVerifier>,
    provider: Arc<CryptoProvider>,
) -> Result<ClientConfig, TrustError> {
    // The first random number takes 30 ms, which would count as a part of the first handshake.
    let random = provider.secure_random.fill(&mut [0]);
    random.map_err(|_| TrustError::Rejected(rustls::Error::FailedToGetRandomBytes))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Rejected)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts every certificate. Verifies the signatures of the handshake, so that the server has the key of its
/// certificate.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trust_offers_http_1_1() {
        for trust in [Trust::Platform, Trust::All] {
            // A machine without trusted certificates reports an error.
            match trust.client_config() {
                Ok(config) => assert_eq!(config.alpn_protocols, [b"http/1.1"]),
                Err(error) => assert!(error.to_string().contains("trusted certificates"), "{error}"),
            }
        }
    }

    #[test]
    fn a_file_without_a_certificate_and_a_missing_file_are_different_errors() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.pem");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing\n").unwrap();
        assert!(matches!(Trust::File(missing).client_config(), Err(TrustError::File(..))));
        assert!(matches!(Trust::File(empty).client_config(), Err(TrustError::Unusable(..))));
    }
}
