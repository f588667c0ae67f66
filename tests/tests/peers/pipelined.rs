//! Pipelined requests, and requests byte by byte, which curl cannot send.

use rudy_tests::prelude::*;

use crate::content::varied;

/// The number of requests that are sent without waiting for a response: more than any limit on pending
/// requests.
const REQUESTS: usize = 2000;

const FILES: usize = 7;

/// Starts a server. Returns the contents of its files, some of which fit into the cache.
fn serve() -> (Server, Vec<Vec<u8>>) {
    let names: Vec<_> = (0..FILES).map(|n| format!("{n}.bin")).collect();
    let contents: Vec<_> = (0..FILES).map(|n| varied(1 + 30_011 * n)).collect();
    let files: Vec<_> = names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    (Server::files(&files), contents)
}

/// Returns the `n`th request. Some use HEAD, conditions or ranges, or request missing files.
fn request(n: usize) -> String {
    let (method, file, more) = match n % 11 {
        3 => ("HEAD", n % FILES, ""),
        5 => ("GET", n % FILES, "If-None-Match: *\r\n"),
        7 => ("GET", n % FILES, "Range: bytes=0-0\r\n"),
        9 => ("GET", 99, ""),
        _ => ("GET", n % FILES, ""),
    };
    format!("{method} /{file}.bin HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")
}

fn check(n: usize, contents: &[Vec<u8>], connection: &mut Connection) {
    let file = &contents[n % FILES];
    let response = if n % 11 == 3 { connection.head_response() } else { connection.response() };
    let (status, body) = match n % 11 {
        3 => (200, &[][..]),
        5 => (304, &[][..]),
        7 => (206, &file[..1]),
        9 => (404, response.body.as_slice()),
        _ => (200, &file[..]),
    };
    assert_eq!(response.status, status, "response {n}");
    assert!(response.body == body, "response {n} has the body of another one");
    if status == 200 {
        assert_eq!(response.field("content-length"), Some(file.len().to_string().as_str()), "response {n}");
    }
}

#[test]
fn responses_have_the_order_of_the_requests() {
    let (server, contents) = serve();
    let mut connection = server.connect();
    let mut writer = connection.socket().try_clone().unwrap();
    thread::scope(|scope| {
        // In parallel with reading: a server does not accept thousands of requests from a client that does
        // not read.
        scope.spawn(move || {
            let requests: String = (0..REQUESTS).map(request).collect();
            writer.write_all(requests.as_bytes()).expect("all requests are taken");
        });
        for n in 0..REQUESTS {
            check(n, &contents, &mut connection);
        }
    });
}

#[test]
fn requests_sent_byte_by_byte_get_the_same_responses() {
    let (server, contents) = serve();
    let mut connection = server.connect();
    for n in 0..22 {
        for byte in request(n).as_bytes() {
            connection.send(&[*byte]);
        }
        check(n, &contents, &mut connection);
    }
}
