//! Tests of the connection with frames written by hand.

use std::time::Instant;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::{ClientConnection, Event, HeadBuffers, Request};
use crate::Limits;
use crate::h2::frame::{FrameHead, HEAD_BYTES, PREFACE, flag, kind, put_head};
use crate::h2::{ConnectionError, ErrorCode};
use crate::hpack::encode_stateless;

/// A connection, and what a server does to it.
pub(super) struct Server {
    pub(super) connection: ClientConnection,
    pub(super) limits: Limits,
    pub(super) now: Instant,
    pub(super) out: BytesMut,
}

/// A frame that the client has sent: its type, flags, stream and payload.
pub(super) type Sent = (u8, u8, u32, Vec<u8>);

impl Server {
    /// A connection after the exchange of SETTINGS.
    pub(super) fn new() -> Self {
        let mut server = Self::before_settings();
        server.send(&frame(kind::SETTINGS, 0, 0, &[]));
        server.sent();
        server
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    pub(super) fn before_settings() -> Self {
        let (limits, now, mut out) = (Limits::for_responses(), Instant::now(), BytesMut::new());
        let connection = ClientConnection::new(now, &limits, &mut out);
        assert_eq!(out.split_to(PREFACE.len())[..], PREFACE[..]);
        Self { connection, limits, now, out }
    }

    /// Opens a stream for a request.
    pub(super) fn request(&mut self, method: &str, body: BodyLength) -> u32 {
        self.try_request(method, body).unwrap()
    }

    pub(super) fn try_request(&mut self, method: &str, body: BodyLength) -> Option<u32> {
        self.connection.request(&request(method, body), &mut self.out)
    }

    pub(super) fn get(&mut self) -> u32 {
        self.request("GET", BodyLength::Known(0))
    }

    /// Sends bytes, and returns descriptions of the events.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Vec<String> {
        self.try_send(bytes).unwrap()
    }

    pub(super) fn try_send(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, ConnectionError> {
        let (mut buffers, mut events) = (HeadBuffers::default(), Vec::new());
        while let Some(event) =
            self.connection.receive(&mut bytes, &mut buffers, self.now, &self.limits, &mut self.out)?
        {
            events.push(describe(&event));
        }
        assert_eq!(bytes, b"");
        Ok(events)
    }

    /// Returns the frames that the client has sent.
    pub(super) fn sent(&mut self) -> Vec<Sent> {
        let (out, mut frames) = (self.out.split(), Vec::new());
        let mut rest = &out[..];
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let head = FrameHead::parse(head);
            frames.push((head.kind, head.flags, head.stream, after[..head.length].to_vec()));
            rest = &after[head.length..];
        }
        frames
    }
}

pub(super) fn request(method: &str, body: BodyLength) -> Request {
    let mut fields = HeaderMap::new();
    fields.insert(header::HOST, HeaderValue::from_static("a"));
    let method = Method::try_from(method).unwrap();
    let head = RequestHead {
        method: &method,
        target: "/",
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body,
    };
    Request::new(&head, "http").unwrap()
}

pub(super) fn describe(event: &Event<'_>) -> String {
    let end = |ends: &bool| if *ends { " end" } else { "" };
    match event {
        Event::Informational { stream, head } => format!("{stream} interim {}", head.status()),
        Event::Head { stream, head, ends } => {
            format!("{stream} {} {:?}{}", head.status(), head.framing(), end(ends))
        }
        Event::Data { stream, data, ends } => {
            format!("{stream} {:?}{}", String::from_utf8_lossy(data), end(ends))
        }
        Event::End { stream, trailers } => {
            format!("{stream} end {}", trailers.as_ref().map_or(0, HeaderMap::len))
        }
        Event::Reset { stream, code, reason } => format!("{stream} reset {code} {}", reason.is_some()),
        Event::GoAway { last_stream, code, reason } => {
            format!("goaway {last_stream} {code} {}", reason.escape_ascii())
        }
        Event::Settings => "settings".to_owned(),
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_head(kind, flags, stream, payload.len(), &mut out);
    out.put_slice(payload);
    out.to_vec()
}

pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (name, value) in fields {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out.to_vec()
}

pub(super) fn headers(stream: u32, ends: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let end = if ends { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flag::END_HEADERS | end, stream, &block(fields))
}

pub(super) fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(super) fn go_away(last: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0, 0, 0, 0], b"bye"].concat())
}

const OK: (&str, &str) = (":status", "200");

