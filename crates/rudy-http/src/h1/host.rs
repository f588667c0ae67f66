//! `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2).

/// The parts of a valid authority without user information: the host, which may be empty, and the port, if there is a
/// colon before it.
pub(super) fn split_authority(value: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let end = match value {
        [b'[', ..] => memchr::memchr(b']', value)? + 1,
        _ => memchr::memchr(b':', value).unwrap_or(value.len()),
    };
    let (host, rest) = value.split_at(end);
    let is_valid = match host {
        [b'[', address @ .., b']'] => is_ip_literal(address),
        _ => is_reg_name(host),
    };
    let port = match rest {
        [] => None,
        [b':', port @ ..] if is_port(port) => Some(port),
        _ => return None,
    };
    is_valid.then_some((host, port))
}

/// What lies between the brackets: an IPv6 address. (`IPvFuture` of RFC 3986 §3.2.2 has never had a use.)
fn is_ip_literal(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
}

/// RFC 3986 §3.2.2: unreserved, sub-delims, and escapes of two digits.
fn is_reg_name(mut name: &[u8]) -> bool {
    while let [first, rest @ ..] = name {
        name = match (first, rest) {
            (b'%', [high, low, rest @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            (byte, rest) if byte.is_ascii_alphanumeric() || is_mark(*byte) => rest,
            _ => return false,
        };
    }
    true
}

/// The characters besides letters and digits. A pattern and not a search in a string: this is asked for characters of every
/// request's Host.
fn is_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'-' | b'.'
            | b'_'
            | b'~'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
    )
}

/// RFC 3986 §3.2.3: digits, perhaps none. What does not fit 16 bits names no port.
fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    digits && (port.is_empty() || std::str::from_utf8(port).is_ok_and(|text| text.parse::<u16>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
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
            ("caf%C3%A9", "caf%C3%A9", None),
            ("a_b~!$&'()*+,;=", "a_b~!$&'()*+,;=", None),
        ];
        for (value, host, port) in valid {
            let found = split(value);
            assert_eq!((text(found.0), found.1.map(text)), (host, port), "{value}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        let invalid: [&[u8]; 17] = [
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
            b"\xc3\xa4",
        ];
        for value in invalid {
            assert_eq!(split_authority(value), None, "{}", value.escape_ascii());
        }
    }
}
