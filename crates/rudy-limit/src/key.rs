//! What a limit counts by.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use rudy_runtime::random::RandomState;

/// The prefixes of the networks that share an allowance when a table is full: what one organization usually has.
const SHARED_BITS_V4: u32 = 16;
const SHARED_BITS_V6: u32 = 48;

/// A key, hashed. Two keys are taken for the same with a probability of 2⁻⁶⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The hash of all parts.
    pub(crate) hash: u64,
    /// The hash of the network, or of all parts if there is no address.
    pub(crate) group: u64,
}

/// Hashes keys with a secret of its own, so that no client can choose keys that collide.
#[derive(Debug, Clone, Default)]
pub struct KeyHasher(RandomState);

impl Key {
    /// Returns a number that tells keys apart for people. Some keys share one.
    #[must_use]
    pub fn short(&self) -> u32 {
        u32::try_from(self.hash >> 32).unwrap_or(0)
    }
}

impl KeyHasher {
    /// Starts a key, to which the caller adds parts in a fixed order.
    #[must_use]
    pub fn start(&self) -> KeyBuilder {
        let hasher = self.0.build_hasher();
        KeyBuilder { group: None, start: hasher.clone(), hasher }
    }
}

/// A key that is not complete.
#[derive(Debug, Clone)]
pub struct KeyBuilder {
    hasher: DefaultHasher,
    start: DefaultHasher,
    group: Option<u64>,
}

impl KeyBuilder {
    /// Adds an address. IPv4 mapped to IPv6 counts as IPv4; the addresses of an IPv6 network of `v6_bits` bits count as one.
    #[must_use]
    pub fn address(mut self, address: IpAddr, v6_bits: u32) -> Self {
        let address = address.to_canonical();
        self.hasher.write_u128(prefix(address, 32, v6_bits));
        let mut group = self.start.clone();
        group.write_u128(prefix(address, SHARED_BITS_V4, SHARED_BITS_V6.min(v6_bits)));
        self.group = Some(group.finish());
        self
    }

    /// Adds bytes. Their number is part of the key, so that no other bytes make the same one.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        bytes.hash(&mut self.hasher);
        self
    }

    /// Returns the key.
    #[must_use]
    pub fn finish(self) -> Key {
        let hash = self.hasher.finish();
        Key { hash, group: self.group.unwrap_or(hash) }
    }
}

/// Returns the network of an address, in the form of IPv6: that of no other address begins as a mapped one.
fn prefix(address: IpAddr, v4_bits: u32, v6_bits: u32) -> u128 {
    let (address, bits) = match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 96 + v4_bits.min(32)),
        IpAddr::V6(address) => (address, v6_bits.min(128)),
    };
    address.to_bits() & u128::MAX.checked_shl(128 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_network_are_one_key() {
        let keys = KeyHasher::default();
        let key = |address: &str, bits| keys.start().address(address.parse().unwrap(), bits).finish();
        for (one, other, bits, is_same) in [
            ("192.0.2.1", "192.0.2.1", 64, true),
            ("192.0.2.1", "192.0.2.2", 64, false),
            ("192.0.2.1", "::ffff:192.0.2.1", 64, true),
            ("2001:db8::1", "2001:db8::2", 64, true),
            ("2001:db8::1", "2001:db8:0:0:ffff::1", 64, true),
            ("2001:db8::1", "2001:db8:0:1::1", 64, false),
            ("2001:db8::1", "2001:db8:0:1::1", 56, true),
            ("2001:db8::1", "2001:db8::2", 128, false),
            ("2001:db8::1", "192.0.2.1", 0, false),
        ] {
            assert_eq!(key(one, bits) == key(other, bits), is_same, "{one} {other} /{bits}");
        }
    }

    #[test]
    fn networks_of_an_organization_share_a_group() {
        let keys = KeyHasher::default();
        let group = |address: &str| keys.start().address(address.parse().unwrap(), 64).finish().group;
        assert_eq!(group("192.0.2.1"), group("192.0.77.1"));
        assert_ne!(group("192.0.2.1"), group("192.1.2.1"));
        assert_eq!(group("2001:db8:0:1::1"), group("2001:db8:0:2::1"));
        assert_ne!(group("2001:db8::1"), group("2001:db8:1::1"));
        let path = keys.start().bytes(b"/a").finish();
        assert_eq!(path.group, path.hash);
    }

    #[test]
    fn parts_do_not_run_together() {
        let keys = KeyHasher::default();
        let key = |parts: &[&[u8]]| parts.iter().fold(keys.start(), |key, part| key.bytes(part)).finish();
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"a", b"b"]), key(&[b"ab", b""]));
        assert_ne!(key(&[b"a", b"b"]), KeyHasher::default().start().bytes(b"a").bytes(b"b").finish());
    }
}
