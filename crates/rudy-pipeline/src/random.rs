//! Random numbers. The standard library keys its hashes from the system's randomness.

use std::hash::{BuildHasher, RandomState};

/// Returns random bits, which are unpredictable.
#[must_use]
pub fn bits() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns a random number from 0 to 1.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it is random")]
pub fn share() -> f64 {
    bits() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_is_a_share() {
        assert!((0..100).all(|_| (0.0..=1.0).contains(&share())));
    }
}
