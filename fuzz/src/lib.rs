//! Drivers without sockets for the fuzz targets. This one is the server's: it gives the machine bytes in pieces, and answers
//! what comes out.

pub mod client;
pub mod fastcgi;

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use rudy_http::h1::{BodyLength, DateLine, Event, Phase, ResponseHead, ServerConnection};
use rudy_http::{Limits, RawTarget};

/// What became of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub struct Transcript {
    /// Requests, whole bodies and rejections, as text.
    pub events: Vec<String>,
    /// What was answered.
    pub output: Vec<u8>,
    /// What the connection is at.
    pub phase: Phase,
}

/// Limits that short inputs reach.
#[must_use]
pub fn small_limits() -> Limits {
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

/// Has a conversation with a machine that is given `pieces`, one after the other.
pub fn converse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Transcript {
    let mut driver = Driver::new(limits);
    for piece in pieces {
        driver.receive(piece);
        driver.now += Duration::from_millis(1);
    }
    Transcript { phase: driver.machine.phase(), events: driver.events, output: driver.out.to_vec() }
}

/// Has the same conversation in one piece, byte by byte and in pieces of `piece_bytes`, which must make no difference.
pub fn converse_at_splits(bytes: &[u8], piece_bytes: usize, limits: &Limits) -> Transcript {
    let whole = converse([bytes], limits);
    assert_eq!(converse(bytes.chunks(1), limits), whole, "byte by byte");
    assert_eq!(converse(bytes.chunks(piece_bytes.max(1)), limits), whole, "in pieces of {piece_bytes}");
    whole
}

struct Driver<'a> {
    machine: ServerConnection,
    limits: &'a Limits,
    now: Instant,
    out: BytesMut,
    events: Vec<String>,
    /// The request whose body is read, and what of it has come.
    reading: Option<(Request<BodyLength>, Vec<u8>)>,
}

impl<'a> Driver<'a> {
    fn new(limits: &'a Limits) -> Self {
        let now = Instant::now();
        let machine = ServerConnection::new(now);
        Self { machine, limits, now, out: BytesMut::new(), events: Vec::new(), reading: None }
    }

    fn receive(&mut self, piece: &[u8]) {
        // Room for one read beyond the limit, but no more: a driver stops reading there.
        if self.machine.phase() == Phase::Upgrade {
            return;
        }
        let mut input = piece;
        loop {
            match self.machine.receive(std::mem::take(&mut input), self.now, self.limits) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(rejection) => {
                    self.events.push(format!("rejected: {rejection}"));
                    let date = DateLine::new(SystemTime::UNIX_EPOCH);
                    self.machine.reject(rejection, &date, &mut self.out);
                    assert_eq!(self.machine.phase(), Phase::Close, "a rejection closes");
                }
            }
        }
        let waits =
            matches!(self.machine.phase(), Phase::Idle | Phase::Head | Phase::Exchange | Phase::Drain);
        assert!(!waits || self.machine.wants_input(self.limits), "it waits for what it does not want");
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Request(head) => {
                let said = (head.path().to_vec(), head.query().map(<[u8]>::to_vec), head.fields().count());
                let request = head.into_request();
                let had = match request.extensions().get::<RawTarget>() {
                    Some(raw) => (said.0.clone(), raw.query().map(<[u8]>::to_vec), request.headers().len()),
                    None => {
                        let query = request.uri().query().map(|query| query.as_bytes().to_vec());
                        (request.uri().path().as_bytes().to_vec(), query, request.headers().len())
                    }
                };
                assert_eq!(said, had, "the view and the request agree");
                self.events.push(format!("{request:?}"));
                let has_body = *request.body() != BodyLength::Known(0);
                if has_body && request.uri().path().len() % 2 == 1 {
                    self.machine.encode_continue(&mut self.out);
                    self.reading = Some((request, Vec::new()));
                } else {
                    self.machine.ignore_body();
                    self.answer(&request, b"early");
                }
            }
            Event::Body(piece) => {
                assert!(!piece.is_empty(), "an empty piece says nothing");
                let (_, body) = self.reading.as_mut().expect("a body comes only where it is read");
                body.extend_from_slice(&piece);
                assert!(body.len() as u64 <= self.limits.body_bytes, "a body over its limit");
            }
            Event::BodyEnd(trailers) => {
                let (request, body) = self.reading.take().expect("an end comes only where a body is read");
                self.events.push(format!("{} {trailers:?}", body.escape_ascii()));
                self.answer(&request, &body);
            }
        }
    }

    /// Answers in a way that depends on the request alone.
    fn answer(&mut self, request: &Request<BodyLength>, body: &[u8]) {
        let status = [200, 200, 404, 204, 304, 500][request.uri().path().len() % 6];
        let status = StatusCode::from_u16(status).expect("a status");
        let length = (request.headers().len() % 2 == 0).then_some(body.len() as u64);
        let mut fields = HeaderMap::new();
        fields.insert("x-fields", HeaderValue::from(request.headers().len()));
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        self.machine.begin(ResponseHead::Fields(status, &fields), length, self.limits, &date, &mut self.out);
        if body.len() % 2 == 1 && self.machine.sends_body() {
            self.machine.raw_piece(body.len() as u64, &mut self.out).expect("its length was promised");
            self.out.extend_from_slice(body);
        } else {
            self.machine.piece(body, &mut self.out).expect("its length was promised");
        }
        self.machine.finish(Some(&fields), self.now, &mut self.out).expect("its length was promised");
    }
}
