//! Counts the allocations of a whole server for a request: from the socket of the client to the upstream and back.
//!
//! A number here changes only with the code, so each is exact. An allocation costs about 80 instructions, and the cache lines that it
//! touches; what a request allocates on each way is the first figure that shows a detour.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../../rudy-http/tests/counting/mod.rs"]
mod counting;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::{panic, thread};

use rudy_server::run::{self, Exit};
use rustix::process::{Signal, getpid, kill_process};

use crate::counting::{ALLOCATIONS, IS_IGNORED};
use crate::support::{options, reserve_port};

/// The requests of a measurement. What happens once a second, or at its begin and end, is lost in the rounding.
const REQUESTS: usize = 500;

/// The end of all bodies.
const END: &[u8] = b"the end\n";

/// A head as `wrk` sends it.
const SHORT: &str = "\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// A head as a browser sends it.
const LONG: &str = "\r\nHost: www.example.org\r\nConnection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=0123456789abcdef\r\n\r\n";

#[test]
fn a_request_allocates_exactly_this_often() {
    IS_IGNORED.set(true);
    let response = http_response();
    let upstream = respond_to_all(move |request| request.ends_with(b"\r\n\r\n").then(|| response.clone()));
    let responses = [fastcgi_response(1), fastcgi_response(2)];
    let app = respond_to_all(move |records| match records {
        // An empty record ends the body of the request, whose ids alternate.
        [.., 1, 5, 0, id, 0, 0, 0, 0] => Some(responses[usize::from(*id) - 1].clone()),
        _ => None,
    });
    let (_reserved, address) = reserve_port();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), END).unwrap();
    let config = folder.path().join("rudy.toml");
    let text = format!(
        r#"
        listen = "{address}"
        cores = 1
        admin_socket = "admin.sock"
        [[site]]
        [[site.route]]
        path = "/a.txt"
        files = "."
        [[site.route]]
        path = "/proxy"
        proxy = "http://{upstream}"
        [[site.route]]
        path = "/app"
        fastcgi = {{ address = "{app}", connections = 1 }}
        "#
    );
    std::fs::write(&config, text).unwrap();
    let server = thread::spawn(move || run::serve(options(config)));
    let client = &mut connect(address);
    let measured = ["/a.txt", "/proxy", "/app"].map(|path| {
        let (short, long) = (allocations(client, path, SHORT), allocations(client, path, LONG));
        format!("{path}: {short} and {long}")
    });
    kill_process(getpid(), Signal::TERM).unwrap();
    assert_eq!(server.join().unwrap(), Exit::Done);
    // The server writes panics to its log, which is closed.
    drop(panic::take_hook());
    assert_eq!(measured, ["/a.txt: 0 and 0", "/proxy: 9 and 9", "/app: 9 and 9"]);
}

/// Returns the number of allocations for each request with this path and head, once the server has a connection, buffers and files open.
fn allocations(client: &mut TcpStream, path: &str, head: &str) -> usize {
    let request = format!("GET {path} HTTP/1.1{head}");
    send(client, &request, REQUESTS);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    send(client, &request, REQUESTS);
    (ALLOCATIONS.load(Ordering::Relaxed) - before + REQUESTS / 2) / REQUESTS
}

fn send(client: &mut TcpStream, request: &str, times: usize) {
    let buffer = &mut [0; 4096];
    for _ in 0..times {
        client.write_all(request.as_bytes()).unwrap();
        let mut received = 0;
        while !buffer[..received].ends_with(END) {
            let read = client.read(&mut buffer[received..]).unwrap();
            received += read;
            assert!(read > 0, "{}", buffer[..received].escape_ascii());
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", buffer[..received].escape_ascii());
    }
}

/// Connects to the server as soon as it listens.
fn connect(address: SocketAddr) -> TcpStream {
    loop {
        match TcpStream::connect(address) {
            Ok(client) => return client,
            Err(_) => thread::yield_now(),
        }
    }
}

/// Starts an upstream that sends what `respond` returns for what it has received since its last response; `None` if that is incomplete.
fn respond_to_all(respond: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        IS_IGNORED.set(true);
        // One connection: the client sends one request after another.
        let (mut connection, _) = listener.accept().unwrap();
        let buffer = &mut [0; 4096];
        let mut received = 0;
        while let Ok(read @ 1..) = connection.read(&mut buffer[received..]) {
            received += read;
            if let Some(response) = respond(&buffer[..received]) {
                connection.write_all(&response).unwrap();
                received = 0;
            }
        }
    });
    address
}

/// Returns a response as nginx sends it for a file of 1 KiB.
fn http_response() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nServer: nginx/1.31.0\r\nDate: Sat, 28 Nov 2026 04:00:00 GMT\r\nContent-Type: text/html\r\n\
        Content-Length: 1024\r\nLast-Modified: Sat, 28 Nov 2026 03:00:00 GMT\r\nConnection: keep-alive\r\n\
        Cache-Control: max-age=86400\r\nAccept-Ranges: bytes\r\n\r\n";
    [head.as_bytes(), &[b'x'; 1024 - END.len()], END].concat()
}

/// Returns a response as PHP sends it to the request with this id.
fn fastcgi_response(id: u8) -> Vec<u8> {
    let record = |kind, content: &[u8]| {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, id, high, low, 0, 0], content].concat()
    };
    let head = "Content-Type: text/html; charset=UTF-8\r\nX-Powered-By: PHP/8.2\r\n\r\n";
    let output = [head.as_bytes(), &[b'x'; 1024 - END.len()], END].concat();
    [record(6, &output), record(6, b""), record(3, &[0; 8])].concat()
}
