//! Tells the upstream about the client: `X-Forwarded-*`, `Forwarded` (RFC 7239) and `Client-Cert` (RFC 9440).
//!
//! An application trusts these fields, so those of a client are removed, and those of a trusted proxy are continued.

use std::fmt::Write as _;
use std::net::IpAddr;

use http::header::{FORWARDED, HOST, HeaderName, HeaderValue};
use http::uri::Scheme;
use rudy_message::LazyHead;
use rudy_message::semantics::field::{KnownField, NameStarts};
use rudy_pipeline::digits::{IP_BYTES_MAX, write_ip};
use rudy_service::{Client, Peer};

static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static CERTIFICATE: HeaderName = HeaderName::from_static("client-cert");
static CERTIFICATE_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");

/// How the names begin, in all spellings.
const STARTS: NameStarts = NameStarts::of(&["forwarded", "x-forwarded-", "client-cert"]);

/// Sets the fields about the client. `with_forwarded` adds `Forwarded`.
pub(super) fn set_forwarded(head: &mut LazyHead<'_>, client: &Client<'_>, with_forwarded: bool) {
    // One pass over the names costs less than a lookup of each, and most requests have none.
    if !head.may_have_any(STARTS) || !head.fields().any(|(name, _)| may_be_ours(name)) {
        return set_first(head, client, with_forwarded);
    }
    let host = head.value(&HOST);
    remove_other_spellings(head);
    let is_trusted = client.forwarded.is_some();
    let given = |head: &mut LazyHead<'_>, name: &HeaderName| {
        let given = if is_trusted { join(head, name) } else { None };
        head.remove(name);
        given
    };
    let (list, elements) = (given(head, &FOR), given(head, &FORWARDED));
    add(head, &FOR, append(list, address(client.peer)));
    if with_forwarded {
        add(head, &FORWARDED, append(elements, Some(element(client, host.as_ref()))));
    }
    head.set(PROTO.clone(), HeaderValue::from_static(scheme(&client.scheme())));
    // That of a trusted proxy is the host already, if it may report one.
    head.remove(&FORWARDED_HOST);
    if let Some(host) = host {
        head.add(FORWARDED_HOST.clone(), host);
    }
    head.remove(&CERTIFICATE);
    head.remove(&CERTIFICATE_CHAIN);
    add_certificate(head, client);
}

/// Whether a name begins as one of those above, in one of its spellings.
fn may_be_ours(name: &[u8]) -> bool {
    let Some(start) = name.first_chunk() else { return false };
    matches!(
        start.map(|byte: u8| byte.to_ascii_lowercase()),
        [b'x', b'-' | b'_', b'f'] | [b'f', b'o', b'r'] | [b'c', b'l', b'i']
    )
}

/// Sets the fields of a request that has none of them.
fn set_first(head: &mut LazyHead<'_>, client: &Client<'_>, with_forwarded: bool) {
    if let Some(ip) = client.peer.ip() {
        add_ip(head, ip);
    }
    if with_forwarded {
        add(head, &FORWARDED, Some(element(client, head.value(&HOST).as_ref())));
    }
    head.add_text(&PROTO, scheme(&client.scheme()).as_bytes());
    head.add_copy(&FORWARDED_HOST, KnownField::Host);
    add_certificate(head, client);
}

/// Adds an address, without an allocation.
fn add_ip(head: &mut LazyHead<'_>, ip: IpAddr) {
    let mut text = [0; IP_BYTES_MAX];
    let mut rest = &mut text[..];
    // It has room for the longest.
    let _ = write_ip(ip, &mut rest);
    let length = IP_BYTES_MAX - rest.len();
    head.add_text(&FOR, &text[..length]);
}

/// Removes fields that many applications cannot tell from those above: CGI and WSGI turn hyphens into underscores.
fn remove_other_spellings(head: &mut LazyHead<'_>) {
    head.remove_if(|name| {
        let dashed = String::from_utf8_lossy(name).to_ascii_lowercase().replace('_', "-");
        let is_ours =
            dashed.starts_with("x-forwarded-") || dashed.starts_with("client-cert") || dashed == "forwarded";
        is_ours && name.contains(&b'_')
    });
}

/// Joins the lines of a list (RFC 9110 §5.3). They are bytes: a client may send any in its part of a line, to the end of which the
/// trusted proxy appends the address.
fn join(head: &LazyHead<'_>, name: &HeaderName) -> Option<Vec<u8>> {
    let joined = head.get_all(name).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(&b", "[..]);
    (!joined.is_empty()).then_some(joined)
}

fn append(list: Option<Vec<u8>>, member: Option<String>) -> Option<Vec<u8>> {
    match (list, member) {
        (Some(list), Some(member)) => Some([&list, &b", "[..], member.as_bytes()].concat()),
        (list, member) => list.or(member.map(String::into_bytes)),
    }
}

fn add(head: &mut LazyHead<'_>, name: &HeaderName, value: Option<impl Into<Vec<u8>>>) {
    // Parts of valid fields, and numbers.
    if let Some(value) = value.and_then(|value| HeaderValue::try_from(value.into()).ok()) {
        head.add(name.clone(), value);
    }
}

/// The address of the peer; `None` for a Unix socket.
fn address(peer: Peer) -> Option<String> {
    peer.ip().map(|ip| ip.to_string())
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

fn scheme(scheme: &Scheme) -> &'static str {
    if *scheme == Scheme::HTTPS { "https" } else { "http" }
}

/// Adds the certificate of the client, if its site passes certificates on: as a byte sequence (RFC 9440 §2.2).
fn add_certificate(head: &mut LazyHead<'_>, client: &Client<'_>) {
    let certificate = client.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref());
    let Some(pem) = certificate.and_then(|certificate| certificate.pem.as_ref()) else { return };
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    add(head, &CERTIFICATE, Some(format!(":{base64}:")));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rudy_service::Forwarded;

    use super::*;

    fn forwarded(given: &[(&'static str, &'static str)], client: &Client<'_>) -> Vec<String> {
        let mut head = LazyHead::default();
        for (name, value) in given {
            head.add(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        set_forwarded(&mut head, client, true);
        let mut lines: Vec<_> = head
            .headers()
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

    const PEER: Peer =
        Peer::Ip(std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)), 40000));

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
            ("x-forwarded-host", "evil.example"),
        ];
        assert_eq!(
            forwarded(&given, &client),
            [
                "forwarded: for=192.0.2.7;host=\"inner.example\";proto=https",
                "x-forwarded-for: 203.0.113.9, 198.51.100.1, 192.0.2.7",
                "x-forwarded-host: inner.example",
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
                let mut head = LazyHead::default();
                for line in &lines {
                    head.add(name.clone(), HeaderValue::from_bytes(line).unwrap());
                }
                set_forwarded(&mut head, &client, true);
                let expected = [&lines.join(&b", "[..]), &b", "[..]].concat();
                let value = head.get(name).unwrap();
                assert!(value.starts_with(&expected) && value[expected.len()..].contains(&b'7'), "{value:?}");
            }
        }
    }
}
