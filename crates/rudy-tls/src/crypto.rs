//! Cryptography: the provider of the server, hashes, and the signatures of certificates.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest;
use rustls::crypto::CryptoProvider;
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

/// Whether the key of a certificate has signed `data`.
pub(crate) fn is_signed(data: impl AsRef<[u8]>, signature: &[u8], signer: &X509Certificate<'_>) -> bool {
    let key = &signer.public_key().subject_public_key.data;
    // An algorithm rejects the keys and signatures of the others.
    let mut algorithms = provider().signature_verification_algorithms.all.iter();
    algorithms.any(|algorithm| algorithm.verify_signature(key, data.as_ref(), signature).is_ok())
}
