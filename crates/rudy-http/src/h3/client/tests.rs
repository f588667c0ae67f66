//! Tests of the connection with frames written by hand.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::{ClientConnection, Event, HeadBuffers, Request};
use crate::Limits;
use crate::h3::frame::kind;
use crate::h3::test_frames::{Piece, cut, data, described, frame, headers, number};
use crate::h3::{ConnectionError, ErrorCode, Own, StreamEnd};
use crate::qpack::encode_stateless;

/// The control stream of the server.
const CONTROL: u64 = 3;

/// The streams of the first requests.
const GET: u64 = 0;
const HEAD: u64 = 4;
const POST: u64 = 8;

/// A connection, and what a server does to it.
struct Server {
    connection: ClientConnection,
    limits: Limits,
    now: Instant,
    buffers: HeadBuffers,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u64, Vec<u8>)>,
    out: BytesMut,
}

impl Server {
    /// A connection with three requests: GET, HEAD, and POST whose body has no known length.
    fn new() -> Self {
        Self::with(Limits::for_responses())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn with(limits: Limits) -> Self {
        let now = Instant::now();
        let connection = ClientConnection::new(now, &limits);
        let (buffers, out) = (HeadBuffers::default(), BytesMut::new());
        let mut server = Self { connection, limits, now, buffers, events: Vec::new(), body: None, out };
        for (stream, method, body) in [
            (GET, "GET", BodyLength::Known(0)),
            (HEAD, "HEAD", BodyLength::Known(0)),
            (POST, "POST", BodyLength::Chunked),
        ] {
            assert!(server.request(stream, method, body));
        }
        server.out.clear();
        assert_eq!(server.ends(), [(GET, StreamEnd::Finish), (HEAD, StreamEnd::Finish)]);
        server
    }

    fn request(&mut self, stream: u64, method: &str, body: BodyLength) -> bool {
        self.connection.request(stream, &request(method, body), &mut self.out)
    }

    /// Sends bytes, and returns descriptions of the events. Pieces of a body are one event.
    #[track_caller]
    fn send(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.receive(stream, bytes, false).unwrap();
        self.end_body();
        std::mem::take(&mut self.events)
    }

    #[track_caller]
    fn end(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.receive(stream, bytes, true).unwrap();
        self.end_body();
        std::mem::take(&mut self.events)
    }

    fn receive(&mut self, stream: u64, bytes: &[u8], ends: bool) -> Result<(), ConnectionError> {
        self.receive_one(stream, bytes, ends)?;
        while stream & 2 != 0
            && let Some((stream, input, ends)) = self.connection.resume()
        {
            self.receive_one(stream, &input, ends)?;
        }
        Ok(())
    }

    fn receive_one(&mut self, stream: u64, mut bytes: &[u8], ends: bool) -> Result<(), ConnectionError> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let (now, limits) = (self.now, self.limits.clone());
        while let Some(event) =
            self.connection.receive(stream, &mut bytes, ends, &mut buffers, now, &limits)?
        {
            self.note(event);
        }
        self.buffers = buffers;
        assert_eq!(bytes, b"", "all of the input is used");
        Ok(())
    }

    fn note(&mut self, event: Event<'_>) {
        if let Event::Data { stream, data, ends } = event {
            assert!(!data.is_empty());
            match &mut self.body {
                Some((of, body)) if *of == stream => body.extend_from_slice(data),
                _ => {
                    self.end_body();
                    self.body = Some((stream, data.to_vec()));
                }
            }
            if ends {
                self.note(Event::End { stream, trailers: None });
            }
            return;
        }
        // How much of a malformed body arrives before its fault depends on the split.
        if let Event::Reset { reason: Some(_), .. } = event {
            self.body = None;
        }
        self.end_body();
        self.events.push(match event {
            Event::Informational { stream, head } => format!("{stream} interim {}", head.status()),
            Event::Head { stream, head, ends } => {
                assert_eq!(head.version(), Version::HTTP_3);
                format!("{stream} {} {:?}{}", head.status(), head.framing(), if ends { " end" } else { "" })
            }
            Event::End { stream, trailers: None } => format!("{stream} end"),
            Event::End { stream, trailers: Some(fields) } => format!("{stream} end {fields:?}"),
            Event::Reset { stream, code, reason: None } => format!("{stream} reset {code}"),
            Event::Reset { stream, code, reason: Some(_) } => format!("{stream} failed {code}"),
            Event::GoAway { rejected_from } => format!("away {rejected_from}"),
            Event::Settings => "settings".to_owned(),
            Event::Data { .. } => unreachable!(),
        });
    }

