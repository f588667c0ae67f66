//! Signatures of one length. Those of ECDSA have 70 to 72 bytes, by chance, and the length of a handshake would decide what happens next.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, KeyProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// The length that is the most frequent: that of a half of all signatures on P-256.
const SIGNATURE_BYTES: usize = 71;

/// Returns the cryptography of the clients and the server.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let provider = CryptoProvider { key_provider: &Keys, ..aws_lc_rs::default_provider() };
        // The server loads its keys with it. Fails if it is installed already.
        let _ = provider.clone().install_default();
        Arc::new(provider)
    });
    PROVIDER.clone()
}

#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Ok(Arc::new(Key(aws_lc_rs::sign::any_ecdsa_type(&key)?)))
    }
}

#[derive(Debug)]
struct Key(Arc<dyn SigningKey>);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.choose_scheme(offered).map(|signer| Box::new(OneLength(signer)) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct OneLength(Box<dyn Signer>);

impl Signer for OneLength {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        loop {
            let signature = self.0.sign(message)?;
            if signature.len() == SIGNATURE_BYTES {
                return Ok(signature);
            }
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}
