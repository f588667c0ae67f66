//! Connections of curl: reused, parallel, slow, with uploads, and with other protocols.

use rudy_tests::prelude::*;

use crate::content::{get, make_older, text, varied};

#[test]
fn head_has_the_fields_of_get() {
    let Some(curl) = Curl::find() else { return };
    let content = varied(300_000);
    let server = Server::build()
        .files(&[("small.html", b"<p>small"), ("large.bin", &content)])
        .arg("--browse")
        .start();
    // The ETag of a file changes once, when the file is two seconds old. That must not happen between the two
    // requests.
    for name in ["small.html", "large.bin"] {
        make_older(&server.path().join(name));
    }
    for path in ["/small.html", "/large.bin", "/", "/missing"] {
        let (head, get) = (get(&curl, &server, path, &["--head"]), get(&curl, &server, path, &[]));
        assert_eq!(head.status(), get.status(), "{path}");
        for name in ["Content-Length", "Content-Type", "ETag", "Last-Modified", "Vary"] {
            assert_eq!(head.field(name), get.field(name), "{path}");
        }
    }
}

#[test]
fn one_connection_serves_many_urls() {
    let Some(curl) = Curl::find() else { return };
    let content = varied(300_000);
    let server = Server::files(&[("a.html", b"a"), ("large.bin", &content), ("folder/index.html", b"index")]);
    let paths = ["/a.html", "/large.bin", "/missing", "/folder", "/a.html?query", "/folder/"];
    let fetched = curl.run(paths.iter().map(|path| server.url(path)));
    let values = |name: &str| -> Vec<u64> {
        fetched.transfers.iter().map(|transfer| transfer[name].as_u64().unwrap()).collect()
    };
    assert_eq!(values("http_code"), [200, 200, 404, 301, 200, 200]);
    assert_eq!(values("num_connects"), [1, 0, 0, 0, 0, 0]);
    let heads = curl.run(["--head".to_owned()].into_iter().chain(paths.iter().map(|path| server.url(path))));
    let connects = heads.transfers.iter().map(|transfer| transfer["num_connects"].as_u64().unwrap());
    assert_eq!(connects.sum::<u64>(), 1, "HEAD leaves the connection usable");
}

#[test]
fn many_transfers_at_once_do_not_mix() {
    let Some(curl) = Curl::find() else { return };
    let contents: Vec<_> = (0..50).map(|n| varied(1000 + 7919 * n)).collect();
    let names: Vec<_> = (0..50).map(|n| format!("{n}.bin")).collect();
    let files: Vec<_> = names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    let server = Server::files(&files);
    let copies = Folder::new();
    let (to, urls) = (copies.to_string(), server.url("/[0-49].bin"));
    let fetched = curl.run(["--parallel", "--output-dir", &to, "--remote-name-all", &urls]);
    assert_eq!((fetched.exit, fetched.transfers.len()), (0, 50));
    for (name, content) in files {
        assert!(fs::read(copies.join(name)).unwrap() == content, "{name}");
    }
}

#[test]
fn a_rejected_upload_gets_its_response_before_it_is_sent() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    let folder = Folder::with(&[("upload", varied(5 << 20))]);
    let upload = &folder.text("upload");
    let data = format!("@{upload}");
    for arguments in [["--upload-file", upload], ["--data-binary", &data]] {
        let expect = ["--expect100-timeout", "60", "--header", "Expect: 100-continue"];
        let fetched = get(&curl, &server, "/page.html", &[&arguments[..], &expect].concat());
        assert_eq!(fetched.status(), 405, "{arguments:?}");
        assert_eq!(fetched.number_or_text("size_upload"), "0", "{arguments:?}");
        assert!(fetched.field("Allow").is_some_and(|allow| allow.contains("GET")), "{}", fetched.heads);
    }
    // Without `Expect`, the response arrives as well, although the server does not read the whole body.
    let without_expect = get(&curl, &server, "/page.html", &["--upload-file", upload, "--header", "Expect:"]);
    assert_eq!(without_expect.transfers[0]["http_code"], 405, "{without_expect:?}");
}

#[test]
fn unsupported_methods_get_different_statuses() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    for (method, status) in
        [("DELETE", 405), ("POST", 405), ("OPTIONS", 204), ("PROPFIND", 405), ("BREW", 501), ("get", 501)]
    {
        assert_eq!(get(&curl, &server, "/page.html", &["--request", method]).status(), status, "{method}");
    }
}

#[test]
fn http_1_0_gets_complete_responses() {
    let Some(curl) = Curl::find() else { return };
    let content = text(50_000);
    let server = Server::build()
        .files(&[("page.html", b"<p>hello"), ("large.txt", content.as_bytes())])
        .arg("--browse")
        .start();
    let fetched = get(&curl, &server, "/page.html", &["--http1.0"]);
    assert_eq!((fetched.status(), fetched.body.as_slice()), (200, b"<p>hello".as_slice()));
    // The length of a compressed response is unknown and HTTP/1.0 has no chunks, so the end of the connection
    // ends the body.
    let large = get(&curl, &server, "/large.txt", &["--http1.0", "--compressed"]);
    assert_eq!((large.status(), large.field("Transfer-Encoding")), (200, None));
    assert!(large.body == content.as_bytes());
    let url = server.url("/page.html");
    let reused = curl.run(["--http1.0", "--header", "Connection: keep-alive", &url, &url]);
    assert_eq!((reused.status(), reused.number_or_text("num_connects").as_str()), (200, "0"));
    assert_eq!(reused.body, b"<p>hello<p>hello");
}

#[test]
fn a_slow_reader_gets_the_whole_response() {
    let Some(curl) = Curl::find() else { return };
    let content = varied(3 << 20);
    let server = Server::files(&[("file.bin", &content)]);
    let fetched = get(&curl, &server, "/file.bin", &["--limit-rate", "1500k"]);
    assert_eq!(fetched.status(), 200);
    assert!(fetched.body == content);
}

#[test]
fn unsupported_protocols_fail_cleanly() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[("page.html", b"<p>hello")]);
    // The server may ignore an upgrade to HTTP/2 (RFC 9110 §7.8).
    let offered = get(&curl, &server, "/page.html", &["--http2"]);
    if offered.exit != 2 {
        assert_eq!((offered.status(), offered.body.as_slice()), (200, b"<p>hello".as_slice()));
    }
    assert_ne!(get(&curl, &server, "/page.html", &["--http2-prior-knowledge"]).exit, 0);
    let tls = format!("https://{}/page.html", server.address());
    assert_eq!(curl.run([tls.as_str()]).exit, 35, "there is no TLS handshake");
    let proxied = get(&curl, &server, "/page.html", &["--haproxy-protocol"]);
    assert_eq!(proxied.transfers[0]["http_code"], 400, "{proxied:?}");
    // The server still works.
    assert_eq!(get(&curl, &server, "/page.html", &[]).status(), 200);
}

#[test]
fn curl_connects_to_a_unix_socket() {
    let Some(curl) = Curl::find() else { return };
    let folder = Folder::new();
    let listen = format!("unix:{folder}/rudy.sock");
    let _server = Server::build().files(&[("page.html", b"<p>hello")]).args(["--listen", &listen]).start();
    let fetched = curl.run(["--unix-socket", &folder.text("rudy.sock"), "http://localhost/page.html"]);
    assert_eq!((fetched.status(), fetched.body.as_slice()), (200, b"<p>hello".as_slice()));
}
