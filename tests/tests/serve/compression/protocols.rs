//! The same response over HTTP/1.0, HTTP/1.1 and HTTP/2, for GET, HEAD and conditional requests.

use rudy_tests::prelude::*;

use crate::compression::{gunzip, proxy};

/// An upstream that evaluates `If-None-Match` as text, as many applications do, and sends trailers.
fn tagged() -> Upstream {
    Upstream::serve(|peer, request| {
        let tag = request.field("if-none-match").map(|tag| tag.trim_start_matches("W/"));
        let is_head = request.head.starts_with("HEAD");
        if tag == Some("\"a\"") {
            peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n");
        } else if request.field("range").is_some() {
            peer.send("HTTP/1.1 206 Partial Content\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-3/2000\r\nContent-Length: 4\r\n\r\ntext");
        } else if is_head || request.target() == "/known" {
            let body = if is_head { String::new() } else { "text ".repeat(400) };
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\nContent-Length: 2000\r\n\r\n{body}"));
        } else {
            let body = "text ".repeat(400);
            peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n\
                     7d0\r\n{body}\r\n0\r\nX-Sum: 1\r\nContent-Digest: x\r\n\r\n"
                ));
        }
    })
}

#[test]
fn a_response_is_the_same_text_in_every_protocol() {
    let upstream = tagged();
    let server = proxy(&upstream, "compression = true");
    let text = "text ".repeat(400);
    let mut connection =
        server.send(b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nAccept-Encoding: x-gzip\r\n\r\n");
    let response = connection.response();
    assert_eq!(gunzip(&response.body), (text.clone(), true));
    assert_eq!(response.trailers, "x-sum: 1\r\n", "without the digest of the uncompressed text");
    let mut connection = server.send(b"GET / HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(connection.head().field("content-encoding"), Some("gzip"));
    assert_eq!(gunzip(&connection.read_to_end()), (text.clone(), true));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "GET", "/", &[("accept-encoding", "gzip")], true);
    let response = connection.response(1);
    assert_eq!(gunzip(&response.body), (text, true));
    assert_eq!(response.trailers, [("x-sum".to_owned(), "1".to_owned())]);
}

#[test]
fn head_and_conditional_requests_match_the_compressed_response() {
    let upstream = tagged();
    let server = proxy(&upstream, "compression = true");
    let send = |method: &str, fields: &str| {
        let mut connection = server.send(format!("{method} /known HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        if method == "HEAD" { connection.head_response() } else { connection.response() }
    };
    let get = send("GET", "Accept-Encoding: gzip\r\n");
    let head = send("HEAD", "Accept-Encoding: gzip\r\n");
    for name in ["content-encoding", "vary", "etag"] {
        assert_eq!(head.field(name), get.field(name), "{name}");
    }
    assert_eq!(get.field("etag"), Some("W/\"a\""));
    // RFC 9110 §9.3.2: a field may be missing whose value is only known with the content.
    assert_eq!(head.field("content-length"), None);
    let plain = send("HEAD", "");
    assert_eq!((plain.field("etag"), plain.field("content-length")), (Some("\"a\""), Some("2000")));
    for (tag, expected) in [("W/\"a\"", "W/\"a\""), ("\"a\"", "\"a\"")] {
        let response = send("GET", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n"));
        assert_eq!((response.status, response.field("etag")), (304, Some(expected)));
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
    }
    // A part is not compressed, and a date does not show of what the client has the first part.
    let range = "Range: bytes=0-3\r\n";
    let part = send("GET", &format!("Accept-Encoding: gzip\r\n{range}If-Range: \"a\"\r\n"));
    assert_eq!((part.status, part.field("content-encoding"), part.text()), (206, None, "text"));
    let date = format!("{range}If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_eq!(send("GET", &date).status, 206);
    assert_eq!(send("GET", &format!("Accept-Encoding: gzip\r\n{date}")).status, 200);
}
