//! A caller of the server side of HTTP/3, for the fuzz target. It responds to requests, and passes what it sends to a client.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use rudy_http::Limits;
use rudy_http::h3::client::{self, ClientConnection, Request};
use rudy_http::h3::{ConnectionError, ErrorCode, Event, HeadBuffers, Own, ServerConnection, StreamEnd};
use rudy_message::client::RequestHead;
use rudy_message::{BodyLength, DateLine, ResponseHead};

use crate::h1::small_limits;

/// How the caller responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Responses {
    /// At once and without a body, so that the result does not depend on how the input is split.
    Empty,
    /// With bodies, trailers, resets and a shutdown.
    Full,
}

/// The events of a connection, and the error that ended it.
type Transcript = (Vec<String>, Option<ErrorCode>);

/// The streams of requests.
const REQUESTS: u64 = 10;

/// Connections of a server. The first byte is the size of the pieces, the rest are [records](Record) of a client that has opened its
/// streams.
pub(crate) fn at_splits(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run(bytes, usize::MAX, Responses::Empty);
    assert_eq!(run(bytes, 1, Responses::Empty), whole, "byte by byte");
    assert_eq!(run(bytes, piece_bytes, Responses::Empty), whole, "in pieces of {piece_bytes}");
    run(bytes, piece_bytes, Responses::Full);
    run(bytes, usize::MAX, Responses::Full);
}

/// What a peer does to a stream: a byte with the stream and the action, a byte with a length, and bytes.
pub(crate) struct Record<'a> {
    pub(crate) stream: u64,
    pub(crate) action: Action,
    pub(crate) bytes: &'a [u8],
}

/// What happens to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It has these bytes, and perhaps its end.
    Receive { ends: bool },
    /// `RESET_STREAM`.
    Reset,
    /// `STOP_SENDING`.
    Stop,
}

impl<'a> Record<'a> {
    /// Returns the records of an input. `first_own` is the first unidirectional stream of the peer.
    pub(crate) fn all(mut input: &'a [u8], first_own: u64) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let [head, length, rest @ ..] = input else { return None };
            let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            input = rest;
            let number = u64::from(head & 15);
            let stream = if number < REQUESTS { 4 * number } else { first_own + 4 * (number - REQUESTS) };
            let action = match head >> 4 & 7 {
                0..4 => Action::Receive { ends: false },
                4 | 5 => Action::Receive { ends: true },
                6 => Action::Reset,
                _ => Action::Stop,
            };
            Some(Self { stream, action, bytes })
        })
    }

    /// Splits the bytes into pieces. The last one has the end of the stream. Those of the encoder stream are never split: what a section
    /// refers to would depend on it.
    pub(crate) fn pieces(&self, piece_bytes: usize, encoder: u64) -> Vec<(&'a [u8], bool)> {
        let piece_bytes = if self.stream == encoder { usize::MAX } else { piece_bytes };
        let ends = self.action == Action::Receive { ends: true };
        let mut pieces: Vec<_> = self.bytes.chunks(piece_bytes).map(|piece| (piece, false)).collect();
        match pieces.last_mut() {
            Some(last) => last.1 = ends,
            None => pieces.push((b"", ends)),
        }
        pieces
    }
}

/// Limits with which nothing depends on how the input is split, or small ones.
pub(crate) fn limits(are_small: bool) -> Limits {
    let mut limits = small_limits();
    if !are_small {
        limits.head_bytes = 1 << 14;
        limits.http2.control_frames = 1 << 20;
        limits.http2.resets = 1 << 20;
    }
    limits
}

fn run(input: &[u8], piece_bytes: usize, responses: Responses) -> Transcript {
    let mut driver = Driver::new(responses);
    for (stream, start) in [(2, &[0, 4, 0][..]), (6, &[2]), (10, &[3])] {
        driver.receive(stream, start, false);
    }
    for record in Record::all(input, 2) {
        if driver.error.is_some() {
            break;
        }
        driver.act(&record, piece_bytes);
    }
    driver.end_body();
    (driver.events, driver.error)
}

struct Driver {
    connection: ServerConnection,
    limits: Limits,
    view: ClientView,
    responses: Responses,
    now: Instant,
    buffers: HeadBuffers,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u64, Vec<u8>)>,
    /// Open requests: what is left of the body of the response, once it has begun.
    open: BTreeMap<u64, Option<u64>>,
    error: Option<ErrorCode>,
}

impl Driver {
    fn new(responses: Responses) -> Self {
        let now = Instant::now();
        let mut limits = limits(responses == Responses::Full);
        limits.http2.streams = 8;
        Self {
            connection: ServerConnection::new(now, true, &limits),
            limits,
            view: ClientView::new(now),
            responses,
            now,
            buffers: HeadBuffers::default(),
            events: Vec::new(),
            body: None,
            open: BTreeMap::new(),
            error: None,
        }
    }

