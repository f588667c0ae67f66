//! IP addresses and networks as text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rudy_service::Peer;

/// The number of bits before an IPv4 address that is mapped to IPv6.
const MAPPED_BITS: u8 = 96;
/// The number of bits of an IPv6 address that belong to a client: usually the network of a household.
const CLIENT_BITS: u32 = 64;

/// An address or network: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`. IPv4 mapped to IPv6 is treated as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The address, with zeros after the prefix.
    address: IpAddr,
    prefix: u8,
}

impl Network {
    fn new(address: IpAddr, prefix: u8) -> Self {
        let address = match address {
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() & mask_v4(prefix)).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & mask_v6(prefix)).into()),
        };
        Self { address, prefix }
    }

    /// Whether the network contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => other.to_bits() & mask_v4(self.prefix) == own.to_bits(),
            (IpAddr::V6(own), IpAddr::V6(other)) => other.to_bits() & mask_v6(self.prefix) == own.to_bits(),
            _ => false,
        }
    }

    /// Returns the first and the last address.
    #[must_use]
    pub fn range(&self) -> (IpAddr, IpAddr) {
        let last = match self.address {
            IpAddr::V4(first) => IpAddr::V4((first.to_bits() | !mask_v4(self.prefix)).into()),
            IpAddr::V6(first) => IpAddr::V6((first.to_bits() | !mask_v6(self.prefix)).into()),
        };
        (self.address, last)
    }
}

/// Formats the network of a client.
#[must_use]
pub fn network(client: Peer, v6_bits: u32) -> String {
    match client {
        Peer::Ip(address) => match address.ip().to_canonical() {
            IpAddr::V6(address) if v6_bits < 128 => {
                let mask = u128::MAX.checked_shl(128 - v6_bits).unwrap_or(0);
                format!("{}/{v6_bits}", Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            address => address.to_string(),
        },
        other => other.to_string(),
    }
}

/// Returns an address with zeros for its last 8 bits (IPv4) or 80 bits (IPv6), which identify a client.
#[must_use]
pub fn masked(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    Network::new(address, if address.is_ipv4() { 24 } else { 48 }).address
}

/// Returns the subject of lines about a client in the error log.
#[must_use]
pub fn client_subject(client: Peer) -> String {
    network(client, CLIENT_BITS)
}

fn mask_v4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(Ipv4Addr::BITS - u32::from(prefix)).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(Ipv6Addr::BITS - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected an address, or a network such as \"10.0.0.0/8\"".to_owned();
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| expected())?;
        let bits: u8 = if written.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.map(str::parse) {
            None => bits,
            Some(Ok(prefix)) if prefix <= bits => prefix,
            Some(_) => return Err(format!("expected a number from 0 to {bits} behind the slash")),
        };
        let address = written.to_canonical();
        let mapped_bits = if address.is_ipv4() && written.is_ipv6() { MAPPED_BITS } else { 0 };
        let prefix = prefix.checked_sub(mapped_bits).ok_or_else(expected)?;
        Ok(Self::new(address, prefix))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.address.is_ipv4() { 32 } else { 128 };
        if self.prefix == bits { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_written_back() {
        for (text, written) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1/104", "10.0.0.0/8"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), written);
            assert_eq!(written.parse(), Ok(network));
        }
        for (text, expected) in [
            ("", "expected an address"),
            ("10.0.0/8", "expected an address"),
            ("localhost", "expected an address"),
            ("10.0.0.1:80", "expected an address"),
            ("[::1]", "expected an address"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("::/129", "from 0 to 128"),
            ("10.0.0.0/", "from 0 to 32"),
            ("10.0.0.0/255.0.0.0", "from 0 to 32"),
            ("::ffff:10.0.0.1/95", "expected an address"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        for (network, address, expected) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("10.0.0.0/9", "10.127.255.255", true),
            ("10.0.0.0/9", "10.128.0.0", false),
            ("0.0.0.0/0", "203.0.113.7", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "::ffff:10.0.0.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ] {
            assert_eq!(contains(network, address), expected, "{address} in {network}");
        }
    }
}
