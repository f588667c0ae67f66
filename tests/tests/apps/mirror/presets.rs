//! What each kind of repository stores forever, and what it validates.

use rudy_tests::prelude::*;

use crate::mirror::{Mirror, Origin, get, get_stored, get_until, message, request};

/// A preset, the paths of an immutable file and of metadata, and the media type of the metadata.
const PRESETS: [(&str, &str, &str, &str); 6] = [
    ("maven", "/org/a/b/1.0/b-1.0.jar", "/org/a/b/maven-metadata.xml", "text/xml"),
    ("npm", "/@s/a/-/a-1.0.0.tgz", "/@s%2fa", "application/json"),
    ("pypi", "/packages/a-1.0-py3-none-any.whl", "/a/", "text/html"),
    ("crates", "/crates/a/1.0.0/download", "/1/a", "text/plain"),
    ("apt", "/pool/main/a/a_1%2b2_all.deb", "/dists/stable/InRelease", "text/plain"),
    ("go", "/a.example/@v/v1.0.0.zip", "/a.example/@v/list", "text/plain"),
];

#[test]
fn files_are_stored_for_ever_and_metadata_is_validated_and_both_survive_the_repository() {
    for (preset, file, metadata, media_type) in PRESETS {
        let origin = Origin::with_files(vec![
            (file, "application/octet-stream", "file".to_owned()),
            (metadata, media_type, "{}".to_owned()),
        ]);
        let (mirror, server) = Mirror::of(&origin, preset);
        assert_eq!(get(&server, file, &["Cache-Control: no-cache, no-store"]).text(), "file", "{preset}");
        assert_eq!(get_stored(&server, file).text(), "file", "{preset}");
        assert_eq!(origin.count(), 1, "{preset}");
        assert_eq!(get(&server, metadata, &[]).text(), "{}", "{preset}");
        assert_eq!(get_until(&server, metadata, &[], "fwd-status=304").text(), "{}", "{preset}");
        assert_eq!(get_until(&server, "/missing", &[], "fwd=stale").status, 404, "{preset}");

        let url = origin.upstream.url();
        drop(origin);
        drop(server);
        let server = mirror.serve();
        for (path, expected) in [(file, "file"), (metadata, "{}")] {
            let response = get(&server, path, &["Cache-Control: no-cache", "Pragma: no-cache"]);
            assert_eq!((response.status, response.text()), (200, expected), "{preset} {path} without {url}");
            assert_eq!(request(&server, "HEAD", path, &[]).status, 200, "{preset} {path}");
        }
        assert_eq!(get(&server, "/missing", &[]).status, 404, "{preset}");
        assert_eq!(get(&server, "/never-requested", &[]).status, 502, "{preset}");
    }
}

#[test]
fn a_file_that_was_missing_is_found_when_it_is_published() {
    let tries = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => message("404 Not Found", "", "missing"),
        _ => message("200 OK", "", "file"),
    });
    let (_mirror, server) = Mirror::of(&origin, "maven");
    assert_eq!(get(&server, "/g/a/1/a-1.jar", &[]).status, 404);
    let found = eventually("the repository is asked again", || {
        Some(get(&server, "/g/a/1/a-1.jar", &[])).filter(|response| response.status == 200)
    });
    assert_eq!(found.text(), "file");
}

#[test]
fn a_temporary_redirect_to_a_file_is_validated() {
    let number = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        let number = number.fetch_add(1, Ordering::SeqCst);
        message("302 Found", &format!("Location: /signed/{number}\r\n"), "")
    });
    let (_mirror, server) = Mirror::of(&origin, "crates");
    for number in 0..3 {
        eventually("it leads to another URL", || {
            let response = get(&server, "/crates/a/1.0.0/download", &[]);
            assert_eq!(response.status, 302);
            response.field("location").filter(|to| !to.ends_with(&format!("/signed/{number}"))).map(drop)
        });
    }
}

