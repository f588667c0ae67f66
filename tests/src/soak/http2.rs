//! Concurrent requests on one HTTP/2 connection: h2c, or TLS with ALPN.

use std::io::{Read, Write};
use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Method, Version, header};
use rudy_http::Limits;
use rudy_http::h2::client::{ClientConnection, Event, HeadBuffers};
use rudy_http::h2::{ErrorCode, client};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;

use super::client::{Client, Unusable};
use super::request::{BodyCheck, Request};
use super::stream::{Address, HOST, Stream};
use super::tally::SentRequest;
use super::wire::{RequestError, is_timeout, request_error};

/// Number of requests at once: more than an application has connections.
const CONCURRENT_MAX: usize = 12;

impl Client<'_> {
    /// Sends many requests at once, and cancels some of them.
    pub(super) fn multiplex(&mut self) -> Result<(), Unusable> {
        let connect = SentRequest { name: "connect", at: Instant::now(), reused: false };
        let mut wire = Http2Wire::open(&self.address).map_err(|error| {
            self.tally.request_error(connect, &error);
            Unusable
        })?;
        for round in 0..self.random.within(1..8) {
            let count = self.random.within(1..CONCURRENT_MAX);
            let mut exchanges: Vec<_> = (0..count).map(|_| self.exchange()).collect();
            let at = Instant::now();
            wire.run(&mut exchanges);
            for exchange in exchanges {
                let sent_request = SentRequest { name: &exchange.request.name, at, reused: round > 0 };
                match exchange.result {
                    Some(Ok(status)) => self.tally.response(sent_request, status),
                    Some(Err(error)) => self.tally.request_error(sent_request, &error),
                    None => self.tally.failure("a request has no result"),
                }
            }
            if wire.has_ended {
                return Err(Unusable);
            }
        }
        Ok(())
    }

    fn exchange(&mut self) -> Exchange {
        let request = match self.random.below(10) {
            0 => Request::large(&mut self.random),
            1 | 2 => Request::upload(&mut self.random, 1_000..300_000),
            3 => Request::events(&mut self.random),
            _ => Request::quick(&mut self.random),
        };
        let cancels_at = self.random.chance(10).then(|| self.random.below(20_000));
        let check = BodyCheck::new(&request.expected);
        Exchange { request, cancels_at, check, stream: None, sent: 0, status: 0, result: None }
    }
}

/// A request, its stream, and its response so far.
struct Exchange {
    request: Request,
    /// The number of bytes of the response after which it is cancelled.
    cancels_at: Option<usize>,
    check: BodyCheck,
    stream: Option<u32>,
    /// The number of bytes of the body that are sent.
    sent: usize,
    /// 0 before the response.
    status: u16,
    /// The status of a complete response.
    result: Option<Result<u16, RequestError>>,
}

/// A connection to the server.
struct Http2Wire {
    stream: Stream,
    connection: ClientConnection,
    limits: Limits,
    buffers: HeadBuffers,
    out: BytesMut,
    has_ended: bool,
}

impl Http2Wire {
    fn open(address: &Address) -> Result<Self, RequestError> {
        let stream = Stream::open(&address.with_http2())
            .map_err(|error| RequestError::Invalid(format!("cannot connect: {error}")))?;
        let (limits, mut out) = (Limits::for_responses(), BytesMut::new());
        let connection = ClientConnection::new(Instant::now(), &limits, &mut out);
        Ok(Self { stream, connection, limits, buffers: HeadBuffers::default(), out, has_ended: false })
    }

    /// Sends requests, and receives their responses until each has a result.
    fn run(&mut self, exchanges: &mut [Exchange]) {
        let mut input = vec![0; 64 * 1024];
        while exchanges.iter().any(|exchange| exchange.result.is_none()) {
            self.send(exchanges);
            let read = match self.stream.read(&mut input) {
                Ok(read @ 1..) => read,
                Ok(_) => return self.end(exchanges, |exchange| closed(exchange.status)),
                Err(error) if is_timeout(&error) => {
                    return self.end(exchanges, |_| request_error(&error, "over HTTP/2"));
                }
                Err(_) => return self.end(exchanges, |exchange| closed(exchange.status)),
            };
            self.receive(&input[..read], exchanges);
        }
        // The cancellations.
        self.send(&mut []);
    }

