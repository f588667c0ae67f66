//! The id of a stored object: a hash of its key.

use std::hash::{Hash, Hasher};

use crate::key::Key;
use crate::vary::Variant;

/// The secret of a store, from a random source. Without it, clients cannot choose keys whose hashes are equal, or fill one bucket
/// of a table. It belongs to the folder of the store: with another seed, all objects are unknown.
pub type Seed = [u8; 16];

/// The hash of a key and a variant, 128 bits: the memory of the index does not depend on the length of the URI.
///
/// Among 2²⁰ objects, two have the same hash with a probability below 2⁻⁸⁸. The record of an object has its whole key
/// nevertheless, and a hit compares it, so a collision would be a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId([u64; 2]);

impl ObjectId {
    /// Computes the id of the object for a key and a variant.
    ///
    /// The default variant is that of responses without `Vary`. A store also keeps there the fields that the other responses for
    /// the key depend on, and finds the response to a request with [`Variant::select`].
    #[must_use]
    pub fn new(seed: &Seed, key: &Key, variant: &Variant) -> Self {
        let key = key.as_bytes();
        // With the length of each part, so that different parts do not have the same bytes together.
        let mut input = Vec::with_capacity(key.len() + variant.key.len() + 64);
        input.extend_from_slice(&(key.len() as u64).to_le_bytes());
        input.extend_from_slice(key);
        for name in &variant.names {
            input.extend_from_slice(&(name.as_str().len() as u64).to_le_bytes());
            input.extend_from_slice(name.as_str().as_bytes());
        }
        input.extend_from_slice(&0_u64.to_le_bytes());
        input.extend_from_slice(&variant.key);
        Self(sip_hash(seed, &input))
    }

    /// Returns the bytes, for the name of a file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }

    /// Returns the id with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let bytes = u128::from_le_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the lower and the upper half")]
        Self([bytes as u64, (bytes >> 64) as u64])
    }

    /// Returns the part of the id by which a table finds it.
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits of a hash are one")]
    pub(super) fn table_hash(self) -> u32 {
        self.0[0] as u32
    }
}

/// Half of the id is enough for a table.
impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// Computes SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012).
///
/// Its results are in the names of files, so it is not the hash of the standard library, which may change with any version.
fn sip_hash(seed: &Seed, input: &[u8]) -> [u64; 2] {
    let [k0, k1] = ObjectId::from_bytes(*seed).0;
    let mut state = State {
        v0: k0 ^ 0x736f_6d65_7073_6575,
        v1: k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        v2: k0 ^ 0x6c79_6765_6e65_7261,
        v3: k1 ^ 0x7465_6462_7974_6573,
    };
    let (words, rest) = input.as_chunks::<8>();
    for word in words {
        state.add(u64::from_le_bytes(*word));
    }
    // The last word has the rest, and the length of the input modulo 256.
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = input.len().to_le_bytes()[0];
    state.add(u64::from_le_bytes(last));
    state.v2 ^= 0xee;
    state.rounds(4);
    let first = state.folded();
    state.v1 ^= 0xdd;
    state.rounds(4);
    [first, state.folded()]
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    fn add(&mut self, word: u64) {
        self.v3 ^= word;
        self.rounds(2);
        self.v0 ^= word;
    }

    fn rounds(&mut self, count: u8) {
        for _ in 0..count {
            self.v0 = self.v0.wrapping_add(self.v1);
            self.v2 = self.v2.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(13) ^ self.v0;
            self.v3 = self.v3.rotate_left(16) ^ self.v2;
            self.v0 = self.v0.rotate_left(32);
            self.v2 = self.v2.wrapping_add(self.v1);
            self.v0 = self.v0.wrapping_add(self.v3);
            self.v1 = self.v1.rotate_left(17) ^ self.v2;
            self.v3 = self.v3.rotate_left(21) ^ self.v0;
            self.v2 = self.v2.rotate_left(32);
        }
    }

    fn folded(&self) -> u64 {
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::{HeaderMap, HeaderName};

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_reference_implementation() {
        let seed: Seed = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let input: Vec<u8> = (0..64).collect();
        // From `vectors_sip128` of the reference: the hashes of 0, 1, 2, … as bytes, by their number.
        for (length, expected) in [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (1, "da87c1d86b99af44347659119b22fc45"),
            (2, "8177228da4a45dc7fca38bdef60affe4"),
            (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
            (8, "3b62a9ba6258f5610f83e264f31497b4"),
            (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
            (63, "5150d1772f50834a503e069a973fbd7c"),
        ] {
            let hash = ObjectId(sip_hash(&seed, &input[..length])).to_bytes();
            assert_eq!(format!("{:032x}", u128::from_be_bytes(hash)), expected, "{length}");
        }
    }

    #[test]
    fn seed_key_and_variant_determine_the_id() {
        let fields = |lines: &[(&'static str, &str)]| -> HeaderMap {
            lines
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect()
        };
        let variant =
            |vary, request: &[_]| Variant::new(&fields(request), &fields(&[("vary", vary)])).unwrap();
        let [key, other_key] = [b"/x", b"/y"].map(|path| Key::new(true, b"a", path));
        let german = variant("accept-language", &[("accept-language", "de")]);
        let ids = [
            ObjectId::new(&[0; 16], &key, &german),
            ObjectId::new(&[1; 16], &key, &german),
            ObjectId::new(&[0; 16], &other_key, &german),
            ObjectId::new(&[0; 16], &key, &Variant::default()),
            ObjectId::new(&[0; 16], &key, &variant("accept-language", &[])),
            ObjectId::new(&[0; 16], &key, &variant("accept", &[("accept", "de")])),
        ];
        assert_eq!(BTreeSet::from(ids).len(), ids.len(), "all differ");
        // Another request with the same value has the same id, whichever variant its fields were taken from.
        let english = variant("Accept-Language", &[("accept-language", "en")]);
        let selected = english.select(&fields(&[("accept-language", "de"), ("accept", "*/*")]));
        assert_eq!(ids[0], ObjectId::new(&[0; 16], &key, &selected));
        assert_eq!(ids[0], ObjectId::from_bytes(ids[0].to_bytes()));
    }
}
