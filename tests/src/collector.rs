//! A collector of spans, which receives OTLP over HTTP. It decodes protocol buffers by itself, to check what Rudy encodes.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wait::eventually;
use crate::{Upstream, UpstreamPeer};

/// A span as the collector has received it.
#[derive(Debug, Clone, Default)]
pub struct Span {
    /// `service.name` of the program.
    pub service: String,
    /// The ids, in hexadecimal digits. The parent is empty for the first span of a trace.
    pub trace: String,
    /// The id of the span.
    pub id: String,
    /// The id of its parent.
    pub parent: String,
    /// `tracestate`.
    pub state: String,
    /// What it is.
    pub name: String,
    /// 1 for work inside, 2 for a server, 3 for a client.
    pub kind: u64,
    /// In nanoseconds since 1970.
    pub start: u64,
    /// In nanoseconds since 1970.
    pub end: u64,
    /// The attributes, numbers as text.
    pub attributes: BTreeMap<String, String>,
    /// The names of its events, with their attributes.
    pub events: Vec<(String, BTreeMap<String, String>)>,
    /// Whether its status is an error.
    pub has_failed: bool,
    /// The flags.
    pub flags: u64,
}

impl Span {
    /// Returns an attribute; empty without it.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Whether it is a child of another one.
    pub fn is_child_of(&self, other: &Self) -> bool {
        (&self.trace, &self.parent) == (&other.trace, &other.id)
    }
}

/// A collector on a free port of 127.0.0.1.
pub struct Collector {
    upstream: Upstream,
    received: Arc<Mutex<Received>>,
}

/// What a collector has received.
#[derive(Default)]
struct Received {
    requests: Vec<Request>,
}

/// A request to the collector.
#[derive(Debug, Clone)]
pub struct Request {
    /// The request line and the fields.
    pub head: String,
    /// Its spans.
    pub spans: Vec<Span>,
}

impl Collector {
    /// Starts a collector that accepts everything.
    pub fn start() -> Self {
        Self::responding(|_, peer| peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    }

    /// Starts a collector that responds so to each request, with its number from 1.
    pub fn responding(respond: impl Fn(usize, &mut UpstreamPeer) + Send + Sync + 'static) -> Self {
        let received = Arc::<Mutex<Received>>::default();
        let of_upstream = received.clone();
        let upstream = Upstream::serve(move |peer, request| {
            let number = {
                let mut received = of_upstream.lock().unwrap_or_else(PoisonError::into_inner);
                received.requests.push(Request { head: request.head, spans: spans(&request.body) });
                received.requests.len()
            };
            respond(number, peer);
        });
        Self { upstream, received }
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }

    /// Returns the spans of all requests so far.
    pub fn spans(&self) -> Vec<Span> {
        self.requests().into_iter().flat_map(|request| request.spans).collect()
    }

    /// Waits for this number of spans.
    pub fn wait(&self, count: usize) -> Vec<Span> {
        eventually("the spans arrive", || Some(self.spans()).filter(|spans| spans.len() >= count))
    }

    /// Waits for this number of requests.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        eventually("the requests arrive", || Some(self.requests()).filter(|requests| requests.len() >= count))
    }
}

/// The URL.
impl Display for Collector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.upstream.fmt(f)
    }
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Field<'_> {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Bytes(bytes) => {
                std::str::from_utf8(bytes).expect("collectors reject other text").to_owned()
            }
        }
    }

    fn digits(&self) -> String {
        self.bytes().iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Number(number) => panic!("{number} is no message"),
            Self::Bytes(bytes) => bytes,
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => panic!("{bytes:?} is no number"),
        }
    }
}

/// Decodes a message. Panics if it is malformed.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                Field::Bytes(take(&mut bytes, length))
            }
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight bytes"))),
            5 => {
                Field::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().expect("four bytes")).into())
            }
            other => panic!("type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number with more than ten bytes")
}

/// Returns the messages in a field.
fn messages(bytes: &[u8], number: u64) -> Vec<Vec<u8>> {
    let found = fields(bytes).into_iter().filter(|(field, _)| *field == number);
    found.map(|(_, field)| field.bytes().to_vec()).collect()
}

/// Returns the spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for of_resource in messages(request, 1) {
        let resource = messages(&of_resource, 1).concat();
        let service = attributes(&resource, 1).remove("service.name").unwrap_or_default();
        for of_scope in messages(&of_resource, 2) {
            let spans = messages(&of_scope, 2);
            found.extend(spans.iter().map(|bytes| Span { service: service.clone(), ..span(bytes) }));
        }
    }
    found
}

fn span(bytes: &[u8]) -> Span {
    let mut span = Span { attributes: attributes(bytes, 9), ..Span::default() };
    for (number, field) in fields(bytes) {
        match number {
            1 => span.trace = field.digits(),
            2 => span.id = field.digits(),
            3 => span.state = field.text(),
            4 => span.parent = field.digits(),
            5 => span.name = field.text(),
            6 => span.kind = field.number(),
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            11 => {
                let name = fields(field.bytes()).into_iter().find(|(number, _)| *number == 2);
                let name = name.map(|(_, name)| name.text()).unwrap_or_default();
                span.events.push((name, attributes(field.bytes(), 3)));
            }
            15 => {
                span.has_failed =
                    fields(field.bytes()).iter().any(|(number, code)| (*number, code.number()) == (3, 2));
            }
            16 => span.flags = field.number(),
            _ => {}
        }
    }
    span
}

/// Returns the attributes in a field of a message.
fn attributes(bytes: &[u8], number: u64) -> BTreeMap<String, String> {
    let pairs = messages(bytes, number);
    let pair = |pair: &Vec<u8>| {
        let key = fields(pair).into_iter().find(|(number, _)| *number == 1).expect("a key").1.text();
        let value = messages(pair, 2).concat();
        let value = fields(&value).into_iter().next().expect("a value").1.text();
        (key, value)
    };
    pairs.iter().map(pair).collect()
}
