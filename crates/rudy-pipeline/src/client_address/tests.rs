//! The client address, with forged fields. 10.0.0.0/8, `2001:db8:a::/48` and Unix sockets are trusted.

use std::time::Instant;

use rudy_http::h1::{Event, ServerConnection};
use rudy_service::RequestBody;

use super::*;

const PROXY: &str = "10.0.0.1:5000";
const UNKNOWN: &str = "unknown client of 10.0.0.1";

fn options(source: AddressField) -> Options {
    let trusted_proxies =
        ["10.0.0.0/8", "2001:db8:a::/48", "unix"].map(|proxy| proxy.parse().unwrap()).to_vec();
    Options { trusted_proxies, source, trust_host: true }
}

fn trusted(options: &Options) -> TrustedProxies {
    TrustedProxies::new(options, &WatchedFiles::default(), &mut Vec::new())
}

fn ip(address: &str) -> Peer {
    Peer::Ip(address.parse().unwrap())
}

/// The result for a request of `peer` with these field lines.
fn forwarded(options: &Options, peer: Peer, fields: &str) -> Option<Forwarded> {
    let head = format!("GET / HTTP/1.1\r\nHost: own\r\n{}\r\n", fields.replace('\n', "\r\n"));
    let now = Instant::now();
    match ServerConnection::new(now).receive(head.as_bytes(), now, &rudy_http::Limits::default()) {
        Ok(Some(Event::Request(head))) => trusted(options).forwarded(&head, &peer),
        other => panic!("no head of a request: {other:?}"),
    }
}

/// The client as text.
fn client(source: AddressField, peer: &str, fields: &str) -> String {
    let peer = ip(peer);
    forwarded(&options(source), peer, fields).map_or(peer, |forwarded| forwarded.address).to_string()
}

