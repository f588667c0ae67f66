//! Connections that are always ready: they block neither other connections nor the end of the server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use rudy_service::Limits;

use crate::service::{Server, read_until};
use crate::support::{REQUEST, is_serial};

/// Much longer than any step of these tests, so that a failing test ends.
const LONG: Duration = Duration::from_mins(1);

/// Paths with endless bodies.
const ENDLESS: [&str; 2] = ["/endless", "/live/endless"];

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Reads and discards until the connection ends.
fn swallow(mut stream: TcpStream) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        while matches!(stream.read(&mut buffer), Ok(1..)) {}
    })
}

/// Stops the server at once, and waits for its end.
fn cut(server: &Server) {
    server.engine.stop_now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(LONG, server.engine.ended()).await });
    assert!(ended.is_ok(), "the server did not end");
}

#[test]
fn an_endless_body_does_not_block_other_connections() {
    if is_serial() {
        return;
    }
    for path in ENDLESS {
        let server = Server::start_on(1, Limits::default());
        let mut endless = server.send(get(path));
        read_until(&mut endless, "\r\n\r\n");
        let endless = swallow(endless);
        let mut other = server.send(REQUEST);
        other.set_read_timeout(Some(LONG)).unwrap();
        read_until(&mut other, "hello");
        cut(&server);
        endless.join().unwrap();
    }
}

#[test]
fn an_immediate_stop_ends_an_endless_body() {
    for path in ENDLESS {
        let server = Server::start_on(1, Limits::default());
        let mut endless = server.send(get(path));
        read_until(&mut endless, "\r\n\r\n");
        let endless = swallow(endless);
        cut(&server);
        endless.join().unwrap();
    }
}

#[test]
fn an_immediate_stop_ends_a_flood_of_requests() {
    let server = Server::start_on(1, Limits::default());
    let mut flood = server.send(REQUEST);
    read_until(&mut flood, "hello");
    let [stream, end] = [(); 2].map(|()| flood.try_clone().unwrap());
    let responses = swallow(stream);
    let requests = std::thread::spawn(move || {
        let many = REQUEST.repeat(1000);
        while flood.write_all(&many).is_ok() {}
    });
    // Some requests arrive before the end.
    for _ in 0..1000 {
        server.outcomes.recv().unwrap();
    }
    cut(&server);
    // Without this, a kernel with a full window would wait for an update that never arrives.
    let _ = end.shutdown(Shutdown::Both);
    requests.join().unwrap();
    responses.join().unwrap();
}
