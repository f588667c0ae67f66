//! Content codings that curl decodes.

use rudy_tests::prelude::*;

use crate::content::{get, text};

#[test]
fn every_coding_decodes_to_the_same_content() {
    let Some(curl) = Curl::find() else { return };
    let content = text(5000);
    let server = Server::files(&[("text.txt", content.as_bytes())]);
    let plain = get(&curl, &server, "/text.txt", &[]);
    assert_eq!((plain.status(), plain.field("Content-Encoding")), (200, None));
    let mut etags = vec![plain.field("ETag").unwrap().to_owned()];
    for coding in ["br", "zstd", "gzip"] {
        let field = format!("Accept-Encoding: {coding}");
        let fetched = get(&curl, &server, "/text.txt", &["--compressed", "--header", &field]);
        // 61: this curl was built without the coding.
        if fetched.exit == 61 {
            continue;
        }
        assert_eq!(fetched.status(), 200);
        assert_eq!(fetched.field("Content-Encoding"), Some(coding));
        assert!(fetched.field("Vary").is_some_and(|vary| vary.eq_ignore_ascii_case("accept-encoding")));
        assert!(fetched.body == content.as_bytes(), "{coding} decodes to something else");
        let sent: usize = fetched.number_or_text("size_download").parse().unwrap();
        assert!(sent < content.len() / 4, "{sent} bytes were sent");
        etags.push(fetched.field("ETag").unwrap().to_owned());
    }
    let all = etags.len();
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), all, "each coding has a different ETag");
    // The codings that curl requests by default.
    assert_eq!(get(&curl, &server, "/text.txt", &["--compressed"]).body, content.as_bytes());
    let tr = get(&curl, &server, "/text.txt", &["--tr-encoding"]);
    assert_eq!((tr.status(), tr.body), (200, content.into_bytes()));
}

#[test]
fn precompressed_files_are_selected_by_quality() {
    let Some(curl) = Curl::find() else { return };
    let server = Server::files(&[
        ("a.js", b"plain"),
        ("a.js.br", b"as brotli"),
        ("a.js.zst", b"as zstandard"),
        ("a.js.gz", b"as gzip"),
    ]);
    for (accepted, expected) in [
        ("br", "as brotli"),
        ("zstd", "as zstandard"),
        ("gzip", "as gzip"),
        ("x-gzip", "as gzip"),
        ("gzip, br;q=0.5", "as gzip"),
        ("gzip;q=0.5, zstd;q=0.7, br;q=0", "as zstandard"),
        ("identity, gzip;q=0.1", "plain"),
        ("deflate", "plain"),
    ] {
        let field = format!("Accept-Encoding: {accepted}");
        let fetched = get(&curl, &server, "/a.js", &["--header", &field]);
        assert_eq!((fetched.status(), fetched.body.as_slice()), (200, expected.as_bytes()), "{accepted}");
        assert!(fetched.field("Content-Type").unwrap().starts_with("text/javascript"), "{accepted}");
    }
}

/// Starts a server that compresses the responses of an application.
fn compressing(upstream: &Upstream) -> Server {
    Server::config(&format!(
        "listen = ['127.0.0.1:0,h2c']\n[[site]]\ncompression = true\n[[site.route]]\npath = '/*'\nproxy = '{upstream}'\n"
    ))
}

#[test]
fn responses_of_an_application_decode_to_the_same_content() {
    let Some(curl) = Curl::find() else { return };
    let content = text(50_000);
    let body = content.clone();
    let upstream = Upstream::serve(move |peer, request| {
        if request.target() == "/known" {
            let length = body.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
        } else {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in body.as_bytes().chunks(7_001) {
                peer.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            }
            peer.send("0\r\n\r\n");
        }
    });
    let server = compressing(&upstream);
    for path in ["/known", "/chunked"] {
        for coding in ["br", "zstd", "gzip"] {
            for version in ["--http1.1", "--http1.0", "--http2-prior-knowledge"] {
                let field = format!("Accept-Encoding: {coding}");
                let fetched = get(&curl, &server, path, &["--compressed", version, "--header", &field]);
                // 61: this curl was built without the coding. 2: without HTTP/2.
                if [61, 2].contains(&fetched.exit) {
                    continue;
                }
                assert_eq!((fetched.status(), fetched.field("Content-Encoding")), (200, Some(coding)));
                assert!(
                    fetched.body == content.as_bytes(),
                    "{path} {coding} {version} decodes to something else"
                );
                let sent: usize = fetched.number_or_text("size_download").parse().unwrap();
                assert!(sent < content.len() / 3, "{sent} bytes were sent");
            }
        }
    }
}

#[test]
fn a_client_that_decodes_gets_each_event_at_once() {
    let Some(curl) = Curl::find() else { return };
    let (allow, allowed) = gate::<()>();
    let upstream = Upstream::start(move |peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            for number in 0_u32.. {
                if allowed.wait().is_none() {
                    return;
                }
                let event = format!("data: {number}\n");
                peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            }
        }
    });
    let server = compressing(&upstream);
    let mut command = curl.command();
    command.args(["--no-buffer", "--compressed", &server.url("/")]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("curl can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    for number in 0..5 {
        allow.send(()).expect("the upstream runs");
        let line = lines.next().expect("the stream goes on").expect("curl writes UTF-8");
        assert_eq!(line, format!("data: {number}"));
    }
    child.kill().expect("curl still runs");
    child.wait().expect("the child is ours");
}
