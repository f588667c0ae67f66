//! The state machine of a server without sockets: it receives input in pieces, and responds to requests.

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use rudy_http::Limits;
use rudy_http::h1::{Event, Phase, ServerConnection};
use rudy_message::{BodyLength, DateLine, RawTarget, ResponseHead};

/// The result of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// Requests, complete bodies and rejections, as text.
    pub(crate) events: Vec<String>,
    /// The encoded responses.
    pub(crate) output: Vec<u8>,
    /// The last phase of the connection.
    pub(crate) phase: Phase,
}

/// Returns limits that short inputs reach.
#[must_use]
pub(crate) fn small_limits() -> Limits {
    Limits {
        head_bytes: 256,
        head_fields: 8,
        target_bytes: 64,
        body_bytes: 512,
        chunk_extension_bytes: 16,
        drain_bytes: 128,
        requests_per_connection: Some(8),
        ..Limits::default()
    }
}

/// Runs a connection that receives `pieces`.
pub(crate) fn decode_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Transcript {
    let mut driver = Driver::new(limits);
    for piece in pieces {
        driver.receive(piece);
        driver.now += Duration::from_millis(1);
    }
    Transcript { phase: driver.connection.phase(), events: driver.events, output: driver.out.to_vec() }
}

/// Runs a connection with input in one piece, byte by byte and in pieces of `piece_bytes`. All must give the same result.
pub(crate) fn decode_events_at_splits(bytes: &[u8], piece_bytes: usize, limits: &Limits) -> Transcript {
    let whole = decode_events([bytes], limits);
    assert_eq!(decode_events(bytes.chunks(1), limits), whole, "byte by byte");
    assert_eq!(decode_events(bytes.chunks(piece_bytes.max(1)), limits), whole, "in pieces of {piece_bytes}");
    whole
}

struct Driver<'a> {
    connection: ServerConnection,
    limits: &'a Limits,
    now: Instant,
    out: BytesMut,
    events: Vec<String>,
    /// The request whose body is read, and the body so far.
    reading: Option<(Request<BodyLength>, Vec<u8>)>,
}

impl<'a> Driver<'a> {
    fn new(limits: &'a Limits) -> Self {
        let now = Instant::now();
        let connection = ServerConnection::new(now);
        Self { connection, limits, now, out: BytesMut::new(), events: Vec::new(), reading: None }
    }

    fn receive(&mut self, piece: &[u8]) {
        // Input after an upgrade belongs to another protocol.
        if self.connection.phase() == Phase::Upgrade {
            return;
        }
        let mut input = piece;
        loop {
            match self.connection.receive(std::mem::take(&mut input), self.now, self.limits) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(rejection) => {
                    self.events.push(format!("rejected: {rejection}"));
                    let date = DateLine::new(SystemTime::UNIX_EPOCH);
                    self.connection.reject(rejection, &date, &mut self.out);
                    assert_eq!(self.connection.phase(), Phase::Close, "a rejection closes");
                }
            }
        }
        let waits =
            matches!(self.connection.phase(), Phase::Idle | Phase::Head | Phase::Exchange | Phase::Drain);
        assert!(
            !waits || self.connection.wants_input(self.limits),
            "a connection that waits for input accepts it"
        );
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Request(head) => {
                let from_view =
                    (head.path().to_vec(), head.query().map(<[u8]>::to_vec), head.fields().count());
                let request = head.into_request();
                let fields = request.headers().len();
                let from_request = if let Some(raw) = request.extensions().get::<RawTarget>() {
                    (from_view.0.clone(), raw.query().map(<[u8]>::to_vec), fields)
                } else {
                    let query = request.uri().query().map(|query| query.as_bytes().to_vec());
                    (request.uri().path().as_bytes().to_vec(), query, fields)
                };
                assert_eq!(from_view, from_request, "the view and the request agree");
                self.events.push(format!("{request:?}"));
                let has_body = *request.body() != BodyLength::Known(0);
                if has_body && request.uri().path().len() % 2 == 1 {
                    self.connection.encode_continue(&mut self.out);
                    self.reading = Some((request, Vec::new()));
                } else {
                    self.connection.ignore_body();
                    self.respond(&request, b"early");
                }
            }
            Event::Body(piece) => {
                assert!(!piece.is_empty(), "a piece is not empty");
                let (_, body) = self.reading.as_mut().expect("a body event follows a request that reads it");
                body.extend_from_slice(&piece);
                assert!(body.len() as u64 <= self.limits.body_bytes, "a body exceeds its limit");
            }
            Event::BodyEnd(trailers) => {
                let (request, body) =
                    self.reading.take().expect("the end of a body follows a request that reads it");
                self.events.push(format!("{} {trailers:?}", body.escape_ascii()));
                self.respond(&request, &body);
            }
        }
    }

    /// Sends a response that depends on the request alone.
    fn respond(&mut self, request: &Request<BodyLength>, body: &[u8]) {
        let status = [200, 200, 404, 204, 304, 500][request.uri().path().len() % 6];
        let status = StatusCode::from_u16(status).expect("a status");
        let length = request.headers().len().is_multiple_of(2).then_some(body.len() as u64);
        let mut fields = HeaderMap::new();
        fields.insert("x-fields", HeaderValue::from(request.headers().len()));
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        self.connection.begin(
            ResponseHead::Fields(status, &fields),
            length,
            self.limits,
            &date,
            &mut self.out,
        );
        if body.len() % 2 == 1 && self.connection.sends_body() {
            self.connection.raw_piece(body.len() as u64, &mut self.out).expect("the length matches");
            self.out.extend_from_slice(body);
        } else {
            self.connection.encode_piece(body, &mut self.out).expect("the length matches");
        }
        self.connection.finish(Some(&fields), self.now, &mut self.out).expect("the length matches");
    }
}
