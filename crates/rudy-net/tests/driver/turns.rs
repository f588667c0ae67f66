//! A connection that always has something to do: it keeps neither the others nor the end waiting.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use rudy_net::Limits;

use crate::service::{Server, read_until};
use crate::support::{REQUEST, is_serial};

/// Far more than any of this takes, so that a test which fails ends.
const LONG: Duration = Duration::from_mins(1);

/// What is always ready.
const ENDLESS: [&str; 2] = ["/endless", "/live/endless"];

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Reads whatever comes until the connection ends.
fn swallow(mut stream: TcpStream) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        while matches!(stream.read(&mut buffer), Ok(1..)) {}
    })
}

/// Cuts everything, and waits for the end.
fn cut(server: &Server) {
    server.engine.stop_now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(LONG, server.engine.ended()).await });
    assert!(ended.is_ok(), "the end never came");
}

#[test]
fn a_body_that_is_always_ready_leaves_the_others_their_turn() {
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
fn a_body_that_is_always_ready_is_cut_with_the_server() {
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
fn a_flood_of_requests_is_cut_with_the_server() {
    let server = Server::start_on(1, Limits::default());
    let mut flood = server.send(REQUEST);
    read_until(&mut flood, "hello");
    let [stream, end] = [(); 2].map(|()| flood.try_clone().unwrap());
    let answers = swallow(stream);
    let requests = std::thread::spawn(move || {
        let many = REQUEST.repeat(1000);
        while flood.write_all(&many).is_ok() {}
    });
    // Some of them are there before the end.
    for _ in 0..1000 {
        server.outcomes.recv().unwrap();
    }
    cut(&server);
    // A kernel whose window was full waits for word that it is not; there will be none.
    let _ = end.shutdown(Shutdown::Both);
    requests.join().unwrap();
    answers.join().unwrap();
}
