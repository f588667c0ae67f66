//! Tests of the connection with frames written by hand.

mod abuse;
mod bodies;
mod control;
mod frames;
mod heads;
mod memory;
mod properties;
mod qpack;
mod responses;
mod shutdown;

use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, ResponseHead};

use super::{Event, ServerConnection};
use crate::Limits;
use crate::field_section::HeadBuffers;
use crate::h3::frame::kind;
use crate::h3::test_frames::{Piece, cut, data, described, frame, headers, number, section};
use crate::h3::{ConnectionError, ErrorCode, Own, StreamEnd, varint};

/// The first streams of a client.
const CONTROL: u64 = 2;
const ENCODER: u64 = 6;
const DECODER: u64 = 10;

/// A connection, and what a client does to it.
struct Client {
    connection: ServerConnection,
    limits: Limits,
    now: Instant,
    buffers: HeadBuffers,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u64, Vec<u8>)>,
    /// What the server sends on the streams of requests.
    out: BytesMut,
}

impl Client {
    /// A client that has opened its streams.
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let mut client = Self::connected(limits);
        client.send(CONTROL, &[&[0][..], &frame(kind::SETTINGS, b"")].concat());
        client.send(ENCODER, &[2]);
        client.send(DECODER, &[3]);
        for own in [Own::Control, Own::Encoder, Own::Decoder] {
            client.connection.output(own).clear();
        }
        client
    }

    /// A client that has sent nothing.
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn connected(limits: Limits) -> Self {
        let now = Instant::now();
        let connection = ServerConnection::new(now, false, &limits);
        let (buffers, out) = (HeadBuffers::default(), BytesMut::new());
        Self { connection, limits, now, buffers, events: Vec::new(), body: None, out }
    }

    /// Sends bytes on a stream, and returns descriptions of the events.
    #[track_caller]
    fn send(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.try_send(stream, bytes, false).unwrap()
    }

    /// Sends the last bytes of a stream.
    #[track_caller]
    fn end(&mut self, stream: u64, bytes: &[u8]) -> Vec<String> {
        self.try_send(stream, bytes, true).unwrap()
    }

    /// Sends bytes, and returns descriptions of the events. Pieces of a body are one event.
    fn try_send(&mut self, stream: u64, bytes: &[u8], ends: bool) -> Result<Vec<String>, ConnectionError> {
        self.receive(stream, bytes, ends)?;
        self.end_body();
        Ok(std::mem::take(&mut self.events))
    }

    /// Sends bytes that violate the protocol, and returns the code of the error.
    #[track_caller]
    fn error(&mut self, stream: u64, bytes: &[u8]) -> ErrorCode {
        self.try_send(stream, bytes, false).unwrap_err().code
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

    /// Cancels a request, and returns descriptions of the events.
    fn cancel(&mut self, stream: u64) -> Vec<String> {
        let code = ErrorCode::REQUEST_CANCELLED;
        if let Some(event) = self.connection.receive_reset(stream, code, self.now, &self.limits).unwrap() {
            self.note(event);
        }
        std::mem::take(&mut self.events)
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
        if let Event::Reset { reason: Some(_), .. } | Event::Rejected { head: None, .. } = event {
            self.body = None;
        }
        self.end_body();
        self.events.push(match event {
            Event::Request { stream, head, .. } => {
                let target = String::from_utf8_lossy(head.target());
                let host = String::from_utf8_lossy(head.host());
                format!("{stream} {} {host} {target} {:?}", head.method(), head.body_length())
            }
            Event::Rejected { stream, rejection, .. } => {
                format!("{stream} rejected {}", rejection.status().as_u16())
            }
            Event::End { stream, trailers: None } => format!("{stream} end"),
            Event::End { stream, trailers: Some(fields) } => format!("{stream} end {fields:?}"),
            Event::Reset { stream, code, reason: None } => format!("{stream} cancelled {code}"),
            Event::Reset { stream, code, reason: Some(_) } => format!("{stream} failed {code}"),
            Event::Priority { stream, priority } => format!("{stream} urgency {}", priority.urgency),
            Event::Data { .. } => unreachable!(),
        });
    }

    fn end_body(&mut self) {
        if let Some((stream, body)) = self.body.take() {
            self.events.push(format!("{stream} {:?}", String::from_utf8_lossy(&body)));
        }
    }

    /// Returns descriptions of the frames that the server has sent on the streams of requests.
    fn sent(&mut self) -> Vec<String> {
        described(&self.out.split())
    }

    /// Returns descriptions of the frames that the server has sent on its control stream.
    fn sent_control(&mut self) -> Vec<String> {
        described(&self.connection.output(Own::Control).split())
    }

    /// Returns what has happened to streams.
    fn ends(&mut self) -> Vec<(u64, StreamEnd)> {
        std::iter::from_fn(|| self.connection.take_end()).collect()
    }

    /// Begins a response without fields.
    fn begin(&mut self, stream: u64, status: u16, length: Option<u64>) {
        let (fields, status) = (HeaderMap::new(), StatusCode::from_u16(status).unwrap());
        self.connection.begin(stream, ResponseHead::Fields(status, &fields), length, &date(), &mut self.out);
    }

    fn piece(&mut self, stream: u64, body: &[u8]) {
        self.connection.encode_piece(stream, body, &mut self.out).unwrap();
    }

    /// Responds completely, and closes the stream.
    fn respond(&mut self, stream: u64, body: &[u8]) {
        self.begin(stream, 200, Some(body.len() as u64));
        if self.connection.is_in_body(stream) {
            self.piece(stream, body);
        }
        self.connection.finish(stream, None, &mut self.out).unwrap();
        self.connection.close(stream, self.now);
    }
}

