//! Little room for bodies or none, of all messages together: every body is whole or rejected, and none waits for another.

use std::sync::mpsc;
use std::thread;

use rudy_net::engine::Model;
use rudy_tests::fastcgi::App;
use rudy_tests::{Connection, engines};

use crate::half_close::get;
use crate::request_buffering::{begin, echo};
use crate::response_buffering::{LARGE_BYTES, send};
use crate::site::{Site, assert_same, pattern};

const NO_ROOM: &str = "buffer_memory = 0\nbuffer_total = 0\n";

#[test]
fn responses_reach_their_clients_where_there_is_no_room_at_all() {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || {
                let site = Site::start_with(model, NO_ROOM, "", send);
                let address = site.server.address();
                thread::scope(|scope| {
                    for client in 0..6 {
                        scope.spawn(move || {
                            let mut connection = Connection::open(address);
                            connection
                                .send(b"GET /app/large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
                            let body = connection.response().body;
                            assert_same(&body, &pattern(LARGE_BYTES), &format!("{model}: {client}"));
                        });
                    }
                });
                site.all_places_are_free(model, "responses without room");
            });
        }
    });
}

#[test]
fn a_request_without_a_body_is_served_and_one_with_a_body_rejected_where_there_is_no_room_at_all() {
    let site = Site::start_with(Model::PerCore, NO_ROOM, "", |_, peer, _| echo(peer));
    for _ in 0..3 {
        assert_eq!(site.post("/app/echo", b"a body").status, 507);
        assert_eq!(site.post("/app/echo", b"").status, 200);
        assert_eq!(site.server.get("/app/ok").text(), "fine");
    }
}

#[test]
fn small_bodies_go_to_files_where_there_is_no_room_in_memory() {
    let top = "buffer_memory = \"64 KiB\"\n";
    let site = Site::start_with(Model::PerCore, top, "", |_, peer, _| echo(peer));
    let body = pattern(60_000);
    let uploads: Vec<_> = (0..20).map(|_| begin(&site, &body, body.len() - 10)).collect();
    assert_eq!(site.server.get("/app/ok").text(), "fine");
    for (mut client, rest) in uploads {
        client.send(&rest);
        assert_same(&client.response().body, &body, "a body beside others");
    }
}

#[test]
fn a_response_that_was_read_ahead_and_broke_off_is_cut_for_a_slow_client() {
    for length in ["", "Content-Length: 10000000\r\n"] {
        let (tell, told) = mpsc::channel();
        let app = App::start(move |mut peer| {
            if peer.request().is_some() {
                peer.stdout(format!("Content-Type: text/plain\r\n{length}\r\n").as_bytes());
                pattern(LARGE_BYTES).chunks(60_000).for_each(|piece| peer.stdout(piece));
                tell.send("closes".to_owned()).expect("the test listens");
            }
        });
        let site = Site { server: Site::server(Model::PerCore, &app, ""), app, told };
        let mut client = site.server.connect();
        client.send(&get("/app/x"));
        assert_eq!(site.told(), "closes");
        let bytes = client.read_to_end();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head comes") + 4;
        // The reset that cuts a response discards what is in the socket's send buffer.
        if length.is_empty() {
            assert!(!bytes.ends_with(b"0\r\n\r\n"), "it must not pass for whole");
        } else {
            let body = &bytes[head..];
            assert_same(body, &pattern(LARGE_BYTES)[..body.len()], "what came before");
        }
    }
}

#[test]
fn a_client_of_http_1_0_gets_a_response_that_was_read_ahead() {
    let site = Site::start(Model::PerCore, send);
    let mut client = site.server.connect();
    client.send(b"GET /app/large HTTP/1.0\r\n\r\n");
    assert_eq!(site.told(), "sent");
    assert_same(&client.response().body, &pattern(LARGE_BYTES), "the response");
}
