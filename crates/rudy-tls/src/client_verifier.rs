//! Verifies client certificates: as webpki does, and also those that webpki does not read and nginx accepts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate, X509Version};

use crate::RevocationLists;
use crate::crypto::{is_signed, provider};

/// Accepts, besides what webpki accepts:
///
/// - A certificate that is itself in the file of the authorities, as `openssl req -x509` makes it. The owner proves to have its key,
///   and could as well issue further certificates with it.
/// - A certificate of version 1, as `openssl x509 -req` makes it without extensions, and one of an authority. One of the authorities
///   in the file has to have issued it, without others between.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    lists: RevocationLists,
}

impl ClientVerifier {
    /// `webpki` has the same authorities and lists.
    pub(crate) fn new(
        webpki: Arc<dyn ClientCertVerifier>,
        authorities: Vec<CertificateDer<'static>>,
        lists: RevocationLists,
    ) -> Self {
        Self { webpki, authorities, lists }
    }

    /// Checks what webpki checks of a certificate that it reads (RFC 5280 §6.1.3).
    fn verify_directly(&self, der: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
        let certificate = parse(der).ok_or(CertificateError::BadEncoding)?;
        let is_listed = self.authorities.iter().any(|authority| authority == der);
        let mut authorities = self.authorities.iter().filter_map(parse);
        if !is_listed && !authorities.any(|authority| has_issued(&authority, &certificate)) {
            return Err(CertificateError::UnknownIssuer);
        }
        let validity = certificate.validity();
        let at =
            |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap_or(0)));
        let (not_before, not_after) =
            (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
        if now < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before });
        }
        if now > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after });
        }
        check_extensions(&certificate)?;
        if self.lists.is_empty() {
            return Ok(());
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        self.lists.check(&certificate, &self.authorities, now)
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.webpki.verify_client_cert(end_entity, intermediates, now) {
            // webpki reports the version and the CA flag as other errors, and the issuer of a certificate that is itself in the file
            // as unknown. All other errors are final.
            Err(Error::InvalidCertificate(
                error @ (CertificateError::Other(_)
                | CertificateError::UnknownIssuer
                | CertificateError::BadSignature),
            )) => match self.verify_directly(end_entity, now) {
                Ok(()) => Ok(ClientCertVerified::assertion()),
                // Why webpki rejects it is more to the point.
                Err(CertificateError::UnknownIssuer) => Err(error.into()),
                Err(error) => Err(error.into()),
            },
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(old) = parse(certificate).filter(|certificate| certificate.version() != X509Version::V3)
        else {
            return self.webpki.verify_tls12_signature(message, certificate, signature);
        };
        let key = &old.public_key().subject_public_key.data;
        let provider = provider();
        let schemes = provider.signature_verification_algorithms.mapping;
        let algorithms =
            schemes.iter().filter(|(scheme, _)| *scheme == signature.scheme).flat_map(|(_, all)| *all);
        // An algorithm rejects the keys of the others.
        let is_valid = |algorithm: &dyn SignatureVerificationAlgorithm| {
            algorithm.verify_signature(key, message, signature.signature()).is_ok()
        };
        let mut algorithms = algorithms.copied();
        let is_signed = algorithms.any(is_valid);
        is_signed
            .then(HandshakeSignatureValid::assertion)
            .ok_or_else(|| CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(old) = parse(certificate).filter(|certificate| certificate.version() != X509Version::V3)
        else {
            return self.webpki.verify_tls13_signature(message, certificate, signature);
        };
        let key = SubjectPublicKeyInfoDer::from(old.public_key().raw);
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signature,
            &provider().signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der)
        .ok()
        .filter(|(rest, _)| rest.is_empty())
        .map(|(_, certificate)| certificate)
}

/// Whether `authority`, which may issue certificates with any name, has issued this one.
fn has_issued(authority: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
    let may_sign =
        authority.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()));
    // Before version 3, nothing marks an authority (RFC 5280 §6.1.4 (k)): it is one because it is in the file.
    let is_authority = authority.version() != X509Version::V3 || authority.is_ca();
    let is_limited = !matches!(authority.name_constraints(), Ok(None));
    authority.subject().as_raw() == certificate.issuer().as_raw()
        && is_authority
        && may_sign
        && !is_limited
        && is_signed(&certificate.tbs_certificate, &certificate.signature_value.data, authority)
}

/// Checks the use of the key, as OpenSSL does for a TLS client, and that all critical extensions are known (RFC 5280 §4.2).
fn check_extensions(certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
    let invalid = |_| CertificateError::BadEncoding;
    let key = certificate.key_usage().map_err(invalid)?;
    let purpose = certificate.extended_key_usage().map_err(invalid)?;
    let may_sign = key.is_none_or(|usage| usage.value.digital_signature() || usage.value.key_agreement());
    if !may_sign || purpose.is_some_and(|purpose| !purpose.value.client_auth && !purpose.value.any) {
        return Err(CertificateError::InvalidPurpose);
    }
    let is_known = |extension: &ParsedExtension<'_>| {
        matches!(
            extension,
            ParsedExtension::KeyUsage(_)
                | ParsedExtension::ExtendedKeyUsage(_)
                | ParsedExtension::BasicConstraints(_)
                | ParsedExtension::NameConstraints(_)
                | ParsedExtension::SubjectAlternativeName(_)
        )
    };
    let mut critical = certificate.extensions().iter().filter(|extension| extension.critical);
    let are_known = critical.all(|extension| is_known(extension.parsed_extension()));
    are_known.then_some(()).ok_or(CertificateError::UnhandledCriticalExtension)
}