/// What a client sees: the events, what happens to streams, and the error that ends the connection.
type Outcome = (Vec<String>, Vec<(u64, StreamEnd)>, Option<ErrorCode>);

/// Sends pieces to a new connection: whole, byte by byte, and each split at every byte. The outcome must be the same.
#[track_caller]
fn outcome(pieces: &[Piece<'_>]) -> Outcome {
    let whole = run(pieces.iter().copied());
    let longest = pieces.iter().map(|(_, bytes, _)| bytes.len()).max().unwrap_or(0);
    // Long inputs are split at only some bytes.
    let positions: Vec<usize> = (1..longest).step_by(longest / 200 + 1).collect();
    assert_eq!(run(pieces.iter().flat_map(|piece| cut(*piece, &positions))), whole, "at all positions");
    for at in positions {
        let split = pieces.iter().flat_map(|piece| cut(*piece, &[at]));
        assert_eq!(run(split), whole, "split at {at}");
    }
    whole
}

fn run<'p>(mut pieces: impl Iterator<Item = Piece<'p>>) -> Outcome {
    let mut client = Client::new();
    let error = pieces.find_map(|(stream, bytes, ends)| client.receive(stream, bytes, ends).err());
    // How much of a body arrives before an error depends on the split.
    if error.is_none() {
        client.end_body();
    }
    let events = std::mem::take(&mut client.events);
    (events, client.ends(), error.map(|error| error.code))
}

/// Checks that pieces end the connection with an error.
#[track_caller]
fn end_connection(pieces: &[Piece<'_>], code: ErrorCode) {
    assert_eq!(outcome(pieces).2, Some(code));
}

/// Checks that pieces lead to these events, and no error.
#[track_caller]
fn lead_to(pieces: &[Piece<'_>], events: &[&str]) {
    let (found, _, error) = outcome(pieces);
    assert_eq!(error, None);
    assert_eq!(found, events);
}

fn date() -> DateLine {
    DateLine::new(SystemTime::UNIX_EPOCH)
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/x?y"), (":authority", "a")];

fn get() -> Vec<u8> {
    headers(&GET)
}

/// The start of a POST request with these fields.
fn post(more: &[(&str, &str)]) -> Vec<u8> {
    headers(&[&[(":method", "POST")], &GET[1..], more].concat())
}

#[test]
fn a_request_is_answered() {
    let mut client = Client::new();
    assert_eq!(client.end(0, &get()), ["0 GET a /x?y Known(0)"]);
    client.begin(0, 200, Some(2));
    client.piece(0, b"hi");
    assert!(!client.connection.is_in_body(0) && !client.connection.is_idle());
    assert_eq!(client.ends(), []);
    client.connection.finish(0, None, &mut client.out).unwrap();
    client.connection.close(0, client.now);
    assert!(client.connection.is_idle());
    assert_eq!(client.connection.requests(), 1);
    assert_eq!(client.sent(), ["HEADERS :status: 200, content-length: 2", "DATA hi"]);
    assert_eq!(client.ends(), [(0, StreamEnd::Finish)]);
}

#[test]
fn the_control_stream_begins_with_its_type_and_settings_and_others_wait_for_their_use() {
    let mut client = Client::connected(Limits::default());
    let settings = [0, 4, 10, 1, 0x50, 0, 7, 16, 6, 0x80, 0, 0x40, 0];
    for (own, bytes) in [(Own::Control, &settings[..]), (Own::Encoder, &[]), (Own::Decoder, &[])] {
        assert_eq!(client.connection.output(own), bytes);
    }
}
