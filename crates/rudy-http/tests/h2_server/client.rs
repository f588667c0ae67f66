//! A client over a stream in memory, which sends a list of requests as the server permits it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header};
use rudy_http::Limits;
use rudy_http::h2::client::{ClientConnection, Event, HeadBuffers, Request};
use rudy_http::h2::{ConnectionError, ErrorCode};
use rudy_message::BodyLength;
use rudy_message::client::{RequestHead, ResponseHead};
use tokio::io::DuplexStream;

use crate::h2_pair::{Endpoint, pump};

/// The output above which no more of a body is encoded.
const OUTPUT_BYTES: usize = 100_000;

/// A request, and how long the client wants its response.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether the length of the body is known in advance. Then it has no trailers.
    pub(crate) has_length: bool,
    pub(crate) trailers: HeaderMap,
    /// The bytes of the response after which the client cancels the request. With 0, it does so after the head of the request.
    pub(crate) cancel_after: Option<usize>,
}

impl Call {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("a"));
        Self {
            method,
            path: path.to_owned(),
            fields,
            body: Vec::new(),
            has_length: true,
            trailers: HeaderMap::new(),
            cancel_after: None,
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: &str, body: Vec<u8>) -> Self {
        Self { body, ..Self::new(Method::POST, path) }
    }

    pub(crate) fn with_trailers(self, trailers: HeaderMap) -> Self {
        Self { has_length: false, trailers, ..self }
    }

    pub(crate) fn cancelled_after(self, bytes: usize) -> Self {
        Self { cancel_after: Some(bytes), ..self }
    }

    fn request(&self) -> Request {
        let body =
            if self.has_length { BodyLength::Known(self.body.len() as u64) } else { BodyLength::Chunked };
        let Self { method, path, fields, .. } = self;
        let head =
            RequestHead { method, target: path, version: Version::HTTP_11, fields: fields.into(), body };
        Request::new(&head, "http").unwrap()
    }
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Cancelled,
    Reset(ErrorCode),
}

/// What the client has received for a call.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// How often the request was sent.
    pub(crate) attempts: usize,
    pub(crate) interims: Vec<u16>,
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
    /// `None` if the connection ended first.
    pub(crate) end: Option<End>,
}

/// The result of a connection.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// One for each call.
    pub(crate) replies: Vec<Reply>,
    pub(crate) error: Option<ConnectionError>,
    /// The code of the GOAWAY of the server.
    pub(crate) go_away: Option<ErrorCode>,
}

/// An open stream.
struct Open {
    call: usize,
    sent: usize,
}

struct Client<'c> {
    connection: ClientConnection,
    limits: Limits,
    calls: &'c [Call],
    out: BytesMut,
    /// The calls that are not sent.
    waiting: VecDeque<usize>,
    open: BTreeMap<u32, Open>,
    outcome: Outcome,
}

/// Makes calls on one connection. Those that the server refuses are repeated there, unless it has announced the end.
pub(crate) async fn make(io: DuplexStream, calls: &[Call], limits: Limits) -> Outcome {
    let mut out = BytesMut::new();
    let replies = calls.iter().map(|_| Reply::default()).collect();
    let mut client = Client {
        connection: ClientConnection::new(Instant::now(), &limits, &mut out),
        limits,
        calls,
        out,
        waiting: (0..calls.len()).collect(),
        open: BTreeMap::new(),
        outcome: Outcome { replies, ..Outcome::default() },
    };
    // Before the settings of the server arrive.
    client.advance();
    pump(io, &mut client).await;
    client.outcome
}

