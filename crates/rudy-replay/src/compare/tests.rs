use std::io::Write;

use http::Method;
use http::header::{HeaderMap, HeaderName};

use super::*;
use crate::response::Body;

fn comparison() -> Comparison {
    let side = |url: &str| Side { url: url.parse().unwrap(), host: "example.org".to_owned() };
    Comparison {
        old: side("http://127.0.0.1:8001/dir/page"),
        new: side("http://127.0.0.1:8002/dir/page"),
        ignored: vec!["x-ignored".to_owned()],
        ignores_error_pages: false,
        values: Values::Masked,
    }
}

/// A response with these lines as its fields.
#[allow(clippy::unnecessary_wraps, reason = "a comparison is of outcomes")]
fn response(status: u16, fields: &str, body: &[u8]) -> Outcome {
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())
    };
    let mut map = HeaderMap::new();
    for (name, value) in fields.split('|').filter(|line| !line.is_empty()).map(field) {
        map.append(name, value);
    }
    let body = Body { bytes: body.to_vec(), length: body.len() as u64 };
    Ok(Response { status, fields: map, body })
}

/// The differences as text.
fn found(old: &Outcome, new: &Outcome) -> Vec<String> {
    let differences = comparison().compare(&Method::GET, old, new);
    let text = |difference: Difference| match (&*difference.values, &*difference.detail) {
        ("", detail) => format!("{}; {detail}", difference.subject),
        (values, _) => format!("{}: {values}", difference.subject),
    };
    differences.into_iter().map(text).collect()
}

#[test]
fn what_differs_in_every_response_is_no_difference() {
    for (old, new) in [
        ("date: a|age: 1|server: a|via: a", "date: b|server: b|x-request-id: 1"),
        ("etag: \"a\"", "etag: \"b\""),
        ("etag: W/\"a\"", "etag: W/\"b\""),
        ("connection: close|transfer-encoding: chunked", "content-length: 1"),
        ("vary: Accept, Origin", "vary: origin|vary: accept"),
        ("content-type: text/html; charset=UTF-8", "content-type: text/html;charset=utf-8"),
        ("cache-control: public, max-age=1", "cache-control: max-age=1, public"),
        ("set-cookie: a=1; Path=/; HttpOnly", "set-cookie: a=2; httponly; path=/"),
        ("set-cookie: a=1; Expires=Mon", "set-cookie: a=1; Expires=Tue"),
        ("alt-svc: h3=\":8001\"; ma=60", "alt-svc: h3=\":8002\"; ma=60"),
        ("x-ignored: a", ""),
        (
            "date: Mon, 30 Nov 2026 10:00:00 GMT|expires: Mon, 30 Nov 2026 11:00:00 GMT",
            "date: Mon, 30 Nov 2026 10:05:00 GMT|expires: Mon, 30 Nov 2026 11:05:01 GMT",
        ),
    ] {
        let (old, new) = (response(200, old, b"a"), response(200, new, b"a"));
        assert_eq!(found(&old, &new), [""; 0]);
    }
}

#[test]
fn fields_differ() {
    for (old, new, expected) in [
        ("x-a: b", "", "field x-a: b → absent"),
        ("", "x-a: /?b=c", "field x-a: absent → /?b=***"),
        ("etag: \"a\"", "etag: W/\"a\"", "field etag: strong → weak"),
        ("etag: \"a\"", "", "field etag: strong → absent"),
        ("allow: GET", "allow: GET, HEAD", "field allow: get → get, head"),
        ("last-modified: a", "last-modified: b", "field last-modified; a → b"),
        ("last-modified: a", "", "field last-modified: present → absent"),
        (
            "date: Mon, 30 Nov 2026 10:00:00 GMT|expires: Mon, 30 Nov 2026 11:00:00 GMT",
            "date: Mon, 30 Nov 2026 10:00:00 GMT|expires: Mon, 30 Nov 2026 12:00:00 GMT",
            "field expires; Mon, 30 Nov 2026 11:00:00 GMT → Mon, 30 Nov 2026 12:00:00 GMT",
        ),
        ("set-cookie: a=1; Secure", "set-cookie: a=1", "cookie a: secure → no attributes"),
        ("set-cookie: a=1; Path=/", "", "cookie a: path=/ → absent"),
        ("set-cookie: a=1; Max-Age=5", "set-cookie: a=1; Max-Age=6", "cookie a: max-age=5 → max-age=6"),
    ] {
        let (old, new) = (response(200, old, b"a"), response(200, new, b"a"));
        assert_eq!(found(&old, &new), [expected]);
    }
}

