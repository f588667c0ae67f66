//! Certificates with their private keys, from PEM files.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::pem::{EncodeConfig, LineEnding, Pem, encode_config};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::sign::{any_ecdsa_type, any_supported_type};
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};
use x509_parser::asn1_rs::{Enumerated, Sequence};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::Names;
use crate::sections::{any_authorities, certificates, has_private_key, private_key};

/// A certificate chain and the private key of its first certificate.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    /// The names that the certificate is valid for.
    pub names: Names,
    /// The issuer's name.
    pub issuer: String,
    /// The first time at which the certificate is valid.
    pub not_before: SystemTime,
    /// The last time at which the certificate is valid.
    pub not_after: SystemTime,
    /// The type of the key.
    pub key_type: KeyType,
    /// Where it comes from, for display.
    pub source: String,
}

/// The type of a key, the preferred one first: ECDSA signatures are smaller than RSA signatures, and 20 times cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyType {
    /// ECDSA, with the size of the curve in bits.
    Ecdsa(usize),
    /// Ed25519.
    Ed25519,
    /// RSA, with the size of the modulus in bits.
    Rsa(usize),
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ecdsa(bits) => write!(f, "ECDSA P-{bits}"),
            Self::Ed25519 => f.write_str("Ed25519"),
            Self::Rsa(bits) => write!(f, "RSA {bits}"),
        }
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The certificate file, and what is wrong with it.
    #[error("{0}")]
    Certificate(String),
    /// The key file, and what is wrong with it.
    #[error("{0}")]
    Key(String),
    /// The key is not that of the certificate.
    #[error("the key is not the key of the certificate")]
    Mismatch,
}

impl Certificate {
    /// Reads a chain, the server's certificate first, and its key, both in PEM.
    ///
    /// # Errors
    ///
    /// A file is not PEM, has nothing usable, or the two do not match.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(chain).map_err(CertificateError::Certificate)?;
        let facts = Facts::read(&chain[0])?;
        let key = signing_key(key, Some(facts.key_type)).map_err(CertificateError::Key)?;
        // The check of rustls rejects certificates before version 3, and those for challenges, which have a critical extension.
        if key.public_key().is_some_and(|public_key| *public_key != *facts.public_key) {
            return Err(CertificateError::Mismatch);
        }
        Ok(facts.with_key(CertifiedKey::new(chain, key)))
    }

    /// What is wrong with a key in PEM, whatever its certificate is.
    #[must_use]
    pub fn key_problem(key: &[u8]) -> Option<String> {
        signing_key(key, None).err()
    }

    /// Returns the certificate with an OCSP response in DER to send along (RFC 6066 §8).
    ///
    /// # Errors
    ///
    /// It is no response, or one about an error (RFC 6960 §4.2.1).
    pub fn with_ocsp(mut self, response: Vec<u8>) -> Result<Self, String> {
        let (rest, sequence) =
            Sequence::from_der(&response).map_err(|_| "the file is no OCSP response in DER".to_owned())?;
        let status = Enumerated::from_der(&sequence.content).map(|(_, status)| status.0);
        match status {
            Ok(0) if rest.is_empty() => {}
            Ok(1..=6) => return Err("the OCSP response reports an error instead of a status".to_owned()),
            _ => return Err("the file is no OCSP response in DER".to_owned()),
        }
        let mut key = (*self.key).clone();
        key.ocsp = Some(response);
        self.key = Arc::new(key);
        Ok(self)
    }

    /// Returns the certificate with this source, for display.
    #[must_use]
    pub fn with_source(self, source: impl Into<String>) -> Self {
        Self { source: source.into(), ..self }
    }

    /// Returns the first certificate of the chain, in DER.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        // `certificates` returns no empty chain.
        &self.key.cert[0]
    }

    /// Whether the certificate is valid at this time.
    #[must_use]
    pub fn is_valid_at(&self, time: SystemTime) -> bool {
        (self.not_before..=self.not_after).contains(&time)
    }
}

