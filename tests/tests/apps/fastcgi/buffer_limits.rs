//! Little or no space to buffer bodies: each body is transferred completely or rejected, and none blocks another.

use rudy_tests::prelude::*;

use crate::fastcgi::half_close::get;
use crate::fastcgi::request_buffering::{begin, echo};
use crate::fastcgi::response_buffering::{LARGE_BYTES, send};
use crate::fastcgi::site::{Site, assert_same, pattern};

const NO_ROOM: &str = "buffer_memory = 0\nbuffer_total = 0\n";

#[test]
fn responses_are_sent_without_any_buffer_space() {
    thread::scope(|scope| {
        for model in engines() {
            scope.spawn(move || {
                let site = Site::start_with(model, NO_ROOM, "", send);
                let address = site.server.address();
                thread::scope(|scope| {
                    for client in 0..6 {
                        scope.spawn(move || {
                            let mut connection = Connection::open(address);
                            let body = connection.get("/app/large", &["Connection: close"]).body;
                            assert_same(&body, &pattern(LARGE_BYTES), &format!("{model}: {client}"));
                        });
                    }
                });
                site.assert_all_connections_free(model, "responses without buffer space");
            });
        }
    });
}

#[test]
fn without_any_buffer_space_only_requests_without_a_body_are_served() {
    let site = Site::start_with(Model::PerCore, NO_ROOM, "", |_, peer, _| echo(peer));
    for _ in 0..3 {
        assert_eq!(site.post("/app/echo", b"a body").status, 507);
        assert_eq!(site.post("/app/echo", b"").status, 200);
        assert_eq!(site.server.get("/app/ok").text(), "fine");
    }
}

#[test]
fn small_bodies_are_buffered_in_files_when_memory_is_full() {
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
fn a_buffered_response_that_the_app_truncated_is_truncated_for_a_slow_client() {
    for length in ["", "Content-Length: 10000000\r\n"] {
        let (sender, events) = mpsc::channel();
        let app = App::start(move |mut peer| {
            if peer.request().is_some() {
                peer.stdout(format!("Content-Type: text/plain\r\n{length}\r\n").as_bytes());
                pattern(LARGE_BYTES).chunks(60_000).for_each(|piece| peer.stdout(piece));
                sender.send("closes".to_owned()).expect("the test listens");
            }
        });
        let site = Site { server: Site::server(Model::PerCore, &app, ""), app, events };
        let mut client = site.server.send(get("/app/x"));
        assert_eq!(site.next_event(), "closes");
        let bytes = client.read_to_end();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("the head ends") + 4;
        if length.is_empty() {
            assert!(!bytes.ends_with(b"0\r\n\r\n"), "the response must not look complete");
        } else {
            assert_same(&bytes[head..], &pattern(LARGE_BYTES), "the body before the failure");
        }
    }
}

#[test]
fn an_http_1_0_client_gets_a_buffered_response() {
    let site = Site::start(Model::PerCore, send);
    let mut client = site.server.send(b"GET /app/large HTTP/1.0\r\n\r\n");
    assert_eq!(site.next_event(), "sent");
    assert_same(&client.response().body, &pattern(LARGE_BYTES), "the response");
}
