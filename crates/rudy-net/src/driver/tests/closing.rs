//! Closing connections, on a runtime without timers.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::harness::Harness;
use crate::{Body, Client, Limits, Reply, Request, Response};

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

/// The client keeps sending, or sends nothing, and does not close.
#[test]
fn a_timer_of_the_worker_ends_a_linger() {
    for more in [0, 10, 100_000] {
        let limits = Limits { linger_timeout: Duration::from_millis(50), ..Limits::default() };
        let harness = Harness::new(limits, hello);
        let (mut peer, thread) = harness.start(Into::into);
        peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        read_until(&mut peer, "hello");
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the server has stopped writing");
        peer.write_all(&vec![b'x'; more]).unwrap();
        thread.join().unwrap();
    }
}

/// A second descriptor keeps the socket open, to inspect it after the first is closed.
#[test]
fn a_connection_closed_by_an_idle_client_is_only_closed() {
    for requests in [0, 2] {
        let harness = Harness::new(Limits::default(), hello);
        let (send, again) = std::sync::mpsc::channel();
        let (mut peer, thread) = harness.start(move |io| {
            send.send(rustix::io::dup(&io).unwrap()).unwrap();
            io.into()
        });
        let again = UnixStream::from(again.recv().unwrap());
        for _ in 0..requests {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            read_until(&mut peer, "hello");
        }
        peer.shutdown(Shutdown::Write).unwrap();
        thread.join().unwrap();
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "no shutdown");
        drop(again);
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
}
