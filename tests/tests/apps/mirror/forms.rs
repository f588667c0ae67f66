//! Forms of the same resource: content codings, HTML and JSON, full and short documents. The repositories here send no `Vary`.

use rudy_tests::prelude::*;

use crate::mirror::{Mirror, Origin, get, get_stored, get_until, message};

const HTML: &str = "text/html";
const JSON: &str = "application/vnd.pypi.simple.v1+json";
const SHORT: &str = "application/vnd.npm.install-v1+json";
const FULL: &str = "application/json";

#[test]
fn clients_that_accept_no_gzip_get_none_for_ever() {
    for (preset, path) in [
        ("maven", "/g/a/1/a-1.pom"),
        ("maven", "/g/a/maven-metadata.xml"),
        ("crates", "/1/a"),
        ("apt", "/dists/a/Release"),
        ("go", "/a.example/@v/v1.0.0.mod"),
        ("npm", "/a/-/a-1.0.0.tgz"),
        ("pypi", "/a-1.0-py3-none-any.whl"),
    ] {
        let origin = Origin::start(|request| {
            let accepted = request.field("accept-encoding").unwrap_or_default();
            let coding = if accepted.contains("gzip") { "Content-Encoding: gzip\r\n" } else { "" };
            message("200 OK", &format!("{coding}ETag: \"a\"\r\n"), "content")
        });
        let (_mirror, server) = Mirror::of(&origin, preset);
        for fields in [&["Accept-Encoding: gzip"][..], &[], &["Accept-Encoding: br"]] {
            let response = get(&server, path, fields);
            assert_eq!((response.text(), response.field("content-encoding")), ("content", None), "{preset}");
        }
        assert_eq!(origin.last().field("accept-encoding"), Some("identity"), "{preset}");
    }
}

#[test]
fn a_coding_that_the_repository_always_uses_reaches_its_clients() {
    let origin = Origin::start(|_| message("200 OK", "Content-Encoding: x-gzip\r\n", "content"));
    let (_mirror, server) = Mirror::of(&origin, "pypi");
    assert_eq!(get(&server, "/a-1.tar.gz", &[]).field("content-encoding"), Some("x-gzip"));
    assert_eq!(get_stored(&server, "/a-1.tar.gz").field("content-encoding"), Some("x-gzip"));
    drop(origin);
    assert_eq!(get(&server, "/a-1.tar.gz", &["Accept-Encoding: gzip"]).text(), "content");
}

/// Starts a repository with two forms of `/a/` or `/a`.
fn with_forms(usual: &'static str, other: &'static str) -> Origin {
    Origin::start(move |request| {
        let accept = request.field("accept").unwrap_or_default();
        let form = if accept.starts_with(other) { other } else { usual };
        message("200 OK", &format!("Content-Type: {form}\r\nETag: \"{form}\"\r\n"), "{}")
    })
}

fn form(response: &Response) -> &str {
    assert_eq!(response.status, 200, "{}", response.text());
    response.field("content-type").unwrap_or_default()
}

#[test]
fn each_client_gets_the_form_that_it_prefers() {
    for (preset, path, usual, other) in [("pypi", "/a/", HTML, JSON), ("npm", "/a", FULL, SHORT)] {
        let origin = with_forms(usual, other);
        let (mirror, server) = Mirror::with_keys(&origin, preset, ", metadata_freshness = \"1h\"");
        let spellings = [
            (format!("Accept: {other}"), other),
            (format!("Accept: {usual}"), usual),
            (format!("Accept: {other}; q=1.0, {usual}; q=0.8, */*"), other),
            (format!("Accept: {usual};q=0.5,{other};q=0.9"), other),
            ("Accept: */*".to_owned(), usual),
        ];
        for (accept, expected) in &spellings {
            let response = get_until(&server, path, &[accept], "; hit");
            assert_eq!(form(&response), *expected, "{preset} {accept}");
        }
        drop((origin, server));
        let server = mirror.serve();
        for (accept, expected) in &spellings {
            let response = get(&server, path, &[accept]);
            assert_eq!(form(&response), *expected, "{preset} {accept}, while it is down");
        }
    }
}

#[test]
fn without_the_repository_another_form_is_sent_only_to_those_that_accept_it() {
    for (preset, path, usual, other) in [("pypi", "/a/", HTML, JSON), ("npm", "/a", FULL, SHORT)] {
        for (stored, missing) in [(usual, other), (other, usual)] {
            let origin = with_forms(usual, other);
            let (mirror, server) = Mirror::of(&origin, preset);
            let response = get_until(&server, path, &[&format!("Accept: {stored}")], "fwd=stale");
            assert_eq!(form(&response), stored);
            drop((origin, server));
            let server = mirror.serve();
            let both = format!("Accept: {missing}, {stored};q=0.5");
            assert_eq!(form(&get(&server, path, &[&both])), stored, "{preset} {both}");
            let other = get(&server, path, &[&format!("Accept: {missing}")]);
            assert_eq!(other.status, 502, "{preset} {missing}");
        }
    }
}
