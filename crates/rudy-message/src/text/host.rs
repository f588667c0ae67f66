//! Hosts with optional ports: `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2).

use std::net::Ipv6Addr;

use crate::syntax::{alphanumeric_and, parse_digits};

/// Splits an authority without user information into the host, which may be empty, and the port, if there is a colon. `None`
/// if it is invalid.
pub(crate) fn split_authority(value: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let end = match value {
        [b'[', ..] => memchr::memchr(b']', value)? + 1,
        _ => reg_name_length(value),
    };
    let (host, rest) = value.split_at(end);
    if let [b'[', address @ .., b']'] = host
        && !is_ip_literal(address)
    {
        return None;
    }
    match rest {
        [] => Some((host, None)),
        [b':', port @ ..] if is_port(port) => Some((host, Some(port))),
        _ => None,
    }
}

/// Whether a Host field may have this value: a non-empty host and an optional port.
#[must_use]
pub fn is_host(value: &[u8]) -> bool {
    split_authority(value).is_some_and(|(host, _)| !host.is_empty())
}

/// Whether the text between brackets is an IPv6 address or an address of a later IP version (RFC 3986 §3.2.2).
fn is_ip_literal(address: &[u8]) -> bool {
    let is_ipv6 = || std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    is_ipv6() || is_ip_future(address)
}

/// Whether the address matches `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`. No such IP version exists, but the
/// syntax is valid.
fn is_ip_future(address: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = address else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_text = |byte: &u8| *byte == b':' || REG_NAME[usize::from(*byte)];
    matches!(&rest[digits..], [b'.', text @ ..] if digits > 0 && !text.is_empty() && text.iter().all(is_text))
}

/// Returns the length of the name at the start of `value` (RFC 3986 §3.2.2): unreserved, sub-delims and percent-encoded
/// bytes.
fn reg_name_length(value: &[u8]) -> usize {
    let mut length = 0;
    loop {
        length += value[length..].iter().take_while(|byte| REG_NAME[usize::from(**byte)]).count();
        match value[length..] {
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => length += 3,
            _ => return length,
        }
    }
}

/// The characters of a name that need no encoding: unreserved and sub-delims.
static REG_NAME: [bool; 256] = alphanumeric_and(b"-._~!$&'()*+,;=");

/// Whether the text is a port: empty (RFC 3986 §3.2.3), or a decimal number of at most 16 bits.
fn is_port(port: &[u8]) -> bool {
    port.is_empty() || parse_digits(port).is_some_and(|port| u16::try_from(port).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_an_optional_port() {
        let split = |value: &'static str| split_authority(value.as_bytes()).expect(value);
        let text = |part: &'static [u8]| std::str::from_utf8(part).unwrap();
        let valid = [
            ("", "", None),
            ("a.example", "a.example", None),
            ("a.example:8080", "a.example", Some("8080")),
            ("a:", "a", Some("")),
            (":80", "", Some("80")),
            ("[::1]", "[::1]", None),
            ("[::ffff:1.2.3.4]:65535", "[::ffff:1.2.3.4]", Some("65535")),
            ("[v1.fe:x]", "[v1.fe:x]", None),
            ("[VF.a!b]:80", "[VF.a!b]", Some("80")),
            ("caf%C3%A9", "caf%C3%A9", None),
            ("a_b~!$&'()*+,;=", "a_b~!$&'()*+,;=", None),
        ];
        for (value, host, port) in valid {
            let found = split(value);
            assert_eq!((text(found.0), found.1.map(text)), (host, port), "{value}");
        }
    }

    #[test]
    fn invalid_authorities_are_rejected() {
        let invalid: [&[u8]; 23] = [
            b"a:65536",
            b"a:+1",
            b"a:1:2",
            b"a:x",
            b"u@a",
            b"a b",
            b"a/b",
            b"a?b",
            b"a#b",
            b"%",
            b"%4",
            b"%zz",
            b"[::1",
            b"[]",
            b"[::1]a",
            b"[fe80::1%25eth0]",
            b"[v]",
            b"[v1]",
            b"[v1.]",
            b"[v.a]",
            b"[vg.a]",
            b"[v1.a@b]",
            b"\xc3\xa4",
        ];
        for value in invalid {
            assert_eq!(split_authority(value), None, "{}", value.escape_ascii());
        }
    }
}
