//! A server over a stream in memory, whose responses depend on the path.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::Limits;
use rudy_http::h2::{ConnectionError, ErrorCode, Event, HeadBuffers, ServerConnection};
use rudy_message::{BodyLength, DateLine, ResponseHead};
use tokio::io::DuplexStream;

use crate::h2_pair::{Endpoint, pump};

/// What a server saw of its client.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    /// The streams that the client cancelled, or that were malformed.
    pub(crate) resets: Vec<(u32, ErrorCode)>,
    pub(crate) error: Option<ConnectionError>,
}

/// What a server does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) limits: Limits,
    /// The number of requests after which the connection shuts down.
    pub(crate) shut_down_after: Option<u64>,
}

/// A request that has no response, or a response whose body is not sent.
#[derive(Debug, Default)]
struct Exchange {
    path: String,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    /// The size of the names and values of the request.
    head_bytes: usize,
    /// What is left of the body of the response.
    rest: Option<Vec<u8>>,
    response_trailers: Option<HeaderMap>,
}

struct Server {
    connection: ServerConnection,
    options: Options,
    out: BytesMut,
    exchanges: BTreeMap<u32, Exchange>,
    seen: Seen,
}

/// Serves a connection until one side closes it.
pub(crate) async fn serve(io: DuplexStream, options: Options) -> Seen {
    let mut out = BytesMut::new();
    let connection = ServerConnection::new(Instant::now(), false, &options.limits, &mut out);
    let (exchanges, seen) = (BTreeMap::new(), Seen::default());
    let mut server = Server { connection, options, out, exchanges, seen };
    pump(io, &mut server).await;
    server.seen.requests = server.connection.requests();
    server.seen
}

impl Endpoint for Server {
    fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    fn receive(&mut self, mut input: &[u8]) -> bool {
        let (mut buffers, now) = (HeadBuffers::default(), Instant::now());
        loop {
            let limits = &self.options.limits;
            match self.connection.receive(&mut input, &mut buffers, now, limits, &mut self.out) {
                Ok(Some(event)) => {
                    let Self { connection, options, out, exchanges, seen } = self;
                    let mut handler = Handler { connection, options, out, exchanges, seen };
                    handler.handle(event, now);
                }
                Ok(None) => return true,
                Err(error) => {
                    self.connection.fail(error, &mut self.out);
                    self.seen.error = Some(error);
                    return false;
                }
            }
        }
    }

    fn advance(&mut self) -> bool {
        let now = Instant::now();
        for (stream, exchange) in &mut self.exchanges {
            let Some(rest) = &mut exchange.rest else { continue };
            while !rest.is_empty() && self.out.len() < 100_000 {
                let framed = self.connection.begin_data(*stream, rest.len() as u64, &mut self.out);
                let framed = usize::try_from(framed.expect("the length is right")).unwrap();
                if framed == 0 {
                    break;
                }
                self.out.put_slice(&rest[..framed]);
                rest.drain(..framed);
            }
            if rest.is_empty() {
                let trailers = exchange.response_trailers.as_ref();
                self.connection.finish(*stream, trailers, &mut self.out).expect("the length is right");
                self.connection.close(*stream, now);
                exchange.rest = None;
                exchange.path.clear();
            }
        }
        self.exchanges.retain(|_, exchange| exchange.rest.is_some() || !exchange.path.is_empty());
        !self.connection.is_over()
    }
}

struct Handler<'s> {
    connection: &'s mut ServerConnection,
    options: &'s Options,
    out: &'s mut BytesMut,
    exchanges: &'s mut BTreeMap<u32, Exchange>,
    seen: &'s mut Seen,
}

impl Handler<'_> {
    fn handle(&mut self, event: Event<'_>, now: Instant) {
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        match event {
            Event::Request { stream, head, .. } => {
                let exchange = Exchange {
                    path: String::from_utf8(head.path().to_vec()).unwrap(),
                    head_bytes: head.fields().map(|(name, value)| name.len() + value.len()).sum(),
                    ..Exchange::default()
                };
                let is_whole = head.body_length() == BodyLength::Known(0);
                let is_early = exchange.path.starts_with("/early");
                self.exchanges.insert(stream, exchange);
                if is_whole || is_early {
                    self.respond(stream, &date, now);
                } else {
                    self.connection.encode_continue(stream, self.out);
                }
                if self.options.shut_down_after == Some(self.connection.requests()) {
                    self.connection.shut_down(self.out);
                }
            }
            Event::Rejected { stream, rejection, .. } => {
                self.exchanges.remove(&stream);
                self.connection.reject(stream, rejection, (&date, now), self.out);
            }
            Event::Data { stream, data, ends } => {
                if let Some(exchange) = self.exchanges.get_mut(&stream) {
                    exchange.body.extend_from_slice(data);
                }
                self.connection.pass_on(stream, data.len(), self.out);
                if ends {
                    self.respond(stream, &date, now);
                }
            }
            Event::End { stream, trailers } => {
                if let Some(exchange) = self.exchanges.get_mut(&stream) {
                    exchange.trailers = trailers;
                }
                self.respond(stream, &date, now);
            }
            Event::Reset { stream, code, .. } => {
                self.exchanges.remove(&stream);
                self.seen.resets.push((stream, code));
            }
            Event::Priority { .. } | Event::Window { .. } => {}
        }
    }

    fn respond(&mut self, stream: u32, date: &DateLine, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&stream).filter(|exchange| exchange.rest.is_none())
        else {
            return;
        };
        let path = exchange.path.clone();
        let (name, number) = path[1..].split_once('/').unwrap_or((&path[1..], "0"));
        let number: usize = number.parse().unwrap();
        let (mut fields, mut status) = (HeaderMap::new(), StatusCode::OK);
        fields.insert("x-head-bytes", HeaderValue::from(exchange.head_bytes));
        let mut length = None;
        let body = match name {
            "size" | "early" => {
                length = Some(number as u64);
                vec![b'x'; number]
            }
            "echo" => std::mem::take(&mut exchange.body),
            "hang" => return,
            "status" => {
                status = StatusCode::from_u16(u16::try_from(number).unwrap()).unwrap();
                Vec::new()
            }
            "head" => {
                fields.insert("large", HeaderValue::from_bytes(&vec![b'~'; number]).unwrap());
                Vec::new()
            }
            "reset" => {
                self.connection.begin(stream, ResponseHead::Fields(status, &fields), None, date, self.out);
                self.connection.encode_piece(stream, b"incomplete", self.out).unwrap();
                self.connection.reset(stream, ErrorCode::INTERNAL_ERROR, now, self.out);
                self.exchanges.remove(&stream);
                return;
            }
            _ => vec![b's'; number],
        };
        if name == "interim" {
            assert!(self.connection.encode_interim(stream, StatusCode::EARLY_HINTS, &fields, self.out));
        }
        self.connection.begin(stream, ResponseHead::Fields(status, &fields), length, date, self.out);
        exchange.response_trailers = exchange.trailers.take();
        exchange.rest = Some(if self.connection.is_in_body(stream) { body } else { Vec::new() });
    }
}