impl Endpoint for Client<'_> {
    fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    fn receive(&mut self, mut input: &[u8]) -> bool {
        let (mut buffers, now) = (HeadBuffers::default(), Instant::now());
        loop {
            match self.connection.receive(&mut input, &mut buffers, now, &self.limits, &mut self.out) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => return true,
                Err(error) => {
                    self.connection.fail(error, &mut self.out);
                    self.outcome.error = Some(error);
                    return false;
                }
            }
        }
    }

    fn advance(&mut self) -> bool {
        while let Some(&call) = self.waiting.front()
            && let Some(stream) = self.connection.request(&self.calls[call].request(), &mut self.out)
        {
            self.waiting.pop_front();
            self.outcome.replies[call].attempts += 1;
            self.open.insert(stream, Open { call, sent: 0 });
            self.cancel_if_enough(stream);
        }
        let streams: Vec<u32> = self.open.keys().copied().collect();
        for stream in streams {
            self.send_body(stream);
        }
        if self.connection.is_idle() && (self.waiting.is_empty() || self.connection.is_going_away()) {
            self.connection.shut_down(&mut self.out);
        }
        // The server closes the connection after GOAWAY.
        true
    }
}

impl Client<'_> {
    /// Sends as much of a body as the windows permit.
    fn send_body(&mut self, stream: u32) {
        let Some(Open { call, sent }) = self.open.get_mut(&stream) else { return };
        let Call { body, trailers, .. } = &self.calls[*call];
        while *sent < body.len() && self.out.len() < OUTPUT_BYTES && self.connection.is_in_body(stream) {
            let left = &body[*sent..];
            let framed = self.connection.begin_data(stream, left.len() as u64, &mut self.out).unwrap();
            let framed = usize::try_from(framed).unwrap();
            if framed == 0 {
                return;
            }
            self.out.extend_from_slice(&left[..framed]);
            *sent += framed;
        }
        if *sent == body.len() {
            self.connection.finish(stream, Some(trailers), &mut self.out).unwrap();
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Informational { stream, head } => self.reply(stream).interims.push(head.status()),
            Event::Head { stream, head, ends } => {
                let reply = self.reply(stream);
                (reply.status, reply.fields) = (head.status(), copy(&head));
                self.end_if(ends, stream);
            }
            Event::Data { stream, data, ends } => {
                self.reply(stream).body.extend_from_slice(data);
                self.connection.pass_on(stream, data.len(), &mut self.out);
                self.end_if(ends, stream);
                self.cancel_if_enough(stream);
            }
            Event::End { stream, trailers } => {
                self.reply(stream).trailers = trailers;
                self.end_if(true, stream);
            }
            Event::Reset { stream, code, .. } => {
                let call = self.open.remove(&stream).unwrap().call;
                let reply = &mut self.outcome.replies[call];
                if code == ErrorCode::REFUSED_STREAM {
                    self.waiting.push_back(call);
                } else if reply.end.is_none() {
                    reply.end = Some(End::Reset(code));
                }
            }
            Event::GoAway { code, .. } => self.outcome.go_away = Some(code),
            Event::Settings => {}
        }
    }

    fn reply(&mut self, stream: u32) -> &mut Reply {
        &mut self.outcome.replies[self.open[&stream].call]
    }

    fn end_if(&mut self, ends: bool, stream: u32) {
        if ends {
            let is_first = self.reply(stream).end.replace(End::Whole).is_none();
            assert!(is_first, "a response ends once");
            // An early response: the request goes on until the server resets it.
            if !self.connection.is_in_body(stream) {
                self.open.remove(&stream);
            }
        }
    }

    fn cancel_if_enough(&mut self, stream: u32) {
        let Some(Open { call, .. }) = self.open.get(&stream) else { return };
        let (wanted, reply) = (self.calls[*call].cancel_after, &mut self.outcome.replies[*call]);
        if reply.end.is_none() && wanted.is_some_and(|wanted| reply.body.len() >= wanted) {
            reply.end = Some(End::Cancelled);
            self.connection.cancel(stream, &mut self.out);
            self.open.remove(&stream);
        }
    }
}

fn copy(head: &ResponseHead<'_>) -> HeaderMap {
    let field = |(name, value): (&str, &[u8])| {
        (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value).unwrap())
    };
    head.fields().map(field).collect()
}
