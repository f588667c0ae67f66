//! Tests of the connection with frames written by hand.

use std::time::{Instant, SystemTime};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, StatusCode};

use super::{Event, HeadBuffers, ServerConnection};
use crate::Limits;
use crate::h1::{DateLine, ResponseHead};
use crate::h2::frame::{FrameHead, HEAD_BYTES, PREFACE, flag, kind, put_head};
use crate::h2::hpack::{Decoder, encode_stateless};
use crate::h2::{ConnectionError, ErrorCode};

/// A connection, and what a client does to it.
struct Client {
    connection: ServerConnection,
    limits: Limits,
    now: Instant,
    out: BytesMut,
}

/// A frame that the server has sent: its type, flags, stream and payload.
type Sent = (u8, u8, u32, Vec<u8>);

impl Client {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new() -> Self {
        let (limits, now, mut out) = (Limits::default(), Instant::now(), BytesMut::new());
        let connection = ServerConnection::new(now, &limits, &mut out);
        let mut client = Self { connection, limits, now, out };
        client.send(&[&PREFACE[..], &frame(kind::SETTINGS, 0, 0, &[])].concat());
        client.sent();
        client
    }

    /// Sends bytes, and returns descriptions of the events.
    fn send(&mut self, bytes: &[u8]) -> Vec<String> {
        self.try_send(bytes).unwrap()
    }

    fn try_send(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, ConnectionError> {
        let (mut buffers, mut events) = (HeadBuffers::default(), Vec::new());
        while let Some(event) =
            self.connection.receive(&mut bytes, &mut buffers, self.now, &self.limits, &mut self.out)?
        {
            events.push(describe(&event));
        }
        assert_eq!(bytes, b"");
        Ok(events)
    }

    /// Returns the frames that the server has sent.
    fn sent(&mut self) -> Vec<Sent> {
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

fn describe(event: &Event<'_>) -> String {
    match event {
        Event::Request { stream, head, .. } => {
            let target = String::from_utf8_lossy(head.target());
            let host = String::from_utf8_lossy(head.host());
            format!("{stream} {} {host} {target} {:?}", head.method(), head.body_length())
        }
        Event::Rejected { stream, rejection } => format!("{stream} rejected: {rejection}"),
        Event::Data { stream, data, ends } => {
            format!("{stream} {:?}{}", String::from_utf8_lossy(data), if *ends { " end" } else { "" })
        }
        Event::End { stream, trailers } => {
            format!("{stream} end {}", trailers.as_ref().map_or(0, HeaderMap::len))
        }
        Event::Reset { stream, code, reason } => format!("{stream} reset {code} {}", reason.is_some()),
        Event::Priority { stream, priority } => format!("{stream} urgency {}", priority.urgency),
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_head(kind, flags, stream, payload.len(), &mut out);
    out.put_slice(payload);
    out.to_vec()
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (name, value) in fields {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out.to_vec()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/x?y"), (":authority", "a")];

fn get(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(&GET))
}

fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[(":method", "POST")], &GET[1..], more].concat();
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&fields))
}

#[test]
fn a_request_is_answered() {
    let mut client = Client::new();
    assert_eq!(client.send(&get(1)), ["1 GET a /x?y Known(0)"]);
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let (connection, out) = (&mut client.connection, &mut client.out);
    let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
    connection.begin(1, head, Some(2), &date, out);
    connection.encode_piece(1, b"hi", out).unwrap();
    assert!(!connection.is_in_body(1) && !connection.is_idle());
    connection.finish(1, None, out).unwrap();
    connection.close(1, client.now);
    assert!(client.connection.is_idle());
    let sent = client.sent();
    let [(kind::HEADERS, flag::END_HEADERS, 1, fields), (kind::DATA, flag::END_STREAM, 1, body)] = &sent[..]
    else {
        panic!("{sent:?}");
    };
    let mut text = Vec::new();
    Decoder::new(4096)
        .decode(fields, &mut Vec::new(), &mut |name, value| {
            text.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
        })
        .unwrap();
    assert_eq!(text, [":status: 200", "content-length: 2", "date: Thu, 01 Jan 1970 00:00:00 GMT"]);
    assert_eq!(body, b"hi");
}

#[test]
fn a_body_arrives_in_pieces_wherever_the_input_is_split() {
    let trailers =
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block(&[("checksum", "1")]));
    let input = [
        post(1, &[("content-length", "5")]),
        frame(kind::DATA, 0, 1, b"ab"),
        frame(kind::DATA, flag::PADDED, 1, b"\x02cde\0\0"),
        trailers,
        get(3),
    ]
    .concat();
    for at in 0..input.len() {
        let mut client = Client::new();
        let mut events = client.send(&input[..at]);
        events.extend(client.send(&input[at..]));
        let body: String = events[1..events.len() - 2]
            .iter()
            .map(|event| event.strip_prefix("1 \"").unwrap().strip_suffix('"').unwrap())
            .collect();
        assert_eq!(body, "abcde", "{at}: {events:?}");
        assert_eq!(events[0], "1 POST a /x?y Known(5)");
        assert_eq!(events[events.len() - 2..], ["1 end 1", "3 GET a /x?y Known(0)"]);
    }
}

#[test]
fn a_body_has_the_length_of_its_head() {
    for (length, data, expected) in [
        ("2", "abc", "1 reset PROTOCOL_ERROR true"),
        ("4", "abc", "1 reset PROTOCOL_ERROR true"),
        ("3", "abc", "1 \"abc\" end"),
    ] {
        let mut client = Client::new();
        client.send(&post(1, &[("content-length", length)]));
        assert_eq!(client.send(&frame(kind::DATA, flag::END_STREAM, 1, data.as_bytes())), [expected]);
    }
}

#[test]
fn a_connection_ends_after_the_requests_in_transit() {
    let mut client = Client::new();
    client.send(&get(1));
    client.connection.shut_down(&mut client.out);
    let sent = client.sent();
    assert_eq!(sent[0].3[..4], [0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(client.send(&get(3)), ["3 GET a /x?y Known(0)"]);
    client.send(&frame(kind::PING, flag::ACK, 0, &sent[1].3));
    assert_eq!(client.sent(), [(kind::GOAWAY, 0, 0, vec![0, 0, 0, 3, 0, 0, 0, 0])]);
    assert_eq!(client.send(&get(5)), [""; 0]);
    for stream in [1, 3] {
        assert!(!client.connection.is_over());
        client.connection.reset(stream, ErrorCode::CANCEL, client.now, &mut client.out);
    }
    assert!(client.connection.is_over());
}
