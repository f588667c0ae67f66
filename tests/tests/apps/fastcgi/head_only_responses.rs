//! Responses of which the client gets only the head.

use rudy_tests::prelude::*;

use crate::fastcgi::site::{Site, wait_for_end};

/// Begins an event stream that never ends.
fn endless(_: &str, peer: &mut Peer, sender: &Sender<String>) -> bool {
    peer.body();
    peer.stdout(b"Content-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    wait_for_end(peer, sender)
}

fn send_request(server: &Server, method: &str, target: &str) -> Connection {
    server.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

/// Ends each response only after the client has received its head.
fn lingering(go: Gate<()>) -> App {
    App::start(move |mut peer| {
        while let Some(params) = peer.request() {
            peer.body();
            peer.stdout(match variable(&params, "PATH_INFO") {
                "/nothing" => b"Status: 204\r\n\r\n",
                "/something" => b"Status: 204\r\n\r\nabc",
                "/not-modified" => b"Status: 304\r\nContent-Length: 5\r\n\r\n",
                _ => b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
            });
            if go.wait().is_none() {
                return;
            }
            peer.respond(b"");
        }
    })
}

#[test]
fn a_response_without_a_body_keeps_the_connection() {
    let (go, permits) = gate();
    let app = lingering(permits);
    // The limit is 1, so each request waits until the app has ended the previous one.
    let server = Site::server(Model::PerCore, &app, ", connections = 1");
    for (method, path, status, length) in [
        ("GET", "/nothing", 204, None),
        ("GET", "/something", 204, None),
        ("GET", "/not-modified", 304, None),
        ("HEAD", "/all", 200, Some("5")),
        ("GET", "/nothing", 204, None),
    ] {
        let response = send_request(&server, method, &format!("/app{path}")).head_response();
        assert_eq!((response.status, response.field("content-length")), (status, length), "{path}");
        go.send(()).unwrap();
    }
    assert_eq!(app.accepted(), 1);
}

#[test]
fn the_head_of_an_endless_response_is_passed_on_and_the_request_cancelled() {
    let site = Site::start(Model::PerCore, endless);
    let mut client = send_request(&site.server, "HEAD", "/app/endless");
    client.socket().set_read_timeout(Some(PATIENCE / 2)).unwrap();
    assert_eq!(client.head_response().status, 200);
    assert_eq!(site.next_event(), "cancelled");
    drop(client);
    site.assert_all_connections_free(Model::PerCore, "an endless response");
}
