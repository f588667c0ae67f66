//! Each piece of a stream arrives through compression.

use rudy_tests::prelude::*;

use crate::compression::{config, gunzip, long_text, proxy};

/// An upstream that sends an event whenever the test allows it, until the sender is dropped.
fn events() -> (mpsc::Sender<&'static str>, Upstream) {
    let (sender, allowed) = gate::<&'static str>();
    let upstream = Upstream::serve(move |peer, _| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        while let Some(event) = allowed.wait() {
            peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
        }
        peer.send("0\r\n\r\n");
    });
    (sender, upstream)
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

#[test]
fn events_arrive_one_by_one_also_across_a_reload() {
    let (sender, upstream) = events();
    let mut server = proxy(&upstream, "compression = true");
    let mut connection = server.send(GET);
    let head = connection.head();
    assert_eq!((head.status, head.field("content-encoding")), (200, Some("gzip")));
    let (mut sent, mut expected) = (Vec::new(), String::new());
    for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
        sender.send(event).expect("the upstream runs");
        expected.push_str(event);
        // The event may come in two pieces: the header of gzip, and its content.
        while gunzip(&sent).0 != expected {
            assert!(connection.chunk_bytes(&mut sent), "the stream continues");
        }
        if event.contains("one") {
            server.path().write("rudy.toml", config(&upstream, "compression = false"));
            server.reload("the configuration was reloaded");
        }
    }
    drop(sender);
    while connection.chunk_bytes(&mut sent) {}
    assert_eq!(gunzip(&sent), (expected, true));
}

#[test]
fn a_slow_reader_gets_the_whole_text_while_another_is_served() {
    let text = long_text();
    let body = text.clone();
    let upstream = Upstream::serve(move |peer, _| {
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    });
    let server = proxy(&upstream, "compression = { streams = 2 }");
    let [mut slow, mut fast] = [server.connect(), server.connect()];
    slow.send(GET);
    let head = slow.head();
    assert_eq!((head.field("etag"), head.field("content-length")), (Some("W/\"a\""), None));
    fast.send(GET);
    fast.head();
    for connection in [&mut fast, &mut slow] {
        let mut sent = Vec::new();
        while connection.chunk_bytes(&mut sent) {}
        assert!(gunzip(&sent) == (text.clone(), true));
    }
}
