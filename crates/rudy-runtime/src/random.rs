//! Random numbers, and hashes whose collisions a peer cannot know.

use std::hash::{self, BuildHasher, DefaultHasher, Hasher as _};

use crate::simulation::{Simulation, current};

/// Returns random bits, which are unpredictable: the standard library keys its hashes from the system's randomness.
#[must_use]
pub fn bits() -> u64 {
    current().map_or_else(|| hash::RandomState::new().hash_one(0), Simulation::random)
}

/// Returns random bits for a value that is never freed, and so outlives a simulation, in which they are always the same.
#[must_use]
pub fn lasting_bits() -> u64 {
    current().map_or_else(bits, |_| 0)
}

/// Returns a seed for a generator of a library, in a simulation. Elsewhere there is none: the generator asks the system.
#[must_use]
pub fn seed() -> Option<[u8; 32]> {
    let simulation = current()?;
    let mut seed = [0; 32];
    for part in seed.chunks_mut(8) {
        part.copy_from_slice(&simulation.random().to_be_bytes());
    }
    Some(seed)
}

/// Returns a random number from 0 to 1.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it is random")]
pub fn share() -> f64 {
    bits() as f64 / u64::MAX as f64
}

/// Hashes with random keys, as [`std::hash::RandomState`] does; in a simulation with keys of its seed.
#[derive(Debug, Clone)]
pub struct RandomState(Keys);

#[derive(Debug, Clone)]
enum Keys {
    Random(hash::RandomState),
    OfSeed(u64),
}

impl RandomState {
    /// Creates a state with keys of its own.
    #[must_use]
    pub fn new() -> Self {
        Self(current().map_or_else(
            || Keys::Random(hash::RandomState::new()),
            |simulation| Keys::OfSeed(simulation.random()),
        ))
    }
}

impl Default for RandomState {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            Keys::Random(keys) => keys.build_hasher(),
            Keys::OfSeed(seed) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_is_a_share() {
        assert!((0..100).all(|_| (0.0..=1.0).contains(&share())));
    }
}
