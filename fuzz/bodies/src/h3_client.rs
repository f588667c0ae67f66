//! A caller of the client side of HTTP/3, for the fuzz target. It sends requests, and passes what it sends to a server.

use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_http::Limits;
use rudy_http::h3::client::{ClientConnection, Event, HeadBuffers, Request};
use rudy_http::h3::{self, ConnectionError, ErrorCode, Own, ServerConnection, StreamEnd};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use crate::h3::{Action, Record, limits};

/// What the caller does beside its first requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    /// A new request for each that ends, so that the result does not depend on how the input is split.
    Patient,
    /// Also bodies, trailers, cancellations and a shutdown.
    Active,
}

/// The events of a connection, and the error that ended it.
type Transcript = (Vec<String>, Option<ErrorCode>);

/// The requests at the start, and those of a whole connection.
const FIRST_REQUESTS: u64 = 4;
const REQUESTS_MAX: u64 = 10;

/// The size of the bodies of requests.
const BODY_BYTES: u64 = 3000;

/// Connections of a client. The first byte is the size of the pieces, the rest are [records](Record) of a server that has opened its
/// streams.
pub(crate) fn at_splits(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run(bytes, usize::MAX, Requests::Patient);
    assert_eq!(run(bytes, 1, Requests::Patient), whole, "byte by byte");
    assert_eq!(run(bytes, piece_bytes, Requests::Patient), whole, "in pieces of {piece_bytes}");
    run(bytes, piece_bytes, Requests::Active);
    run(bytes, usize::MAX, Requests::Active);
}

fn run(input: &[u8], piece_bytes: usize, requests: Requests) -> Transcript {
    let mut driver = Driver::new(requests);
    for _ in 0..FIRST_REQUESTS {
        driver.request();
    }
    for (stream, start) in [(3, &[0, 4, 0][..]), (7, &[2]), (11, &[3])] {
        driver.receive(stream, start, false);
    }
    for record in Record::all(input, 3) {
        if driver.error.is_some() {
            break;
        }
        driver.act(&record, piece_bytes);
    }
    driver.end_body();
    (driver.events, driver.error)
}

struct Driver {
    connection: ClientConnection,
    limits: Limits,
    requests: Requests,
    server: Server,
    now: Instant,
    buffers: HeadBuffers,
    /// The number of requests.
    sent: u64,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u64, Vec<u8>)>,
    /// Requests without the end of their response.
    open: Vec<u64>,
    /// Requests whose bodies are sent, and what is left of each.
    uploads: Vec<(u64, u64)>,
    error: Option<ErrorCode>,
}

impl Driver {
    fn new(requests: Requests) -> Self {
        let now = Instant::now();
        let limits = limits(requests == Requests::Active);
        Self {
            connection: ClientConnection::new(now, &limits),
            limits,
            requests,
            server: Server::new(now),
            now,
            buffers: HeadBuffers::default(),
            sent: 0,
            events: Vec::new(),
            body: None,
            open: Vec::new(),
            uploads: Vec::new(),
            error: None,
        }
    }

