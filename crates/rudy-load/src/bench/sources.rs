//! A range of local addresses to connect from: `127.0.0.0/28`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Maximum number of addresses: 65,536 have 1.8 billion ports.
const HOST_BITS_MAX: u32 = 16;

/// 127.0.0.0 and 127.255.255.255, the network and the broadcast address of the loopback.
const LOOPBACK_ENDS: [u32; 2] = [0x7f00_0000, 0x7fff_ffff];

/// A range of addresses, in CIDR notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    first: IpAddr,
    prefix: u32,
}

impl Sources {
    /// Whether the addresses are IPv6.
    #[must_use]
    pub fn is_ipv6(self) -> bool {
        self.first.is_ipv6()
    }

    /// All host addresses of the range: without the network and the broadcast address of an IPv4 range. 127.0.0.0/8 is
    /// one network, so its subranges have neither.
    #[must_use]
    pub fn addresses(self) -> Vec<IpAddr> {
        match self.first {
            IpAddr::V4(first) => {
                let count = 1_u32 << (32 - self.prefix);
                let numbers = (0..count).map(|number| first.to_bits() | number);
                let host_bits = count - 1;
                let is_host = |number: &u32| {
                    if first.is_loopback() {
                        return !LOOPBACK_ENDS.contains(number);
                    }
                    // RFC 3021: a range with one or two addresses has no network and broadcast address.
                    count <= 2 || (number & host_bits != 0 && number & host_bits != host_bits)
                };
                numbers.filter(is_host).map(|number| Ipv4Addr::from_bits(number).into()).collect()
            }
            IpAddr::V6(first) => {
                let count = 1_u128 << (128 - self.prefix);
                (0..count).map(|number| Ipv6Addr::from_bits(first.to_bits() | number).into()).collect()
            }
        }
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error =
            || format!("{text:?} is not an address range (expected one such as 127.0.0.0/28, or 192.0.2.7)");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(|_| error())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits {
            return Err(error());
        }
        let host_bits = bits - prefix;
        if host_bits > HOST_BITS_MAX {
            return Err(format!(
                "{text} has more than {} addresses: /{} is enough",
                1_u32 << HOST_BITS_MAX,
                bits - HOST_BITS_MAX
            ));
        }
        let first = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> host_bits << host_bits).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> host_bits << host_bits).into(),
        };
        Ok(Self { first, prefix })
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<String> {
        text.parse::<Sources>().unwrap().addresses().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_range_has_its_host_addresses() {
        assert_eq!(addresses("192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(addresses("192.0.2.6/31"), ["192.0.2.6", "192.0.2.7"]);
        assert_eq!(addresses("192.0.2.7/30"), ["192.0.2.5", "192.0.2.6"], "without network and broadcast");
        assert_eq!(addresses("127.0.0.0/28").len(), 15);
        assert_eq!(addresses("127.0.0.0/28")[14], "127.0.0.15");
        assert_eq!(addresses("127.0.0.4/30").len(), 4, "within the network 127.0.0.0/8");
        assert_eq!(addresses("fd00::2/127"), ["fd00::2", "fd00::3"]);
        assert_eq!(addresses("127.0.0.0/16").len(), 65_535);
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for (text, reason) in [
            ("", "not an address range"),
            ("127.0.0.0/33", "not an address range"),
            ("127.0.0.0/", "not an address range"),
            ("localhost", "not an address range"),
            ("10.0.0.0/8", "/16 is enough"),
            ("::/0", "/112 is enough"),
        ] {
            let error = text.parse::<Sources>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
