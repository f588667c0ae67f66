//! Bodies pass in both directions as they arrive.

use rudy_tests::prelude::*;

use crate::proxy::{FINE, proxy, proxy_with, recorder};

#[test]
fn each_piece_of_a_response_is_passed_on_at_once() {
    let (next, may_continue) = gate::<()>();
    let upstream = Upstream::serve(move |peer, _| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for event in ["a", "b"] {
            may_continue.wait().expect("the test runs");
            peer.send(format!("1\r\n{event}\r\n"));
        }
        peer.send("0\r\n\r\n");
    });
    let server = proxy(&upstream, "");
    let mut connection = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    // The head arrives before any event, and each event before the next one is sent.
    assert_eq!(connection.head().status, 200);
    for event in ["a", "b"] {
        next.send(()).expect("the upstream runs");
        assert_eq!(connection.chunk().as_deref(), Some(event));
    }
    assert_eq!(connection.chunk(), None);
}

#[test]
fn trailers_pass_in_both_directions() {
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n";
    let (upstream, requests) = recorder(response);
    let server = proxy(&upstream, "");
    let mut connection = server.send(
        b"POST /app/ HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n\
          3\r\nabc\r\n0\r\nX-Check: 2\r\n\r\n",
    );
    let response = connection.response();
    assert_eq!((response.text(), response.trailers.as_str()), ("ok", "x-sum: 1\r\n"));
    let request = requests.recv().expect("the upstream runs");
    assert_eq!((request.body.as_slice(), request.trailers.as_str()), (&b"abc"[..], "x-check: 2\r\n"));
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.get(1, "/app/");
    let response = connection.response(1);
    assert_eq!(response.text(), "ok");
    assert_eq!(response.trailers, [("x-sum".to_owned(), "1".to_owned())]);
}

#[test]
fn trailers_have_no_fields_that_only_proxies_set_or_that_resemble_framing() {
    let (upstream, requests) = recorder(FINE);
    for top in ["", "trusted_proxies = \"127.0.0.1\""] {
        let server = proxy_with(&upstream, top, "");
        let mut connection = server.send(
            b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\
              X-Check: 2\r\nx_real_ip: 10.0.0.1\r\nTransfer_Encoding: chunked\r\nForwarded: for=10.0.0.1\r\n\r\n",
        );
        assert_eq!(connection.response().text(), "fine");
        assert_eq!(requests.recv().expect("the upstream runs").trailers, "x-check: 2\r\n", "{top}");
    }
}

#[test]
fn interim_responses_are_passed_on() {
    let upstream = Upstream::serve(|peer, _| {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\n\r\n";
        peer.send(format!("HTTP/1.1 100 Continue\r\n\r\n{hints}"));
        peer.respond("fine");
    });
    let server = proxy(&upstream, "");
    let mut connection = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = connection.next_response();
    assert_eq!((hints.status, hints.field("link"), hints.field("connection")), (103, Some("</a>"), None));
    assert_eq!(connection.next_response().text(), "fine");
    let response = server.exchange(b"GET /app/ HTTP/1.0\r\n\r\n");
    assert!(response.starts_with(b"HTTP/1.1 200 "), "not to a client of HTTP/1.0");
}

#[test]
fn a_client_that_disconnects_cancels_its_request() {
    let (sender, events) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        if peer.head().is_some() {
            sender.send("received").expect("the test runs");
            peer.wait_for_end();
            sender.send("closed").expect("the test runs");
        }
    });
    let server = proxy(&upstream, "");
    let connection = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.recv(), Ok("received"));
    // A half-close would leave the client waiting for its response.
    connection.reset();
    assert_eq!(events.recv(), Ok("closed"));
}

#[test]
fn a_response_before_the_end_of_the_request_is_passed_on() {
    let upstream = Upstream::start(|peer| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        }
    });
    let server = proxy(&upstream, "");
    let mut connection = server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    connection.send(&vec![b'x'; 200_000]);
    assert_eq!(connection.response().status_and_text(), (403, "no"));
}

#[test]
fn a_large_body_passes_in_both_directions() {
    let upstream = Upstream::serve(|peer, request| {
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len()));
        peer.send(&request.body);
    });
    let server = proxy(&upstream, "");
    let body: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_be_bytes).take(5_000_000).collect();
    let head = format!("PUT /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut connection = server.send(head);
    connection.send(&body);
    assert!(connection.response().body == body);
}

#[test]
fn a_client_that_reads_late_gets_a_large_response_unchanged() {
    let body: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let (sent, (sender, events)) = (body.clone(), mpsc::channel());
    let upstream = Upstream::start(move |peer| {
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()));
            peer.send(&sent);
            sender.send(()).expect("the test runs");
        }
    });
    let server = proxy(&upstream, "");
    let mut connection = server.connect();
    for _ in 0..2 {
        connection.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        events.recv().expect("the upstream does not wait for the client");
        assert!(connection.response().body == body);
    }
}