#[test]
fn a_connection_begins_with_settings_that_disable_push_and_a_large_window() {
    let mut server = Server::before_settings();
    let sent = server.sent();
    let [(kind::SETTINGS, 0, 0, settings), (kind::WINDOW_UPDATE, 0, 0, _)] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(settings[..6], [0, 2, 0, 0, 0, 0]);
    assert_eq!(settings[6..12], [0, 4, 0, 16, 0, 0]);
    assert_eq!((server.connection.concurrent_streams(), server.connection.available_streams()), (None, 100));
    assert_eq!(server.send(&setting(3, 7)), ["settings"]);
    assert_eq!((server.connection.concurrent_streams(), server.connection.available_streams()), (Some(7), 7));
    assert_eq!(server.sent(), [(kind::SETTINGS, flag::ACK, 0, vec![])]);
}

#[test]
fn responses_arrive_wherever_the_input_is_split() {
    let input = [
        headers(3, false, &[(":status", "103"), ("link", "</a>")]),
        headers(3, false, &[OK, ("content-length", "3"), ("server", "x")]),
        headers(1, false, &[(":status", "404")]),
        frame(kind::DATA, 0, 1, b"ab"),
        frame(kind::DATA, flag::END_STREAM | flag::PADDED, 3, b"\x02xyz\0\0"),
        frame(kind::DATA, flag::PADDED, 1, b"\x02c\0\0"),
        headers(1, true, &[("checksum", "1")]),
        headers(5, true, &[(":status", "204")]),
        go_away(5),
    ]
    .concat();
    for at in 0..input.len() {
        let mut server = Server::new();
        assert_eq!([server.get(), server.get(), server.get()], [1, 3, 5]);
        let mut events = server.send(&input[..at]);
        events.extend(server.send(&input[at..]));
        let body = |stream: u32| -> String {
            let prefix = format!("{stream} \"");
            let pieces = events.iter().filter_map(|event| event.strip_prefix(&prefix));
            pieces.map(|piece| piece.trim_end_matches(" end").trim_end_matches('"')).collect()
        };
        assert_eq!((body(1).as_str(), body(3).as_str()), ("abc", "xyz"), "{at}: {events:?}");
        let others: Vec<_> = events.iter().filter(|event| !event.contains('"')).collect();
        let ends = events.iter().filter(|event| event.ends_with("\" end")).count();
        assert_eq!(ends + others.iter().filter(|event| **event == "3 end 0").count(), 1, "{events:?}");
        let others: Vec<_> = others.into_iter().filter(|event| *event != "3 end 0").collect();
        assert_eq!(
            others,
            [
                "3 interim 103",
                "3 200 Length(3)",
                "1 404 Chunked",
                "1 end 1",
                "5 204 None end",
                "goaway 5 NO_ERROR bye"
            ],
            "{at}"
        );
        assert!(server.connection.is_idle() && server.connection.is_going_away());
    }
}

#[test]
fn the_same_fields_take_one_byte_in_the_second_request() {
    let mut server = Server::new();
    assert_eq!([server.get(), server.get()], [1, 3]);
    let sent = server.sent();
    // :method, :scheme and :path are in the static table.
    assert_eq!((sent[0].3.len(), sent[1].3.len()), (3 + 3, 3 + 1), "{sent:?}");
    assert_eq!((sent[1].1, sent[1].2), (flag::END_HEADERS | flag::END_STREAM, 3));
}

#[test]
fn the_table_is_not_larger_than_the_server_allows() {
    let mut server = Server::new();
    server.get();
    server.send(&setting(1, 0));
    server.sent();
    server.get();
    // The block begins with the update of the size, and has the value.
    assert_eq!(server.sent()[0].3[0], 0x20);
    server.get();
    assert_eq!(server.sent()[0].3.len(), 6);
}

#[test]
fn responses_without_content_have_no_data() {
    for (method, status, length, framing) in [
        ("HEAD", "200", "5", "None"),
        ("GET", "304", "5", "None"),
        ("GET", "204", "0", "None"),
        ("GET", "200", "0", "Length(0)"),
    ] {
        for ends in [true, false] {
            let mut server = Server::new();
            let stream = server.request(method, BodyLength::Known(0));
            let head = headers(stream, ends, &[(":status", status), ("content-length", length)]);
            let expected = format!("1 {status} {framing}");
            if ends {
                assert_eq!(server.send(&head), [expected + " end"]);
                continue;
            }
            assert_eq!(server.send(&head), [expected]);
            let with_data = frame(kind::DATA, flag::END_STREAM, stream, b"x");
            assert_eq!(server.send(&with_data), ["1 reset PROTOCOL_ERROR true"], "{method} {status}");
        }
    }
}