    fn end_body(&mut self) {
        if let Some((stream, body)) = self.body.take() {
            self.events.push(format!("{stream} {:?}", String::from_utf8_lossy(&body)));
        }
    }

    fn ends(&mut self) -> Vec<(u64, StreamEnd)> {
        std::iter::from_fn(|| self.connection.take_end()).collect()
    }

    fn sent(&mut self) -> Vec<String> {
        described(&self.out.split())
    }
}

fn request(method: &str, body: BodyLength) -> Request {
    let mut fields = HeaderMap::new();
    fields.insert(header::HOST, HeaderValue::from_static("a"));
    fields.insert(header::AUTHORIZATION, HeaderValue::from_static("!"));
    let method = Method::try_from(method).unwrap();
    let head = RequestHead {
        method: &method,
        target: "/x",
        version: Version::HTTP_11,
        fields: (&fields).into(),
        body,
    };
    Request::new(&head, "https").unwrap()
}

/// What a client sees: the events, what happens to streams, and the error that ends the connection.
type Outcome = (Vec<String>, Vec<(u64, StreamEnd)>, Option<ErrorCode>);

/// Sends pieces to a new connection: whole, byte by byte, and each split at every byte. The outcome must be the same.
#[track_caller]
fn outcome(pieces: &[Piece<'_>]) -> Outcome {
    let whole = run(pieces.iter().copied());
    let longest = pieces.iter().map(|(_, bytes, _)| bytes.len()).max().unwrap_or(0);
    let positions: Vec<usize> = (1..longest).collect();
    assert_eq!(run(pieces.iter().flat_map(|piece| cut(*piece, &positions))), whole, "at all positions");
    for at in positions {
        let split = pieces.iter().flat_map(|piece| cut(*piece, &[at]));
        assert_eq!(run(split), whole, "split at {at}");
    }
    whole
}

fn run<'p>(mut pieces: impl Iterator<Item = Piece<'p>>) -> Outcome {
    let mut server = Server::new();
    let error = pieces.find_map(|(stream, bytes, ends)| server.receive(stream, bytes, ends).err());
    // How much of a body arrives before an error depends on the split.
    if error.is_none() {
        server.end_body();
    }
    server.connection.core.streams.check();
    let events = std::mem::take(&mut server.events);
    (events, server.ends(), error.map(|error| error.code))
}

/// Checks what the bytes of one stream lead to.
#[track_caller]
fn leads_to(stream: u64, frames: &[Vec<u8>], ends: bool, events: &[&str]) {
    let (found, _, error) = outcome(&[(stream, &frames.concat(), ends)]);
    assert_eq!(
        (error, &found[..]),
        (None, &events.iter().map(|event| (*event).to_owned()).collect::<Vec<_>>()[..])
    );
}

fn status(status: &str) -> Vec<u8> {
    headers(&[(":status", status)])
}

/// The start of a response with a length.
fn with_length(length: &str) -> Vec<u8> {
    headers(&[(":status", "200"), ("content-length", length)])
}

fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [&[0][..], &frame(kind::SETTINGS, b""), &frames.concat()].concat()
}