#[test]
fn a_large_response_that_the_upstream_does_not_complete_ends_early() {
    let upstream = Upstream::start(|peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n");
        peer.send(vec![b'x'; 1_000_000]);
    });
    let server = proxy(&upstream, "");
    let mut connection = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connection.head().status, 200);
    assert!(connection.read_to_end().len() <= 1_000_000);
}

#[test]
fn an_upload_reaches_the_upstream_when_the_settings_and_the_client_say() {
    let (sender, events) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        while let Some(head) = peer.head() {
            sender.send(head.clone()).expect("the test runs");
            let mut length = 0;
            if head.field("transfer-encoding").is_some() {
                while let Some(chunk) = peer.chunk() {
                    length += chunk.len();
                }
            } else if let Some(of_head) = head.field("content-length") {
                length = peer.read_exactly(of_head.parse().expect("a number")).len();
            }
            peer.respond(&length.to_string());
        }
    });
    let server = proxy(&upstream, "");
    let mut connection = server.connect();
    // A chunked body has a length once all of it was received, short or long.
    connection.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    assert!(events.try_recv().is_err(), "the upstream waits for the end");
    connection.send(b"2\r\nde\r\n0\r\n\r\n");
    assert_eq!(connection.response().text(), "5");
    assert_eq!(events.recv().expect("a request").field("content-length"), Some("5"));
    connection.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send(format!("30000\r\n{}\r\n", "x".repeat(0x30000)).as_bytes());
    connection.send(b"1\r\ny\r\n0\r\n\r\n");
    assert_eq!(connection.response().text(), (0x30001).to_string());
    let request = events.recv().expect("a request");
    assert_eq!(request.field("content-length"), Some("196609"));
    assert_eq!(request.field("transfer-encoding"), None);
    // A client may require that its body is passed on at once.
    connection
        .send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nIncremental: ?1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(events.recv().expect("a request before its body").field("transfer-encoding"), Some("chunked"));
    connection.send(b"1\r\ny\r\n0\r\n\r\n");
    assert_eq!(connection.response().text(), "1");
    // A body with a length is passed on after 64 KiB.
    connection.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    connection.send(&vec![b'x'; 150_000]);
    assert_eq!(events.recv().expect("a request before its end").field("content-length"), Some("200000"));
    connection.send(&vec![b'x'; 50_000]);
    assert_eq!(connection.response().text(), "200000");
    // Over HTTP/2, a body may have no length either.
    let mut stream = Http2Connection::open(server.address(), &[]);
    stream.request(1, "POST", "/app/", &[], false);
    for _ in 0..3 {
        stream.frame(0, 0, 1, &[b'x'; 16_000]);
    }
    // END_STREAM.
    stream.frame(0, 1, 1, b"y");
    assert_eq!(stream.response(1).text(), "48001");
    assert_eq!(events.recv().expect("a request").field("content-length"), Some("48001"));
    // Without buffering, the upstream receives each chunk at once.
    let server = proxy(&upstream, "request_buffering = \"off\"\n");
    let mut connection =
        server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    events.recv().expect("a request before the end of its body");
    connection.send(b"0\r\n\r\n");
    assert_eq!(connection.response().text(), "3");
    // With full buffering, a large body has a length too.
    let server = proxy(&upstream, "request_buffering = \"full\"\n");
    let mut connection = server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send(format!("30000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x30000)).as_bytes());
    assert_eq!(connection.response().text(), (0x30000).to_string());
    assert_eq!(events.recv().expect("a request").field("content-length"), Some("196608"));
}

#[test]
fn a_body_without_a_length_that_cannot_be_buffered_is_rejected_and_reaches_no_upstream() {
    let upstream = Upstream::start(|peer| while peer.request().is_some() {});
    for (top, status) in
        [("buffer_memory = 0\nbuffer_total = \"100 KB\"", 507), ("limits.body_bytes = \"100 KB\"", 413)]
    {
        let server = proxy_with(&upstream, top, "");
        let mut connection =
            server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(format!("30000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x30000)).as_bytes());
        assert_eq!(connection.response().status, status, "{top}");
    }
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn a_client_that_expects_100_may_send_a_body_without_a_length() {
    let upstream = Upstream::serve(|peer, request| {
        let length = request.field("content-length").unwrap_or("none");
        let expect = request.field("expect").unwrap_or("nothing");
        peer.respond(&format!("{length} bytes, {expect} expected"));
    });
    let server = proxy(&upstream, "");
    let head = "POST /app/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut connection = server.send(head);
    assert_eq!(connection.head().status, 100);
    connection.send(b"3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(connection.response().text(), "3 bytes, nothing expected");
}
