//! Answers of which nothing but the head goes to the client.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use rudy_net::engine::Model;
use rudy_tests::fastcgi::{App, Peer, variable};
use rudy_tests::{Connection, PATIENCE};

use crate::site::{Site, wait_for_end};

/// Says more without an end.
fn endless(_: &str, peer: &mut Peer, tell: &Sender<String>) -> bool {
    peer.body();
    peer.stdout(b"Content-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    wait_for_end(peer, tell)
}

fn ask(client: &mut Connection, method: &str, target: &str) {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
}

/// Ends its answer only when the client has it.
fn lingering(go: Receiver<()>) -> App {
    let go = Mutex::new(go);
    App::start(move |mut peer| {
        while let Some(params) = peer.request() {
            peer.body();
            peer.stdout(match variable(&params, "PATH_INFO") {
                "/nothing" => b"Status: 204\r\n\r\n",
                "/something" => b"Status: 204\r\n\r\nabc",
                "/not-modified" => b"Status: 304\r\nContent-Length: 5\r\n\r\n",
                _ => b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
            });
            if go.lock().expect("no thread panics with it").recv_timeout(PATIENCE).is_err() {
                return;
            }
            peer.respond(b"");
        }
    })
}

#[test]
fn an_answer_without_a_body_costs_no_connection() {
    let (go, may_go) = mpsc::channel();
    let app = lingering(may_go);
    // The next request waits until the app has come to its end.
    let server = Site::server(Model::PerCore, &app, ", connections = 1");
    for (method, path, status, length) in [
        ("GET", "/nothing", 204, None),
        ("GET", "/something", 204, None),
        ("GET", "/not-modified", 304, None),
        ("HEAD", "/all", 200, Some("5")),
        ("GET", "/nothing", 204, None),
    ] {
        let mut client = server.connect();
        ask(&mut client, method, &format!("/app{path}"));
        let answer = client.head_response();
        assert_eq!((answer.status, answer.field("content-length")), (status, length), "{path}");
        go.send(()).unwrap();
    }
    assert_eq!(app.accepted(), 1);
}

#[test]
fn the_head_of_an_endless_answer_is_passed_on_at_once_and_the_app_is_told_to_give_it_up() {
    let site = Site::start(Model::PerCore, endless);
    let mut client = site.server.connect();
    client.socket().set_read_timeout(Some(PATIENCE / 2)).unwrap();
    ask(&mut client, "HEAD", "/app/endless");
    assert_eq!(client.head_response().status, 200);
    assert_eq!(site.told(), "cancelled");
    drop(client);
    site.all_places_are_free(Model::PerCore, "an endless answer");
}