    fn act(&mut self, record: &Record<'_>, piece_bytes: usize) {
        let (now, limits, code) = (self.now, self.limits.clone(), ErrorCode::REQUEST_CANCELLED);
        self.end_body();
        let result = match record.action {
            Action::Receive { .. } => {
                for (piece, ends) in record.pieces(piece_bytes, 6) {
                    self.receive(record.stream, piece, ends);
                }
                return;
            }
            Action::Reset => self.connection.receive_reset(record.stream, code, now, &limits),
            Action::Stop => self.connection.receive_stop(record.stream, code, now, &limits),
        };
        match result {
            Ok(event) => event.into_iter().for_each(|event| self.handle(event)),
            Err(error) => self.fail(error),
        }
        self.flush();
    }

    fn receive(&mut self, stream: u64, bytes: &[u8], ends: bool) {
        self.receive_one(stream, bytes, ends);
        while self.error.is_none()
            && let Some((stream, input, ends)) = self.connection.resume()
        {
            assert!(!self.connection.is_blocked(stream));
            self.receive_one(stream, &input, ends);
        }
        if self.error.is_none() && self.responses == Responses::Full {
            self.now += Duration::from_millis(1);
            self.send_bodies();
        }
        self.flush();
        assert!(!self.connection.is_over() || self.open.is_empty(), "no response is due");
        assert!(!self.connection.is_idle() || self.open.is_empty(), "the open streams are known");
    }

    fn receive_one(&mut self, stream: u64, mut input: &[u8], ends: bool) {
        if self.error.is_some() {
            return;
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        loop {
            let limits = &self.limits;
            match self.connection.receive(stream, &mut input, ends, &mut buffers, self.now, limits) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(error) => return self.fail(error),
            }
            self.flush();
        }
        self.buffers = buffers;
        assert!(input.is_empty(), "all of the input is used");
    }

    fn fail(&mut self, error: ConnectionError) {
        // How much of a body arrives before an error depends on the split.
        self.body = None;
        self.error = Some(error.code);
    }

