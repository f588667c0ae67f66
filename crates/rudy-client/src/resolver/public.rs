//! Public addresses: those that a name may have which no operator has written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use rudy_pipeline::network::Network;

/// The networks of IPv4 that are not globally reachable, from the IANA registry of special-purpose addresses (RFC 6890), multicast and
/// reserved addresses.
static SPECIAL_V4: LazyLock<Vec<Network>> = LazyLock::new(|| {
    networks(&[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    ])
});

/// The networks of IPv6 that are not globally reachable, within the one of global unicast addresses: protocols such as Teredo, and
/// documentation.
static SPECIAL_V6: LazyLock<Vec<Network>> =
    LazyLock::new(|| networks(&["2001::/23", "2001:db8::/32", "3fff::/20"]));

fn networks(all: &[&str]) -> Vec<Network> {
    all.iter().filter_map(|network| network.parse().ok()).collect()
}

/// Removes the addresses that are not public. An error if no other is left.
pub(super) fn only_public(mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
    addresses.retain(|address| is_public(address.ip()));
    if addresses.is_empty() {
        return Err("it has no public address, and no setting names this host".to_owned());
    }
    Ok(addresses)
}

/// Whether an address is globally reachable. An IPv6 address that contains one of IPv4 is that one.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => SPECIAL_V4.iter().all(|network| !network.contains(address.into())),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_public(address.into()),
            // RFC 4291 §2.4: all others are local, multicast or reserved.
            None => {
                address.segments()[0] & 0xe000 == 0x2000
                    && SPECIAL_V6.iter().all(|network| !network.contains(address.into()))
            }
        },
    }
}

/// Returns the IPv4 address that a translator (RFC 6052 §2.1) or a 6to4 router (RFC 3056 §2) sends packets to.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let [first, second, ..] = address.segments();
    let v4 = |shift: u32| u32::try_from((bits >> shift) & u128::from(u32::MAX)).ok().map(Ipv4Addr::from_bits);
    match (first, second) {
        (0x2002, _) => v4(80),
        (0x64, 0xff9b) if bits << 32 >> 64 == 0 => v4(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_not_public_in_any_form() {
        assert_eq!((SPECIAL_V4.len(), SPECIAL_V6.len()), (14, 3), "all are networks");
        for (address, expected) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("192.167.255.255", true),
            ("223.255.255.255", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.255.0.1", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("127.255.255.255", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.168.1.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700:4700::1111", true),
            ("2a00::1", true),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("64:ff9b:1::1.1.1.1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("2002:a00:1::1", false),
            ("2002:101:101::1", true),
            ("3fff::1", false),
            ("4000::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
