//! Tells the upstream about the client: `X-Forwarded-*`, `Forwarded` (RFC 7239) and `Client-Cert` (RFC 9440).
//!
//! An application trusts these fields, so those of a client are removed, and those of a trusted proxy are continued.

use std::fmt::Write as _;

use http::header::{FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::Scheme;
use rudy_net::{Client, Peer};

use crate::digits::{IP_BYTES_MAX, write_ip};

static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static CERTIFICATE: HeaderName = HeaderName::from_static("client-cert");
static CERTIFICATE_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");

/// Sets the fields about the client. `with_forwarded` adds `Forwarded`.
pub(super) fn set_forwarded(fields: &mut HeaderMap, client: &Client<'_>, with_forwarded: bool) {
    let host = fields.get(HOST).cloned();
    // One pass over the names costs less than a lookup of each, and most requests have none.
    if !fields.keys().any(|name| may_be_ours(name.as_str())) {
        return set_first(fields, client, with_forwarded, host);
    }
    remove_other_spellings(fields);
    let is_trusted = client.forwarded.is_some();
    let given = |fields: &mut HeaderMap, name: &HeaderName| {
        let given = if is_trusted { join(fields, name) } else { None };
        fields.remove(name);
        given
    };
    let (list, elements) = (given(fields, &FOR), given(fields, &FORWARDED));
    set(fields, &FOR, append(list, address(client.peer)));
    if with_forwarded {
        set(fields, &FORWARDED, append(elements, Some(element(client, host.as_ref()))));
    }
    fields.insert(&PROTO, scheme(&client.scheme()));
    let forwarded_host = fields.remove(&FORWARDED_HOST).filter(|_| is_trusted);
    if let Some(host) = forwarded_host.or(host) {
        fields.insert(&FORWARDED_HOST, host);
    }
    set_certificate(fields, client);
}

/// Whether a name begins as one of those above, in one of its spellings.
fn may_be_ours(name: &str) -> bool {
    matches!(name.as_bytes(), [b'x', b'-' | b'_', b'f', ..] | [b'f', b'o', b'r', ..] | [b'c', b'l', b'i', ..])
}

/// Sets the fields of a request that has none of them.
fn set_first(fields: &mut HeaderMap, client: &Client<'_>, with_forwarded: bool, host: Option<HeaderValue>) {
    if let Some(address) = address_value(client.peer) {
        fields.insert(&FOR, address);
    }
    if with_forwarded {
        set(fields, &FORWARDED, Some(element(client, host.as_ref())));
    }
    fields.insert(&PROTO, scheme(&client.scheme()));
    if let Some(host) = host {
        fields.insert(&FORWARDED_HOST, host);
    }
    insert_certificate(fields, client);
}

/// Removes fields that many applications cannot tell from those above: CGI and WSGI turn hyphens into underscores.
fn remove_other_spellings(fields: &mut HeaderMap) {
    let is_ours = |name: &HeaderName| {
        let dashed = name.as_str().replace('_', "-");
        dashed.starts_with("x-forwarded-") || dashed.starts_with("client-cert") || dashed == "forwarded"
    };
    let similar: Vec<_> =
        fields.keys().filter(|name| name.as_str().contains('_') && is_ours(name)).cloned().collect();
    for name in similar {
        fields.remove(name);
    }
}

/// Joins the lines of a list (RFC 9110 §5.3). They are bytes: a client may send any in its part of a line, to the end of which the
/// trusted proxy appends the address.
fn join(fields: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines = fields.get_all(name).iter().map(HeaderValue::as_bytes).filter(|line| !line.is_empty());
    let joined = lines.collect::<Vec<_>>().join(&b", "[..]);
    (!joined.is_empty()).then_some(joined)
}

fn append(list: Option<Vec<u8>>, member: Option<String>) -> Option<Vec<u8>> {
    match (list, member) {
        (Some(list), Some(member)) => Some([&list, &b", "[..], member.as_bytes()].concat()),
        (list, member) => list.or(member.map(String::into_bytes)),
    }
}

fn set(fields: &mut HeaderMap, name: &HeaderName, value: Option<impl Into<Vec<u8>>>) {
    // Parts of valid fields, and numbers.
    if let Some(value) = value.and_then(|value| HeaderValue::try_from(value.into()).ok()) {
        fields.insert(name, value);
    }
}

/// The address of the peer; `None` for a Unix socket.
fn address(peer: Peer) -> Option<String> {
    peer.ip().map(|ip| ip.to_string())
}

/// As [`address`], with a single allocation.
fn address_value(peer: Peer) -> Option<HeaderValue> {
    let mut text = [0; IP_BYTES_MAX];
    let mut rest = &mut text[..];
    write_ip(peer.ip()?, &mut rest).ok()?;
    let length = IP_BYTES_MAX - rest.len();
    HeaderValue::from_bytes(&text[..length]).ok()
}

/// The element of `Forwarded` for this hop.
fn element(client: &Client<'_>, host: Option<&HeaderValue>) -> String {
    let mut element = match client.peer.ip() {
        Some(ip) if ip.is_ipv6() => format!("for=\"[{ip}]\""),
        Some(ip) => format!("for={ip}"),
        None => "for=unknown".to_owned(),
    };
    // A host with a port is no token. A valid host is ASCII, and has no quotation mark and no backslash.
    if let Some(host) = host.and_then(|host| host.to_str().ok()).filter(|host| !host.contains(['"', '\\'])) {
        let _ = write!(element, ";host=\"{host}\"");
    }
    let _ = write!(element, ";proto={}", client.scheme());
    element
}

fn scheme(scheme: &Scheme) -> HeaderValue {
    HeaderValue::from_static(if *scheme == Scheme::HTTPS { "https" } else { "http" })
}

/// Replaces the certificate of the client.
fn set_certificate(fields: &mut HeaderMap, client: &Client<'_>) {
    fields.remove(&CERTIFICATE);
    fields.remove(&CERTIFICATE_CHAIN);
    insert_certificate(fields, client);
}

/// Adds the certificate of the client, if its site passes certificates on: as a byte sequence (RFC 9440 §2.2).
fn insert_certificate(fields: &mut HeaderMap, client: &Client<'_>) {
    let certificate = client.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref());
    let Some(pem) = certificate.and_then(|certificate| certificate.pem.as_ref()) else { return };
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    set(fields, &CERTIFICATE, Some(format!(":{base64}:")));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rudy_net::Forwarded;

    use super::*;

    fn forwarded(given: &[(&'static str, &'static str)], client: &Client<'_>) -> Vec<String> {
        let mut fields = HeaderMap::new();
        for (name, value) in given {
            fields.append(*name, HeaderValue::from_static(value));
        }
        set_forwarded(&mut fields, client, true);
        let mut lines: Vec<_> = fields
            .iter()
            .filter(|(name, _)| **name != HOST)
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    fn client(peer: Peer) -> Client<'static> {
        Client::new(peer, 1, 1)
    }

    const PEER: Peer = Peer::Ip(std::net::SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)),
        40000,
    ));

    #[test]
    fn fields_of_an_untrusted_client_are_replaced() {
        let spoofed = [
            ("host", "a.example:8080"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("x_forwarded_for", "127.0.0.1"),
            ("forwarded", "for=127.0.0.1"),
            ("client-cert", ":AAAA:"),
            ("client-cert-chain", ":AAAA:"),
            ("client_cert", ":AAAA:"),
        ];
        assert_eq!(
            forwarded(&spoofed, &client(PEER)),
            [
                "forwarded: for=192.0.2.7;host=\"a.example:8080\";proto=http",
                "x-forwarded-for: 192.0.2.7",
                "x-forwarded-host: a.example:8080",
                "x-forwarded-proto: http",
            ]
        );
        assert_eq!(
            forwarded(&[("x-forwarded-for", "127.0.0.1")], &client(Peer::Unix)),
            ["forwarded: for=unknown;proto=http", "x-forwarded-proto: http"]
        );
    }

    #[test]
    fn the_list_of_a_trusted_proxy_is_continued() {
        let forwarded_client = Forwarded {
            address: Peer::Ip(([198, 51, 100, 1], 0).into()),
            scheme: Some(Scheme::HTTPS),
            host: None,
        };
        let client = Client { forwarded: Some(Arc::new(forwarded_client)), ..client(PEER) };
        let given = [
            ("host", "inner.example"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "outer.example"),
        ];
        assert_eq!(
            forwarded(&given, &client),
            [
                "forwarded: for=192.0.2.7;host=\"inner.example\";proto=https",
                "x-forwarded-for: 203.0.113.9, 198.51.100.1, 192.0.2.7",
                "x-forwarded-host: outer.example",
                "x-forwarded-proto: https",
            ]
        );
    }

    #[test]
    fn no_byte_of_a_client_hides_what_trusted_proxies_append() {
        let forwarded_client =
            Forwarded { address: Peer::Ip(([203, 0, 113, 9], 0).into()), scheme: None, host: None };
        let client = Client { forwarded: Some(Arc::new(forwarded_client)), ..client(PEER) };
        for (name, odd, own) in [
            (&FOR, &b"\xff"[..], &b"203.0.113.9"[..]),
            (&FOR, b"caf\xc3\xa9, 127.0.0.1", b"203.0.113.9"),
            (&FOR, b"\t\x80", b"203.0.113.9, 10.0.0.1"),
            (&FORWARDED, b"for=\"\xe9\"", b"for=203.0.113.9"),
        ] {
            // In the same line, and in another one.
            for lines in [vec![[odd, own].join(&b", "[..])], vec![odd.to_vec(), own.to_vec()]] {
                let mut fields = HeaderMap::new();
                for line in &lines {
                    fields.append(name, HeaderValue::from_bytes(line).unwrap());
                }
                set_forwarded(&mut fields, &client, true);
                let expected = [&lines.join(&b", "[..]), &b", "[..]].concat();
                let value = fields[name].as_bytes();
                assert!(value.starts_with(&expected) && value[expected.len()..].contains(&b'7'), "{value:?}");
            }
        }
    }
}