    /// Takes what the server sends beside responses, and what happens to streams.
    fn flush(&mut self) {
        for (own, stream) in [(Own::Control, 3), (Own::Encoder, 7)] {
            let bytes = self.connection.output(own).split();
            self.view.receive(stream, &bytes, false, self.now);
        }
        // What acknowledges entries of the table is not passed on: that client inserts none.
        self.connection.output(Own::Decoder).clear();
        while let Some((stream, end)) = self.connection.take_end() {
            self.end_body();
            self.events.push(format!("{stream} {end:?}"));
            match end {
                StreamEnd::Finish => self.view.receive(stream, b"", true, self.now),
                StreamEnd::Reset(_) => self.view.skip(stream),
                StreamEnd::Stop(_) => {}
            }
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        let stream = match event {
            Event::Request { stream, .. }
            | Event::Rejected { stream, .. }
            | Event::Data { stream, .. }
            | Event::End { stream, .. }
            | Event::Reset { stream, .. }
            | Event::Priority { stream, .. } => stream,
        };
        match event {
            Event::Request { head, .. } => {
                self.end_body();
                let request = head.into_request();
                self.events.push(format!("{stream} {request:?}"));
                assert!(self.open.insert(stream, None).is_none());
                if [Method::HEAD, Method::CONNECT].contains(request.method()) {
                    self.view.skip(stream);
                }
                let mut out = BytesMut::new();
                self.connection.encode_continue(stream, &mut out);
                self.view.receive(stream, &out, false, self.now);
                // Some responses come before the body of the request.
                let is_early = self.responses == Responses::Full && stream % 3 == 0;
                if *request.body() == BodyLength::Known(0) || is_early {
                    self.respond(stream);
                }
            }
            Event::Rejected { rejection, head, .. } => {
                // How much of a body arrives before its limit depends on the split.
                self.drop_body(head.is_none().then_some(stream));
                self.events.push(format!("{stream} {rejection}"));
                self.open.remove(&stream);
                if head.is_some_and(|head| !head.starts_with(b"GET ") && !head.starts_with(b"POST ")) {
                    self.view.skip(stream);
                }
                let date = DateLine::new(SystemTime::UNIX_EPOCH);
                let mut out = BytesMut::new();
                self.connection.reject(stream, rejection, (&date, self.now), &mut out);
                self.view.receive(stream, &out, false, self.now);
            }
            Event::Data { data, ends, .. } => {
                assert!(!data.is_empty());
                match &mut self.body {
                    Some((of, body)) if *of == stream => body.extend_from_slice(data),
                    _ => {
                        self.end_body();
                        self.body = Some((stream, data.to_vec()));
                    }
                }
                if ends {
                    self.handle(Event::End { stream, trailers: None });
                }
            }
            Event::End { trailers, .. } => {
                self.end_body();
                self.events.push(format!("{stream} end {trailers:?}"));
                self.respond(stream);
            }
            Event::Reset { code, reason, .. } => {
                self.drop_body(reason.is_some().then_some(stream));
                self.events.push(format!("{stream} {code}"));
                self.open.remove(&stream);
            }
            Event::Priority { priority, .. } => {
                self.end_body();
                self.events.push(format!("{stream} {priority:?}"));
            }
        }
    }

    /// Ends the pieces of a body.
    fn end_body(&mut self) {
        if let Some((stream, body)) = self.body.take() {
            self.events.push(format!("{stream} {}", body.escape_ascii()));
        }
    }

    /// Ends the pieces of a body, unless it is that of a malformed request: how much of it has arrived depends on the split.
    fn drop_body(&mut self, malformed: Option<u64>) {
        self.body.take_if(|(stream, _)| Some(*stream) == malformed);
        self.end_body();
    }

    fn respond(&mut self, stream: u64) {
        let Some(rest @ None) = self.open.get_mut(&stream) else { return };
        let length = if self.responses == Responses::Empty { 0 } else { stream * 977 % 4000 };
        let stated = (stream % 8 == 4 || length == 0).then_some(length);
        let (date, fields) = (DateLine::new(SystemTime::UNIX_EPOCH), HeaderMap::new());
        let mut out = BytesMut::new();
        let head = ResponseHead::Fields(StatusCode::OK, &fields);
        self.connection.begin(stream, head, stated, &date, &mut out);
        *rest = Some(if self.connection.is_in_body(stream) { length } else { 0 });
        self.view.receive(stream, &out, false, self.now);
        if self.responses == Responses::Empty {
            self.connection.close(stream, self.now);
            self.open.remove(&stream);
        }
    }

    fn send_bodies(&mut self) {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", HeaderValue::from_static("b"));
        let (connection, view, now) = (&mut self.connection, &mut self.view, self.now);
        self.open.retain(|stream, rest| {
            let Some(rest) = rest else { return true };
            let mut out = BytesMut::new();
            let piece = (*rest).min(1500);
            if piece > 0 {
                assert_eq!(connection.begin_data(*stream, piece, &mut out), Ok(piece));
                out.put_bytes(0, usize::try_from(piece).expect("a piece"));
                *rest -= piece;
            }
            if *rest == 0 {
                let trailers = (*stream % 16 == 8).then_some(&trailers);
                connection.finish(*stream, trailers, &mut out).expect("the length is right");
            }
            view.receive(*stream, &out, false, now);
            if *rest == 0 {
                connection.close(*stream, now);
            }
            *rest > 0
        });
        match connection.requests() {
            8.. => connection.stop_accepting(),
            6.. => connection.shut_down(),
            _ => {}
        }
    }
}

/// A client that has sent a GET request on each stream, and finds nothing wrong with the responses.
struct ClientView {
    connection: ClientConnection,
    limits: Limits,
    buffers: HeadBuffers,
    /// The streams whose responses depend on the request, or are incomplete.
    skipped: Vec<u64>,
}

impl ClientView {
    fn new(now: Instant) -> Self {
        let mut limits = Limits::for_responses();
        limits.http2.control_frames = 1 << 24;
        let mut connection = ClientConnection::new(now, &limits);
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("a"));
        let head = RequestHead {
            method: &Method::GET,
            target: "/",
            version: Version::HTTP_11,
            fields: (&fields).into(),
            body: BodyLength::Known(0),
        };
        let request = Request::new(&head, "https").expect("a valid request");
        for number in 0..REQUESTS {
            assert!(connection.request(4 * number, &request, &mut BytesMut::new()));
        }
        Self { connection, limits, buffers: HeadBuffers::default(), skipped: Vec::new() }
    }

    fn skip(&mut self, stream: u64) {
        self.skipped.push(stream);
    }

    fn receive(&mut self, stream: u64, mut bytes: &[u8], ends: bool, now: Instant) {
        if self.skipped.contains(&stream) {
            return;
        }
        loop {
            let Self { connection, limits, buffers, .. } = self;
            match connection.receive(stream, &mut bytes, ends, buffers, now, limits) {
                Ok(Some(client::Event::Reset { reason, .. })) => {
                    assert_eq!(reason, None, "the response on stream {stream} is valid");
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => panic!("the server keeps to the protocol: {error}"),
            }
        }
    }
}
