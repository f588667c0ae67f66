//! The secrets of an installation, which its processes share.

use std::fmt;
use std::time::{Instant, SystemTime};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac, rand};
use quinn_proto::TimeSource;
use rudy_runtime::{clock, random};

/// The size of the secret in bytes.
pub const SECRET_BYTES: usize = 32;

/// What all processes of an installation derive the same from: the tokens of stateless resets and of retries, and the mask of the ids of
/// connections.
#[derive(Clone)]
pub struct Keys {
    secret: [u8; SECRET_BYTES],
    extracted: hkdf::Prk,
}

impl fmt::Debug for Keys {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Creates keys that no other process knows.
    ///
    /// # Errors
    ///
    /// The system has no randomness.
    pub fn new() -> Result<Self, Unspecified> {
        if let Some(seed) = random::seed() {
            return Ok(Self::of_secret(seed));
        }
        let mut secret = [0; SECRET_BYTES];
        rand::fill(&mut secret)?;
        Ok(Self::of_secret(secret))
    }

    /// Derives the keys from a secret.
    #[must_use]
    pub fn of_secret(secret: [u8; SECRET_BYTES]) -> Self {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, b"rudy quic").extract(&secret);
        Self { secret, extracted }
    }

    /// Returns the secret, for a process that replaces this one, or for a file that only this user can read.
    #[must_use]
    pub fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// Returns the key of the tokens of stateless resets (RFC 9000 §10.3.2).
    #[must_use]
    pub fn reset(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive::<32>(b"reset"))
    }

    /// Returns the key of the tokens of retries (RFC 9000 §8.1.2).
    #[must_use]
    pub fn token(&self) -> hkdf::Prk {
        hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&self.derive::<32>(b"token"))
    }

    /// Returns the factors that mask the ids of connections.
    pub(crate) fn mask(&self) -> [u32; 2] {
        let bytes = self.derive::<8>(b"mask");
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        [word(0), word(4)]
    }

    fn derive<const LENGTH: usize>(&self, label: &[u8]) -> [u8; LENGTH] {
        let mut derived = [0; LENGTH];
        let parts = [label];
        // Fails only for lengths of kilobytes.
        let _ = self.extracted.expand(&parts, Length(LENGTH)).and_then(|key| key.fill(&mut derived));
        derived
    }
}

/// The time in the tokens of retries: that of the monotonic clock. The wall clock may be set while a client sends its token back.
#[derive(Debug, Clone, Copy)]
pub struct TokenTime(Instant);

impl Default for TokenTime {
    fn default() -> Self {
        Self(clock::now())
    }
}

impl TimeSource for TokenTime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + clock::since(self.0)
    }
}

/// The length of a derived key.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
