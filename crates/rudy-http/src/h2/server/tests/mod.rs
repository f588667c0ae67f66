//! Tests of the connection with frames written by hand.

mod abuse;
mod bodies;
mod client_view;
mod flow_control;
mod frames;
mod heads;
mod memory;
mod normal_clients;
mod peer_settings;
mod properties;
mod responses;
mod shutdown;
mod streams;
mod trailers;

use std::time::{Instant, SystemTime};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, ResponseHead};

use super::{Event, ServerConnection};
use crate::Limits;
use crate::field_section::HeadBuffers;
use crate::h2::frame::{FrameHead, HEAD_BYTES, PREFACE, flag, kind, put_head};
use crate::h2::{ConnectionError, ErrorCode};
use crate::hpack::{Decoder, encode_stateless};

/// A connection, and what a client does to it.
struct Client {
    connection: ServerConnection,
    limits: Limits,
    now: Instant,
    buffers: HeadBuffers,
    out: BytesMut,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u32, Vec<u8>)>,
    decoder: Decoder,
}

impl Client {
    /// A client that has sent the preface and its settings.
    fn new() -> Self {
        Self::with(Limits::default(), &[])
    }

    fn with(limits: Limits, settings: &[(u16, u32)]) -> Self {
        let mut client = Self::connected(limits);
        client.send(&[&PREFACE[..], &settings_frame(settings)].concat());
        client.sent();
        client
    }

    /// A client that has sent nothing.
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn connected(limits: Limits) -> Self {
        let (now, mut out) = (Instant::now(), BytesMut::new());
        let connection = ServerConnection::new(now, false, &limits, &mut out);
        let (buffers, decoder) = (HeadBuffers::default(), Decoder::new(4096));
        Self { connection, limits, now, buffers, out, events: Vec::new(), body: None, decoder }
    }

    /// Sends bytes, and returns descriptions of the events.
    #[track_caller]
    fn send(&mut self, bytes: &[u8]) -> Vec<String> {
        self.try_send(bytes).unwrap()
    }

    /// Sends bytes, and returns descriptions of the events. Pieces of a body are one event.
    fn try_send(&mut self, bytes: &[u8]) -> Result<Vec<String>, ConnectionError> {
        self.receive(bytes)?;
        self.end_body();
        Ok(std::mem::take(&mut self.events))
    }

    /// Sends bytes that violate the protocol, and returns the code of the error.
    #[track_caller]
    fn error(&mut self, bytes: &[u8]) -> ErrorCode {
        self.try_send(bytes).unwrap_err().code
    }

    fn receive(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        let mut buffers = std::mem::take(&mut self.buffers);
        while let Some(event) =
            self.connection.receive(&mut bytes, &mut buffers, self.now, &self.limits, &mut self.out)?
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
            Event::Request { stream, head, .. } => {
                let target = String::from_utf8_lossy(head.target());
                let host = String::from_utf8_lossy(head.host());
                format!("{stream} {} {host} {target} {:?}", head.method(), head.body_length())
            }
            Event::Rejected { stream, rejection, .. } => format!("{stream} rejected {}", rejection.status()),
            Event::End { stream, trailers: None } => format!("{stream} end"),
            Event::End { stream, trailers: Some(fields) } => format!("{stream} end {fields:?}"),
            Event::Reset { stream, code, reason: None } => format!("{stream} cancelled {code}"),
            Event::Reset { stream, code, reason: Some(_) } => format!("{stream} failed {code}"),
            Event::Window { stream } => format!("{stream} has a window"),
            Event::Priority { stream, priority } => format!("{stream} urgency {}", priority.urgency),
            Event::Data { .. } => unreachable!(),
        });
    }

    fn end_body(&mut self) {
        if let Some((stream, body)) = self.body.take() {
            self.events.push(format!("{stream} {:?}", String::from_utf8_lossy(&body)));
        }
    }

    /// Returns descriptions of the frames that the server has sent.
    fn sent(&mut self) -> Vec<String> {
        let out = self.out.split();
        frames(&out).into_iter().map(|frame| self.describe(&frame)).collect()
    }

    fn describe(&mut self, (head, payload): &(FrameHead, &[u8])) -> String {
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let stream = head.stream;
        let end = if head.has(flag::END_STREAM) { " end" } else { "" };
        match head.kind {
            kind::DATA => format!("{stream} DATA {}{end}", head.length),
            kind::HEADERS if head.has(flag::END_HEADERS) => {
                format!("{stream} HEADERS {}{end}", self.fields(payload).join(", "))
            }
            kind::HEADERS => format!("{stream} HEADERS {} bytes{end}", head.length),
            kind::CONTINUATION => format!("{stream} CONTINUATION {} bytes", head.length),
            kind::RST_STREAM => format!("{stream} RST_STREAM {}", ErrorCode(number(0))),
            kind::SETTINGS if head.has(flag::ACK) => "SETTINGS ack".to_owned(),
            kind::SETTINGS => format!("SETTINGS {} bytes", head.length),
            kind::PING => {
                format!("PING {}{}", payload.escape_ascii(), if end.is_empty() { "" } else { " ack" })
            }
            kind::GOAWAY => format!("GOAWAY {} {}", number(0), ErrorCode(number(4))),
            kind::WINDOW_UPDATE => format!("{stream} WINDOW_UPDATE {}", number(0)),
            _ => format!("{head:?}"),
        }
    }

    fn fields(&mut self, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let mut field = |name: &[u8], value: &[u8]| {
            if name != b"date" {
                fields.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
            }
        };
        self.decoder.decode(block, &mut Vec::new(), &mut field).unwrap();
        fields
    }

    /// Begins a response without fields.
    fn begin(&mut self, stream: u32, status: u16, length: Option<u64>) {
        let (fields, status) = (HeaderMap::new(), StatusCode::from_u16(status).unwrap());
        self.connection.begin(stream, ResponseHead::Fields(status, &fields), length, &date(), &mut self.out);
    }

    /// Sends as much of a body as the windows allow, and returns how much that is.
    fn send_body(&mut self, stream: u32, bytes: u64) -> u64 {
        let mut sent = 0;
        while sent < bytes {
            let framed = self.connection.begin_data(stream, bytes - sent, &mut self.out).unwrap();
            if framed == 0 {
                break;
            }
            self.out.put_bytes(0, usize::try_from(framed).unwrap());
            sent += framed;
        }
        sent
    }

    /// Responds completely, and closes the stream.
    fn respond(&mut self, stream: u32, body: &[u8]) {
        self.begin(stream, 200, Some(body.len() as u64));
        self.connection.encode_piece(stream, body, &mut self.out).unwrap();
        self.connection.finish(stream, None, &mut self.out).unwrap();
        self.connection.close(stream, self.now);
    }

    fn reset(&mut self, stream: u32, code: ErrorCode) {
        self.connection.reset(stream, code, self.now, &mut self.out);
    }
}