#[test]
fn metadata_is_used_without_validation_for_the_time_that_is_set() {
    let origin = Origin::with_files(vec![("/dists/a", "text/plain", "a".to_owned())]);
    let (_mirror, server) = Mirror::with_keys(&origin, "apt", ", metadata_freshness = \"1h\"");
    assert_eq!(get(&server, "/dists/a", &[]).text(), "a");
    assert_eq!(get_stored(&server, "/dists/a").text(), "a");
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_new_freshness_applies_to_stored_metadata_after_its_next_validation() {
    let origin = Origin::with_files(vec![("/dists/a", "text/plain", "a".to_owned())]);
    let (mirror, mut server) = Mirror::of(&origin, "apt");
    get_until(&server, "/dists/a", &[], "fwd-status=304");
    server.stop();
    let text = mirror.path().read("rudy.toml");
    mirror.path().write("rudy.toml", text.replace("\"apt\"", "\"apt\", metadata_freshness = \"1h\""));
    let server = mirror.serve();
    get_until(&server, "/dists/a", &[], "fwd-status=304");
    assert_eq!(get_stored(&server, "/dists/a").text(), "a");
}

#[test]
fn conditions_and_ranges_are_about_the_stored_file() {
    let origin = Origin::with_files(vec![("/m/pool/a.deb", "text/plain", "0123456789".to_owned())]);
    let table = format!("{{ url = \"{}/m/\", preset = \"apt\" }}", origin.upstream);
    let mirror = Mirror::new(&table);
    let server = mirror.serve();
    assert_eq!(get(&server, "/pool/a.deb", &[]).status, 200);
    assert_eq!(get_stored(&server, "/pool/a.deb").field("etag"), Some("\"10\""));
    let range = "Range: bytes=2-3";
    for (fields, status, body) in [
        (&["If-None-Match: \"10\""][..], 304, ""),
        (&["If-None-Match: \"9\""], 200, "0123456789"),
        (&[range], 206, "23"),
        (&[range, "If-Range: \"10\""], 206, "23"),
        (&[range, "If-Range: \"9\""], 200, "0123456789"),
        (&["Range: bytes=99-"], 416, ""),
    ] {
        let response = get(&server, "/pool/a.deb", fields);
        assert_eq!(response.status, status, "{fields:?}");
        assert!(status == 416 || response.text() == body, "{fields:?}");
    }
    assert_eq!(request(&server, "HEAD", "/pool/a.deb", &[]).field("content-length"), Some("10"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn spellings_of_a_path_are_one_file_if_the_repository_sees_one() {
    let origin = Origin::with_files(vec![("/pool/a.deb", "text/plain", "a".to_owned())]);
    let (_mirror, server) = Mirror::of(&origin, "apt");
    assert_eq!(get(&server, "/pool/a.deb", &[]).text(), "a");
    get_stored(&server, "/pool/a.deb");
    for path in ["/pool/./a.deb", "/pool/x/../a.deb", "/dists/%2e%2e/pool/a.deb"] {
        assert_eq!(get(&server, path, &[]).text(), "a", "{path}");
    }
    assert_eq!(origin.count(), 1);
    // Only the repository knows whether this is the same file.
    assert_eq!(get(&server, "/pool/%61.deb", &[]).status, 404);
    assert_eq!(origin.last().target(), "/pool/%61.deb");
    assert_eq!(get(&server, "/pool/../../a.deb", &[]).status, 400);
}

#[test]
fn what_is_about_a_client_does_not_reach_the_repository_and_its_cookies_no_client() {
    let origin = Origin::start(|_| message("200 OK", "Set-Cookie: a=1\r\nVary: Cookie\r\n", "a"));
    let (_mirror, server) = Mirror::of(&origin, "apt");
    let secrets = ["Authorization: Basic eA==", "Cookie: a=1", "X-Forwarded-For: 10.0.0.1", "X-Secret: 1"];
    let response = get(&server, "/pool/a.deb", &[&secrets[..], &["User-Agent: apt"]].concat());
    assert_eq!((response.text(), response.field("set-cookie")), ("a", None));
    assert_eq!(response.field("rudy-cache-control"), None);
    let request = origin.last();
    for name in ["authorization", "cookie", "x-forwarded-for", "x-forwarded-host", "x-secret"] {
        assert_eq!(request.field(name), None, "{}", request.head);
    }
    let host = origin.upstream.address().to_string();
    assert_eq!((request.field("user-agent"), request.field("host")), (Some("apt"), Some(host.as_str())));
    // Stored also for others.
    assert_eq!(get_stored(&server, "/pool/a.deb").text(), "a");
    for method in ["POST", "PUT", "DELETE"] {
        let fields = ["Content-Length: 0"];
        assert_eq!(crate::mirror::request(&server, method, "/pool/a.deb", &fields).status, 405);
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_audit_of_npm_reaches_the_registry_and_is_not_stored() {
    let fields = "Content-Type: application/json\r\nCache-Control: max-age=60\r\nSet-Cookie: a=1\r\n";
    let origin = Origin::start(move |request| message("200 OK", fields, &request.body.len().to_string()));
    let mirror = Mirror::new(&format!("{{ url = \"{}/npm\", preset = \"npm\" }}", origin.upstream));
    let server = mirror.serve();
    let post = |path: &str, fields: &str, body: &[u8]| {
        let mut connection = server.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        connection.send(body);
        connection.response()
    };
    let bulk = "/-/npm/v1/security/advisories/bulk";
    let packages =
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\nAuthorization: Basic eA==\r\n";
    for path in [bulk, bulk, "/-/npm/v1/security/audits/quick"] {
        let response = post(path, &format!("{packages}Content-Length: 8\r\n"), b"packages");
        assert_eq!((response.status, response.text()), (200, "8"), "{path}");
        assert_eq!((response.field("set-cookie"), response.field("rudy-cache-control")), (None, None));
        let request = origin.last();
        assert_eq!((request.target(), &request.body[..]), (format!("/npm{path}").as_str(), &b"packages"[..]));
        assert_eq!(request.field("content-encoding"), Some("gzip"));
        assert_eq!(request.field("content-type"), Some("application/json"));
        assert_eq!(request.field("authorization"), None);
    }
    assert_eq!(origin.count(), 3, "each of them");
    assert_eq!(post(bulk, "Transfer-Encoding: chunked\r\n", b"2\r\nab\r\n0\r\n\r\n").text(), "2");

    let large = vec![b'a'; 5 << 20];
    assert_eq!(post(bulk, &format!("Content-Length: {}\r\n", large.len()), &large).status, 413);
    let chunked = [b"500000\r\n", &large[..], b"\r\n0\r\n\r\n"].concat();
    assert_eq!(post(bulk, "Transfer-Encoding: chunked\r\n", &chunked).status, 413);
    for path in ["/a", "/-/npm/v1/security/audits", "/-/npm/v1/security/advisories/bulk/a"] {
        assert_eq!(post(path, "Content-Length: 0\r\n", b"").status, 405, "{path}");
    }
    assert_eq!(request(&server, "PUT", bulk, &["Content-Length: 0"]).status, 405);
    assert_eq!(origin.count(), 4);
}

#[test]
fn a_browser_gets_a_page_about_the_mirror() {
    let origin = Origin::with_files(vec![("/pool/a.deb", "text/plain", "0123456789".to_owned())]);
    let mirror = |preset| format!("mirror = {{ url = \"{}\", preset = \"{preset}\" }}\n", origin.upstream);
    let (apt, go) = (mirror("apt"), mirror("go"));
    let routes = format!("path = \"/deb/*\"\n{apt}[[site.route]]\npath = \"/go/*\"\n{go}");
    let mirror = Mirror::with_route(&routes);
    let server = mirror.serve();
    let mut requests = 0;
    wait_until("it is stored", || {
        requests += 1;
        let response = get(&server, "/deb/pool/a.deb", &[]);
        response.field("cache-status").is_some_and(|status| status.contains("; hit"))
    });
    let saved = requests - origin.count();
    let stored = "Stored by all mirrors and caches of this server</dt><dd>1 file, ".to_owned();
    let address = server.address();
    for (path, used, setting) in [
        ("/deb/", format!("{saved} of {requests} requests"), format!("http://{address}/deb/")),
        ("/go/", "0 of 0 requests".to_owned(), format!("GOPROXY=http://{address}/go")),
    ] {
        let page = get(&server, path, &["Accept: text/html,*/*;q=0.1"]);
        let title = format!("Mirror of {}", origin.upstream.url());
        for text in [title, stored.clone(), used, setting] {
            assert!(page.text().contains(&text), "{text}: {}", page.text());
        }
    }
    assert_eq!(get(&server, "/deb/", &["Accept: */*"]).status, 404, "that of the repository");
}
