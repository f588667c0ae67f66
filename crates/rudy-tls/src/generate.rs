//! Certificates made on the spot.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};

/// The validity of a self-signed certificate: the longest that browsers accept (CA/Browser Forum, 398 days).
const VALIDITY: Duration = Duration::from_hours(397 * 24);

/// A certificate is valid from a little earlier, for clients whose clock is slow.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// Creates a key on P-256 and a certificate signed with it, for these names and addresses. Returns both in PEM.
///
/// # Errors
///
/// A name is invalid, or the system provides no random bytes.
pub fn self_signed(names: &[String], now: SystemTime) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut certificate = CertificateParams::new(names)?;
    certificate.distinguished_name.push(DnType::CommonName, "Rudy self-signed certificate");
    certificate.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    certificate.not_before = (now - CLOCK_SKEW).into();
    certificate.not_after = (now + VALIDITY).into();
    Ok(key.serialize_pem() + &certificate.self_signed(&key)?.pem())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Certificate, KeyType};

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
