//! The client of a proxied request: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy appends an element to these lists, so they are parsed from the right: elements forged by a client are on the
//! left. An unclosed quotation mark of a client then cannot hide the elements after it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::syntax::{is_token, parse_digits};

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// An address, and the port if there is one. An IPv4-mapped IPv6 address is converted to IPv4.
    Address(IpAddr, Option<u16>),
    /// `unknown`, or an identifier instead of an address (RFC 7239 §6.2, §6.3).
    Hidden,
}

impl Node {
    /// Parses a member of `X-Forwarded-For`. No standard defines the field. It accepts addresses with or without ports, IPv6
    /// addresses with or without brackets, and `unknown`. `None` for anything else.
    #[must_use]
    pub fn from_x_forwarded_for(member: &[u8]) -> Option<Self> {
        let bare = || Some(Self::Address(parse_address::<Ipv6Addr>(member)?, None));
        Self::parse(member).or_else(bare)
    }

    /// Parses a `node` (RFC 7239 §6).
    fn parse(text: &[u8]) -> Option<Self> {
        let (name, port) = if let [b'[', rest @ ..] = text {
            let end = memchr::memchr(b']', rest)?;
            (Some(parse_address::<Ipv6Addr>(&rest[..end])?), &rest[end + 1..])
        } else {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            let address = parse_address::<Ipv4Addr>(&text[..end]);
            if address.is_none() && !is_hidden(&text[..end]) {
                return None;
            }
            (address, &text[end..])
        };
        let port = match port {
            [] => None,
            [b':', b'_', ..] if is_obfuscated(&port[1..]) => None,
            [b':', digits @ ..] if digits.len() <= 5 => Some(u16::try_from(parse_digits(digits)?).ok()?),
            _ => return None,
        };
        Some(name.map_or(Self::Hidden, |address| Self::Address(address, port)))
    }
}

fn parse_address<A: std::str::FromStr + Into<IpAddr>>(text: &[u8]) -> Option<IpAddr> {
    let address: A = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.into().to_canonical())
}

fn is_hidden(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"unknown") || is_obfuscated(name)
}

/// Whether the name is an `obfnode` or `obfport` (RFC 7239 §6.3).
fn is_obfuscated(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    matches!(name, [b'_', rest @ ..] if !rest.is_empty() && rest.iter().all(is_letter))
}

/// An element of `Forwarded`, from one proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element<'a> {
    /// `for`: the sender of the request to this proxy.
    pub node: Option<Node>,
    /// `proto`: the scheme of the request to this proxy.
    pub proto: Option<Cow<'a, [u8]>>,
    /// `host`: the Host field of the request to this proxy.
    pub host: Option<Cow<'a, [u8]>>,
}

/// The error for an invalid element or node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Returns the elements of one `Forwarded` line from the last to the first, without empty ones (RFC 9110 §5.6.1).
pub fn elements_from_right(value: &[u8]) -> impl Iterator<Item = Result<Element<'_>, Malformed>> {
    let mut rest = Some(value);
    let members = std::iter::from_fn(move || {
        let value = rest?;
        let comma = last_comma(value);
        rest = comma.map(|comma| &value[..comma]);
        Some(value[comma.map_or(0, |comma| comma + 1)..].trim_ascii())
    });
    members.filter(|member| !member.is_empty()).map(parse_element)
}

/// Returns the position of the last comma outside of quoted strings. Within a quoted string, an odd number of backslashes
/// precedes each quotation mark. None precedes the mark at its start, which follows `=`.
fn last_comma(value: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for at in memchr::memrchr2_iter(b'"', b',', value) {
        let is_escaped = || value[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        match value[at] {
            b',' if !is_quoted => return Some(at),
            b'"' if !is_quoted => is_quoted = true,
            b'"' if !is_escaped() => is_quoted = false,
            _ => {}
        }
    }
    None
}

/// Parses `[ forwarded-pair ] *( ";" [ forwarded-pair ] )` (RFC 7239 §4). It also accepts white space around the semicolons,
/// which the RFC does not allow but some proxies send.
fn parse_element(mut rest: &[u8]) -> Result<Element<'_>, Malformed> {
    let mut element = Element::default();
    while !rest.is_empty() {
        if let [b';', after @ ..] = rest {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|byte| !is_token(*byte)).ok_or(Malformed)?;
        let (name, [b'=', value @ ..]) = rest.split_at(equals) else { return Err(Malformed) };
        let (value, after) = parse_value(value).ok_or(Malformed)?;
        rest = after.trim_ascii_start();
        if name.is_empty() || !matches!(rest, [] | [b';', ..]) {
            return Err(Malformed);
        }
        element.set(name, value)?;
    }
    Ok(element)
}

