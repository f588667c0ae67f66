//! Many requests at once and requests bit by bit, which curl cannot send.

use std::io::Write;
use std::thread;

use rudy_tests::{Connection, Server};

use crate::content::varied;

/// Requests sent without waiting for any answer: more than any bound on what is kept of them.
const REQUESTS: usize = 2000;

const FILES: usize = 7;

/// The server, and what its files hold: some are kept in memory, some sent from the file.
fn serve() -> (Server, Vec<Vec<u8>>) {
    let names: Vec<_> = (0..FILES).map(|n| format!("{n}.bin")).collect();
    let contents: Vec<_> = (0..FILES).map(|n| varied(1 + 30_011 * n)).collect();
    let files: Vec<_> = names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    (Server::files(&files), contents)
}

/// The `n`th request; among them HEAD, conditions, ranges, and what is not there.
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
    let answer = if n % 11 == 3 { connection.head_response() } else { connection.response() };
    let (status, body) = match n % 11 {
        3 => (200, &[][..]),
        5 => (304, &[][..]),
        7 => (206, &file[..1]),
        9 => (404, answer.body.as_slice()),
        _ => (200, &file[..]),
    };
    assert_eq!(answer.status, status, "answer {n}");
    assert!(answer.body == body, "answer {n} has the body of another");
    if status == 200 {
        assert_eq!(answer.field("content-length"), Some(file.len().to_string().as_str()), "answer {n}");
    }
}

#[test]
fn answers_come_in_the_order_of_the_requests() {
    let (server, contents) = serve();
    let mut connection = server.connect();
    let mut writer = connection.socket().try_clone().unwrap();
    thread::scope(|scope| {
        // Beside the reading: nobody keeps thousands of requests for a peer that does not read.
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
fn requests_that_come_byte_by_byte_are_answered_alike() {
    let (server, contents) = serve();
    let mut connection = server.connect();
    for n in 0..22 {
        for byte in request(n).as_bytes() {
            connection.send(&[*byte]);
        }
        check(n, &contents, &mut connection);
    }
}
