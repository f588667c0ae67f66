//! Tests of the hosts of sites.

use super::*;

fn hosts(patterns: &[&str]) -> Hosts {
    let mut hosts = Hosts::default();
    for (site, pattern) in patterns.iter().enumerate() {
        assert_eq!(hosts.add(&pattern.parse().unwrap(), site), None);
    }
    hosts
}

#[test]
fn the_most_specific_host_wins_in_any_spelling() {
    let mut hosts = hosts(&["example.org", "*.example.org", "*.deep.example.org", "[::1]", "127.0.0.1"]);
    for (host, site) in [
        ("example.org", Some(0)),
        ("EXAMPLE.org:8080", Some(0)),
        ("example.org.", Some(0)),
        ("example.org.:80", Some(0)),
        ("www.example.org", Some(1)),
        ("a.b.example.org", Some(1)),
        ("x.deep.example.org", Some(2)),
        ("deep.example.org", Some(1)),
        ("[::1]", Some(3)),
        ("[::1]:443", Some(3)),
        ("127.0.0.1:1", Some(4)),
        (".example.org", None),
        ("badexample.org", None),
        ("example.com", None),
        ("", None),
        ("[", None),
    ] {
        assert_eq!(hosts.find(|| host.as_bytes()), site, "{host}");
    }
    assert_eq!(hosts.find(|| &[b'a'; 300]), None);
    assert_eq!(hosts.find(|| b"\xff"), None);
    hosts.set_default(9);
    assert_eq!(hosts.find(|| b"example.com"), Some(9));
    assert_eq!(hosts.find(|| b""), Some(9));
    assert_eq!(hosts.find(|| &[b'a'; 300]), Some(9));
}

#[test]
fn beginnings_and_expressions_follow_names_and_domains() {
    let hosts = hosts(&[
        "regex:^[a-z]+[.]shop[.]",
        "www.example.*",
        "www.*",
        "*.example.org",
        "www.example.net",
        "regex:shop",
    ]);
    for (host, site) in [
        ("www.example.net", Some(4)),
        ("www.example.org", Some(3)),
        ("WWW.Example.com.:80", Some(1)),
        ("www.example.co.uk", Some(1)),
        ("www.other.com", Some(2)),
        ("www", None),
        ("a.shop.com", Some(0)),
        ("1.shop.com", Some(5)),
        ("A.SHOP.com", Some(0)),
        ("example.com", None),
    ] {
        assert_eq!(hosts.find(|| host.as_bytes()), site, "{host}");
    }
}

#[test]
fn the_unnamed_pattern_matches_addresses_and_absent_hosts() {
    let mut hosts = hosts(&["localhost", "*.localhost"]);
    assert!(!hosts.is_by_flags());
    assert_eq!(hosts.find(|| b"127.0.0.1"), None);
    assert_eq!(hosts.add(&HostPattern::Unnamed, 2), None);
    assert!(hosts.is_by_flags());
    for (host, site) in [
        ("", Some(2)),
        ("127.0.0.1", Some(2)),
        ("127.0.0.1:8080", Some(2)),
        ("192.0.2.1.", Some(2)),
        ("[::1]:8080", Some(2)),
        ("[::ffff:127.0.0.1]", Some(2)),
        ("LocalHost:8080", Some(0)),
        ("a.b.localhost.", Some(1)),
        ("127.0.0.1.evil.example", None),
        ("localhost.evil.example", None),
        ("evillocalhost", None),
        ("[evil.example]", None),
        ("[127.0.0.1]", None),
        ("127.0.0.1@evil.example", None),
        ("0x7f.1", None),
        ("127.1", None),
        ("2130706433", None),
        (".", None),
        (":80", None),
    ] {
        assert_eq!(hosts.find(|| host.as_bytes()), site, "{host}");
    }
    assert_eq!(hosts.find(|| &[b'1'; 300]), None);
    assert_eq!(hosts.find(|| b"\xff"), None);
}

#[test]
fn a_web_page_has_no_host_of_this_machine() {
    let machine = machine_name();
    for host in
        ["", "127.0.0.1:80", "[::1]", "192.0.2.1", "LocalHost.", "a.localhost:8080", "nas:80", &machine]
    {
        assert!(is_own_host(host.as_bytes()), "{host}");
    }
    for host in ["evil.example", "localhost.evil.example.", "127.0.0.1.evil.example:80", "127.1", ".", ":80"]
    {
        assert!(!is_own_host(host.as_bytes()), "{host}");
    }
}

#[test]
fn the_explanation_shows_the_flag_and_only_valid_names() {
    let explained = explain_rejected(b"Evil.Example:8080");
    assert!(explained.contains("not for \"evil.example\".") && explained.contains("--host evil.example to"));
    for invalid in [&b"<b>"[..], b"\xff", b"a b", b"*.example", b"a$(x)"] {
        let explained = explain_rejected(invalid);
        let is_general = explained.contains("not for this host.") && explained.contains("--host NAME to");
        assert!(is_general, "{explained}");
    }
}

#[test]
fn a_duplicate_pattern_returns_its_first_site() {
    let mut hosts = hosts(&["example.org", "*.example.org"]);
    assert_eq!(hosts.add(&"Example.Org.".parse().unwrap(), 5), Some(0));
    assert_eq!(hosts.add(&"*.EXAMPLE.org".parse().unwrap(), 5), Some(1));
}

#[test]
fn the_error_of_an_invalid_host_shows_the_expected_syntax() {
    for (text, message) in [
        ("http://example.org", "without the scheme"),
        ("example.org:80", "without a port"),
        ("::1", "in brackets: \"[::1]\""),
        ("[::g]", "an IPv6 address between"),
        ("*", "remove `hosts`"),
        ("www.*.org", "only as the first label"),
        ("regex:(", "unclosed group"),
        ("bücher.de", "xn--"),
        ("", "expected a name"),
        ("a..b", "expected a name"),
        ("a b", "expected a name"),
    ] {
        let error = text.parse::<HostPattern>().unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}
