//! Certificates made on the spot.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::Ed25519KeyPair;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize,
};

use crate::KeyType;

/// The validity of a self-signed certificate: the longest that browsers accept (CA/Browser Forum, 398 days).
const VALIDITY: Duration = Duration::from_hours(397 * 24);

/// A certificate is valid from a little earlier, for clients whose clock is slow.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// The validity of a certificate of the local authority.
const INTERNAL_VALIDITY: Duration = Duration::from_hours(30 * 24);

/// The validity of the local authority, which people install.
const AUTHORITY_VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);

/// Creates a key on P-256 and a certificate signed with it, for these names and addresses. Returns both in PEM.
///
/// # Errors
///
/// A name is invalid, or the system provides no random bytes.
pub fn self_signed(names: &[String], now: SystemTime) -> Result<String, rcgen::Error> {
    self_signed_with(KeyType::Ecdsa(256), names, now)
}

/// The key types that certificates can be made with: `rsa-2048`, `rsa-3072`, `rsa-4096`, `p-256`, `p-384`, `ed25519`.
impl FromStr for KeyType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "rsa-2048" => Self::Rsa(2048),
            "rsa-3072" => Self::Rsa(3072),
            "rsa-4096" => Self::Rsa(4096),
            "p-256" => Self::Ecdsa(256),
            "p-384" => Self::Ecdsa(384),
            "ed25519" => Self::Ed25519,
            _ => return Err("expected rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or ed25519".to_owned()),
        })
    }
}

/// Creates a key of this type and a certificate signed with it, for these names and addresses. Returns both in PEM.
///
/// # Errors
///
/// Keys of this type cannot be made, a name is invalid, or the system provides no random bytes.
pub fn self_signed_with(key: KeyType, names: &[String], now: SystemTime) -> Result<String, rcgen::Error> {
    let key = match key {
        KeyType::Rsa(2048) => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        KeyType::Rsa(3072) => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072)?,
        KeyType::Rsa(4096) => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096)?,
        KeyType::Ecdsa(256) => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
        KeyType::Ecdsa(384) => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?,
        KeyType::Ed25519 => ed25519()?,
        _ => return Err(rcgen::Error::KeyGenerationUnavailable),
    };
    let certificate = for_server("Rudy self-signed certificate", names, now, VALIDITY)?;
    Ok(key.serialize_pem() + &certificate.self_signed(&key)?.pem())
}

/// rcgen writes version 2 of PKCS #8, which OpenSSL 3.0 does not read.
fn ed25519() -> Result<KeyPair, rcgen::Error> {
    let key = Ed25519KeyPair::generate().map_err(|_| rcgen::Error::KeyGenerationUnavailable)?;
    let der = key.to_pkcs8v1().map_err(|_| rcgen::Error::KeyGenerationUnavailable)?;
    KeyPair::try_from(der.as_ref())
}

/// Creates the key and the certificate of a local authority. Returns both in PEM, the key first.
///
/// # Errors
///
/// The system provides no random bytes.
pub fn authority(now: SystemTime) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = local_authority(now)?.self_signed(&key)?;
    Ok((key.serialize_pem(), certificate.pem()))
}

/// Creates a key and a certificate signed with the key of the local authority. Returns both in PEM.
///
/// # Errors
///
/// A name or the authority's key is invalid, or the system provides no random bytes.
pub fn signed_by_authority(
    authority_key: &str,
    names: &[String],
    now: SystemTime,
) -> Result<String, rcgen::Error> {
    let authority = Issuer::new(local_authority(now)?, KeyPair::from_pem(authority_key)?);
    let key = KeyPair::generate()?;
    let certificate = for_server("Rudy local certificate", names, now, INTERNAL_VALIDITY)?;
    Ok(key.serialize_pem() + &certificate.signed_by(&key, &authority)?.pem())
}

/// Creates a key on P-256, in PEM, and the request for a certificate for a name or address, in DER (PKCS #10, RFC 2986).
///
/// # Errors
///
/// The name is invalid, or the system provides no random bytes.
pub fn certificate_request(name: &str) -> Result<(String, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut request = CertificateParams::new([name.to_owned()])?;
    // Authorities ignore it, and some reject the default.
    request.distinguished_name = DistinguishedName::new();
    let request = request.serialize_request(&key)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

/// The authority's name does not depend on the time, so that the parameters match its certificate.
fn local_authority(now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut authority = valid(CertificateParams::new(Vec::new())?, now, AUTHORITY_VALIDITY);
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::CommonName, "Rudy local authority");
    // It signs certificates of servers, and no further authorities.
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(authority)
}

fn for_server(
    common_name: &str,
    names: &[String],
    now: SystemTime,
    validity: Duration,
) -> Result<CertificateParams, rcgen::Error> {
    let mut certificate = valid(CertificateParams::new(names)?, now, validity);
    certificate.distinguished_name.push(DnType::CommonName, common_name);
    certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    certificate.use_authority_key_identifier_extension = true;
    Ok(certificate)
}

fn valid(mut certificate: CertificateParams, now: SystemTime, validity: Duration) -> CertificateParams {
    certificate.not_before = (now - CLOCK_SKEW).into();
    certificate.not_after = (now + validity).into();
    certificate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Certificate, KeyType};

    #[test]
    fn each_key_type_has_a_name_and_a_certificate() {
        let names = ["localhost".to_owned()];
        for name in ["rsa-2048", "rsa-3072", "rsa-4096", "p-256", "p-384", "ed25519"] {
            let key: KeyType = name.parse().unwrap();
            let pem = self_signed_with(key, &names, SystemTime::UNIX_EPOCH + VALIDITY).unwrap();
            let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes()).unwrap();
            assert_eq!(certificate.key_type, key);
        }
        assert!("rsa-1024".parse::<KeyType>().is_err());
    }

    #[test]
    fn a_self_signed_certificate_is_valid_for_its_names_for_a_year() {
        let names = ["localhost", "*.localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let pem = self_signed(&names, now).unwrap();
        let certificate = Certificate::from_pem(pem.as_bytes(), pem.as_bytes()).unwrap();
        assert!(names.iter().all(|name| certificate.names.include(name)), "{:?}", certificate.names);
        assert_eq!(certificate.key_type, KeyType::Ecdsa(256));
        assert!(certificate.is_valid_at(now) && certificate.is_valid_at(now + VALIDITY));
        assert!(!certificate.is_valid_at(now + VALIDITY + Duration::from_secs(1)));
    }
}
