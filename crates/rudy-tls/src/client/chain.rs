//! What the certificates that a server sends say.

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{AlgorithmIdentifier, FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::certificate::{name, time};
use crate::subject::{distinguished_name, hex};
use crate::{KeyType, Names};

/// The object identifier of Ed25519 (RFC 8410 §3).
const ED25519: &str = "1.3.101.112";

/// Signature algorithms: object identifier, name, and whether collisions of the hash can be computed.
const SIGNATURES: [(&str, &str, bool); 11] = [
    ("1.2.840.113549.1.1.4", "RSA with MD5", true),
    ("1.2.840.113549.1.1.5", "RSA with SHA-1", true),
    ("1.2.840.113549.1.1.10", "RSA-PSS", false),
    ("1.2.840.113549.1.1.11", "RSA with SHA-256", false),
    ("1.2.840.113549.1.1.12", "RSA with SHA-384", false),
    ("1.2.840.113549.1.1.13", "RSA with SHA-512", false),
    ("1.2.840.10045.4.1", "ECDSA with SHA-1", true),
    ("1.2.840.10045.4.3.2", "ECDSA with SHA-256", false),
    ("1.2.840.10045.4.3.3", "ECDSA with SHA-384", false),
    ("1.2.840.10045.4.3.4", "ECDSA with SHA-512", false),
    (ED25519, "Ed25519", false),
];

/// A certificate that a server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The name of the owner, as in RFC 4514; the first of its names if it has no owner.
    pub owner: String,
    /// The name of the issuer, likewise.
    pub issuer: String,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The names that the certificate is valid for.
    pub names: Names,
    /// The first time at which the certificate is valid.
    pub not_before: SystemTime,
    /// The last time at which the certificate is valid.
    pub not_after: SystemTime,
    /// The type of the key; `None` if it is another one.
    pub key: Option<KeyType>,
    /// The algorithm of the signature; an object identifier if it is another one.
    pub signature: String,
    /// Whether collisions of the signature's hash can be computed.
    pub has_weak_signature: bool,
    /// Whether the certificate names itself as its issuer.
    pub is_self_issued: bool,
}

impl ServerCertificate {
    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// The certificate is invalid.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let names = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
        let names: Names =
            names.iter().flat_map(|names| &names.value.general_names).filter_map(name).collect();
        let subject = distinguished_name(certificate.subject());
        let first_name = || names.iter().next().unwrap_or_default().to_owned();
        let (signature, has_weak_signature) = signature(&certificate.signature_algorithm);
        let validity = certificate.validity();
        Ok(Self {
            owner: if subject.is_empty() { first_name() } else { subject },
            issuer: distinguished_name(certificate.issuer()),
            serial: hex(certificate.raw_serial()),
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
            key: key(&certificate),
            signature,
            has_weak_signature,
            is_self_issued: certificate.subject().as_raw() == certificate.issuer().as_raw(),
            names,
        })
    }
}

fn key(certificate: &X509Certificate<'_>) -> Option<KeyType> {
    match certificate.public_key().parsed().ok()? {
        PublicKey::RSA(key) => Some(KeyType::Rsa(key.key_size())),
        PublicKey::EC(point) => Some(KeyType::Ecdsa(point.key_size())),
        _ => (certificate.public_key().algorithm.algorithm.to_id_string() == ED25519)
            .then_some(KeyType::Ed25519),
    }
}

fn signature(algorithm: &AlgorithmIdentifier<'_>) -> (String, bool) {
    let id = algorithm.algorithm.to_id_string();
    match SIGNATURES.iter().find(|(known, ..)| *known == id) {
        Some((_, name, is_weak)) => ((*name).to_owned(), *is_weak),
        None => (id, false),
    }
}
