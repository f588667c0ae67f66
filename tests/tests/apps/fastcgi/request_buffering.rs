//! Buffering of request bodies: a slow client does not occupy a connection to the app.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{CONNECTIONS, Site, assert_same, pattern, post};

const HEAD: &[u8] = b"Content-Type: application/octet-stream\r\n\r\n";

/// Responds with the body.
pub(crate) fn echo(peer: &mut Peer) -> bool {
    let Some(body) = peer.body_bytes() else { return false };
    peer.respond(&[HEAD, &body].concat());
    true
}

/// The connection of an upload, and the part of the body that is not sent yet.
pub(crate) type Upload = (Connection, Vec<u8>);

/// Begins a POST to `/app/echo`.
pub(crate) fn begin(site: &Site, body: &[u8], sent: usize) -> Upload {
    let mut request = post("/app/echo", body);
    let rest = request.split_off(request.len() - body.len() + sent);
    let client = site.server.send(&request);
    (client, rest)
}

#[test]
fn a_slow_upload_occupies_no_connection_and_reaches_the_app_complete() {
    let site = Site::start(Model::PerCore, |_, peer, _| echo(peer));
    // In memory, at the limit of memory, and in a file.
    let bodies: Vec<_> =
        [1000, 65_536, 65_537, 1 << 20].into_iter().cycle().take(4 * CONNECTIONS).map(pattern).collect();
    let uploads: Vec<_> = bodies.iter().map(|body| begin(&site, body, body.len() - 10)).collect();
    for round in 0..20 {
        assert_eq!(site.server.get("/app/ok").text(), "fine", "{round}");
    }
    assert_eq!(site.app.accepted(), 1, "only the other client has reached the app");
    for ((mut client, rest), body) in uploads.into_iter().zip(&bodies) {
        client.send(&rest);
        assert_same(&client.response().body, body, "the body");
    }
}

#[test]
fn truncated_uploads_reach_no_app_and_leak_nothing() {
    let site = Site::start(Model::PerCore, |_, peer, _| echo(peer));
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    let before = site.descriptors();
    let body = pattern(1 << 20);
    let uploads: Vec<_> = (0..20).map(|_| begin(&site, &body, body.len() - 10)).collect();
    drop(uploads);
    site.wait_for_descriptors(before, "truncated uploads");
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    assert_eq!(site.app.accepted(), 1);
}

#[test]
fn a_body_over_the_total_limit_is_507_without_a_request_to_the_app() {
    let top = "buffer_total = \"1 MiB\"\n";
    let site = Site::start_with(Model::PerCore, top, "", |_, peer, _| echo(peer));
    // With a length, with a length and `Expect`, and chunked.
    let mut client =
        site.server.send(b"POST /app/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2000000\r\n\r\n");
    assert_eq!(client.response().status, 507);
    let fields = "Host: test\r\nExpect: 100-continue\r\nContent-Length: 2000000";
    let mut client = site.server.send(format!("POST /app/echo HTTP/1.1\r\n{fields}\r\n\r\n"));
    assert_eq!(client.next_response().status, 507, "the server does not request the body");
    let mut client =
        site.server.send(b"POST /app/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [b"186a0\r\n".as_slice(), &pattern(100_000), b"\r\n"].concat();
    // Send little enough that the server can discard the rest. Otherwise a reset might overtake the response.
    (0..14).for_each(|_| client.send(&chunk));
    assert_eq!(client.response().status, 507);
    assert_eq!(site.app.accepted(), 0);
    let body = pattern(500_000);
    assert_same(&site.post("/app/echo", &body).body, &body, "a body within the limit");
}

#[test]
fn an_endless_body_is_streamed_to_the_app() {
    let (sender, events) = mpsc::channel();
    let app = App::serve(move |peer, _| {
        while let Received::Body(piece) = peer.receive() {
            sender.send(piece).expect("the test listens");
        }
        peer.respond(b"Content-Type: text/plain\r\n\r\nfine");
    });
    // Other apps need the length of a body, so the media type alone must not disable buffering.
    let server = Site::server(Model::PerCore, &app, ", buffer_chunked = false");
    for fields in [
        "Connection: upgrade\r\nUpgrade: example\r\n",
        "Content-Type: application/grpc\r\n",
        "Content-Type: application/grpc+proto\r\n",
    ] {
        let head = format!("POST /app/x HTTP/1.1\r\nHost: test\r\n{fields}Transfer-Encoding: chunked\r\n");
        let mut client = server.send(head + "\r\n");
        for half in ["12345", "67890"] {
            client.send(format!("5\r\n{half}\r\n").as_bytes());
            let piece = events.recv_timeout(PATIENCE).expect("it arrives before the other half is sent");
            assert_eq!(piece, half.as_bytes(), "{fields}");
        }
        client.send(b"0\r\n\r\n");
        assert_eq!(client.response().text(), "fine", "{fields}");
    }
}

#[test]
fn a_post_that_could_not_be_sent_is_repeated_with_its_complete_body() {
    for bytes in [10, 60_000, 300_000] {
        let (site, end) = Site::with_read_closed_connection();
        assert_eq!(site.server.get("/app/x").text(), "fine");
        let before = site.descriptors();
        assert_eq!(site.next_event(), "read closed");
        let body = pattern(bytes);
        assert_same(&site.post("/app/x", &body).body, &body, "the repeated body");
        assert_eq!(site.app.accepted(), 2);
        site.wait_for_descriptors(before, "a repeated request");
        drop(end);
    }
}

#[test]
fn without_request_buffering_only_bodies_with_a_length_are_streamed() {
    let site = Site::start_with(Model::PerCore, "", ", request_buffering = false", |_, peer, sender| {
        sender.send("request".to_owned()).expect("the test listens");
        echo(peer)
    });
    let (mut client, rest) = begin(&site, b"abc", 0);
    assert_eq!(site.next_event(), "request");
    client.send(&rest);
    assert_eq!(client.response().text(), "abc");
    let head = "POST /app/echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = site.server.send(format!("{head}3\r\nabc\r\n"));
    assert!(site.events.recv_timeout(Duration::from_millis(100)).is_err(), "the length is not known yet");
    client.send(b"0\r\n\r\n");
    assert_eq!(site.next_event(), "request");
    assert_eq!(client.response().text(), "abc");
}
