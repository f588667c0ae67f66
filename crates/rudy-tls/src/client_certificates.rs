//! Client certificates: who may connect, and what a certificate says about its owner.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::certificate::{time, to_pem};
use crate::client_verifier::ClientVerifier;
use crate::crypto::{provider, sha256};
use crate::in_words;
use crate::sections::{authorities, revocation_lists};
use crate::subject::{distinguished_name, hex};

/// What a site does with client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCertificateUse {
    /// Rejects clients without a certificate.
    pub is_required: bool,
    /// Passes the certificate itself to the application.
    pub is_forwarded: bool,
}

/// The client certificates that a site accepts.
#[derive(Debug, Clone)]
pub struct ClientCertificates {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// The hash of everything that decides.
    pub(crate) digest: [u8; 32],
    pub(crate) usage: ClientCertificateUse,
    /// When the first of the revocation lists expires. After that, all certificates are rejected.
    pub expiry: Option<SystemTime>,
}

/// Which file of [`ClientCertificates::from_pem`] cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientCertificatesError {
    /// The authorities.
    #[error("{0}")]
    Authority(String),
    /// The revocation lists.
    #[error("{0}")]
    Crl(String),
}

impl ClientCertificates {
    /// Accepts certificates that were issued by one in `authority` or are in it, and that no list of `crls` revokes, both in PEM. With
    /// lists, there must be a current one of each issuer, as in nginx and Apache.
    ///
    /// # Errors
    ///
    /// A file is not PEM, or has nothing usable.
    pub fn from_pem(
        authority: &[u8],
        crls: Option<&[u8]>,
        usage: ClientCertificateUse,
    ) -> Result<Self, ClientCertificatesError> {
        let authorities = authorities(authority).map_err(ClientCertificatesError::Authority)?;
        let crls = crls.map_or(Ok(Vec::new()), read_crls).map_err(ClientCertificatesError::Crl)?;
        let mut content = vec![u8::from(usage.is_required), u8::from(usage.is_forwarded)];
        for der in authorities.iter().map(|der| &der[..]).chain(crls.iter().map(|(der, _)| &der[..])) {
            content.extend_from_slice(&der.len().to_be_bytes());
            content.extend_from_slice(der);
        }
        let expiry = crls.iter().filter_map(|(_, expiry)| *expiry).min();
        let mut roots = RootCertStore::empty();
        for (number, authority) in (1..).zip(&authorities) {
            let added = roots.add(authority.clone());
            let invalid = |_| {
                ClientCertificatesError::Authority(format!("certificate {number} of the file is invalid"))
            };
            added.map_err(invalid)?;
        }
        let crls: Vec<_> = crls.into_iter().map(|(der, _)| der).collect();
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .with_crls(crls.clone())
            .enforce_revocation_expiration();
        let builder = if usage.is_required { builder } else { builder.allow_unauthenticated() };
        let verifier = builder.build().map_err(|error| ClientCertificatesError::Crl(error.to_string()))?;
        let verifier = Arc::new(ClientVerifier::new(verifier, authorities, crls.into()));
        Ok(Self { verifier, digest: sha256(&content), usage, expiry })
    }
}

/// Returns the lists, and when each expires.
fn read_crls(pem: &[u8]) -> Result<Vec<(CertificateRevocationListDer<'static>, Option<SystemTime>)>, String> {
    let read = |der: CertificateRevocationListDer<'static>| {
        let (_, list) = CertificateRevocationList::from_der(&der)
            .map_err(|error| format!("a revocation list is invalid: {error}"))?;
        if list.crl_number().is_none() {
            // rustls accepts no others, as RFC 5280 §5.2.3 requires.
            let problem = "a revocation list has no number; `openssl ca` adds it with `crlnumber` and \
                           `crl_extensions` in its configuration";
            return Err(problem.to_owned());
        }
        let expiry = list.next_update().map(time);
        Ok((der, expiry))
    };
    let all = revocation_lists(pem)?.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() {
        return Err("the file has no revocation list (-----BEGIN X509 CRL-----)".to_owned());
    }
    Ok(all)
}