/// Values of `X-Forwarded-For` with the resulting client. Each is also tried as `Forwarded`.
const CHAINS: &[(&str, &str)] = &[
    // One proxy, and two.
    ("203.0.113.7", "203.0.113.7"),
    ("203.0.113.7, 10.0.0.2", "203.0.113.7"),
    ("203.0.113.7, 10.0.0.2, 10.0.0.3", "203.0.113.7"),
    // A forged address is to the left of the one that the first proxy adds.
    ("1.1.1.1, 203.0.113.7", "203.0.113.7"),
    ("127.0.0.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
    ("10.0.0.9, 203.0.113.7", "203.0.113.7"),
    ("203.0.113.7, 10.0.0.9, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
    ("unknown, 203.0.113.7", "203.0.113.7"),
    ("nonsense;\"\\, 203.0.113.7", "203.0.113.7"),
    ("\u{e9}, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
    // If all are trusted, the leftmost is the client.
    ("10.0.0.9, 10.0.0.2", "10.0.0.9"),
    ("10.0.0.2", "10.0.0.2"),
    // An element without an address ends the search at the proxy that added it.
    ("unknown", "unknown client of 10.0.0.1"),
    ("203.0.113.7, unknown", "unknown client of 10.0.0.1"),
    ("203.0.113.7, unknown, 10.0.0.2", "unknown client of 10.0.0.2"),
    ("203.0.113.7, _hidden, 10.0.0.2", "unknown client of 10.0.0.2"),
    ("203.0.113.7, 10.0.0.256", "unknown client of 10.0.0.1"),
    ("203.0.113.7, localhost", "unknown client of 10.0.0.1"),
    // IPv6, and IPv4 mapped to it.
    ("2001:db8:b::7", "2001:db8:b::7"),
    ("203.0.113.7, 2001:db8:a::2", "203.0.113.7"),
    ("203.0.113.7, ::ffff:10.0.0.2", "203.0.113.7"),
    ("::ffff:203.0.113.7, 10.0.0.2", "203.0.113.7"),
    ("::1, 2001:db8:b::7", "2001:db8:b::7"),
    // Empty members are skipped.
    ("203.0.113.7, , 10.0.0.2,", "203.0.113.7"),
];

/// The element of `Forwarded` for a member of `X-Forwarded-For`.
fn element(member: &str) -> String {
    match member {
        "" => String::new(),
        member if member.contains(':') => format!("for=\"[{member}]\""),
        member => format!("for={member}"),
    }
}

#[test]
fn a_chain_leads_to_the_first_address_from_the_right_that_is_not_trusted() {
    for (chain, expected) in CHAINS {
        let members: Vec<_> = chain.split(',').map(str::trim).collect();
        for separator in [", ", ",", "\t,  "] {
            let fields = format!("X-Forwarded-For: {}\n", members.join(separator));
            assert_eq!(client(AddressField::XForwardedFor, PROXY, &fields), *expected, "{fields}");
            let elements: Vec<_> = members.iter().map(|member| element(member)).collect();
            let fields = format!("Forwarded: {}\n", elements.join(separator));
            assert_eq!(client(AddressField::Forwarded, PROXY, &fields), *expected, "{fields}");
        }
    }
}

#[test]
fn several_lines_are_one_list() {
    for (chain, expected) in CHAINS {
        let members: Vec<_> = chain.split(',').map(str::trim).collect();
        let lines = |name: &str, element: fn(&str) -> String| -> String {
            let line = |member: &&str| format!("{name}: {}\nAccept: */*\n", element(member));
            members.iter().map(line).collect()
        };
        let fields = lines("x-forwarded-FOR", str::to_owned);
        assert_eq!(client(AddressField::XForwardedFor, PROXY, &fields), *expected, "{fields}");
        let fields = lines("FORWARDED", element);
        assert_eq!(client(AddressField::Forwarded, PROXY, &fields), *expected, "{fields}");
    }
}

#[test]
fn ports_are_kept_and_need_not_be_there() {
    for (member, expected) in [
        ("203.0.113.7:4711", "203.0.113.7:4711"),
        ("[2001:db8:b::7]:4711", "[2001:db8:b::7]:4711"),
        ("[2001:db8:b::7]", "2001:db8:b::7"),
        ("203.0.113.7:_p", "203.0.113.7"),
        ("203.0.113.7:0", "203.0.113.7"),
        ("203.0.113.7:65536", "unknown client of 10.0.0.1"),
    ] {
        let fields = format!("X-Forwarded-For: {member}\n");
        assert_eq!(client(AddressField::XForwardedFor, PROXY, &fields), expected, "{fields}");
        let fields = format!("Forwarded: For=\"{member}\"\n");
        assert_eq!(client(AddressField::Forwarded, PROXY, &fields), expected, "{fields}");
    }
}

#[test]
fn a_named_field_has_one_address() {
    let client = |fields: &str| client("CF-Connecting-IP".parse().unwrap(), PROXY, fields);
    for (value, expected) in [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7:4711"),
        ("2001:db8:b::7", "2001:db8:b::7"),
        ("[2001:db8:b::7]", "2001:db8:b::7"),
        ("[2001:db8:b::7]:4711", "[2001:db8:b::7]:4711"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        // Not the address of the proxy: it may be in an `allow` list.
        ("", UNKNOWN),
        ("unknown", UNKNOWN),
        ("203.0.113.7, 203.0.113.7", UNKNOWN),
        ("203.0.113.7,", UNKNOWN),
        ("203.0.113.256", UNKNOWN),
        ("[2001:db8:b::7", UNKNOWN),
        ("fe80::1%eth0", UNKNOWN),
        ("example.org", UNKNOWN),
        ("\u{e9}", UNKNOWN),
        // Another trusted proxy does not continue a list.
        ("10.0.0.9", "10.0.0.9"),
    ] {
        let field = format!("cf-connecting-ip: {value}\n");
        assert_eq!(client(&field), expected, "{field}");
        let others =
            format!("X-Forwarded-For: 1.1.1.1\n{field}Forwarded: for=1.1.1.1\nCF_Connecting_IP: 1.1.1.1\n");
        assert_eq!(client(&others), expected, "{others}");
        for more in [&*field, "CF-Connecting-IP: 198.51.100.1\n", "CF-CONNECTING-IP:\n"] {
            assert_eq!(client(&format!("{field}{more}")), UNKNOWN, "{field}{more}");
            assert_eq!(client(&format!("{more}{field}")), UNKNOWN, "{more}{field}");
        }
    }
    for others in ["", "X-Forwarded-For: 1.1.1.1\n", "X-Real-IP: 1.1.1.1\n", "CF_Connecting_IP: 1.1.1.1\n"] {
        assert_eq!(client(others), PROXY, "{others}");
    }
    let (options, field) = (options("x-real-ip".parse().unwrap()), "X-Real-IP: 203.0.113.7\n");
    let fields = format!("{field}X-Forwarded-Proto: https\nX-Forwarded-Host: a.org\n");
    let stated = forwarded(&options, Peer::Unix, &fields).unwrap();
    let host = Some(HeaderValue::from_static("a.org"));
    assert_eq!(stated, Forwarded { address: ip("203.0.113.7:0"), scheme: Some(Scheme::HTTPS), host });
    for peer in ["203.0.113.9:1", "127.0.0.1:1", "[2001:db8:b::1]:1"] {
        assert_eq!(forwarded(&options, ip(peer), &fields), None, "{peer}");
    }
}

#[test]
fn the_field_is_a_name_with_hyphens() {
    for (text, expected) in [
        ("X-Forwarded-For", AddressField::XForwardedFor),
        ("FORWARDED", AddressField::Forwarded),
        ("True-Client-IP", AddressField::Named(HeaderName::from_static("true-client-ip"))),
    ] {
        assert_eq!(text.parse(), Ok(expected));
    }
    for text in ["", "x_real_ip", "x real ip", "x-real-ip:", "x.real.ip", "$remote_addr"] {
        assert!(text.parse::<AddressField>().is_err(), "{text}");
    }
}

#[test]
fn proxies_are_addresses_files_and_sockets() {
    for text in ["192.0.2.1", "10.0.0.0/8", "2001:db8::/32", "unix", "file:cdn.txt", "file:/etc/rudy/cdn.txt"]
    {
        assert_eq!(text.parse::<TrustedProxy>().unwrap().to_string(), text);
    }
    for text in ["", "Unix", "file:", "cdn.txt", "localhost"] {
        assert!(text.parse::<TrustedProxy>().is_err(), "{text}");
    }
}

#[test]
fn fields_of_an_untrusted_peer_are_ignored() {
    const ALL: &str = "X-Forwarded-For: 198.51.100.1\nForwarded: for=198.51.100.1;proto=https;host=other\n\
        X-Forwarded-Proto: https\nX-Forwarded-Host: other\n";
    for source in [AddressField::XForwardedFor, AddressField::Forwarded] {
        for peer in ["203.0.113.7:1", "127.0.0.1:1", "[::1]:1", "11.0.0.1:1", "[2001:db8:b::1]:1"] {
            assert_eq!(forwarded(&options(source.clone()), ip(peer), ALL), None, "{peer}");
        }
        assert_eq!(forwarded(&options(source.clone()), Peer::Unnamed(Some([10, 0, 0, 1].into())), ALL), None);
        assert_eq!(
            forwarded(&Options { source: source.clone(), ..Options::default() }, ip(PROXY), ALL),
            None
        );
        // The same fields from trusted peers.
        for peer in [ip(PROXY), ip("[::ffff:10.0.0.1]:1"), ip("[2001:db8:a::1]:1"), Peer::Unix] {
            let forwarded_client = forwarded(&options(source.clone()), peer, ALL).unwrap();
            assert_eq!(
                (forwarded_client.address, forwarded_client.scheme),
                (ip("198.51.100.1:0"), Some(Scheme::HTTPS)),
                "{peer}"
            );
            assert_eq!(forwarded_client.host.unwrap(), "other");
        }
        let without_unix =
            Options { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..options(source) };
        assert_eq!(forwarded(&without_unix, Peer::Unix, ALL), None);
    }
}

#[test]
fn the_other_field_is_not_looked_at() {
    let other = "X-Forwarded-For: 198.51.100.1\nX-Forwarded-Proto: https\nX-Forwarded-Host: other\n";
    assert_eq!(forwarded(&options(AddressField::Forwarded), ip(PROXY), other), None);
    let both = format!("{other}Forwarded: for=203.0.113.7\n");
    let its_result = forwarded(&options(AddressField::Forwarded), ip(PROXY), &both).unwrap();
    assert_eq!(its_result, Forwarded { address: ip("203.0.113.7:0"), scheme: None, host: None });
    let other = "Forwarded: for=198.51.100.1;proto=https;host=other\n";
    assert_eq!(forwarded(&options(AddressField::XForwardedFor), ip(PROXY), other), None);
    for both in
        [format!("{other}X-Forwarded-For: 203.0.113.7\n"), format!("X-Forwarded-For: 203.0.113.7\n{other}")]
    {
        let its_result = forwarded(&options(AddressField::XForwardedFor), ip(PROXY), &both).unwrap();
        assert_eq!(its_result, Forwarded { address: ip("203.0.113.7:0"), scheme: None, host: None });
    }
}

#[test]
fn the_scheme_is_that_of_the_nearest_proxy_or_of_the_element_that_names_the_client() {
    let scheme = |source, fields: &str| {
        let forwarded = forwarded(&options(source), ip(PROXY), fields);
        forwarded.and_then(|forwarded| forwarded.scheme).map(|scheme| scheme.to_string()).unwrap_or_default()
    };
    for (fields, expected) in [
        ("X-Forwarded-Proto: https\n", "https"),
        ("X-Forwarded-Proto: HTTPS\n", "https"),
        ("X-Forwarded-Proto: http\n", "http"),
        ("X-Forwarded-Proto: https, http\n", "http"),
        ("X-Forwarded-Proto: https\nX-Forwarded-Proto: http\n", "http"),
        ("X-Forwarded-Proto: http, https,\n", "https"),
        ("X-Forwarded-Proto: wss\n", ""),
        ("X-Forwarded-Proto: \"https\"\n", ""),
        ("X-Forwarded-Proto:\n", ""),
        ("X-Forwarded-For: unknown\nX-Forwarded-Proto: https\n", "https"),
    ] {
        assert_eq!(scheme(AddressField::XForwardedFor, fields), expected, "{fields}");
    }
    for (fields, expected) in [
        ("Forwarded: for=203.0.113.7;proto=https\n", "https"),
        ("Forwarded: proto=\"Https\";for=203.0.113.7\n", "https"),
        ("Forwarded: for=203.0.113.7;proto=https, for=10.0.0.2;proto=http\n", "https"),
        ("Forwarded: for=203.0.113.7, for=10.0.0.2;proto=https\n", ""),
        ("Forwarded: for=1.1.1.1;proto=https, for=203.0.113.7;proto=http\n", "http"),
        ("Forwarded: for=1.1.1.1;proto=https, for=203.0.113.7\n", ""),
        ("Forwarded: for=unknown;proto=https\n", "https"),
        ("Forwarded: proto=https\n", "https"),
        ("Forwarded: for=203.0.113.7;proto=https;proto=https\n", ""),
    ] {
        assert_eq!(scheme(AddressField::Forwarded, fields), expected, "{fields}");
    }
}

#[test]
fn the_forwarded_host_is_used_only_if_configured() {
    let host = |options: &Options, fields: &str| {
        let forwarded = forwarded(options, ip(PROXY), fields);
        forwarded
            .and_then(|forwarded| forwarded.host)
            .map(|host| host.to_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    for (source, fields, expected) in [
        (AddressField::XForwardedFor, "X-Forwarded-Host: a.org:8443\n", "a.org:8443"),
        (AddressField::XForwardedFor, "X-Forwarded-Host: forged, a.org\n", "a.org"),
        (AddressField::XForwardedFor, "X-Forwarded-Host: [::1]:80\n", "[::1]:80"),
        (AddressField::XForwardedFor, "X-Forwarded-Host: a/b\n", ""),
        (AddressField::XForwardedFor, "X-Forwarded-Host: user@a\n", ""),
        (AddressField::XForwardedFor, "X-Forwarded-Host: :80\n", ""),
        (AddressField::XForwardedFor, "X-Forwarded-Host:\n", ""),
        (AddressField::Forwarded, "Forwarded: for=203.0.113.7;host=a.org\n", "a.org"),
        (
            AddressField::Forwarded,
            "Forwarded: for=203.0.113.7;host=\"a.org:80\", for=10.0.0.2;host=b\n",
            "a.org:80",
        ),
        (AddressField::Forwarded, "Forwarded: for=203.0.113.7;host=\"a b\"\n", ""),
    ] {
        assert_eq!(host(&options(source.clone()), fields), expected, "{fields}");
        let untrusting = Options { trust_host: false, ..options(source) };
        assert_eq!(host(&untrusting, fields), "", "{fields}");
    }
}

#[test]
fn a_trusted_forwarded_host_replaces_the_host_of_the_request() {
    for (target, expected) in [
        ("/a?b", "/a?b"),
        ("http://own/a?b", "http://a.org:80/a?b"),
        ("https://own/", "https://a.org:80/"),
        ("*", "*"),
    ] {
        let request = http::Request::get(target).header("host", "own").header("host", "own");
        let mut request = request.body(RequestBody::empty()).map(Request::from).unwrap();
        let host = Some(HeaderValue::from_static("a.org:80"));
        let forwarded = Some(Arc::new(Forwarded { address: Peer::Unix, scheme: None, host }));
        let client = Client { forwarded, ..Client::new(Peer::Unix, 1, 1) };
        set_forwarded_host(&mut request, &client);
        assert_eq!(request.uri().to_string(), expected);
        assert_eq!(request.headers().get_all("host").iter().collect::<Vec<_>>(), ["a.org:80"]);
    }
}
