//! Closing connections, on a runtime without timers.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rudy_service::{Body, Client, Limits, Reply, Request, Response};

use super::harness::Harness;

fn hello(_: Request, _: &Client<'_>) -> Reply {
    let mut response = Response::new(http::StatusCode::OK);
    response.body = Body::Bytes("hello".into());
    response.into()
}

fn read_until(peer: &mut UnixStream, text: &str) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(text.as_bytes()) {
        let mut byte = [0];
        peer.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
    }
}

/// The client does not close; it sends more data, or nothing.
#[test]
fn the_worker_timer_ends_a_linger() {
    for extra_bytes in [0, 10, 100_000] {
        let limits = Limits { linger_timeout: Duration::from_millis(50), ..Limits::default() };
        let harness = Harness::new(limits, hello);
        let (mut peer, thread) = harness.start(Into::into);
        peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        read_until(&mut peer, "hello");
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the server has stopped writing");
        peer.write_all(&vec![b'x'; extra_bytes]).unwrap();
        thread.join().unwrap();
    }
}

/// A duplicate descriptor keeps the socket open after the close, to check that the server did not shut it down.
#[test]
fn a_connection_that_an_idle_client_closes_is_closed_without_a_shutdown() {
    for requests in [0, 2] {
        let harness = Harness::new(Limits::default(), hello);
        let (sender, receiver) = std::sync::mpsc::channel();
        let (mut peer, thread) = harness.start(move |io| {
            sender.send(rustix::io::dup(&io).unwrap()).unwrap();
            io.into()
        });
        let duplicate = UnixStream::from(receiver.recv().unwrap());
        for _ in 0..requests {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            read_until(&mut peer, "hello");
        }
        peer.shutdown(Shutdown::Write).unwrap();
        thread.join().unwrap();
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "no shutdown");
        drop(duplicate);
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
}
