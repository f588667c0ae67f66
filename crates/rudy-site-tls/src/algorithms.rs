//! The cipher suites and curves that a site may permit.

use rudy_config::{WordList, Words};
use rudy_tls::KeyType;

/// A cipher suite. All have forward secrecy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum CipherSuite {
    /// TLS 1.3.
    #[setting(name = "TLS_AES_128_GCM_SHA256")]
    Aes128,
    /// TLS 1.3.
    #[setting(name = "TLS_AES_256_GCM_SHA384")]
    Aes256,
    /// TLS 1.3.
    #[setting(name = "TLS_CHACHA20_POLY1305_SHA256")]
    Chacha20,
    /// TLS 1.2, with a certificate that has an ECDSA or Ed25519 key.
    #[setting(name = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", alias = "ECDHE-ECDSA-AES128-GCM-SHA256")]
    EcdsaAes128,
    /// TLS 1.2, with a certificate that has an ECDSA or Ed25519 key.
    #[setting(name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", alias = "ECDHE-ECDSA-AES256-GCM-SHA384")]
    EcdsaAes256,
    /// TLS 1.2, with a certificate that has an ECDSA or Ed25519 key.
    #[setting(
        name = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        alias = "ECDHE-ECDSA-CHACHA20-POLY1305"
    )]
    EcdsaChacha20,
    /// TLS 1.2, with a certificate that has an RSA key.
    #[setting(name = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", alias = "ECDHE-RSA-AES128-GCM-SHA256")]
    RsaAes128,
    /// TLS 1.2, with a certificate that has an RSA key.
    #[setting(name = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", alias = "ECDHE-RSA-AES256-GCM-SHA384")]
    RsaAes256,
    /// TLS 1.2, with a certificate that has an RSA key.
    #[setting(name = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", alias = "ECDHE-RSA-CHACHA20-POLY1305")]
    RsaChacha20,
}

/// A curve, or another group for the exchange of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum Curve {
    /// X25519 and ML-KEM-768 (post-quantum), only in TLS 1.3.
    #[setting(name = "X25519MLKEM768", alias = "x25519mlkem768")]
    X25519Mlkem768,
    /// P-256 and ML-KEM-768 (post-quantum), only in TLS 1.3.
    #[setting(name = "SecP256r1MLKEM768", alias = "secp256r1mlkem768")]
    Secp256r1Mlkem768,
    /// Curve25519.
    #[setting(name = "X25519", alias = "x25519")]
    X25519,
    /// P-256.
    #[setting(name = "secp256r1", alias = "prime256v1", alias = "P-256")]
    Secp256r1,
    /// P-384.
    #[setting(name = "secp384r1", alias = "P-384")]
    Secp384r1,
    /// ML-KEM-768 alone (post-quantum), only in TLS 1.3.
    #[setting(name = "MLKEM768", alias = "mlkem768")]
    Mlkem768,
    /// ML-KEM-1024 alone (post-quantum), only in TLS 1.3.
    #[setting(name = "MLKEM1024", alias = "mlkem1024")]
    Mlkem1024,
}

impl CipherSuite {
    pub(super) fn is_of_tls12(self) -> bool {
        self.word().contains("_WITH_")
    }

    /// Whether a handshake of TLS 1.2 with such a key can use it.
    pub(super) fn fits(self, key: KeyType) -> bool {
        self.word().contains(if matches!(key, KeyType::Rsa(_)) { "_RSA_" } else { "_ECDSA_" })
    }
}

impl Curve {
    pub(super) fn is_only_for_tls13(self) -> bool {
        self.word().contains("MLKEM")
    }
}

/// Returns the names of all.
pub(super) fn names<T: Words>(list: Option<&WordList<T>>) -> Vec<&'static str> {
    list.map_or(&[][..], WordList::as_slice).iter().map(Words::word).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rudy_tls::{SiteSettings, TicketKeys, TlsSite};

    use super::*;

    #[test]
    fn every_name_is_that_of_a_suite_or_a_group() {
        let site = |cipher_suites, groups| {
            let settings = SiteSettings { cipher_suites, groups, ..SiteSettings::default() };
            TlsSite::new(&settings, &Arc::<TicketKeys>::default()).is_ok()
        };
        assert!(CipherSuite::WORDS.iter().all(|suite| site(vec![suite.text], vec![])));
        assert!(Curve::WORDS.iter().all(|curve| site(vec![], vec![curve.text])));
        assert!(!site(vec!["TLS_RSA_WITH_AES_128_CBC_SHA"], vec![]) && !site(vec![], vec!["sect571k1"]));
    }
}
