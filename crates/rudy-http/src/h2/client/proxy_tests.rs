//! Tests of what a proxy needs: tunnels (RFC 8441), windows that open separately, and PING.

use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::Request;
use super::tests::{Server, frame, headers, setting};
use crate::h2::frame::{flag, kind};

const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// Opens a stream for a tunnel.
fn tunnel(server: &mut Server) -> u32 {
    let mut fields = HeaderMap::new();
    fields.insert(header::HOST, HeaderValue::from_static("a"));
    let head = RequestHead {
        method: &Method::GET,
        target: "/",
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body: BodyLength::Known(0),
    };
    let request = Request::tunnel(&head, "http", "websocket").unwrap();
    server.connection.request(&request, &mut server.out).unwrap()
}

#[test]
fn a_tunnel_has_no_length_and_each_direction_ends_by_itself() {
    let mut server = Server::new();
    assert!(!server.connection.accepts_tunnels());
    server.send(&setting(ENABLE_CONNECT_PROTOCOL, 1));
    assert!(server.connection.accepts_tunnels());
    let stream = tunnel(&mut server);
    // Limits of bodies and lengths do not apply to it.
    server.limits.body_bytes = 3;
    let head = headers(stream, false, &[(":status", "200"), ("content-length", "2")]);
    assert_eq!(server.send(&head), ["1 200 Chunked"]);
    assert_eq!(server.send(&frame(kind::DATA, 0, stream, b"abcde")), ["1 \"abcde\""]);
    server.sent();
    server.connection.encode_piece(stream, b"xyz", &mut server.out).unwrap();
    server.connection.finish(stream, None, &mut server.out).unwrap();
    assert_eq!(
        server.sent(),
        [(kind::DATA, 0, stream, b"xyz".to_vec()), (kind::DATA, flag::END_STREAM, stream, Vec::new())]
    );
    assert_eq!(server.send(&frame(kind::DATA, flag::END_STREAM, stream, b"")), ["1 end 0"]);
    assert!(server.connection.is_idle());
}

#[test]
fn a_refused_tunnel_is_an_ordinary_response() {
    let mut server = Server::new();
    server.send(&setting(ENABLE_CONNECT_PROTOCOL, 1));
    let stream = tunnel(&mut server);
    let head = headers(stream, false, &[(":status", "403"), ("content-length", "2")]);
    assert_eq!(server.send(&head), ["1 403 Length(2)"]);
    assert_eq!(
        server.send(&frame(kind::DATA, flag::END_STREAM, stream, b"abc")),
        ["1 reset PROTOCOL_ERROR true"]
    );
}

#[test]
fn the_window_of_the_connection_opens_without_that_of_the_stream() {
    let mut server = Server::new();
    let stream = server.get();
    server.send(&headers(stream, false, &[(":status", "200")]));
    server.sent();
    let piece = vec![b'x'; 16_384];
    let updates = |server: &mut Server| {
        let sent = server.sent().into_iter();
        sent.filter(|frame| frame.0 == kind::WINDOW_UPDATE).map(|frame| frame.2).collect::<Vec<_>>()
    };
    // The window of a stream is 1 MiB, and that of the connection 16 MiB, which opens after 512 KiB.
    for _ in 0..32 {
        server.send(&frame(kind::DATA, 0, stream, &piece));
        server.connection.open_connection_window(piece.len(), &mut server.out);
    }
    assert_eq!(updates(&mut server), [0]);
    server.connection.open_stream_window(stream, 32 * piece.len(), &mut server.out);
    assert_eq!(updates(&mut server), [stream]);
}

#[test]
fn the_acknowledgement_of_a_ping_is_no_event() {
    let mut server = Server::new();
    server.connection.ping(&mut server.out);
    let sent = server.sent();
    assert_eq!((sent.len(), sent[0].0, sent[0].1), (1, kind::PING, 0));
    assert!(server.send(&frame(kind::PING, flag::ACK, 0, &sent[0].3)).is_empty());
}