#[test]
fn a_request_is_encoded_with_its_body_and_trailers() {
    let mut server = Server::new();
    let mut trailers = HeaderMap::new();
    trailers.insert("t", HeaderValue::from_static("1"));
    assert!(server.request(12, "PUT", BodyLength::Known(5)));
    let head =
        "HEADERS :method: PUT, :scheme: https, :path: /x, :authority: a, authorization: !, content-length: 5";
    server.connection.encode_piece(12, b"abc", &mut server.out).unwrap();
    assert!(server.connection.finish(12, None, &mut server.out).is_err(), "it is too short");
    assert!(server.connection.encode_piece(12, b"def", &mut server.out).is_err(), "it is too long");
    assert_eq!(server.ends(), []);
    server.connection.encode_piece(12, b"de", &mut server.out).unwrap();
    assert_eq!(server.ends(), [(12, StreamEnd::Finish)], "its last byte ends the stream");
    server.connection.finish(12, None, &mut server.out).unwrap();
    assert!(server.connection.encode_piece(12, b"f", &mut server.out).is_err());
    assert_eq!(server.sent(), [head, "DATA abcde"], "one frame");
    for piece in [&b"ab"[..], b"", b"c"] {
        server.connection.encode_piece(POST, piece, &mut server.out).unwrap();
    }
    assert!(server.connection.is_in_body(POST));
    server.connection.finish(POST, Some(&trailers), &mut server.out).unwrap();
    assert_eq!(server.sent(), ["DATA ab", "DATA c", "HEADERS t: 1"]);
    assert_eq!(server.ends(), [(POST, StreamEnd::Finish)]);
}

/// RFC 9204 §7.1.3.
#[test]
fn a_secret_is_marked() {
    let mut server = Server::new();
    assert!(server.request(12, "GET", BodyLength::Known(0)));
    let mut field = BytesMut::new();
    encode_stateless(b"authorization", b"!", &mut field);
    // The name has the index 84, behind a prefix of four bits.
    assert_eq!(field[0], 0x5f);
    field[0] |= 0x20;
    assert!(server.out.windows(field.len()).any(|window| window == field));
}

#[test]
fn a_stream_is_used_once_and_in_order() {
    let mut server = Server::new();
    for stream in [GET, POST, 1, 2, 3, 13] {
        assert!(!server.request(stream, "GET", BodyLength::Known(0)), "{stream}");
    }
    assert!(server.sent().is_empty() && server.ends().is_empty());
    assert!(server.request(20, "GET", BodyLength::Known(0)));
    assert!(!server.request(16, "GET", BodyLength::Known(0)));
    assert_eq!(server.connection.open_streams(), 4);
}

#[test]
fn a_response_has_a_head_a_body_and_an_end() {
    let hi = data(b"hi");
    leads_to(GET, &[with_length("2"), hi.clone()], true, &["0 200 Length(2)", "0 \"hi\"", "0 end"]);
    leads_to(GET, &[status("200"), hi.clone(), hi.clone()], true, &["0 200 Chunked", "0 \"hihi\"", "0 end"]);
    leads_to(GET, &[status("204")], true, &["0 204 None end"]);
    leads_to(GET, &[status("404")], true, &["0 404 Length(0) end"]);
    leads_to(GET, &[with_length("0")], true, &["0 200 Length(0) end"]);
    leads_to(HEAD, &[with_length("2")], true, &["4 200 None end"]);
    leads_to(POST, &[status("200"), hi.clone()], false, &["8 200 Chunked", "8 \"hi\""]);
    let trailers = headers(&[("t", "1")]);
    leads_to(GET, &[status("200"), trailers], true, &["0 200 Chunked", "0 end {\"t\": \"1\"}"]);
    let interims = [status("103"), status("100"), status("200")];
    leads_to(GET, &interims, true, &["0 interim 103", "0 interim 100", "0 200 Length(0) end"]);
    // Unknown frames, and a stream that has ended.
    let unknown = [frame(0x21, b"abc"), status("200"), frame(0x40, b""), data(b""), frame(0x21, b"")];
    leads_to(GET, &unknown, true, &["0 200 Chunked", "0 end"]);
    leads_to(400, &[status("200")], true, &[]);
}

