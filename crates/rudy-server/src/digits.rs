//! Numbers and addresses as text, without `fmt`, which takes a thousand instructions for an address of IPv4 because of its padding.

use std::io::{self, Write};
use std::net::IpAddr;

/// The length of the longest address, one of IPv6 in full.
pub(crate) const IP_BYTES_MAX: usize = 39;

/// Writes a number.
pub(crate) fn write_number(number: u64, out: &mut impl Write) -> io::Result<()> {
    out.write_all(itoa::Buffer::new().format(number).as_bytes())
}

/// Writes an address.
pub(crate) fn write_ip(ip: IpAddr, out: &mut impl Write) -> io::Result<()> {
    let IpAddr::V4(ip) = ip else { return write!(out, "{ip}") };
    for (index, octet) in ip.octets().into_iter().enumerate() {
        out.write_all(if index > 0 { b"." } else { b"" })?;
        write_number(octet.into(), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_by_display() {
        for text in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::1", "2001:db8::ff00:42:8329"] {
            let mut written = Vec::new();
            write_ip(text.parse().unwrap(), &mut written).unwrap();
            assert_eq!(written, text.as_bytes());
        }
    }
}
