//! Property tests of the client and the server on the two ends of a connection.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use proptest::prelude::*;
use rudy_message::client::RequestHead;
use rudy_message::{BodyLength, DateLine, ResponseHead};

use super::client::{self, ClientConnection, Request};
use super::{Event, HeadBuffers, Own, ServerConnection, StreamEnd};
use crate::Limits;

/// A request and its response.
#[derive(Debug, Clone)]
struct Exchange {
    method: Method,
    fields: HeaderMap,
    request_body: usize,
    response_body: usize,
    /// Whether the lengths of the bodies are known in advance.
    has_known_lengths: (bool, bool),
    trailers: HeaderMap,
    status: u16,
    interims: usize,
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    let field = ("x-[a-z]{1,3}", "[!-~]([ -~]{0,10}[!-~])?").prop_map(|(name, value)| {
        (HeaderName::try_from(name).expect("a token"), HeaderValue::try_from(value).expect("no controls"))
    });
    proptest::collection::vec(field, 0..4).prop_map(|fields| {
        let mut map = HeaderMap::new();
        map.extend(fields);
        map
    })
}

prop_compose! {
    fn exchange()(
        method in proptest::sample::select(vec![Method::GET, Method::HEAD, Method::POST, Method::PUT]),
        fields in fields(),
        (request_body, response_body) in (body_bytes(), body_bytes()),
        has_known_lengths in any::<(bool, bool)>(),
        trailers in fields(),
        status in proptest::sample::select(vec![200, 204, 304, 404, 503]),
        interims in 0..3_usize,
    ) -> Exchange {
        Exchange { method, fields, request_body, response_body, has_known_lengths, trailers, status, interims }
    }
}

fn body_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 1..200_usize, Just(10_000)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn both_roles_understand_each_other(
        exchanges in proptest::collection::vec(exchange(), 1..6),
        piece_bytes in prop_oneof![1..40_usize, 1000..40_000_usize],
        order in any::<u64>(),
    ) {
        let mut pair = Pair::new(piece_bytes, order);
        for (number, exchange) in exchanges.iter().enumerate() {
            pair.send_request(stream_of(number), exchange);
        }
        pair.run(&exchanges);
        for (number, exchange) in exchanges.iter().enumerate() {
            let stream = stream_of(number);
            let has_body = exchange.method != Method::HEAD && ![204, 304].contains(&exchange.status);
            let response = &pair.responses[&stream];
            prop_assert_eq!((response.status, response.interims), (exchange.status, exchange.interims));
            prop_assert_eq!(response.body, if has_body { exchange.response_body } else { 0 });
            prop_assert_eq!(&response.fields, &exchange.fields);
            if has_body && !exchange.has_known_lengths.1 {
                prop_assert_eq!(&response.trailers, &exchange.trailers);
            }
            let request = &pair.requests[&stream];
            prop_assert_eq!(request.body, exchange.request_body);
            prop_assert_eq!(&request.fields, &exchange.fields);
            if !exchange.has_known_lengths.0 {
                prop_assert_eq!(&request.trailers, &exchange.trailers);
            }
        }
        prop_assert!(pair.client.is_idle() && pair.server.is_idle());
        pair.server.shut_down();
        pair.server.stop_accepting();
        pair.run(&exchanges);
        prop_assert!(pair.client.is_going_away() && pair.server.is_over());
    }
}

fn stream_of(number: usize) -> u64 {
    4 * number as u64
}

/// What one side has received on a stream.
#[derive(Debug, Default)]
struct Message {
    status: u16,
    interims: usize,
    fields: HeaderMap,
    body: usize,
    trailers: HeaderMap,
    is_whole: bool,
}

/// The bytes in transit on a stream, and whether it ends behind them.
#[derive(Debug, Default)]
struct Transit {
    bytes: BytesMut,
    ends: bool,
}

/// Who receives a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    Server,
    Client,
}

/// A client and a server, and the bytes in transit between them.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    limits: Limits,
    now: Instant,
    piece_bytes: usize,
    /// Which stream is next, in a random order.
    order: u64,
    transit: BTreeMap<(To, u64), Transit>,
    requests: BTreeMap<u64, Message>,
    responses: BTreeMap<u64, Message>,
}

/// Copies the fields that the test has added.
fn of_test<'f>(fields: impl Iterator<Item = (&'f str, &'f [u8])>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
        map.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    map
}

impl Pair {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new(piece_bytes: usize, order: u64) -> Self {
        let now = Instant::now();
        let mut limits = Limits::for_responses();
        // Small pieces are counted.
        limits.http2.control_frames = 1_000_000;
        Self {
            client: ClientConnection::new(now, &limits),
            server: ServerConnection::new(now, false, &limits),
            limits,
            now,
            piece_bytes,
            order,
            transit: BTreeMap::new(),
            requests: BTreeMap::new(),
            responses: BTreeMap::new(),
        }
    }

    fn send_request(&mut self, stream: u64, exchange: &Exchange) {
        let length = exchange.request_body;
        let body =
            if exchange.has_known_lengths.0 { BodyLength::Known(length as u64) } else { BodyLength::Chunked };
        let mut fields = exchange.fields.clone();
        fields.insert("host", HeaderValue::from_static("a.example"));
        let method = &exchange.method;
        let head =
            RequestHead { method, target: "/a?b", version: Version::HTTP_11, fields: (&fields).into(), body };
        let request = Request::new(&head, "https").expect("a valid request");
        let out = &mut self.transit.entry((To::Server, stream)).or_default().bytes;
        assert!(self.client.request(stream, &request, out));
        if body != BodyLength::Known(0) {
            for piece in vec![b'x'; length].chunks(self.piece_bytes.max(100)) {
                self.client.encode_piece(stream, piece, out).expect("it fits");
            }
            self.client.finish(stream, Some(&exchange.trailers), out).expect("it is whole");
        }
        self.take_output();
    }

