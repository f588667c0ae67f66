//! The unit in which connections are counted by address.

use std::net::IpAddr;
use std::num::NonZeroU64;

use rudy_service::Peer;

/// The key of an address, by which its connections are counted.
///
/// IPv6 addresses count by their first 64 bits. A site or household is assigned such a prefix, and each of
/// its machines can use any of the other 2^64 addresses. IPv4 addresses map into the reserved block `::/8`,
/// so that a key fits in one word: every connection holds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AddressKey(NonZeroU64);

impl AddressKey {
    /// All peers of Unix sockets. As an IPv6 prefix this would be multicast, which no peer has.
    const UNIX: Self = Self(NonZeroU64::MAX);
    const V4_PREFIX: u64 = 1 << 32;
    /// As an IPv6 prefix this would be multicast, too.
    const UNIQUE_PREFIX: u64 = 0xff << 56;

    /// Returns a key that no other connection has, made from the connection's number: for a connection that
    /// is not counted by address.
    pub(crate) fn unique(number: u64) -> Self {
        Self(NonZeroU64::MIN | Self::UNIQUE_PREFIX | (number << 1))
    }
}

impl From<IpAddr> for AddressKey {
    fn from(address: IpAddr) -> Self {
        let key = match address.to_canonical() {
            IpAddr::V4(address) => Self::V4_PREFIX | u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        // `::1` has the prefix 0.
        Self(NonZeroU64::new(key).unwrap_or(NonZeroU64::MIN))
    }
}

impl From<&Peer> for AddressKey {
    fn from(peer: &Peer) -> Self {
        peer.ip().map_or(Self::UNIX, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> AddressKey {
        AddressKey::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn ipv6_is_counted_by_its_first_64_bits_and_mapped_ipv4_as_ipv4() {
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_ne!(key("::1"), key("0.0.0.0"));
        assert_ne!(key("255.255.255.255"), AddressKey::from(&Peer::Unix));
        assert_ne!(AddressKey::unique(1), AddressKey::unique(2));
    }
}
