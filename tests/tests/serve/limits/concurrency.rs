//! Requests at the same time: each way in which a request can end frees its slot.

use rudy_tests::prelude::*;

use crate::limits::{first_limit, get, start, wait_for_active};

/// One request at a time for each value of `x-key`.
fn server(upstream: &Upstream) -> Server {
    let text = format!(
        "listen = \"127.0.0.1:0,h2c\"\nlimits.half_close_timeout = \"300ms\"\n[[site]]\nconcurrent_requests = {{ max = 1, by = \"header.x-key\" }}\n\
         [[site.route]]\npath = \"/fixed\"\nrespond = {{ body = \"fine\" }}\n\
         [[site.route]]\npath = \"/slow\"\ndelay = {{ time = \"10m\", body = \"late\" }}\n\
         [[site.route]]\npath = \"/stream\"\nstream = {{ interval = \"10ms\" }}\n\
         [[site.route]]\npath = \"/app/*\"\nproxy = \"{upstream}\"\n\
         [[site.route]]\npath = \"/*\"\nfiles = \"www\"\n"
    );
    start("large.bin", &vec![b'x'; 8_000_000], &text)
}

fn echo() -> Upstream {
    Upstream::start(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
            peer.send("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
            let bytes = peer.read_exactly(4);
            peer.send(&bytes);
            if bytes == b"last" {
                return;
            }
        }
    })
}

fn send(server: &Server, target: &str) -> Connection {
    server.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Key: a\r\n\r\n"))
}

fn status(server: &Server) -> u16 {
    get(&mut server.connect(), "/fixed", "X-Key: a\r\n").status
}

fn websocket(server: &Server) -> (Connection, Response) {
    let mut connection = server.send(
        b"GET /app/echo HTTP/1.1\r\nHost: a\r\nX-Key: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let response = connection.response();
    (connection, response)
}

/// A way in which a client ends its connection.
type End = fn(Connection);

#[test]
fn a_request_in_progress_blocks_another_one_until_its_client_is_gone() {
    let server = server(&echo());
    let ends: [(&str, End); 5] = [
        ("/slow", drop),
        ("/slow", Connection::reset),
        ("/stream", drop),
        ("/stream", Connection::reset),
        // Too large for the buffers of the kernel.
        ("/large.bin", Connection::reset),
    ];
    for (target, end) in ends {
        let mut first = send(&server, target);
        if target != "/slow" {
            assert_eq!(first.head().status, 200, "{target}");
        }
        wait_for_active(&server, 1);
        assert_eq!(status(&server), 429, "{target}");
        assert_eq!(get(&mut server.connect(), "/fixed", "X-Key: b\r\n").status, 200, "{target}");
        end(first);
        wait_for_active(&server, 0);
        assert_eq!(status(&server), 200, "{target}");
    }
    assert_eq!(first_limit(&server)["rejected"], 5);
}

#[test]
fn a_response_that_was_sent_frees_its_slot() {
    let server = server(&echo());
    let mut connection = server.connect();
    for target in ["/large.bin", "/fixed", "/none", "/large.bin"] {
        let response = get(&mut connection, target, "X-Key: a\r\n");
        assert_eq!(response.status, if target == "/none" { 404 } else { 200 }, "{target}");
    }
    assert_eq!(
        connection.exchange("HEAD", "/large.bin", &["Host: a", "X-Key: a"]).field("content-length"),
        Some("8000000")
    );
    wait_for_active(&server, 0);
    assert_eq!(first_limit(&server)["rejected"], 0);
}

#[test]
fn a_stream_of_http2_that_is_reset_frees_its_slot() {
    let server = server(&echo());
    let mut connection = Http2Connection::open(server.address(), &[]);
    for (stream, target) in [(1, "/slow"), (5, "/stream"), (9, "/large.bin")] {
        connection.request(stream, "GET", target, &[("x-key", "a")], true);
        wait_for_active(&server, 1);
        connection.request(stream + 2, "GET", "/fixed", &[("x-key", "a")], true);
        // The body of the first one is longer than its window.
        let over = loop {
            let frame = connection.wait_for(kind::HEADERS);
            if frame.stream == stream + 2 {
                break frame;
            }
        };
        assert_eq!(over.stream, stream + 2);
        connection.frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        wait_for_active(&server, 0);
    }
    assert_eq!(first_limit(&server)["rejected"], 3);
}

#[test]
fn a_websocket_is_in_progress_until_it_is_closed() {
    let upstream = echo();
    let server = server(&upstream);
    for closes in ["upstream", "client"] {
        let (mut connection, response) = websocket(&server);
        assert_eq!(response.status, 101, "{closes}");
        wait_for_active(&server, 1);
        assert_eq!(status(&server), 429, "{closes}");
        if closes == "upstream" {
            connection.send(b"last");
            assert_eq!(connection.read_exactly(4), b"last");
            assert!(connection.is_closed());
            // The client closes its side, too.
            drop(connection);
        } else {
            connection.reset();
        }
        wait_for_active(&server, 0);
        assert_eq!(status(&server), 200, "{closes}");
    }
}

#[test]
fn a_reload_keeps_the_requests_in_progress() {
    let mut server = server(&echo());
    let first = send(&server, "/slow");
    wait_for_active(&server, 1);
    server.reload_changed(|text| text.replace("\"late\"", "\"later\""), "the configuration was reloaded");
    assert_eq!(status(&server), 429);
    drop(first);
    wait_for_active(&server, 0);
    assert_eq!(status(&server), 200);
}