    /// Sends the next request: one without a body, one for a head, and two with bodies.
    fn request(&mut self) {
        let (method, body) = match self.sent % 4 {
            0 => (Method::GET, BodyLength::Known(0)),
            1 => (Method::HEAD, BodyLength::Known(0)),
            2 => (Method::POST, BodyLength::Known(BODY_BYTES)),
            _ => (Method::PUT, BodyLength::Chunked),
        };
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("a"));
        let head = RequestHead {
            method: &method,
            target: "/b",
            version: Version::HTTP_11,
            fields: (&fields).into(),
            body,
        };
        let request = Request::new(&head, "https").expect("a valid request");
        if self.sent == REQUESTS_MAX {
            return;
        }
        let (stream, mut out) = (4 * self.sent, BytesMut::new());
        let is_going_away = self.connection.is_going_away();
        assert_eq!(self.connection.request(stream, &request, &mut out), !is_going_away);
        if is_going_away {
            return;
        }
        self.server.receive(stream, &out, false, self.now);
        self.sent += 1;
        self.open.push(stream);
        if body != BodyLength::Known(0) {
            self.uploads.push((stream, BODY_BYTES));
        }
        self.flush();
    }

    fn act(&mut self, record: &Record<'_>, piece_bytes: usize) {
        self.end_body();
        // QUIC has no streams that this side has not opened.
        if record.stream.is_multiple_of(4) && record.stream >= 4 * self.sent {
            return;
        }
        match record.action {
            Action::Receive { .. } => {
                for (piece, ends) in record.pieces(piece_bytes, 7) {
                    self.receive(record.stream, piece, ends);
                }
            }
            Action::Reset => match self.connection.receive_reset(record.stream, ErrorCode::INTERNAL_ERROR) {
                Ok(event) => event.into_iter().for_each(|event| self.handle(event)),
                Err(error) => self.fail(error),
            },
            Action::Stop => {
                self.uploads.retain(|(stream, _)| *stream != record.stream);
                self.server.skip(record.stream);
                self.connection.receive_stop(record.stream).expect("a stream of a request, or of the server");
                assert!(!self.connection.is_in_body(record.stream));
            }
        }
        self.flush();
    }

    fn receive(&mut self, stream: u64, bytes: &[u8], ends: bool) {
        self.receive_one(stream, bytes, ends);
        while self.error.is_none()
            && let Some((stream, input, ends)) = self.connection.resume()
        {
            self.receive_one(stream, &input, ends);
        }
        if self.error.is_none() && self.requests == Requests::Active {
            self.now += Duration::from_millis(1);
            self.send_bodies();
        }
        self.flush();
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
        }
        self.buffers = buffers;
        assert!(input.is_empty(), "all of the input is used");
    }

    fn fail(&mut self, error: ConnectionError) {
        // How much of a body arrives before an error depends on the split.
        self.body = None;
        self.error = Some(error.code);
    }

    /// Passes on what happens to streams, and what the client sends beside requests.
    fn flush(&mut self) {
        for (own, stream) in [(Own::Control, 2), (Own::Encoder, 6)] {
            let bytes = self.connection.output(own).split();
            self.server.receive(stream, &bytes, false, self.now);
        }
        // What acknowledges entries of the table is not passed on: that server inserts none.
        self.connection.output(Own::Decoder).clear();
        while let Some((stream, end)) = self.connection.take_end() {
            match end {
                StreamEnd::Finish => self.server.receive(stream, b"", true, self.now),
                StreamEnd::Reset(_) => self.server.skip(stream),
                StreamEnd::Stop(_) => {}
            }
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Informational { stream, head } => {
                self.end_body();
                self.events.push(format!("{stream} {}", head.status()));
                assert!(self.open.contains(&stream));
            }
            Event::Head { stream, head, ends } => {
                self.end_body();
                let fields = head.fields().count();
                self.events.push(format!("{stream} {} {:?} {fields}", head.status(), head.framing()));
                assert!(self.open.contains(&stream) && fields <= self.limits.head_fields);
                self.end_response(stream, ends);
            }
            Event::Data { stream, data, ends } => {
                assert!(!data.is_empty() && self.open.contains(&stream));
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
            Event::End { stream, trailers } => {
                self.end_body();
                self.events.push(format!("{stream} end {trailers:?}"));
                self.end_response(stream, true);
            }
            Event::Reset { stream, code, reason } => {
                // How much of a malformed body arrives depends on the split.
                self.body.take_if(|(of, _)| reason.is_some() && *of == stream);
                self.end_body();
                self.events.push(format!("{stream} {code}"));
                self.uploads.retain(|(other, _)| *other != stream);
                self.end_response(stream, self.open.contains(&stream));
            }
            Event::GoAway { rejected_from } => {
                self.end_body();
                self.events.push(format!("goaway {rejected_from}"));
                assert!(self.connection.is_going_away());
            }
            Event::Settings => assert!(self.connection.has_settings()),
        }
    }

    fn end_response(&mut self, stream: u64, ends: bool) {
        if ends {
            let at = self.open.iter().position(|open| *open == stream).expect("a response ends once");
            self.open.remove(at);
            self.request();
        }
    }

    fn end_body(&mut self) {
        if let Some((stream, body)) = self.body.take() {
            self.events.push(format!("{stream} {}", body.escape_ascii()));
        }
    }

    fn send_bodies(&mut self) {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", HeaderValue::from_static("b"));
        let (connection, server, now) = (&mut self.connection, &mut self.server, self.now);
        self.uploads.retain_mut(|(stream, rest)| {
            let (mut out, piece) = (BytesMut::new(), (*rest).min(1100));
            assert_eq!(connection.begin_data(*stream, piece, &mut out), Ok(piece));
            out.put_bytes(0, usize::try_from(piece).expect("a piece"));
            *rest -= piece;
            if *rest == 0 {
                let trailers = (*stream % 8 == 4).then_some(&trailers);
                connection.finish(*stream, trailers, &mut out).expect("the length is right");
            }
            server.receive(*stream, &out, false, now);
            *rest > 0
        });
        if self.sent == 7
            && let Some(stream) = self.open.pop()
        {
            self.connection.cancel(stream);
            self.uploads.retain(|(other, _)| *other != stream);
        }
        if self.sent == 9 {
            self.connection.shut_down();
        }
    }
}

/// A server with large limits, which finds nothing wrong with the client.
struct Server {
    connection: ServerConnection,
    limits: Limits,
    buffers: HeadBuffers,
    /// The streams whose requests are incomplete.
    skipped: Vec<u64>,
}

impl Server {
    fn new(now: Instant) -> Self {
        let mut limits = Limits::default();
        limits.http2.control_frames = 1 << 24;
        limits.http2.resets = 1 << 24;
        let connection = ServerConnection::new(now, false, &limits);
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
            let event = connection.receive(stream, &mut bytes, ends, buffers, now, limits);
            match event.expect("the client keeps to the protocol") {
                Some(h3::Event::Reset { reason, .. }) => assert_eq!(reason, None, "the request is valid"),
                Some(h3::Event::Rejected { rejection, .. }) => panic!("{rejection}"),
                Some(_) => {}
                None => return,
            }
        }
    }
}
