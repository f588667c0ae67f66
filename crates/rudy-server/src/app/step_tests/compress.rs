//! Tests which responses are compressed, and their fields, on whole configurations.

use std::fmt::Write as _;

use http::HeaderMap;
use rudy_service::{Body, Response};

use super::{Server, app, lines, load, send, send_received, send_with};

/// A site with these settings, and routes that respond with `fields` and a body of 2000 bytes.
fn site(settings: &str, routes: &[(&str, &str)]) -> Server {
    let mut text = format!("[[site]]\n{settings}\n");
    for (path, fields) in routes {
        let body = "text ".repeat(400);
        let _ = write!(
            text,
            "[[site.route]]\npath = '{path}'\nrespond = {{ body = '{body}', headers = {{ {fields} }} }}\n"
        );
    }
    app(&text)
}

fn get(server: &Server, target: &str, fields: &[(&str, &str)]) -> Response {
    send(server, "http", target, fields)
}

fn one(fields: &HeaderMap, name: &str) -> String {
    lines(fields, name).join("; ")
}

fn coding(response: &Response) -> String {
    one(response.headers(), "content-encoding")
}

const GZIP: &[(&str, &str)] = &[("accept-encoding", "gzip")];

#[test]
fn a_response_is_compressed_if_its_route_and_its_client_allow_it() {
    let server = site("compression = true", &[("/a", "ETag = '\"a\"', Accept-Ranges = 'bytes'")]);
    for (accept, expected) in [
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, br", "br"),
        ("zstd;q=0.1, gzip;q=0.9", "gzip"),
        ("*", "zstd"),
        ("*;q=0.5, zstd;q=0", "br"),
        ("identity;q=0, gzip", "gzip"),
        ("gzip;q=0", ""),
        ("gzip;q=0.5, identity", ""),
        ("identity;q=0", ""),
        ("deflate", ""),
        ("", ""),
    ] {
        let response = get(&server, "/a", &[("accept-encoding", accept)]);
        let fields = response.headers();
        assert_eq!(coding(&response), expected, "{accept}");
        assert_eq!(one(fields, "vary"), "Accept-Encoding");
        let is_compressed = !expected.is_empty();
        assert_eq!(one(fields, "etag"), if is_compressed { "W/\"a\"" } else { "\"a\"" });
        assert_eq!(one(fields, "accept-ranges").is_empty(), is_compressed);
        assert_eq!(response.body.length().unwrap() < 2000, is_compressed);
    }
    assert_eq!(coding(&get(&site("", &[("/a", "")]), "/a", GZIP)), "", "the default is off");
}

#[test]
fn responses_that_must_stay_as_they_are_do_not_vary() {
    let routes = [
        ("/no-transform", "Cache-Control = 'max-age=5, No-Transform'"),
        ("/coded", "Content-Encoding = 'deflate'"),
        ("/part", "Content-Range = 'bytes 0-1999/5000'"),
        ("/image", "Content-Type = 'image/png'"),
    ];
    let server = site("compression = true", &routes);
    for (path, _) in routes {
        let response = get(&server, path, GZIP);
        assert_ne!(coding(&response), "gzip", "{path}");
        assert_eq!(one(response.headers(), "vary"), "", "{path}");
    }
    let server = site("compression = { size_min = 2001 }", &[("/a", "")]);
    assert_eq!(one(get(&server, "/a", GZIP).headers(), "vary"), "");
}

#[test]
fn a_response_varies_also_if_its_request_forbids_compression() {
    let server = site("compression = true", &[("/a", "")]);
    let response = get(&server, "/a", &[("accept-encoding", "gzip"), ("cache-control", "no-transform")]);
    assert_eq!(
        (coding(&response), one(response.headers(), "vary")),
        (String::new(), "Accept-Encoding".into())
    );
}

#[test]
fn digests_of_the_uncompressed_response_are_removed() {
    let digests = "Content-Digest = 'a', Repr-Digest = 'b', Digest = 'c', Content-MD5 = 'd', X-Digest = 'e'";
    let server = site("compression = true", &[("/a", digests)]);
    let count = |fields: &[(&str, &str)]| {
        let response = get(&server, "/a", fields);
        response.headers().keys().filter(|name| name.as_str().contains("digest")).count()
            + usize::from(response.headers().contains_key("content-md5"))
    };
    assert_eq!((count(&[]), count(GZIP)), (5, 1));
}

#[test]
fn vary_keeps_accept_encoding_whatever_the_configuration_sets() {
    for settings in [
        "response_headers = { Vary = 'Cookie' }",
        "response_headers = { Vary = false }",
        "response_headers = { Vary = { add = 'Cookie' } }",
        "response_headers = { Vary = '{header.x}' }",
        "response_headers = { Vary = 'ACCEPT-ENCODING, Cookie' }",
    ] {
        let routes = "[[site.route]]\npath = '/*'\nfiles = { root = 'www', compression = { size_min = 1 } }";
        for compression in ["", "compression = true\n"] {
            let server = app(&format!("[[site]]\n{compression}{settings}\n{routes}"));
            let response = get(&server, "/a.txt", &[("x", "Cookie")]);
            let varies = lines(response.headers(), "vary").join(", ").to_ascii_lowercase();
            assert_eq!(varies.matches("accept-encoding").count(), 1, "{settings}: {varies}");
        }
        let server = site(&format!("compression = true\n{settings}"), &[("/a", "Vary = 'Origin'")]);
        let varies = lines(get(&server, "/a", &[]).headers(), "vary").join(", ").to_ascii_lowercase();
        assert_eq!(varies.matches("accept-encoding").count(), 1, "{settings}: {varies}");
    }
}

