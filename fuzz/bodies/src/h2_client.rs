//! A caller of the client side of HTTP/2, for the fuzz target. It sends requests, and passes what it sends to a server.

use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_http::Limits;
use rudy_http::h2::client::{ClientConnection, Event, HeadBuffers, Request};
use rudy_http::h2::{self, ErrorCode, ServerConnection};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use crate::h1::small_limits;

/// What the caller does beside its first requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requests {
    /// A new request for each that ends, so that the result does not depend on how the input is split.
    Patient,
    /// Also bodies as far as the windows permit, trailers, cancellations and a shutdown.
    Active,
}

/// The events of a connection, and the error that ended it.
pub(crate) type Transcript = (Vec<String>, Option<ErrorCode>);

/// The requests at the start, and those of a whole connection.
const FIRST_REQUESTS: u32 = 4;
const REQUESTS_MAX: u32 = 24;

/// HTTP/2 connections of a client. The first byte is the size of the pieces, the rest is what a server sends after its settings.
pub(crate) fn at_splits(data: &[u8]) {
    let [piece_bytes, bytes @ ..] = data else { return };
    let piece_bytes = usize::from(*piece_bytes).max(1);
    let whole = run([bytes], Requests::Patient);
    assert_eq!(run(bytes.chunks(1), Requests::Patient), whole, "byte by byte");
    assert_eq!(run(bytes.chunks(piece_bytes), Requests::Patient), whole, "in pieces of {piece_bytes}");
    run(bytes.chunks(piece_bytes), Requests::Active);
    run([bytes], Requests::Active);
}

/// Runs a connection whose server has sent empty settings, and then sends `pieces`.
pub(crate) fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, requests: Requests) -> Transcript {
    let mut driver = Driver::new(requests);
    driver.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for _ in 0..FIRST_REQUESTS {
        driver.request();
    }
    for piece in pieces {
        driver.receive(piece);
    }
    driver.end_body(None);
    (driver.events, driver.error)
}

struct Driver {
    connection: ClientConnection,
    limits: Limits,
    requests: Requests,
    server: Server,
    now: Instant,
    out: BytesMut,
    buffers: HeadBuffers,
    sent: u32,
    events: Vec<String>,
    /// The body that the last events are pieces of.
    body: Option<(u32, Vec<u8>)>,
    /// Requests without the end of their response.
    open: Vec<u32>,
    /// Requests whose bodies are sent, and what is left of each.
    uploads: Vec<(u32, u64)>,
    error: Option<ErrorCode>,
}

impl Driver {
    fn new(requests: Requests) -> Self {
        let (now, limits, mut out) = (Instant::now(), small_limits(), BytesMut::new());
        Self {
            connection: ClientConnection::new(now, &limits, &mut out),
            limits,
            requests,
            server: Server::new(now),
            now,
            out,
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
            2 => (Method::POST, BodyLength::Known(70_000)),
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
        let request = Request::new(&head, "http").expect("a valid request");
        let available = self.connection.available_streams();
        let stream = (self.sent < REQUESTS_MAX).then(|| self.connection.request(&request, &mut self.out));
        let Some(stream) = stream else { return };
        assert_eq!(stream.is_some(), available > 0);
        let Some(stream) = stream else { return };
        self.sent += 1;
        self.open.push(stream);
        if body != BodyLength::Known(0) {
            self.uploads.push((stream, 70_000));
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.flush();
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
        if self.requests == Requests::Active {
            self.now += Duration::from_millis(1);
            self.send_bodies();
        }
        self.flush();
    }

    fn flush(&mut self) {
        self.server.receive(&self.out.split(), self.now);
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Informational { stream, head } => {
                self.end_body(None);
                self.events.push(format!("{stream} {}", head.status()));
                assert!(self.open.contains(&stream));
            }
            Event::Head { stream, head, ends } => {
                self.end_body(None);
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
                self.end_response(stream, true);
            }
            Event::Reset { stream, code, reason } => {
                self.end_body(reason.is_some().then_some(stream));
                self.events.push(format!("{stream} {code}"));
                self.uploads.retain(|(other, _)| *other != stream);
                self.end_response(stream, self.open.contains(&stream));
            }
            Event::GoAway { last_stream, code, reason } => {
                self.end_body(None);
                self.events.push(format!("goaway {last_stream} {code} {}", reason.escape_ascii()));
                assert!(self.connection.is_going_away());
            }
            Event::Settings => self.end_body(None),
        }
    }

    fn end_response(&mut self, stream: u32, ends: bool) {
        if ends {
            let at = self.open.iter().position(|open| *open == stream).expect("a response ends once");
            self.open.remove(at);
            self.request();
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

    fn send_bodies(&mut self) {
        let mut trailers = HeaderMap::new();
        trailers.insert("a", HeaderValue::from_static("b"));
        let (connection, out) = (&mut self.connection, &mut self.out);
        self.uploads.retain_mut(|(stream, rest)| {
            while *rest > 0 {
                let window = connection.window(*stream);
                let framed = connection.begin_data(*stream, *rest, out).expect("the length is right");
                assert_eq!(framed == 0, window == 0);
                assert!(framed <= window, "a body exceeds the window");
                if framed == 0 {
                    return true;
                }
                out.put_bytes(0, usize::try_from(framed).expect("a frame"));
                *rest -= framed;
            }
            if connection.is_in_body(*stream) {
                let trailers = (*stream % 8 == 7).then_some(&trailers);
                connection.finish(*stream, trailers, out).expect("the length is right");
            }
            false
        });
        if self.sent == 13
            && let Some(stream) = self.open.pop()
        {
            connection.cancel(stream, out);
            self.uploads.retain(|(other, _)| *other != stream);
        }
        if self.sent == 20 {
            connection.shut_down(out);
        }
    }
}

/// A server with large limits, which finds nothing wrong with the client.
struct Server {
    connection: ServerConnection,
    limits: Limits,
    buffers: HeadBuffers,
}

impl Server {
    fn new(now: Instant) -> Self {
        let mut limits = Limits::default();
        limits.http2.stream_window_bytes = 1 << 24;
        limits.http2.connection_window_bytes = 1 << 28;
        limits.http2.control_frames = 1 << 24;
        limits.http2.resets = 1 << 24;
        let connection = ServerConnection::new(now, false, &limits, &mut BytesMut::new());
        Self { connection, limits, buffers: HeadBuffers::default() }
    }

    fn receive(&mut self, mut input: &[u8], now: Instant) {
        let mut out = BytesMut::new();
        loop {
            let event = self.connection.receive(&mut input, &mut self.buffers, now, &self.limits, &mut out);
            match event.expect("the client keeps to the protocol") {
                Some(h2::Event::Reset { reason, .. }) => assert_eq!(reason, None, "the request is valid"),
                Some(h2::Event::Rejected { rejection, .. }) => panic!("{rejection}"),
                Some(h2::Event::Data { stream, data, .. }) => {
                    self.connection.pass_on(stream, data.len(), &mut out);
                }
                Some(_) => {}
                None => return,
            }
        }
    }
}