/// Returns the certificate of an authority in PEM, without anything else that the file has.
///
/// # Errors
///
/// The file is not one certificate of an authority, or has a private key, which must not be published by mistake.
pub fn authority_certificate(pem: &[u8]) -> Result<String, String> {
    if has_private_key(pem)? {
        return Err("the file has a private key; expected only the certificate of an authority".to_owned());
    }
    let all = any_authorities(pem)?;
    let [der] = &all[..] else {
        return Err(format!("the file has {} certificates; expected that of an authority", all.len()));
    };
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| format!("the certificate is invalid: {error}"))?;
    if !certificate.is_ca() {
        return Err("the certificate is not that of an authority (no `CA:TRUE`)".to_owned());
    }
    Ok(to_pem(der))
}

pub(crate) fn to_pem(der: &CertificateDer<'_>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    encode_config(&Pem::new("CERTIFICATE", &**der), config)
}

/// The facts in a certificate.
struct Facts {
    names: Names,
    issuer: String,
    not_before: SystemTime,
    not_after: SystemTime,
    key_type: KeyType,
    /// The `SubjectPublicKeyInfo` in DER.
    public_key: Vec<u8>,
}

impl Facts {
    fn read(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let invalid = |what: &dyn fmt::Display| {
            CertificateError::Certificate(format!("the certificate is invalid: {what}"))
        };
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| invalid(&error))?;
        let names = certificate.subject_alternative_name().map_err(|error| invalid(&error))?;
        let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(name).collect();
        let key = certificate.public_key().parsed().map_err(|error| invalid(&error))?;
        let key_type = match &key {
            PublicKey::RSA(key) => KeyType::Rsa(key.key_size()),
            PublicKey::EC(point) => KeyType::Ecdsa(point.key_size()),
            _ => KeyType::Ed25519,
        };
        let validity = certificate.validity();
        Ok(Self {
            names,
            issuer: certificate.issuer().to_string(),
            not_before: time(validity.not_before),
            not_after: time(validity.not_after),
            key_type,
            public_key: certificate.public_key().raw.to_vec(),
        })
    }

    fn with_key(self, key: CertifiedKey) -> Certificate {
        let Self { names, issuer, not_before, not_after, key_type, .. } = self;
        Certificate {
            key: Arc::new(key),
            names,
            issuer,
            not_before,
            not_after,
            key_type,
            source: String::new(),
        }
    }
}

/// Returns a DNS name or an address. Clients ignore the other kinds, and the common name (RFC 9525 §2).
pub(crate) fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = || <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = |_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4().or_else(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

pub(crate) fn time(time: ASN1Time) -> SystemTime {
    let seconds = Duration::from_secs(time.timestamp().unsigned_abs());
    if time.timestamp() < 0 { SystemTime::UNIX_EPOCH - seconds } else { SystemTime::UNIX_EPOCH + seconds }
}

/// Reads a key in PEM, which should have this type.
fn signing_key(pem: &[u8], expected: Option<KeyType>) -> Result<Arc<dyn SigningKey>, String> {
    let key = private_key(pem)?;
    // rustls tries RSA first, which validates an ECDSA key and then rejects it. That takes half of the time of a certificate.
    if matches!(expected, Some(KeyType::Ecdsa(_)))
        && CryptoProvider::get_default().is_none()
        && let Ok(key) = any_ecdsa_type(&key)
    {
        return Ok(key);
    }
    // A simulation installs its own: it needs signatures of one length.
    let loaded = match CryptoProvider::get_default() {
        Some(installed) => installed.key_provider.load_private_key(key),
        None => any_supported_type(&key),
    };
    loaded.map_err(|error| {
        format!("the key is of no supported type (RSA from 2048 bits, P-256, P-384, P-521, Ed25519): {error}")
    })
}
