//! Cryptography: the provider of the server, hashes, and the signatures of certificates.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS};
use rustls::{CipherSuite, NamedGroup};
use x509_parser::prelude::X509Certificate;

/// Returns the SHA-256 hash.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// The cryptography. The group of post-quantum key exchange is preferred (`prefer-post-quantum`), and AES with 128 bits, which costs less
/// CPU than with 256.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // The first random number takes a tenth of a second, which the first client would wait. A failure recurs in its handshake.
        let _ = provider.secure_random.fill(&mut [0]);
        provider.cipher_suites.sort_by_key(|suite| {
            let name = suite.suite().as_str().unwrap_or_default();
            ["AES_128", "AES_256", ""].map(|cipher| name.contains(cipher)).iter().position(|found| *found)
        });
        Arc::new(provider)
    });
    PROVIDER.clone()
}

/// Returns the provider with only these cipher suites and groups, by their names in the registry of IANA, in this order. An empty list
/// leaves those of [`provider`].
pub(crate) fn provider_for(suites: &[&str], groups: &[&str]) -> CryptoProvider {
    let mut provider = (*provider()).clone();
    if !suites.is_empty() {
        let named = |name: &&str| ALL_CIPHER_SUITES.iter().find(|suite| cipher_name(suite.suite()) == *name);
        provider.cipher_suites = suites.iter().filter_map(named).copied().collect();
    }
    if !groups.is_empty() {
        // rustls writes some letters in lower case.
        let named = |name: &&str| {
            let is_named =
                |group: NamedGroup| group.as_str().is_some_and(|known| known.eq_ignore_ascii_case(name));
            ALL_KX_GROUPS.iter().find(|group| is_named(group.name()))
        };
        provider.kx_groups = groups.iter().filter_map(named).copied().collect();
    }
    provider
}

/// Returns the name of the IANA registry, without the prefix that rustls gives suites of TLS 1.3.
pub(crate) fn cipher_name(suite: CipherSuite) -> &'static str {
    let name = suite.as_str().unwrap_or_default();
    match name {
        "TLS13_AES_128_GCM_SHA256" => "TLS_AES_128_GCM_SHA256",
        "TLS13_AES_256_GCM_SHA384" => "TLS_AES_256_GCM_SHA384",
        "TLS13_CHACHA20_POLY1305_SHA256" => "TLS_CHACHA20_POLY1305_SHA256",
        name => name,
    }
}

/// Whether the key of a certificate has signed `data`.
pub(crate) fn is_signed(data: impl AsRef<[u8]>, signature: &[u8], signer: &X509Certificate<'_>) -> bool {
    let key = &signer.public_key().subject_public_key.data;
    // An algorithm rejects the keys and signatures of the others.
    let mut algorithms = provider().signature_verification_algorithms.all.iter();
    algorithms.any(|algorithm| algorithm.verify_signature(key, data.as_ref(), signature).is_ok())
}
