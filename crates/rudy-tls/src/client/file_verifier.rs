//! Verifies certificates against those of a file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TrustError;
use crate::sections::authorities;

/// Accepts certificates that are signed by one in the file, like webpki, and the certificates in the file
/// themselves, like curl. webpki rejects the latter, because `openssl req -x509` creates CA certificates.
#[derive(Debug)]
pub(super) struct FileVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

impl FileVerifier {
    pub(super) fn read(path: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let pem = fs::read(path).map_err(|error| TrustError::File(path.to_owned(), error))?;
        let certificates = authorities(&pem).map_err(|why| TrustError::Unusable(path.to_owned(), why))?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(TrustError::Rejected)?;
        }
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let webpki = webpki.map_err(|error| TrustError::Rejected(Error::General(error.to_string())))?;
        Ok(Self { webpki, certificates })
    }
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result =
            self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match result {
            // webpki checks the issuer and the CA flag only for a certificate that is valid at this time; an
            // invalid time has its own error. It checks the name last, so this code has to check it.
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature | CertificateError::Other(_),
            )) if self.certificates.iter().any(|trusted| trusted == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