#[test]
fn a_body_has_the_length_of_its_head() {
    for (data, expected) in [
        ("ab", "1 reset PROTOCOL_ERROR true"),
        ("abcd", "1 reset PROTOCOL_ERROR true"),
        ("abc", "1 \"abc\" end"),
    ] {
        let mut server = Server::new();
        server.get();
        server.send(&headers(1, false, &[OK, ("content-length", "3")]));
        assert_eq!(server.send(&frame(kind::DATA, flag::END_STREAM, 1, data.as_bytes())), [expected]);
    }
    for trailers in [headers(1, true, &[OK, ("content-length", "3")]), {
        [headers(1, false, &[OK, ("content-length", "3")]), headers(1, true, &[("a", "b")])].concat()
    }] {
        let mut server = Server::new();
        server.get();
        assert_eq!(server.send(&trailers).last().unwrap(), "1 reset PROTOCOL_ERROR true");
    }
}

#[test]
fn a_malformed_response_resets_its_stream_only() {
    for malformed in [
        headers(1, false, &[("server", "x")]),
        headers(1, false, &[(":status", "101")]),
        headers(1, true, &[(":status", "100")]),
        headers(1, false, &[OK, ("connection", "close")]),
        headers(1, false, &[OK, ("a", "b\r\nc: d")]),
        frame(kind::DATA, 0, 1, b"x"),
        [headers(1, false, &[OK]), headers(1, false, &[("a", "b")])].concat(),
        [headers(1, false, &[OK]), headers(1, true, &[OK])].concat(),
        [headers(1, false, &[OK]), headers(1, true, &[("content-length", "1")])].concat(),
        frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]),
    ] {
        let mut server = Server::new();
        assert_eq!([server.get(), server.get()], [1, 3]);
        server.sent();
        let events = server.send(&malformed);
        assert_eq!(events.last().unwrap(), "1 reset PROTOCOL_ERROR true", "{malformed:?}");
        let reset = (kind::RST_STREAM, 0, 1, vec![0, 0, 0, 1]);
        assert!(server.sent().contains(&reset), "{malformed:?}");
        // What is in transit for the stream is ignored.
        let late = [frame(kind::DATA, 0, 1, b"x"), headers(1, true, &[("a", "b")])].concat();
        assert_eq!(server.send(&late), [""; 0]);
        assert_eq!(server.send(&headers(3, true, &[OK])), ["3 200 Length(0) end"]);
    }
}

#[test]
fn violations_end_the_connection() {
    for (violation, code) in [
        (headers(5, true, &[OK]), ErrorCode::PROTOCOL_ERROR),
        (headers(2, true, &[OK]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::DATA, 0, 7, b""), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 2, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xff]), ErrorCode::COMPRESSION_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2, 0x88]), ErrorCode::PROTOCOL_ERROR),
        (frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]), ErrorCode::PROTOCOL_ERROR),
        (setting(2, 1), ErrorCode::PROTOCOL_ERROR),
        (setting(4, 0x8000_0000), ErrorCode::FLOW_CONTROL_ERROR),
        ([headers(1, true, &[OK]), headers(1, true, &[OK])].concat(), ErrorCode::STREAM_CLOSED),
        ([headers(1, true, &[OK]), frame(kind::DATA, 0, 1, b"x")].concat(), ErrorCode::STREAM_CLOSED),
        ([go_away(1), go_away(3)].concat(), ErrorCode::PROTOCOL_ERROR),
    ] {
        let mut server = Server::new();
        server.get();
        let error = server.try_send(&violation).unwrap_err();
        assert_eq!(error.code, code, "{violation:?}: {error}");
        server.sent();
        server.connection.fail(error, &mut server.out);
        assert_eq!(server.sent()[0].0, kind::GOAWAY);
        assert_eq!(server.try_request("GET", BodyLength::Known(0)), None);
    }
}

