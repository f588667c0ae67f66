//! A caller of the server side of HTTP/2, for the fuzz target. It responds to requests, and checks the output as a client would.

#[path = "../../../crates/rudy-http/src/h2/server/tests/client_view.rs"]
mod client_view;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::Limits;
use rudy_http::h2::{ErrorCode, Event, HeadBuffers, PREFACE, ServerConnection};
use rudy_message::{BodyLength, DateLine, ResponseHead};

use self::client_view::ClientView;
use crate::h1::small_limits;

/// How the caller responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Responses {
    /// At once and without a body, so that the result does not depend on how the input is split.
    Empty,
    /// With bodies, trailers, resets and a shutdown, as far as the windows permit.
    Full,
}

/// The events of a connection, and the error that ended it.
pub(crate) type Transcript = (Vec<String>, Option<ErrorCode>);

/// HTTP/2 connections of a server. The first byte is the size of the pieces, the rest is what a client sends after its settings.
pub(crate) fn at_splits(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run([bytes], Responses::Empty);
    assert_eq!(run(bytes.chunks(1), Responses::Empty), whole, "byte by byte");
    assert_eq!(run(bytes.chunks(piece_bytes), Responses::Empty), whole, "in pieces of {piece_bytes}");
    run(bytes.chunks(piece_bytes), Responses::Full);
    run([bytes], Responses::Full);
}

/// Runs a connection whose client has sent the preface and empty settings, and then sends `pieces`.
pub(crate) fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, responses: Responses) -> Transcript {
    let mut driver = Driver::new(responses);
    let start = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    driver.receive(&start);
    for piece in pieces {
        driver.receive(piece);
    }
    driver.end_body(None);
    (driver.events, driver.error)
}

struct Driver {
    connection: ServerConnection,
    limits: Limits,
    view: ClientView,
    responses: Responses,
    now: Instant,
    out: BytesMut,
    buffers: HeadBuffers,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u32, Vec<u8>)>,
    /// Open requests: whether the body has ended, and what is left of the body of the response.
    open: BTreeMap<u32, (bool, Option<u64>)>,
    error: Option<ErrorCode>,
}

impl Driver {
    fn new(responses: Responses) -> Self {
        let (now, mut out) = (Instant::now(), BytesMut::new());
        let mut limits = small_limits();
        limits.http2.streams = 8;
        let connection = ServerConnection::new(now, true, &limits, &mut out);
        Self {
            connection,
            limits,
            view: ClientView::new(),
            responses,
            now,
            out,
            buffers: HeadBuffers::default(),
            events: Vec::new(),
            body: None,
            open: BTreeMap::new(),
            error: None,
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.flush();
        self.view.send(input);
        let mut buffers = std::mem::take(&mut self.buffers);
        loop {
            match self.connection.receive(&mut input, &mut buffers, self.now, &self.limits, &mut self.out) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break,
                Err(error) => {
                    self.error = Some(error.code);
                    self.connection.fail(error, &mut self.out);
                    return self.flush();
                }
            }
        }
        self.buffers = buffers;
        assert!(input.is_empty(), "all of the input is used");
        if self.responses == Responses::Full {
            self.now += Duration::from_millis(1);
            self.send_bodies();
        }
        self.flush();
        assert!(!self.connection.is_over() || self.open.is_empty(), "no response is due");
        // The rest of a request may still be discarded.
        assert!(!self.connection.is_idle() || self.open.is_empty(), "the open streams are known");
    }

    fn flush(&mut self) {
        self.view.receive(&self.out.split());
    }

    fn handle(&mut self, event: Event<'_>) {
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        match event {
            Event::Request { stream, head, .. } => {
                self.end_body(None);
                let request = head.into_request();
                self.events.push(format!("{stream} {request:?}"));
                let has_ended = *request.body() == BodyLength::Known(0);
                assert!(self.open.insert(stream, (has_ended, None)).is_none());
                self.connection.encode_continue(stream, &mut self.out);
                // Some responses come before the body of the request.
                if has_ended || self.responses == Responses::Full && stream % 3 == 0 {
                    self.respond(stream, &date);
                }
            }
            Event::Rejected { stream, rejection, .. } => {
                self.end_body(None);
                self.events.push(format!("{stream} {rejection}"));
                self.open.remove(&stream);
                self.connection.reject(stream, rejection, (&date, self.now), &mut self.out);
            }
            Event::Data { stream, data, ends } => {
                assert!(!data.is_empty() && !self.open[&stream].0);
                match &mut self.body {
                    Some((of, body)) if *of == stream => body.extend_from_slice(data),
                    _ => {
                        self.end_body(None);
                        self.body = Some((stream, data.to_vec()));
                    }
                }
                self.connection.pass_on(stream, data.len(), &mut self.out);
                if ends {
                    self.handle(Event::End { stream, trailers: None });
                }
            }
            Event::End { stream, trailers } => {
                self.end_body(None);
                self.events.push(format!("{stream} end {trailers:?}"));
                // After the response, the end of the rest.
                let Some(state) = self.open.get_mut(&stream) else { return };
                assert!(!std::mem::replace(&mut state.0, true), "a body ends once");
                self.respond(stream, &date);
            }
            Event::Reset { stream, code, reason } => {
                self.end_body(reason.is_some().then_some(stream));
                self.events.push(format!("{stream} {code}"));
                self.open.remove(&stream);
            }
            Event::Window { stream } => {
                self.end_body(None);
                self.events.push(format!("{stream} has a window"));
            }
            Event::Priority { stream, priority } => {
                self.end_body(None);
                self.events.push(format!("{stream} {priority:?}"));
            }
        }
    }

    /// Ends the pieces of a body. Those of a malformed one depend on the split.
    fn end_body(&mut self, malformed: Option<u32>) {
        if let Some((stream, body)) = self.body.take()
            && malformed.is_none()
        {
            self.events.push(format!("{stream} {}", body.escape_ascii()));
        }
    }

    fn respond(&mut self, stream: u32, date: &DateLine) {
        let state = self.open.get_mut(&stream).expect("the request is open");
        if state.1.is_some() {
            return;
        }
        let length = if self.responses == Responses::Empty { 0 } else { u64::from(stream) * 977 % 40_000 };
        let stated = (stream % 4 == 1 || length == 0).then_some(length);
        let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
        self.connection.begin(stream, head, stated, date, &mut self.out);
        let length = if self.connection.is_in_body(stream) { length } else { 0 };
        state.1 = Some(length);
        if self.responses == Responses::Empty {
            self.connection.close(stream, self.now);
            self.open.remove(&stream);
        }
    }

    fn send_bodies(&mut self) {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", HeaderValue::from_static("b"));
        let (connection, out, now) = (&mut self.connection, &mut self.out, self.now);
        self.open.retain(|stream, (_, rest)| {
            let Some(rest) = rest else { return true };
            while *rest > 0 {
                let window = connection.window(*stream);
                let framed = connection.begin_data(*stream, *rest, out).expect("the length is right");
                assert_eq!(framed == 0, window == 0);
                if framed == 0 {
                    return true;
                }
                out.put_bytes(0, usize::try_from(framed).expect("a frame"));
                *rest -= framed;
            }
            connection
                .finish(*stream, (stream % 8 == 3).then_some(&trailers), out)
                .expect("the length is right");
            connection.close(*stream, now);
            false
        });
        match connection.requests() {
            20.. => connection.stop_accepting(out),
            12.. => connection.shut_down(out),
            _ => {}
        }
    }
}
