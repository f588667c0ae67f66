//! Upstreams that speak HTTP/2: many requests share a connection.

use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use rudy_tests::prelude::*;

use crate::proxy::{assert_error, h2c_upstream, proxy_h2c, proxy_http2};

/// Responds with this status and body.
fn respond(mut respond: SendResponse<Bytes>, body: impl Into<Bytes>) {
    let mut body_stream = respond.send_response(Response::new(()), false).expect("the stream is open");
    body_stream.send_data(body.into(), true).expect("the stream is open");
}

/// Sends data as far as the client takes it.
async fn send(out: &mut SendStream<Bytes>, mut data: Bytes, ends: bool) {
    while !data.is_empty() {
        out.reserve_capacity(data.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else { return };
        out.send_data(data.split_to(room), ends && data.is_empty()).expect("there is room");
    }
}

/// An upstream that responds with `fine`, and reports its requests.
fn fine() -> (Http2Upstream, Receiver<Request<()>>) {
    let (sender, requests) = mpsc::channel();
    let upstream = Http2Upstream::serve(move |request, response| {
        sender.send(request.map(|_| ())).expect("the test runs");
        async move { respond(response, "fine") }
    });
    (upstream, requests)
}
#[test]
fn a_request_is_forwarded_over_http2() {
    let (upstream, requests) = fine();
    let server = proxy_http2(&upstream.url(), "");
    let fields = ["Host: a.example", "Connection: keep-alive, X-Hop", "X-Hop: 1", "TE: trailers", "X-End: 1"];
    assert_eq!(server.get_with("/app/a?b", &fields).status_and_text(), (200, "fine"));
    let request = requests.recv().expect("the upstream runs");
    assert_eq!(request.version(), Version::HTTP_2);
    assert_eq!(request.uri(), "http://a.example/app/a?b");
    let fields = request.headers();
    let kept = [("te", Some("trailers")), ("x-end", Some("1"))];
    for (name, value) in kept.into_iter().chain(["x-hop", "connection", "host"].map(|name| (name, None))) {
        assert_eq!(fields.get(name).map(HeaderValue::as_bytes), value.map(str::as_bytes), "{name}");
    }
    assert_eq!(fields["x-forwarded-for"], "127.0.0.1");
}

#[test]
fn a_target_that_is_not_ascii_and_a_length_with_zeros_are_forwarded() {
    let (upstream, requests) = fine();
    let server = proxy_http2(&upstream.url(), "");
    let request = "POST /app/é?ü HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc";
    assert_eq!(server.send(request).response().text(), "fine");
    let request = requests.recv().expect("the upstream runs");
    assert_eq!(request.uri(), "http://a/app/%C3%A9?%C3%BC");
    assert_eq!(request.headers()["content-length"], "3");
}

/// Starts an upstream that accepts this many streams on a connection, reports each request, and responds when the test releases them.
fn held(streams: u32) -> (Http2Upstream, mpsc::Receiver<()>, tokio::sync::watch::Sender<bool>) {
    let (sender, requests) = mpsc::channel();
    let (release, released) = tokio::sync::watch::channel(false);
    let upstream = Http2Upstream::start(
        move |builder| {
            builder.max_concurrent_streams(streams);
        },
        move |_, response| {
            sender.send(()).expect("the test runs");
            let mut released = released.clone();
            async move {
                released.wait_for(|is_released| *is_released).await.expect("the test runs");
                respond(response, "fine");
            }
        },
    );
    (upstream, requests, release)
}

#[test]
fn requests_at_a_time_share_connections_up_to_the_streams_that_the_upstream_accepts() {
    for (streams, connections) in [(100, 1), (5, 4)] {
        let (upstream, requests, release) = held(streams);
        let server = proxy_http2(&upstream.url(), "");
        let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for _ in &clients {
            requests.recv().expect("the upstream runs");
        }
        assert_eq!(upstream.accepted(), connections, "{streams} streams");
        release.send(true).expect("requests wait");
        for client in &mut clients {
            assert_eq!(client.response().text(), "fine");
        }
        // A free stream is used again.
        assert_eq!(server.get("/app/").text(), "fine");
        assert_eq!(upstream.accepted(), connections, "{streams} streams");
    }
}

#[test]
fn requests_over_the_limit_wait_although_a_connection_has_streams() {
    let (upstream, requests, _release) = held(100);
    let server = proxy_http2(&upstream.url(), "connections = 1\nqueue = 0\n");
    let _first = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    requests.recv().expect("the upstream runs");
    assert_eq!(server.get("/app/").status, 503);
}

/// An upstream that sends back a body with its length as a trailer, after two interim responses.
fn echo() -> Http2Upstream {
    Http2Upstream::serve(|mut request: Request<RecvStream>, mut respond| async move {
        for status in [102, 103] {
            let interim = Response::builder().status(status).header("x-interim", status).body(());
            respond.send_informational(interim.expect("a valid head")).expect("the stream is open");
        }
        let mut out = respond.send_response(Response::new(()), false).expect("the stream is open");
        let mut length = 0;
        while let Some(data) = request.body_mut().data().await {
            let data = data.expect("the stream is open");
            length += data.len();
            request.body_mut().flow_control().release_capacity(data.len()).expect("it was received");
            send(&mut out, data, false).await;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-length", length.into());
        let sent = request.body_mut().trailers().await.expect("the stream is open");
        trailers.extend(sent.unwrap_or_default());
        out.send_trailers(trailers).expect("the stream is open");
    })
}

#[test]
fn bodies_trailers_and_interim_responses_pass() {
    let upstream = echo();
    let server = proxy_http2(&upstream.url(), "");
    let body: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_be_bytes).take(5_000_000).collect();
    let mut connection =
        server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut sender = connection.socket().try_clone().expect("a descriptor is free");
    let sent = body.clone();
    let sending = thread::spawn(move || {
        let mut send = |bytes: &[u8]| Write::write_all(&mut sender, bytes).expect("the server reads");
        for piece in sent.chunks(100_000) {
            send(format!("{:x}\r\n", piece.len()).as_bytes());
            send(piece);
            send(b"\r\n");
        }
        send(b"0\r\nX-Check: 1\r\n\r\n");
    });
    let interim = connection.next_response();
    assert_eq!((interim.status, interim.field("x-interim")), (102, Some("102")));
    assert_eq!(connection.next_response().status, 103);
    let response = connection.response();
    sending.join().expect("no panic");
    assert!(response.body == body);
    assert_eq!(response.trailers, "x-length: 5000000\r\nx-check: 1\r\n");
    // A body with a length keeps it.
    connection.send(b"PUT /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(connection.response().text(), "abc");
}

#[test]
fn a_request_is_sent_before_its_body_has_arrived() {
    let (sender, requests) = mpsc::channel();
    let upstream = Http2Upstream::serve(move |mut request: Request<RecvStream>, response| {
        let sender = sender.clone();
        async move {
            sender.send(()).expect("the test runs");
            let mut body = Vec::new();
            while let Some(data) = request.body_mut().data().await {
                body.extend_from_slice(&data.expect("the stream is open"));
            }
            respond(response, body);
        }
    });
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    requests.recv().expect("the upstream runs");
    connection.send(b"cd");
    assert_eq!(connection.response().text(), "abcd");
}

#[test]
fn grpc_streams_in_both_directions() {
    let upstream = echo();
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    let fields = [("content-type", "application/grpc+proto"), ("te", "trailers")];
    connection.request(1, "POST", "/app/", &fields, false);
    // Each message comes back before the next one is sent.
    for message in [&b"first"[..], b"second"] {
        connection.frame(kind::DATA, 0, 1, message);
        assert_eq!(connection.wait_for(kind::DATA).payload, message);
    }
    connection.frame(kind::DATA, rudy_tests::http2::END, 1, b"");
    assert_eq!(connection.response(1).trailers, [("x-length".to_owned(), "11".to_owned())]);
}

#[test]
fn a_client_that_does_not_read_delays_no_other_request_on_its_connection() {
    let length = 8_000_000;
    let upstream = Http2Upstream::serve(move |_, mut respond| async move {
        let head = Response::builder().header("content-length", length).body(()).expect("a valid head");
        let mut out = respond.send_response(head, false).expect("the stream is open");
        send(&mut out, Bytes::from(vec![b'x'; length]), true).await;
    });
    let server = proxy_http2(&upstream.url(), "response_buffer = 0\n");
    // Ten windows of streams are more than that of the connection.
    let stalled = [(); 10].map(|()| {
        let mut client = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status, 200);
        client
    });
    assert_eq!(server.get("/app/").body.len(), length);
    assert_eq!(upstream.accepted(), 1);
    for mut client in stalled {
        assert_eq!(client.read_exactly(length).len(), length);
    }
}

#[test]
fn a_client_that_disconnects_resets_its_stream_and_no_other() {
    let (sender, events) = mpsc::channel();
    let upstream = Http2Upstream::serve(move |request: Request<RecvStream>, mut response| {
        let sender = sender.clone();
        async move {
            if request.uri().path() == "/app/fine" {
                return respond(response, "fine");
            }
            sender.send(None).expect("the test runs");
            let code = std::future::poll_fn(|cx| response.poll_reset(cx)).await;
            sender.send(code.ok()).expect("the test runs");
        }
    });
    let server = proxy_http2(&upstream.url(), "");
    let connection = server.send(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(events.recv(), Ok(None));
    connection.reset();
    assert_eq!(events.recv(), Ok(Some(h2::Reason::CANCEL)));
    assert_eq!(server.get("/app/fine").text(), "fine");
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn a_response_before_the_end_of_the_request_ends_the_upload() {
    let (sender, codes) = mpsc::channel();
    let upstream = Http2Upstream::serve(move |mut request: Request<RecvStream>, response| {
        let sender = sender.clone();
        async move {
            respond(response, "early");
            let end = loop {
                match request.body_mut().data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error.reason(),
                    None => break None,
                }
            };
            sender.send(end).expect("the test runs");
        }
    });
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = server.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    connection.send(&vec![b'x'; 200_000]);
    assert_eq!(connection.response().text(), "early");
    assert_eq!(codes.recv(), Ok(Some(h2::Reason::CANCEL)));
}

#[test]
fn a_post_that_the_upstream_has_not_processed_is_sent_again() {
    // RFC 9113 §8.7: the first connection ends with GOAWAY, and the second one refuses its first stream.
    let upstream = Upstream::start(|peer| {
        let number = peer.number;
        let Some(mut connection) = peer.http2(&[]) else { return };
        while let Some((stream, _)) = connection.next_request() {
            match (number, stream) {
                (1, 1) => connection.respond(stream, "first"),
                (1, _) => {
                    let last = [&1_u32.to_be_bytes()[..], &0_u32.to_be_bytes()].concat();
                    connection.frame(kind::GOAWAY, 0, 0, &last);
                }
                (2, 1) => connection.frame(kind::RST_STREAM, 0, stream, &7_u32.to_be_bytes()),
                _ => connection.respond(stream, "second"),
            }
        }
    });
    let server = proxy_h2c(&upstream, "");
    let mut connection = server.connect();
    for expected in ["first", "second"] {
        connection.send(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(connection.response().text(), expected);
    }
    assert_eq!(upstream.accepted(), 2);
}

#[test]
fn a_post_after_a_restart_of_the_upstream_gets_a_new_connection() {
    let upstream = h2c_upstream(|connection, stream| connection.respond(stream, "fine"));
    let server = proxy_h2c(&upstream, "");
    assert_eq!(server.get("/app/").text(), "fine");
    upstream.close_all();
    assert_eq!(server.send_body("POST", "/app/", "abc").text(), "fine");
    assert_eq!(upstream.accepted(), 2);
}

#[test]
fn an_idle_connection_closes_after_its_timeout_and_with_its_configuration() {
    let (sender, ends) = mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        let Some(mut connection) = peer.http2(&[]) else { return };
        while let Some((stream, _)) = connection.next_request() {
            connection.respond(stream, "fine");
        }
        sender.send(()).expect("the test runs");
    });
    let server = proxy_h2c(&upstream, "idle_timeout = \"300ms\"\n");
    assert_eq!(server.get("/app/").text(), "fine");
    ends.recv().expect("the connection is closed");
    let mut server = proxy_h2c(&upstream, "");
    assert_eq!(server.get("/app/").text(), "fine");
    let url = upstream.url().replace("http", "h2c");
    let change = |text: String| text.replace(&url, "http://127.0.0.1:1");
    server.reload_changed(change, "the configuration was reloaded");
    ends.recv().expect("the connection is closed");
}

#[test]
fn an_https_upstream_chooses_the_version() {
    let Some(certificates) = Certificates::for_host("good", "localhost") else { return };
    let (tls, authority) = (certificates.settings("good"), certificates.path("authority"));
    let (sender, heads) = mpsc::channel();
    let application = Upstream::serve(move |peer, request| {
        peer.respond("fine");
        sender.send(request).expect("the test runs");
    });
    for (http2, version) in [(true, "2"), (false, "1.1")] {
        let upstream = Server::config(&format!(
            "listen = [\"127.0.0.1:0,tls\"]\nhttp2 = {http2}\ntrusted_proxies = \"127.0.0.1\"\n[[site]]\n\
             tls = {{ {tls} }}\n[[site.route]]\npath = \"/*\"\nproxy = \"{application}\"\n"
        ));
        let url = format!("https://localhost:{}", upstream.address().port());
        let keys = format!("host = \"upstream\"\ntrusted_certificates = \"{authority}\"\n");
        let server = proxy_http2(&url, &keys);
        for _ in 0..2 {
            assert_eq!(server.get("/app/").text(), "fine");
            let head = heads.recv().expect("the application runs");
            // The last member is that of the upstream, which names the version of the proxy.
            let via = head.head.lines().rfind(|line| line.starts_with("via:")).unwrap_or_default();
            assert!(via.starts_with(&format!("via: {version} rudy-")), "{via}");
        }
    }
}

#[test]
fn an_upstream_without_http2_is_502_with_the_reason_in_the_log() {
    let upstream = Upstream::serve(|peer, _| peer.respond("fine"));
    let mut server = proxy_h2c(&upstream, "");
    assert_error(&server.get("/app/"), 502, "http_protocol_error");
    server.wait_for_line("the server responds with HTTP/1");
}

#[test]
fn every_engine_uses_http2() {
    let upstream = echo();
    for engine in engines() {
        let route = format!("[[site.route]]\npath = \"/*\"\nproxy = \"{upstream}\"\n");
        let server =
            Server::config(&format!("listen = [\"127.0.0.1:0\"]\nengine = \"{engine}\"\n[[site]]\n{route}"));
        for _ in 0..2 {
            assert_eq!(server.send_body("PUT", "/", "abc").text(), "abc", "{engine}");
        }
    }
}