#[test]
fn a_route_replaces_the_setting_of_its_site() {
    let text = |site: &str, route: &str| {
        let body = "text ".repeat(400);
        format!(
            "[[site]]\n{site}\n[[site.route]]\npath = '/a'\n{route}\nrespond = {{ body = '{body}' }}\n[[site.route]]\npath = '/*'\nfiles = 'www'"
        )
    };
    for (of_site, of_route, expected) in [
        ("", "compression = true", "gzip"),
        ("compression = true", "compression = false", ""),
        ("compression = false", "compression = { codings = 'gzip', media_types = 'text/*' }", "gzip"),
        ("compression = true", "compression = { codings = ['br'] }", ""),
        ("compression = true", "compression = { media_types = ['text/html', 'application/*'] }", ""),
        ("compression = true", "compression = { media_types = '*' }", "gzip"),
        ("compression = { level = 9, streams = 0 }", "", "gzip"),
    ] {
        let server = app(&text(of_site, of_route));
        assert_eq!(coding(&get(&server, "/a", GZIP)), expected, "{of_site} {of_route}");
    }
    for (setting, message) in [
        ("{ codings = 'deflate' }", "expected \"br\" or \"zstd\" or \"gzip\", found \"deflate\""),
        ("{ media_types = 'text' }", "\"text\" is not a media type"),
        ("{ media_types = '*/json' }", "\"*/json\" is not a media type"),
        ("{ level = 10 }", "10 is out of range"),
        ("'on'", "expected true, false or a table"),
    ] {
        let error = load(&text(&format!("compression = {setting}"), "")).err().unwrap_or_default();
        assert!(error.contains(message), "{setting}: {error}");
    }
}

#[test]
fn files_keep_their_own_compression_and_are_sent_at_once() {
    let routes = |files: &str| {
        format!(
            "[[site.route]]\npath = '/list/*'\nfiles = {{ root = 'www', browse = true, index = 'x' }}\n[[site.route]]\npath = '/*'\nfiles = {files}\n"
        )
    };
    let own = routes("{ root = 'www', compression = { size_min = 1 } }");
    for (setting, files, is_compressible) in [
        ("", &own, true),
        ("compression = false", &own, true),
        ("compression = { size_min = 1 }", &routes("'www'"), true),
        ("compression = false", &routes("'www'"), false),
        ("compression = { size_min = 1 }", &routes("{ root = 'www', compression = false }"), false),
    ] {
        let server = app(&format!("[[site]]\n{setting}\n{files}"));
        let response = get(&server, "/a.txt", GZIP);
        let expected = if is_compressible { "Accept-Encoding" } else { "" };
        assert_eq!(one(response.headers(), "vary"), expected, "{setting} {files}");
        assert!(send_received(&server, "/a.txt").is_some(), "{setting} {files}");
    }
    let server = app(&format!("[[site]]\ncompression = {{ size_min = 1 }}\n{}", routes("'www'")));
    assert_eq!(coding(&get(&server, "/list/", GZIP)), "gzip", "a listing is no file");
}

#[test]
fn a_head_request_gets_the_head_of_a_get() {
    let server = site("compression = true", &[("/a", "ETag = '\"a\"'")]);
    let (head, get) = (send_with(&server, "HEAD", "http", "/a", GZIP), get(&server, "/a", GZIP));
    assert_eq!((head.headers(), head.body.length()), (get.headers(), get.body.length()));
    assert_eq!(coding(&head), "gzip");
}

#[test]
fn a_large_body_is_compressed_while_it_is_sent_unless_all_encoders_are_in_use() {
    let body = "text ".repeat(20_000);
    let route = format!("[[site.route]]\npath = '/a'\nrespond = {{ body = '{body}' }}");
    let server = app(&format!("[[site]]\ncompression = {{ streams = 1 }}\n{route}"));
    let first = get(&server, "/a", GZIP);
    assert!(matches!(first.body, Body::Stream(_)) && first.body.length().is_none());
    let head = send_with(&server, "HEAD", "http", "/a", GZIP);
    assert_eq!((head.headers(), head.body.length()), (first.headers(), None));
    let second = get(&server, "/a", GZIP);
    assert_eq!((coding(&second), one(second.headers(), "vary")), (String::new(), "Accept-Encoding".into()));
    drop(first);
    assert_eq!(coding(&get(&server, "/a", GZIP)), "gzip");
}

#[test]
fn live_streams_leave_encoders_for_other_responses() {
    let body = "text ".repeat(20_000);
    let server = app(&format!(
        "[[site]]\ncompression = {{ streams = 2 }}\n[[site.route]]\npath = '/live'\nstream = {{ interval = '1h' }}\n\
         [[site.route]]\npath = '/a'\nrespond = {{ body = '{body}' }}"
    ));
    let streams: Vec<_> = (0..3).map(|_| get(&server, "/live", GZIP)).collect();
    let codings: Vec<_> = streams.iter().map(coding).collect();
    assert_eq!(codings, ["gzip", "", ""]);
    assert_eq!(coding(&get(&server, "/a", GZIP)), "gzip");
}

#[test]
fn an_internal_redirect_leads_to_the_setting_of_its_route() {
    let body = "text ".repeat(400);
    let server = app(&format!(
        "[[site]]\ncompression = true\n[[site.route]]\npath = '/from'\nrewrite = '/secret'\n\
         [[site.route]]\npath = '/secret'\ncompression = false\nrespond = {{ body = '{body}' }}"
    ));
    let response = get(&server, "/from", GZIP);
    assert_eq!((coding(&response), one(response.headers(), "vary")), (String::new(), String::new()));
}