/// The instructions insert `x: y`, which the head of the response needs.
#[test]
fn a_response_may_wait_for_entries_of_the_dynamic_table() {
    let instructions = b"\x02\x3f\xe1\x1f\x41x\x01y";
    let head = frame(kind::HEADERS, b"\x02\0\xd9\x80");
    let response = [head.clone(), data(b"hi")].concat();
    for pieces in [
        [(7, &instructions[..], false), (GET, &response[..], true)],
        [(GET, &response, true), (7, instructions, false)],
    ] {
        let (events, _, error) = outcome(&pieces);
        assert_eq!(
            (&events[..], error),
            (&["0 200 Chunked", "0 \"hi\"", "0 end"].map(str::to_owned)[..], None)
        );
    }
    let mut server = Server::new();
    server.send(GET, &head);
    assert!(server.connection.is_blocked(GET));
    server.send(7, instructions);
    assert_eq!(server.connection.output(Own::Decoder).split()[..], [3, 1, 0x80]);
    server.connection.cancel(HEAD);
    assert_eq!(server.connection.output(Own::Decoder).split()[..], [0x44]);
}

#[test]
fn a_malformed_response_resets_its_stream() {
    let hi = data(b"hi");
    for (stream, frames, ends, events) in [
        (GET, vec![], true, &["0 failed H3_MESSAGE_ERROR"][..]),
        (GET, vec![status("103")], true, &["0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![status("101")], false, &["0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![status("20")], false, &["0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![headers(&[("x", "y")])], false, &["0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![with_length("3"), hi.clone()], true, &["0 200 Length(3)", "0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![with_length("1"), hi.clone()], false, &["0 200 Length(1)", "0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![with_length("1")], true, &["0 failed H3_MESSAGE_ERROR"]),
        (GET, vec![status("204"), hi.clone()], false, &["0 204 None", "0 failed H3_MESSAGE_ERROR"]),
        (HEAD, vec![with_length("2"), hi.clone()], false, &["4 200 None", "4 failed H3_MESSAGE_ERROR"]),
        (
            GET,
            vec![with_length("1"), headers(&[("t", "1")])],
            false,
            &["0 200 Length(1)", "0 failed H3_MESSAGE_ERROR"],
        ),
        (
            GET,
            vec![status("200"), headers(&[(":status", "200")])],
            false,
            &["0 200 Chunked", "0 failed H3_MESSAGE_ERROR"],
        ),
        (
            GET,
            vec![status("200"), headers(&[("content-length", "1")])],
            false,
            &["0 200 Chunked", "0 failed H3_MESSAGE_ERROR"],
        ),
    ] {
        let (found, streams, error) = outcome(&[(stream, &frames.concat(), ends)]);
        assert_eq!(
            (error, &found[..]),
            (None, &events.iter().map(|event| (*event).to_owned()).collect::<Vec<_>>()[..])
        );
        assert_eq!(streams, [(stream, StreamEnd::Reset(ErrorCode::MESSAGE_ERROR))], "{events:?}");
    }
}

#[test]
fn a_response_has_limits() {
    let limits = Limits { body_bytes: 3, head_bytes: 100, ..Limits::for_responses() };
    for (frames, events) in [
        (vec![with_length("4")], &["0 failed H3_REQUEST_CANCELLED"][..]),
        (vec![status("200"), data(b"abcd")], &["0 200 Chunked", "0 failed H3_REQUEST_CANCELLED"]),
        (vec![with_length("3"), data(b"abc")], &["0 200 Length(3)", "0 \"abc\""]),
        (vec![headers(&[(":status", "200"), ("x", &"y".repeat(90))])], &["0 failed H3_EXCESSIVE_LOAD"]),
    ] {
        assert_eq!(Server::with(limits.clone()).send(GET, &frames.concat()), events);
    }
    let mut server = Server::with(limits.clone());
    let large = headers(&[(":status", "200"), ("x", &"\0".repeat(200))]);
    assert_eq!(server.receive(GET, &large, false).unwrap_err().code, ErrorCode::EXCESSIVE_LOAD);
    let mut server =
        Server::with(Limits { http2: crate::h2::Limits { control_frames: 20, ..limits.http2 }, ..limits });
    let interims = vec![status("103"); 100].concat();
    assert_eq!(server.receive(GET, &interims, false).unwrap_err().code, ErrorCode::EXCESSIVE_LOAD);
}

/// RFC 9114 §4.1, §6.2 and §7.2.
#[test]
fn violations_end_the_connection() {
    let (unexpected, id_error) = (ErrorCode::FRAME_UNEXPECTED, ErrorCode::ID_ERROR);
    let creation = ErrorCode::STREAM_CREATION_ERROR;
    let id = |kind: u64, id: u64| frame(kind, &number(id));
    for (stream, bytes, ends, code) in [
        (GET, data(b"x"), false, unexpected),
        (POST, [status("200"), headers(&[("t", "1")]), data(b"x")].concat(), false, unexpected),
        (POST, [status("200"), headers(&[("t", "1")]), status("200")].concat(), false, unexpected),
        (GET, frame(kind::PUSH_PROMISE, &[0, 0, 0]), false, id_error),
        (GET, frame(kind::SETTINGS, b""), false, unexpected),
        (GET, id(kind::GOAWAY, 0), false, unexpected),
        (GET, frame(0x6, b""), false, unexpected),
        (GET, status("200")[..4].to_vec(), true, ErrorCode::FRAME_ERROR),
        (GET, [status("200"), data(b"hi")[..3].to_vec()].concat(), true, ErrorCode::FRAME_ERROR),
        (GET, frame(kind::HEADERS, &[0, 0, 0x80]), false, ErrorCode::QPACK_DECOMPRESSION_FAILED),
        (1, status("200"), false, creation),
        (2, vec![0], false, creation),
        (CONTROL, vec![1], false, id_error),
        (CONTROL, [&[0][..], &id(kind::GOAWAY, 0)].concat(), false, ErrorCode::MISSING_SETTINGS),
        (CONTROL, control(&[]), true, ErrorCode::CLOSED_CRITICAL_STREAM),
        (CONTROL, control(&[frame(kind::SETTINGS, b"")]), false, unexpected),
        (CONTROL, control(&[id(kind::MAX_PUSH_ID, 0)]), false, unexpected),
        (CONTROL, control(&[id(kind::CANCEL_PUSH, 0)]), false, id_error),
        (CONTROL, control(&[frame(kind::PRIORITY_UPDATE, &[0])]), false, unexpected),
        (CONTROL, control(&[frame(kind::PRIORITY_UPDATE_OF_PUSH, &[0])]), false, unexpected),
        (CONTROL, control(&[frame(kind::PUSH_PROMISE, &[0, 0, 0])]), false, unexpected),
        (CONTROL, control(&[id(kind::GOAWAY, 2)]), false, id_error),
        (CONTROL, control(&[id(kind::GOAWAY, 4), id(kind::GOAWAY, 8)]), false, id_error),
        (CONTROL, [&[0][..], &frame(kind::SETTINGS, &[8, 2])].concat(), false, ErrorCode::SETTINGS_ERROR),
        (7, vec![2, 0x80], false, ErrorCode::QPACK_ENCODER_STREAM_ERROR),
        (7, vec![3, 0x80], false, ErrorCode::QPACK_DECODER_STREAM_ERROR),
    ] {
        let (_, _, error) = outcome(&[(stream, &bytes, ends)]);
        assert_eq!(error, Some(code), "{stream} {bytes:?}");
    }
    let (_, _, error) = outcome(&[(CONTROL, &control(&[]), false), (7, &[0], false)]);
    assert_eq!(error, Some(creation), "a second control stream");
    let (events, ends, error) = outcome(&[(CONTROL, &[0x40, 0x21, 1, 2], true)]);
    assert_eq!((events.len(), &ends[..], error), (0, &[(CONTROL, StreamEnd::Stop(creation))][..], None));
}

#[test]
fn settings_say_whether_tunnels_are_accepted() {
    for (payload, accepts) in [(&[][..], false), (&[8, 0], false), (&[8, 1], true)] {
        let mut server = Server::new();
        assert!(!server.connection.has_settings() && !server.connection.accepts_tunnels());
        assert_eq!(server.send(CONTROL, &[&[0][..], &frame(kind::SETTINGS, payload)].concat()), ["settings"]);
        assert!(server.connection.has_settings());
        assert_eq!(server.connection.accepts_tunnels(), accepts);
    }
}

/// RFC 9114 §5.2.
#[test]
fn after_goaway_later_requests_were_not_processed() {
    let mut server = Server::new();
    let away = control(&[frame(kind::GOAWAY, &number((1 << 62) - 4))]);
    assert_eq!(server.send(CONTROL, &away), ["settings", "away 4611686018427387900"]);
    assert!(server.connection.is_going_away() && !server.request(12, "GET", BodyLength::Known(0)));
    let events = server.send(CONTROL, &frame(kind::GOAWAY, &number(HEAD)));
    assert_eq!(events, ["away 4", "8 reset H3_REQUEST_REJECTED", "4 reset H3_REQUEST_REJECTED"]);
    let reset = StreamEnd::Reset(ErrorCode::REQUEST_CANCELLED);
    assert_eq!(server.ends(), [(POST, reset), (HEAD, reset)]);
    assert_eq!(server.end(GET, &status("200")), ["0 200 Length(0) end"]);
    assert!(server.connection.is_idle());
}

#[test]
fn the_end_is_announced_once() {
    let mut server = Server::new();
    let control = server.connection.output(Own::Control).split();
    assert_eq!(control[0], 0);
    for without_use in [Own::Encoder, Own::Decoder] {
        assert_eq!(server.connection.output(without_use)[..], []);
    }
    server.connection.shut_down();
    server.connection.shut_down();
    assert_eq!(described(server.connection.output(Own::Control)), ["GOAWAY 0"]);
    assert!(server.connection.is_going_away() && !server.request(12, "GET", BodyLength::Known(0)));
}

#[test]
fn a_reset_ends_a_request_and_a_stop_its_body() {
    let mut server = Server::new();
    let code = ErrorCode::INTERNAL_ERROR;
    let event = server.connection.receive_reset(GET, code).unwrap();
    assert!(matches!(
        event,
        Some(Event::Reset { stream: GET, code: ErrorCode::INTERNAL_ERROR, reason: None })
    ));
    assert!(server.connection.receive_reset(GET, code).unwrap().is_none());
    server.connection.cancel(HEAD);
    assert_eq!(server.send(HEAD, &status("200")), [""; 0]);
    let reset = StreamEnd::Reset(ErrorCode::REQUEST_CANCELLED);
    assert_eq!(server.ends(), [(GET, reset), (HEAD, reset)]);

    server.connection.receive_stop(POST).unwrap();
    assert!(!server.connection.is_in_body(POST) && !server.connection.is_idle());
    assert!(server.connection.encode_piece(POST, b"x", &mut server.out).is_err());
    server.connection.finish(POST, None, &mut server.out).unwrap();
    assert_eq!(server.end(POST, &status("200")), ["8 200 Length(0) end"]);
    assert!(server.connection.is_idle() && server.ends().is_empty());
    for stream in [2, 6, 10] {
        assert_eq!(
            server.connection.receive_stop(stream).unwrap_err().code,
            ErrorCode::CLOSED_CRITICAL_STREAM
        );
    }
    server.send(CONTROL, &control(&[]));
    let error = server.connection.receive_reset(CONTROL, code).unwrap_err();
    assert_eq!(error.code, ErrorCode::CLOSED_CRITICAL_STREAM);
}

#[test]
fn a_response_may_be_complete_before_its_request() {
    let mut server = Server::new();
    assert_eq!(server.end(POST, &status("200")), ["8 200 Length(0) end"]);
    assert!(server.connection.is_in_body(POST));
    server.connection.finish(POST, None, &mut server.out).unwrap();
    assert_eq!(server.ends(), [(POST, StreamEnd::Finish)]);
    assert_eq!(server.connection.open_streams(), 2);
}

#[test]
fn an_idle_connection_has_no_buffers() {
    let mut server = Server::new();
    server.connection.cancel(POST);
    server.end(HEAD, &status("200"));
    for piece in [status("200"), data(b"hello")].concat().chunks(1) {
        server.send(GET, piece);
    }
    assert!(!server.connection.is_within_frame(GET));
    server.send(GET, &data(b"hello")[..3]);
    assert!(server.connection.is_within_frame(GET));
    server.end(GET, b"ello");
    server.ends();
    server.connection.free();
    assert_eq!(server.connection.core.heap_bytes(), 0);
}
