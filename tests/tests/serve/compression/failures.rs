//! A response that fails must not look complete, and a client that leaves ends the work.

use rudy_tests::prelude::*;

use crate::compression::{gunzip, proxy};

/// An upstream that dies in the middle of its body.
fn dying() -> Upstream {
    Upstream::start(|peer| {
        if peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
        }
    })
}

#[test]
fn the_coding_of_a_response_that_dies_has_no_end() {
    let upstream = dying();
    let server = proxy(&upstream, "compression = true");
    for version in ["1.1", "1.0"] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut connection = server.send(request.as_bytes());
        assert_eq!(connection.head().field("content-encoding"), Some("gzip"), "{version}");
        let bytes = connection.read_to_end();
        let start = bytes.windows(2).position(|two| two == [0x1f, 0x8b]).unwrap_or(bytes.len());
        assert!(!gunzip(&bytes[start..]).1, "{version}");
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "{version}");
    }
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.request(1, "GET", "/", &[("accept-encoding", "gzip")], true);
    let response = connection.response(1);
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert!(response.reset.is_some());
}

#[test]
fn an_app_that_sends_less_than_it_announces_has_failed() {
    let app = App::start(|mut peer| {
        while peer.request().is_some() && peer.body().is_some() {
            peer.respond(b"Content-Type: text/plain\r\nContent-Length: 5000\r\n\r\nshort");
        }
    });
    let server = Server::config(&format!(
        "listen = ['127.0.0.1:0']\n[[site]]\ncompression = true\n[[site.route]]\npath = '/*'\nfastcgi = {{ address = '{app}' }}\n"
    ));
    let mut connection = server.send(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert!(!connection.read_to_end().ends_with(b"0\r\n\r\n"));
}

#[test]
fn a_client_that_leaves_in_the_middle_cancels_its_request() {
    let (sender, events) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
            peer.wait_for_end();
            sender.send(()).expect("the test runs");
        }
    });
    let server = proxy(&upstream, "compression = true");
    let mut connection = server.send(b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
    assert_eq!(connection.head().field("content-encoding"), Some("br"));
    connection.reset();
    assert_eq!(events.recv(), Ok(()));
}