    /// Takes what both sides send, and the ends of streams.
    fn take_output(&mut self) {
        for (own, number) in [(Own::Control, 0), (Own::Encoder, 4), (Own::Decoder, 8)] {
            let to_server = self.client.output(own).split();
            self.transit.entry((To::Server, 2 + number)).or_default().bytes.extend(to_server);
            let to_client = self.server.output(own).split();
            self.transit.entry((To::Client, 3 + number)).or_default().bytes.extend(to_client);
        }
        let mut end = |to, (stream, end)| match end {
            StreamEnd::Finish => self.transit.entry((to, stream)).or_default().ends = true,
            other => panic!("{stream}: {other:?}"),
        };
        while let Some(ended) = self.client.take_end() {
            end(To::Server, ended);
        }
        while let Some(ended) = self.server.take_end() {
            end(To::Client, ended);
        }
    }

    /// Moves what is in transit, until there is nothing.
    fn run(&mut self, exchanges: &[Exchange]) {
        self.take_output();
        loop {
            let waiting: Vec<_> = self.transit.iter().filter(|(_, transit)| transit.is_moving()).collect();
            if waiting.is_empty() {
                return;
            }
            self.order = self.order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (to, stream) = *waiting[usize::try_from(self.order >> 33).unwrap() % waiting.len()].0;
            let transit = self.transit.get_mut(&(to, stream)).unwrap();
            let piece = transit.bytes.split_to(self.piece_bytes.min(transit.bytes.len()));
            let ends = transit.ends && transit.bytes.is_empty();
            transit.ends &= !ends;
            match to {
                To::Server => self.server_receives(stream, &piece, ends, exchanges),
                To::Client => self.client_receives(stream, &piece, ends),
            }
            self.take_output();
        }
    }

    fn server_receives(&mut self, stream: u64, mut input: &[u8], ends: bool, exchanges: &[Exchange]) {
        let mut buffers = HeadBuffers::default();
        while let Some(event) = self
            .server
            .receive(stream, &mut input, ends, &mut buffers, self.now, &self.limits)
            .expect("a valid frame")
        {
            match event {
                Event::Request { head, .. } => {
                    let is_whole = head.body_length() == BodyLength::Known(0);
                    let request = head.into_request();
                    let given =
                        request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                    let fields = of_test(given);
                    self.requests.insert(stream, Message { fields, is_whole, ..Message::default() });
                }
                Event::Data { data, ends, .. } => {
                    let message = self.requests.get_mut(&stream).unwrap();
                    message.body += data.len();
                    message.is_whole = ends;
                }
                Event::End { trailers, .. } => {
                    let message = self.requests.get_mut(&stream).unwrap();
                    message.trailers = trailers.unwrap_or_default();
                    message.is_whole = true;
                }
                other => panic!("{other:?}"),
            }
        }
        // A response before the end of its stream would stop the rest.
        if self.requests.get(&stream).is_some_and(|request| request.is_whole) && ends {
            self.respond(stream, &exchanges[usize::try_from(stream / 4).unwrap()]);
        }
    }

    fn respond(&mut self, stream: u64, exchange: &Exchange) {
        let out = &mut self.transit.entry((To::Client, stream)).or_default().bytes;
        for _ in 0..exchange.interims {
            assert!(self.server.encode_interim(stream, StatusCode::EARLY_HINTS, &exchange.fields, out));
        }
        let length = exchange.response_body;
        let known = exchange.has_known_lengths.1.then_some(length as u64);
        let status = StatusCode::from_u16(exchange.status).expect("a status");
        let head = ResponseHead::Fields(status, &exchange.fields);
        self.server.begin(stream, head, known, &DateLine::new(SystemTime::UNIX_EPOCH), out);
        if self.server.is_in_body(stream) {
            for piece in vec![b'x'; length].chunks(self.piece_bytes.max(100)) {
                self.server.encode_piece(stream, piece, out).expect("it fits");
            }
            self.server.finish(stream, Some(&exchange.trailers), out).expect("it is whole");
        }
        self.server.close(stream, self.now);
    }

    fn client_receives(&mut self, stream: u64, mut input: &[u8], ends: bool) {
        let mut buffers = HeadBuffers::default();
        while let Some(event) = self
            .client
            .receive(stream, &mut input, ends, &mut buffers, self.now, &self.limits)
            .expect("a valid frame")
        {
            let message = self.responses.entry(stream).or_default();
            assert!(!message.is_whole, "{event:?}");
            match event {
                client::Event::Settings | client::Event::GoAway { .. } => {}
                client::Event::Informational { .. } => message.interims += 1,
                client::Event::Head { head, ends, .. } => {
                    (message.status, message.is_whole) = (head.status(), ends);
                    message.fields = of_test(head.fields());
                }
                client::Event::Data { data, ends, .. } => {
                    message.body += data.len();
                    message.is_whole = ends;
                }
                client::Event::End { trailers, .. } => {
                    message.trailers = trailers.unwrap_or_default();
                    message.is_whole = true;
                }
                client::Event::Reset { .. } => panic!("{event:?}"),
            }
        }
    }
}

impl Transit {
    fn is_moving(&self) -> bool {
        !self.bytes.is_empty() || self.ends
    }
}