/// Explains why a client's certificate is rejected. `None` for another error.
#[must_use]
pub fn explain_rejection(error: &rustls::Error) -> Option<String> {
    let error = match error {
        rustls::Error::InvalidCertificate(error) => error,
        rustls::Error::NoCertificatesPresented => return Some("the client sent no certificate".to_owned()),
        _ => return None,
    };
    // What is behind the first colon is different each time; the log counts by what is before it.
    let between = |from: UnixTime, to: UnixTime| {
        in_words(Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())))
    };
    let why = match error {
        CertificateError::ExpiredContext { time, not_after } => {
            return Some(format!("the client's certificate has expired: {} ago", between(*not_after, *time)));
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = between(*time, *not_before);
            return Some(format!("the client's certificate is not valid yet: it will be in {left}"));
        }
        CertificateError::Expired => "has expired",
        CertificateError::NotValidYet => "is not valid yet",
        CertificateError::UnknownIssuer => {
            "is not from an authority in the file `authority`, nor in that file"
        }
        CertificateError::BadSignature => {
            "names an authority that has not signed it, or its key did not sign the handshake"
        }
        CertificateError::Revoked => "is revoked",
        CertificateError::UnknownRevocationStatus => {
            "is from an authority without a revocation list in the file `crl`"
        }
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "is from an authority whose revocation list in the file `crl` has expired"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for TLS clients (its key usage or extended key usage)"
        }
        CertificateError::UnhandledCriticalExtension => "has a critical extension that Rudy does not know",
        CertificateError::BadEncoding => "is invalid: it cannot be read",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed with an algorithm that Rudy does not support, such as SHA-1"
        }
        CertificateError::Other(reason) => match reason.to_string().as_str() {
            "CaUsedAsEndEntity" => {
                "is that of an authority; add it to the file `authority`, or the authority that has issued it"
            }
            "UnsupportedCertVersion" => {
                "is of X.509 version 1 and not issued by an authority in the file `authority`, nor in that file"
            }
            "NameConstraintViolation" => "has a name that its authority may not issue (name constraints)",
            reason => return Some(format!("the client's certificate cannot be verified: {reason}")),
        },
        other => return Some(format!("the client's certificate is rejected: {other}")),
    };
    Some(format!("the client's certificate {why}"))
}

/// A certificate that a client has proved to own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The name of the owner, as in RFC 4514: `CN=alice,O=Example`.
    pub subject: String,
    /// The name of the issuer, likewise.
    pub issuer: String,
    /// The serial number, in hexadecimal: `0A1B`.
    pub serial: String,
    /// The first time at which the certificate is valid.
    pub not_before: SystemTime,
    /// The last time at which the certificate is valid.
    pub not_after: SystemTime,
    /// Its DNS names.
    pub dns_names: Vec<String>,
    /// The certificate in PEM, if the site forwards it.
    pub pem: Option<String>,
}

impl ClientCertificate {
    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// It is invalid in a way that rustls accepts.
    pub(crate) fn read(der: &CertificateDer<'_>, is_forwarded: bool) -> Result<Self, rustls::Error> {
        let invalid = |_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| invalid(error.into()))?;
        let names = certificate.subject_alternative_name().map_err(invalid)?;
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let validity = certificate.validity();
        Ok(Self {
            subject: distinguished_name(certificate.subject()),
            issuer: distinguished_name(certificate.issuer()),
            serial: serial(certificate.raw_serial()),
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
            dns_names: names
                .filter_map(|name| match name {
                    GeneralName::DNSName(name) => Some((*name).to_owned()),
                    _ => None,
                })
                .collect(),
            pem: is_forwarded.then(|| to_pem(der)),
        })
    }
}

impl ClientCertificate {
    /// Whether the certificate is valid at this time. A resumed session may be older than its end.
    #[must_use]
    pub fn is_valid_at(&self, time: SystemTime) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }
}

/// Without the zero byte that marks a number as positive (DER).
fn serial(bytes: &[u8]) -> String {
    let bytes = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        bytes => bytes,
    };
    hex(bytes)
}