/// Splits output into frames.
fn frames(out: &[u8]) -> Vec<(FrameHead, &[u8])> {
    let (mut rest, mut frames) = (out, Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let head = FrameHead::parse(head);
        let (payload, after) = after.split_at(head.length);
        frames.push((head, payload));
        rest = after;
    }
    assert_eq!(rest, b"", "the last frame is complete");
    frames
}

/// What a client sees: the events, the frames of the server, and the error that ends the connection.
type Outcome = (Vec<String>, Vec<String>, Option<ErrorCode>);

/// Sends input to a new connection: whole, split at every byte, and byte by byte. The outcome must be the same.
#[track_caller]
fn outcome(input: &[u8]) -> Outcome {
    let run = |pieces: &[&[u8]]| {
        let mut client = Client::new();
        let error = pieces.iter().find_map(|piece| client.receive(piece).err());
        client.end_body();
        let events = std::mem::take(&mut client.events);
        (events, client.sent(), error.map(|error| error.code))
    };
    let whole = run(&[input]);
    assert_eq!(run(&input.chunks(1).collect::<Vec<_>>()), whole, "byte by byte");
    // Long inputs are split at only some bytes.
    for at in (1..input.len()).step_by(input.len() / 500 + 1) {
        assert_eq!(run(&[&input[..at], &input[at..]]), whole, "split at {at}");
    }
    whole
}

/// Checks that input ends the connection with an error.
#[track_caller]
fn ends_connection(input: &[u8], code: ErrorCode) {
    assert_eq!(outcome(input).2, Some(code));
}

/// Checks that input leads to these events and frames, and no error.
#[track_caller]
fn leads_to(input: &[u8], events: &[&str], sent: &[&str]) {
    let (found, frames, error) = outcome(input);
    assert_eq!(error, None);
    assert_eq!(found, events);
    assert_eq!(frames, sent);
}

fn date() -> DateLine {
    DateLine::new(SystemTime::UNIX_EPOCH)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_head(kind, flags, stream, payload.len(), &mut out);
    out.put_slice(payload);
    out.to_vec()
}

fn settings_frame(parameters: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(kind::SETTINGS, 0, 0, &parameters.iter().flat_map(bytes).collect::<Vec<_>>())
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn reset_frame(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

fn priority(stream: u32, depends_on: u32) -> Vec<u8> {
    frame(kind::PRIORITY, 0, stream, &[&depends_on.to_be_bytes()[..], &[15]].concat())
}

fn priority_update(stream: u32, value: &str) -> Vec<u8> {
    frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}

fn data(stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(kind::DATA, 0, stream, payload)
}

fn last_data(stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(kind::DATA, flag::END_STREAM, stream, payload)
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

/// HEADERS that end the stream.
fn headers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block(fields))
}

fn get(stream: u32) -> Vec<u8> {
    headers(stream, &GET)
}

/// The start of a POST request with these fields.
fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [&[(":method", "POST")], &GET[1..], more].concat();
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block(&fields))
}

#[test]
fn a_request_is_answered() {
    let mut client = Client::new();
    assert_eq!(client.send(&get(1)), ["1 GET a /x?y Known(0)"]);
    client.begin(1, 200, Some(2));
    client.connection.encode_piece(1, b"hi", &mut client.out).unwrap();
    assert!(!client.connection.is_in_body(1) && !client.connection.is_idle());
    client.connection.finish(1, None, &mut client.out).unwrap();
    client.connection.close(1, client.now);
    assert!(client.connection.is_idle());
    assert_eq!(client.sent(), ["1 HEADERS :status: 200, content-length: 2", "1 DATA 2 end"]);
}
