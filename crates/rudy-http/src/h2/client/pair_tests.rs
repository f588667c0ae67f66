//! Property tests of the client and the server on the two ends of a connection.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use proptest::prelude::*;
use rudy_message::client::RequestHead;
use rudy_message::{BodyLength, DateLine, ResponseHead};

use super::{ClientConnection, Event, HeadBuffers, Request};
use crate::Limits;
use crate::h2::{self, ServerConnection};

/// A request and its response.
#[derive(Debug, Clone)]
struct Exchange {
    method: Method,
    fields: HeaderMap,
    request_body: Vec<u8>,
    response_body: Vec<u8>,
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

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = proptest::sample::select(vec![Method::GET, Method::HEAD, Method::POST, Method::PUT]);
    let status = proptest::sample::select(vec![200, 204, 304, 404, 503]);
    let body = || prop_oneof![Just(0), 1..200_usize, Just(100_000)].prop_map(|length| vec![b'x'; length]);
    (method, fields(), body(), body(), any::<(bool, bool)>(), fields(), status, 0..3_usize).prop_map(
        |(method, fields, request_body, response_body, has_known_lengths, trailers, status, interims)| {
            Exchange {
                method,
                fields,
                request_body,
                response_body,
                has_known_lengths,
                trailers,
                status,
                interims,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn both_roles_understand_each_other(
        exchanges in proptest::collection::vec(exchange(), 1..6),
        piece_bytes in prop_oneof![1..40_usize, 1000..40_000_usize],
        window in prop_oneof![Just(1000_u32), Just(65_535), Just(1 << 20)],
    ) {
        let mut pair = Pair::new(window, piece_bytes);
        for exchange in &exchanges {
            pair.send_request(exchange);
        }
        let mut rounds = 0;
        while pair.received.len() < exchanges.len() || !pair.client.is_idle() {
            pair.exchange_bytes(&exchanges);
            rounds += 1;
            prop_assert!(rounds < 10_000, "no progress: {:?}", pair.client);
        }
        for (number, exchange) in exchanges.iter().enumerate() {
            let got = &pair.received[&stream_of(number)];
            let has_body = exchange.method != Method::HEAD && ![204, 304].contains(&exchange.status);
            prop_assert_eq!(got.status, exchange.status);
            prop_assert_eq!(got.interims, exchange.interims);
            prop_assert_eq!(got.body, if has_body { exchange.response_body.len() } else { 0 });
            prop_assert_eq!(&got.fields, &exchange.fields);
            if has_body && !exchange.has_known_lengths.1 {
                prop_assert_eq!(&got.trailers, &exchange.trailers);
            }
            let sent = &pair.requests[&stream_of(number)];
            prop_assert_eq!(sent.body, exchange.request_body.len());
            prop_assert_eq!(&sent.fields, &exchange.fields);
            if !exchange.has_known_lengths.0 {
                prop_assert_eq!(&sent.trailers, &exchange.trailers);
            }
        }
        pair.server.shut_down(&mut pair.to_client);
        pair.exchange_bytes(&exchanges);
        pair.exchange_bytes(&exchanges);
        prop_assert!(pair.client.is_going_away() && pair.server.is_over());
    }
}

fn stream_of(number: usize) -> u32 {
    u32::try_from(number * 2 + 1).expect("few exchanges")
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

/// A client and a server, and the bytes in transit between them.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    limits: Limits,
    now: Instant,
    piece_bytes: usize,
    to_server: BytesMut,
    to_client: BytesMut,
    /// What is left of the bodies.
    uploads: BTreeMap<u32, (usize, HeaderMap)>,
    downloads: BTreeMap<u32, (usize, HeaderMap)>,
    requests: BTreeMap<u32, Message>,
    received: BTreeMap<u32, Message>,
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
    fn new(window: u32, piece_bytes: usize) -> Self {
        let now = Instant::now();
        let http2 = h2::Limits {
            stream_window_bytes: window,
            stream_window_bytes_max: window,
            // Small pieces open small windows often.
            control_frames: 1_000_000,
            ..h2::Limits::DEFAULT
        };
        let limits = Limits { http2, ..Limits::for_responses() };
        let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
        Self {
            client: ClientConnection::new(now, &limits, &mut to_server),
            server: ServerConnection::new(now, false, &limits, &mut to_client),
            limits,
            now,
            piece_bytes,
            to_server,
            to_client,
            uploads: BTreeMap::new(),
            downloads: BTreeMap::new(),
            requests: BTreeMap::new(),
            received: BTreeMap::new(),
        }
    }

    fn send_request(&mut self, exchange: &Exchange) {
        let length = exchange.request_body.len();
        let body =
            if exchange.has_known_lengths.0 { BodyLength::Known(length as u64) } else { BodyLength::Chunked };
        let mut fields = exchange.fields.clone();
        fields.insert("host", HeaderValue::from_static("a.example"));
        let method = &exchange.method;
        let head =
            RequestHead { method, target: "/a?b", version: Version::HTTP_11, fields: (&fields).into(), body };
        let request = Request::new(&head, "http").expect("a valid request");
        let stream = self.client.request(&request, &mut self.to_server).expect("an available stream");
        if body != BodyLength::Known(0) {
            self.uploads.insert(stream, (length, exchange.trailers.clone()));
        }
    }

    /// Moves what is in transit, and sends what the windows allow.
    fn exchange_bytes(&mut self, exchanges: &[Exchange]) {
        let bytes = self.to_server.split();
        for piece in bytes.chunks(self.piece_bytes) {
            self.server_receives(piece, exchanges);
        }
        let bytes = self.to_client.split();
        for piece in bytes.chunks(self.piece_bytes) {
            self.client_receives(piece);
        }
        self.uploads.retain(|stream, (left, trailers)| {
            let length = usize::try_from(self.client.window(*stream)).unwrap().min(*left);
            self.client.encode_piece(*stream, &vec![b'x'; length], &mut self.to_server).expect("it fits");
            *left -= length;
            if *left == 0 {
                self.client.finish(*stream, Some(trailers), &mut self.to_server).expect("it is whole");
            }
            *left > 0
        });
        self.downloads.retain(|stream, (left, trailers)| {
            let length = usize::try_from(self.server.window(*stream)).unwrap().min(*left);
            self.server.encode_piece(*stream, &vec![b'x'; length], &mut self.to_client).expect("it fits");
            *left -= length;
            if *left == 0 {
                self.server.finish(*stream, Some(trailers), &mut self.to_client).expect("it is whole");
                self.server.close(*stream, self.now);
            }
            *left > 0
        });
    }

    fn server_receives(&mut self, mut input: &[u8], exchanges: &[Exchange]) {
        let mut buffers = HeadBuffers::default();
        while let Some(event) = self
            .server
            .receive(&mut input, &mut buffers, self.now, &self.limits, &mut self.to_client)
            .expect("a valid frame")
        {
            let stream = match event {
                h2::Event::Request { stream, head, .. } => {
                    let is_whole = head.body_length() == BodyLength::Known(0);
                    let request = head.into_request();
                    let given =
                        request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                    let fields = of_test(given);
                    self.requests.insert(stream, Message { fields, is_whole, ..Message::default() });
                    stream
                }
                h2::Event::Data { stream, data, ends } => {
                    self.server.pass_on(stream, data.len(), &mut self.to_client);
                    let message = self.requests.get_mut(&stream).unwrap();
                    message.body += data.len();
                    message.is_whole = ends;
                    stream
                }
                h2::Event::End { stream, trailers } => {
                    let message = self.requests.get_mut(&stream).unwrap();
                    message.trailers = trailers.unwrap_or_default();
                    message.is_whole = true;
                    stream
                }
                h2::Event::Window { .. } => continue,
                other => panic!("{other:?}"),
            };
            if self.requests[&stream].is_whole {
                self.respond(stream, &exchanges[(stream / 2) as usize]);
            }
        }
    }

    fn respond(&mut self, stream: u32, exchange: &Exchange) {
        let out = &mut self.to_client;
        for _ in 0..exchange.interims {
            assert!(self.server.encode_interim(stream, StatusCode::EARLY_HINTS, &exchange.fields, out));
        }
        let length = exchange.response_body.len();
        let known = exchange.has_known_lengths.1.then_some(length as u64);
        let status = StatusCode::from_u16(exchange.status).expect("a status");
        let head = ResponseHead::Fields(status, &exchange.fields);
        self.server.begin(stream, head, known, &DateLine::new(SystemTime::UNIX_EPOCH), out);
        if self.server.is_in_body(stream) {
            self.downloads.insert(stream, (length, exchange.trailers.clone()));
        } else {
            self.server.close(stream, self.now);
        }
    }

    fn client_receives(&mut self, mut input: &[u8]) {
        let mut buffers = HeadBuffers::default();
        while let Some(event) = self
            .client
            .receive(&mut input, &mut buffers, self.now, &self.limits, &mut self.to_server)
            .expect("a valid frame")
        {
            match event {
                Event::Settings | Event::GoAway { .. } => {}
                Event::Informational { stream, .. } => self.received.entry(stream).or_default().interims += 1,
                Event::Head { stream, head, ends } => {
                    let message = self.received.entry(stream).or_default();
                    (message.status, message.is_whole) = (head.status(), ends);
                    message.fields = of_test(head.fields());
                }
                Event::Data { stream, data, ends } => {
                    self.client.pass_on(stream, data.len(), &mut self.to_server);
                    let message = self.received.get_mut(&stream).unwrap();
                    message.body += data.len();
                    message.is_whole = ends;
                }
                Event::End { stream, trailers } => {
                    let message = self.received.get_mut(&stream).unwrap();
                    message.trailers = trailers.unwrap_or_default();
                    message.is_whole = true;
                }
                Event::Reset { .. } => panic!("{event:?}"),
            }
        }
    }
}
