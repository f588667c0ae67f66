//! Numbers and addresses as text, without `fmt`, which takes a thousand instructions for an address of IPv4 because of its padding.

use std::io::{self, Write};
use std::net::IpAddr;

/// The length of the longest address, one of IPv6 in full.
pub const IP_BYTES_MAX: usize = 39;

/// Writes a number.
pub fn write_number(number: u64, out: &mut impl Write) -> io::Result<()> {
    out.write_all(itoa::Buffer::new().format(number).as_bytes())
}

/// Writes an address.
pub fn write_ip(ip: IpAddr, out: &mut impl Write) -> io::Result<()> {
    let IpAddr::V4(ip) = ip else { return write!(out, "{ip}") };
    // Four octets, each with a dot. One call for each part would cost four times as much.
    let (mut text, mut length) = ([0; 16], 0);
    for octet in ip.octets() {
        for (power, shift) in [(100, 100), (10, 10), (1, 0)] {
            if octet >= shift {
                text[length] = b'0' + octet / power % 10;
                length += 1;
            }
        }
        text[length] = b'.';
        length += 1;
    }
    out.write_all(&text[..length - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_by_display() {
        for text in [
            "0.0.0.0",
            "127.0.0.1",
            "9.10.99.100",
            "200.101.19.90",
            "255.255.255.255",
            "::1",
            "2001:db8::ff00:42:8329",
        ] {
            let mut written = Vec::new();
            write_ip(text.parse().unwrap(), &mut written).unwrap();
            assert_eq!(written, text.as_bytes());
        }
    }
}