impl<'a> Element<'a> {
    /// Sets a parameter, which must not occur twice (RFC 7239 §4). Ignores unknown parameters.
    fn set(&mut self, name: &[u8], value: Cow<'a, [u8]>) -> Result<(), Malformed> {
        let is_repeated = if name.eq_ignore_ascii_case(b"for") {
            self.node.replace(Node::parse(&value).ok_or(Malformed)?).is_some()
        } else if name.eq_ignore_ascii_case(b"proto") {
            self.proto.replace(value).is_some()
        } else if name.eq_ignore_ascii_case(b"host") {
            self.host.replace(value).is_some()
        } else {
            false
        };
        if is_repeated { Err(Malformed) } else { Ok(()) }
    }
}

/// Parses a token or a quoted string (RFC 9110 §5.6.4). Returns the value and the rest.
fn parse_value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let [b'"', quoted @ ..] = text else {
        let end = text.iter().position(|byte| !is_token(*byte)).unwrap_or(text.len());
        return (end > 0).then(|| (Cow::Borrowed(&text[..end]), &text[end..]));
    };
    let end = memchr::memchr2(b'"', b'\\', quoted)?;
    if quoted[end] == b'"' {
        return Some((Cow::Borrowed(&quoted[..end]), &quoted[end + 1..]));
    }
    let mut value = Vec::new();
    let mut rest = quoted;
    loop {
        match rest {
            [b'"', after @ ..] => return Some((Cow::Owned(value), after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str, port: Option<u16>) -> Node {
        Node::Address(text.parse().unwrap(), port)
    }

    #[test]
    fn a_node_is_an_address_or_hidden() {
        for (text, expected) in [
            ("192.0.2.43", address("192.0.2.43", None)),
            ("192.0.2.43:47011", address("192.0.2.43", Some(47011))),
            ("[2001:db8:cafe::17]", address("2001:db8:cafe::17", None)),
            ("[2001:db8:cafe::17]:4711", address("2001:db8:cafe::17", Some(4711))),
            ("[::ffff:192.0.2.1]:1", address("192.0.2.1", Some(1))),
            ("192.0.2.43:_port", address("192.0.2.43", None)),
            ("unknown", Node::Hidden),
            ("UNKNOWN:80", Node::Hidden),
            ("_gazonk", Node::Hidden),
            ("_S.1-x_:_p", Node::Hidden),
        ] {
            assert_eq!(Node::parse(text.as_bytes()), Some(expected), "{text}");
            assert_eq!(Node::from_x_forwarded_for(text.as_bytes()), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("2001:db8::1", address("2001:db8::1", None)),
            ("::1", address("::1", None)),
            ("::ffff:10.0.0.1", address("10.0.0.1", None)),
        ] {
            assert_eq!(Node::from_x_forwarded_for(text.as_bytes()), Some(expected), "{text}");
            assert_eq!(Node::parse(text.as_bytes()), None, "{text} needs brackets");
        }
    }

    #[test]
    fn other_text_is_not_a_node() {
        for text in [
            "",
            "_",
            "_a b",
            "localhost",
            "192.0.2",
            "192.0.2.043",
            "192.0.2.256",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "192.0.2.1:000080",
            "192.0.2.1:+80",
            "192.0.2.1:80:80",
            "192.0.2.1/24",
            "[192.0.2.1]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:",
            "[fe80::1%eth0]",
            "fe80::1%eth0",
            "-",
            "192.0.2.1 10.0.0.1",
        ] {
            assert_eq!(Node::from_x_forwarded_for(text.as_bytes()), None, "{text}");
        }
    }

    /// Returns the elements from the right as text: `for`, `proto` and `host`, or `!` for a malformed one.
    fn read(value: &str) -> Vec<String> {
        let text = |value: &Option<Cow<'_, [u8]>>| {
            value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
        };
        let show = |element: Result<Element<'_>, Malformed>| match element {
            Ok(Element { node, proto, host }) => {
                let node = match node {
                    Some(Node::Address(address, None)) => address.to_string(),
                    Some(Node::Address(address, Some(port))) => format!("{address} {port}"),
                    Some(Node::Hidden) => "hidden".to_owned(),
                    None => "none".to_owned(),
                };
                format!("{node}|{}|{}", text(&proto), text(&host))
            }
            Err(Malformed) => "!".to_owned(),
        };
        elements_from_right(value.as_bytes()).map(show).collect()
    }

    #[test]
    fn elements_are_returned_from_the_right() {
        for (value, expected) in [
            ("for=192.0.2.43, for=198.51.100.17", &["198.51.100.17||", "192.0.2.43||"][..]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17 4711||"]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60|http|"]),
            ("for=192.0.2.60; proto=http ; host=\"a.org:80\"", &["192.0.2.60|http|a.org:80"]),
            ("PROTO=HTTPS;FOR=_x", &["hidden|HTTPS|"]),
            ("for=\"_gazonk\"", &["hidden||"]),
            ("by=\"_a\";secret=\"a,b;\\\"c\", for=10.0.0.1", &["10.0.0.1||", "none||"]),
            (";for=10.0.0.1;;", &["10.0.0.1||"]),
            (" , for=10.0.0.1,, ", &["10.0.0.1||"]),
            ("host=\"a\\.org\"", &["none||a.org"]),
            ("x=\"\\\\\", for=10.0.0.1", &["10.0.0.1||", "none||"]),
            ("", &[]),
        ] {
            assert_eq!(read(value), expected, "{value}");
        }
    }

    #[test]
    fn invalid_elements_are_malformed() {
        for value in [
            "for",
            "for=",
            "=a",
            "for =10.0.0.1",
            "for= 10.0.0.1",
            "for=10.0.0.1 proto=http",
            "for=10.0.0.1:80",
            "for=[::1]",
            "for=\"::1\"",
            "for=\"10.0.0.1",
            "for=\"10.0.0.1\"x",
            "for=10.0.0.1;FOR=10.0.0.2",
            "proto=http;proto=https",
            "host=a;host=b",
            "for=localhost",
            "for=\"\"",
            "\"for\"=10.0.0.1",
            "for=\"a\\",
            "10.0.0.1",
        ] {
            assert_eq!(read(value), ["!"], "{value}");
        }
    }

    #[test]
    fn unclosed_quotes_of_a_client_do_not_affect_the_element_of_a_proxy() {
        for forged in [
            "for=\"",
            "for=\"a\\",
            "\"",
            "\\\"",
            "\\",
            "for=10.0.0.1;x=\"\\",
            "for=\"_a\";y=\"\\\"",
            "=\"\"\"",
            ",",
        ] {
            for added in ["for=203.0.113.7", "for=\"203.0.113.7\"", "for=203.0.113.7;x=\"a,\\\"b\""] {
                assert_eq!(read(&format!("{forged}, {added}"))[0], "203.0.113.7||", "{forged} {added}");
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_before_the_last_element_do_not_change_it(
            forged in proptest::collection::vec(proptest::sample::select(b"\"\\,;=for_.a1: ".to_vec()), 0..40),
        ) {
            let value = [&forged[..], b", for=\"[2001:db8::7]:80\";proto=https"].concat();
            let last = elements_from_right(&value).next().unwrap().unwrap();
            prop_assert_eq!(last.node, Some(address("2001:db8::7", Some(80))));
            prop_assert_eq!(last.proto.as_deref(), Some(&b"https"[..]));
            // The iterator ends for any input.
            prop_assert!(elements_from_right(&value).count() <= forged.len() + 1);
        }
    }
}
