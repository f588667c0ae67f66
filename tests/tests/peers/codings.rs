//! Content codings that curl decodes.

use rudy_tests::{Curl, Server};

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