#[test]
fn a_server_without_http_2_is_named() {
    let mut server = Server::before_settings();
    let error = server.try_send(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
    assert_eq!(error.reason, "the server responds with HTTP/1");
}

#[test]
fn a_request_body_waits_for_the_windows() {
    let mut server = Server::new();
    server.send(&setting(4, 10));
    let stream = server.request("POST", BodyLength::Known(25));
    assert!(server.connection.is_in_body(stream));
    server.sent();
    let connection = &mut server.connection;
    assert_eq!(connection.window(stream), 10);
    connection.encode_piece(stream, &[b'x'; 10], &mut server.out).unwrap();
    assert_eq!(connection.window(stream), 0);
    assert!(connection.encode_piece(stream, b"x", &mut server.out).is_err());
    assert!(connection.finish(stream, None, &mut server.out).is_err());
    // Both a larger setting and an update open it.
    server.send(&setting(4, 15));
    assert_eq!(server.connection.window(stream), 5);
    server.send(&frame(kind::WINDOW_UPDATE, 0, stream, &[0, 0, 0, 10]));
    let connection = &mut server.connection;
    assert_eq!(connection.window(stream), 15);
    connection.encode_piece(stream, &[b'x'; 15], &mut server.out).unwrap();
    assert!(!connection.is_in_body(stream));
    let data: Vec<_> = server.sent().into_iter().filter(|frame| frame.0 == kind::DATA).collect();
    assert_eq!(data.iter().map(|frame| (frame.1, frame.3.len())).collect::<Vec<_>>(), [(0, 10), (1, 15)]);
    assert_eq!(server.send(&headers(stream, true, &[OK])), ["1 200 Length(0) end"]);
    assert!(server.connection.is_idle());
}

#[test]
fn a_body_of_unknown_length_ends_with_trailers() {
    let mut server = Server::new();
    let stream = server.request("POST", BodyLength::Chunked);
    server.connection.encode_piece(stream, b"ab", &mut server.out).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("1"));
    server.connection.finish(stream, Some(&trailers), &mut server.out).unwrap();
    let sent = server.sent();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(kind::HEADERS, 4), (kind::DATA, 0), (kind::HEADERS, 5)]);
}

#[test]
fn a_response_may_end_before_its_request() {
    let mut server = Server::new();
    let stream = server.request("POST", BodyLength::Known(5));
    assert_eq!(server.send(&headers(stream, true, &[(":status", "413")])), ["1 413 Length(0) end"]);
    assert!(server.connection.is_in_body(stream));
    // RFC 9113 §8.1: the rest of the request is not needed.
    assert_eq!(server.send(&frame(kind::RST_STREAM, 0, stream, &[0; 4])), ["1 reset NO_ERROR false"]);
    assert!(server.connection.encode_piece(stream, b"abcde", &mut server.out).is_err());
}

#[test]
fn requests_after_the_last_stream_of_goaway_are_refused() {
    let mut server = Server::new();
    for _ in 0..4 {
        server.get();
    }
    // First a warning, and then the last stream.
    assert_eq!(server.send(&go_away(0x7fff_ffff)), ["goaway 2147483647 NO_ERROR bye"]);
    assert_eq!(server.try_request("GET", BodyLength::Known(0)), None);
    assert_eq!(
        server.send(&go_away(3)),
        ["goaway 3 NO_ERROR bye", "7 reset REFUSED_STREAM false", "5 reset REFUSED_STREAM false"]
    );
    let responses = [headers(3, true, &[OK]), headers(1, true, &[OK])].concat();
    assert_eq!(server.send(&responses), ["3 200 Length(0) end", "1 200 Length(0) end"]);
    assert!(server.connection.is_idle());
}

#[test]
fn a_cancelled_request_has_no_further_events() {
    let mut server = Server::new();
    assert_eq!([server.get(), server.get()], [1, 3]);
    server.sent();
    server.connection.cancel(1, &mut server.out);
    server.connection.cancel(1, &mut server.out);
    assert_eq!(server.sent(), [(kind::RST_STREAM, 0, 1, vec![0, 0, 0, 8])]);
    let late = [headers(1, false, &[OK]), frame(kind::DATA, flag::END_STREAM, 1, b"x")].concat();
    assert_eq!(server.send(&late), [""; 0]);
    assert_eq!(server.connection.open_streams(), 1);
}

#[test]
fn received_data_opens_the_windows_when_it_is_passed_on() {
    let mut server = Server::new();
    server.get();
    server.send(&headers(1, false, &[OK]));
    let piece = vec![b'x'; 16_384];
    for _ in 0..32 {
        server.send(&frame(kind::DATA, 0, 1, &piece));
    }
    let updates = |sent: Vec<Sent>| sent.iter().filter(|frame| frame.0 == kind::WINDOW_UPDATE).count();
    assert_eq!(updates(server.sent()), 0);
    server.connection.pass_on(1, 32 * 16_384, &mut server.out);
    assert_eq!(updates(server.sent()), 2, "of the stream and of the connection");
}