#[test]
fn a_relative_redirect_is_an_absolute_one_on_the_same_host() {
    for (old, new, expected) in [
        ("/a", "http://127.0.0.1:8002/a", None),
        ("http://example.org/a#b", "/a#b", None),
        ("http://example.org:8001/a", "http://example.org:8002/a", None),
        ("/dir/a", "a", None),
        ("https://other.example/", "https://other.example", None),
        ("/a", "/b?c=d", Some("target of 301; /a → /b?c=***")),
        ("http://example.org/a", "https://example.org/a", Some("target of 301; /a → https://example.org/a")),
        ("/a", "//other.example/a", Some("target of 301; /a → http://other.example/a")),
    ] {
        let location = |location: &str| response(301, &format!("location: {location}"), b"");
        let found = found(&location(old), &location(new));
        assert_eq!(found.first().map(String::as_str), expected, "{old} {new}");
    }
    let (old, new) = (response(301, "location: /a", b""), response(308, "location: /b", b""));
    assert_eq!(found(&old, &new), ["status: 301 → 308", "target of 301; /a → /b"]);
}

#[test]
fn bodies_are_compared_without_their_coding() {
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let plain = response(200, "content-type: text/css", b"hello");
    let compressed = response(200, "content-type: text/css|content-encoding: gzip", &gzip(b"hello"));
    assert_eq!(found(&compressed, &compressed), [""; 0]);
    assert_eq!(found(&plain, &compressed), ["compression of text/css: none → gzip"]);
    let zstd = zstd::encode_all(&b"hello"[..], 1).unwrap();
    let zstd = response(200, "content-type: text/css|content-encoding: zstd", &zstd);
    assert_eq!(found(&compressed, &zstd), ["compression of text/css: gzip → zstd"]);
    let other = response(200, "content-type: text/css|content-encoding: gzip", &gzip(b"hallo"));
    let body = found(&compressed, &other);
    assert!(
        body[0].starts_with("body of text/css; 5 bytes, sha256 2cf24dba5fb0… → 5 bytes, sha256"),
        "{body:?}"
    );
    let broken = response(200, "content-type: text/css|content-encoding: gzip", b"\x1f\x8bbroken");
    assert!(found(&compressed, &broken)[0].contains("not decodable as gzip"));
}

#[test]
fn a_status_explains_what_differs_with_it() {
    let (old, new) = (response(200, "x-a: b", b"a"), response(404, "", b"b"));
    assert_eq!(found(&old, &new), ["status: 200 → 404"]);
    let failed = |kind| Err(Failed { kind, message: "why".to_owned() });
    assert_eq!(found(&old, &failed("timeout")), ["no complete response: 200 → error (timeout)"]);
    assert_eq!(found(&failed("reset"), &failed("reset")), [""; 0]);
    assert_eq!(found(&failed("reset"), &failed("timeout")).len(), 1);
}

#[test]
fn pages_of_errors_can_be_ignored() {
    let (old, new) = (response(404, "content-type: text/html", b"a"), response(404, "x-a: b", b"b"));
    let kinds = |comparison: &Comparison| -> Vec<_> {
        comparison.compare(&Method::GET, &old, &new).iter().map(|difference| difference.kind).collect()
    };
    assert_eq!(kinds(&comparison()), [Kind::ErrorPage, Kind::ErrorPage, Kind::Field]);
    assert_eq!(kinds(&Comparison { ignores_error_pages: true, ..comparison() }), [Kind::Field]);
}

#[test]
fn a_head_response_announces_its_length() {
    let (old, new) = (response(200, "content-length: 1", b""), response(200, "content-length: 2", b""));
    let differences = comparison().compare(&Method::HEAD, &old, &new);
    assert_eq!(differences[0].detail, "1 → 2");
    assert_eq!(found(&old, &new), [""; 0]);
}
