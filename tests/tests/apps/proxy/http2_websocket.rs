//! `WebSocket` through an upstream that speaks HTTP/2 (RFC 8441).

use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Method, Request, Response};
use rudy_tests::prelude::*;

use crate::proxy::websocket::{ACCEPT, handshake, tunnel};
use crate::proxy::{assert_error, proxy_http2};

/// An upstream that sends back what it receives, after `hi! `. Reports the heads of its requests.
fn upstream(accepts_tunnels: bool) -> (Http2Upstream, mpsc::Receiver<(String, HeaderMap)>) {
    let (sender, heads) = mpsc::channel();
    let upstream = Http2Upstream::start(
        move |builder| {
            if accepts_tunnels {
                builder.enable_connect_protocol();
            }
        },
        move |request: Request<RecvStream>, respond| {
            let protocol = request.extensions().get::<h2::ext::Protocol>();
            let line = format!("{} {:?}", request.method(), protocol.map(h2::ext::Protocol::as_str));
            sender.send((line, request.headers().clone())).expect("the test runs");
            echo(request, respond)
        },
    );
    (upstream, heads)
}

async fn echo(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if *request.method() != Method::CONNECT || request.uri().path() == "/app/refused" {
        let response = Response::builder().status(403).body(()).expect("a valid head");
        respond.send_response(response, true).expect("the stream is open");
        return;
    }
    let mut out = respond.send_response(Response::new(()), false).expect("the stream is open");
    let ends = request.uri().path() == "/app/ends";
    out.send_data(Bytes::from_static(b"hi! "), ends).expect("the stream is open");
    if ends {
        while let Some(Ok(_)) = request.body_mut().data().await {}
        return;
    }
    while let Some(Ok(mut data)) = request.body_mut().data().await {
        request.body_mut().flow_control().release_capacity(data.len()).expect("it was received");
        while !data.is_empty() {
            out.reserve_capacity(data.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| out.poll_capacity(cx)).await else { return };
            out.send_data(data.split_to(room), false).expect("there is room");
        }
    }
    out.send_data(Bytes::new(), true).expect("the stream is open");
}

#[test]
fn a_websocket_over_http11_reaches_an_upstream_over_http2() {
    let (upstream, heads) = upstream(true);
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = server.send(handshake("/app/echo", "websocket").as_bytes());
    let response = connection.response();
    assert_eq!((response.status, response.field("sec-websocket-accept")), (101, Some(ACCEPT)));
    assert_eq!(response.field("upgrade"), Some("websocket"));
    let (line, fields) = heads.recv().expect("the upstream runs");
    assert_eq!(line, "CONNECT Some(\"websocket\")");
    assert_eq!(fields["sec-websocket-version"], "13");
    assert!(!fields.contains_key("sec-websocket-key") && !fields.contains_key("upgrade"));
    assert_eq!(connection.read_exactly(4), b"hi! ");
    let mut sender = connection.socket().try_clone().expect("a descriptor is free");
    let total = 4_000_000;
    let sending = thread::spawn(move || {
        Write::write_all(&mut sender, &b"abcd".repeat(total / 4)).expect("the server reads");
    });
    assert!(connection.read_exactly(total) == b"abcd".repeat(total / 4));
    sending.join().expect("no panic");
    // The end of one direction is passed on, and comes back as that of the other.
    connection.finish();
    assert!(connection.is_closed());
}

#[test]
fn a_websocket_over_http2_reaches_an_upstream_over_http2() {
    let (upstream, heads) = upstream(true);
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, 4, 1, &tunnel("/app/echo"));
    assert_eq!(connection.wait_for(kind::DATA).payload, b"hi! ");
    assert_eq!(heads.recv().expect("the upstream runs").0, "CONNECT Some(\"websocket\")");
    for message in [b"ping", b"pong"] {
        connection.frame(kind::DATA, 0, 1, message);
        assert_eq!(connection.wait_for(kind::DATA).payload, message);
    }
    connection.frame(kind::DATA, rudy_tests::http2::END, 1, b"last");
    assert_eq!(connection.response(1).text(), "last");
}

#[test]
fn an_upstream_may_end_its_direction_together_with_the_response() {
    let (upstream, _heads) = upstream(true);
    let server = proxy_http2(&upstream.url(), "");
    let mut connection = server.send(handshake("/app/ends", "websocket").as_bytes());
    assert_eq!(connection.response().status, 101);
    assert_eq!(connection.read_exactly(4), b"hi! ");
    assert!(connection.is_closed());
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, 4, 1, &tunnel("/app/ends"));
    assert_eq!(connection.response(1).status_and_text(), (200, "hi! "));
}

#[test]
fn a_tunnel_that_the_upstream_refuses_is_a_response() {
    let (upstream, _heads) = upstream(true);
    let server = proxy_http2(&upstream.url(), "");
    assert_eq!(server.send(handshake("/app/refused", "websocket")).response().status, 403);
    let mut connection = Http2Connection::open(server.address(), &[]);
    connection.wait_for(kind::SETTINGS);
    connection.frame(kind::HEADERS, 4, 1, &tunnel("/app/refused"));
    assert_eq!(connection.response(1).status, 403);
}

#[test]
fn an_upstream_without_tunnels_is_502_with_the_reason_in_the_log() {
    let (upstream, heads) = upstream(false);
    let mut server = proxy_http2(&upstream.url(), "");
    let response = server.send(handshake("/app/echo", "websocket")).response();
    assert_error(&response, 502, "http_upgrade_failed");
    server.wait_for_line("the upstream accepts no WebSockets over HTTP/2");
    assert!(heads.try_recv().is_err(), "the upstream got no request");
}