    /// Sends what the streams and windows permit.
    fn send(&mut self, exchanges: &mut [Exchange]) {
        for exchange in exchanges.iter_mut().filter(|exchange| exchange.result.is_none()) {
            if exchange.stream.is_none() {
                if self.connection.is_going_away() {
                    exchange.result = Some(Err(RequestError::Closed));
                    continue;
                }
                exchange.stream = self.connection.request(&exchange.request.http2(), &mut self.out);
            }
            let Some(stream) = exchange.stream else { continue };
            let rest = &exchange.request.body[exchange.sent..];
            let window = usize::try_from(self.connection.window(stream)).unwrap_or(usize::MAX);
            let piece = &rest[..rest.len().min(window)];
            if self.connection.is_in_body(stream) && !piece.is_empty() {
                // Fails only if the stream is closed, which has its own event.
                let _ = self.connection.encode_piece(stream, piece, &mut self.out);
                exchange.sent += piece.len();
            }
        }
        // A closed connection is noticed when it is read: there may be responses before its end.
        let _ = self.stream.write_all(&self.out.split()).and_then(|()| self.stream.flush());
    }

    fn receive(&mut self, mut input: &[u8], exchanges: &mut [Exchange]) {
        let now = Instant::now();
        loop {
            let (connection, out) = (&mut self.connection, &mut self.out);
            match connection.receive(&mut input, &mut self.buffers, now, &self.limits, out) {
                Ok(None) => return,
                Ok(Some(event)) => {
                    if let Event::Data { stream, data, .. } = event {
                        connection.pass_on(stream, data.len(), out);
                    }
                    if let Some(cancelled) = handle(&event, exchanges) {
                        connection.cancel(cancelled, out);
                    }
                }
                Err(error) => {
                    return self.end(exchanges, |_| RequestError::Invalid(error.to_string()));
                }
            }
        }
    }

    fn end(&mut self, exchanges: &mut [Exchange], error: impl Fn(&Exchange) -> RequestError) {
        self.has_ended = true;
        for exchange in exchanges.iter_mut().filter(|exchange| exchange.result.is_none()) {
            exchange.result = Some(Err(error(exchange)));
        }
    }
}

/// Applies an event to its exchange. Returns its stream if that must be cancelled.
fn handle(event: &Event<'_>, exchanges: &mut [Exchange]) -> Option<u32> {
    let (Event::Head { stream, .. }
    | Event::Data { stream, .. }
    | Event::End { stream, .. }
    | Event::Reset { stream, .. }) = event
    else {
        return None;
    };
    let is_of = |exchange: &&mut Exchange| exchange.stream == Some(*stream) && exchange.result.is_none();
    let exchange = exchanges.iter_mut().find(is_of)?;
    match event {
        Event::Head { head, ends, .. } => {
            exchange.status = head.status();
            exchange.finish_if(*ends);
        }
        Event::Data { data, ends, .. } => {
            exchange.receive(data);
            exchange.finish_if(*ends);
        }
        Event::Reset { code: ErrorCode::REFUSED_STREAM, .. } => {
            exchange.result = Some(Err(RequestError::Closed));
        }
        Event::Reset { code, .. } => {
            exchange.result = Some(Err(RequestError::Truncated(format!("the stream was reset: {code}"))));
        }
        _ => exchange.finish_if(true),
    }
    matches!(exchange.result, Some(Err(RequestError::Cancelled))).then_some(*stream)
}

impl Exchange {
    fn receive(&mut self, piece: &[u8]) {
        if self.status == 200
            && let Err(error) = self.check.check_piece(piece)
        {
            self.result = Some(Err(error));
        } else if self.cancels_at.is_some_and(|at| self.check.bytes_received() >= at) {
            self.result = Some(Err(RequestError::Cancelled));
        }
    }

    fn finish_if(&mut self, ends: bool) {
        if ends && self.result.is_none() {
            let check = if self.status == 200 { self.check.check_end() } else { Ok(()) };
            self.result = Some(check.map(|()| self.status));
        }
    }
}

/// Returns the error of a request whose connection has ended.
fn closed(status: u16) -> RequestError {
    match status {
        0 => RequestError::Closed,
        _ => RequestError::Truncated("the connection ended in a body".into()),
    }
}

impl Request {
    /// Returns the request for HTTP/2.
    fn http2(&self) -> client::Request {
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static(HOST));
        let head = RequestHead {
            method: &Method::from_bytes(self.method().as_bytes()).expect("a method"),
            target: self.target(),
            version: Version::HTTP_11,
            fields: (&fields).into(),
            body: BodyLength::Known(self.body.len() as u64),
        };
        client::Request::new(&head, "http").expect("a valid request")
    }
}
