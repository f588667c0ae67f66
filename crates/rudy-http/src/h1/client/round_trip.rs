//! Property tests of the client and the server on the two ends of a connection.

use std::time::{Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use proptest::prelude::*;
use rudy_message::client::RequestHead;
use rudy_message::{BodyLength, DateLine, Framing, ResponseHead};

use super::{ClientConnection, InputEnd, ResponseEvent, encode_chunk, encode_last_chunk};
use crate::Limits;
use crate::h1::{Event, Phase, ServerConnection};

/// A request and its response.
#[derive(Debug, Clone)]
struct Exchange {
    method: Method,
    version: Version,
    fields: HeaderMap,
    request_body: Vec<Vec<u8>>,
    /// Whether the length of the request body is known in advance, and that of the response body.
    has_known_lengths: (bool, bool),
    status: StatusCode,
    response_fields: HeaderMap,
    response_body: Vec<Vec<u8>>,
    /// Which pieces of the response body are sent without the state machine.
    is_raw_piece: [bool; 4],
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    let field = ("x-[a-z]{1,8}", "[!-~]([ -~\t]{0,20}[!-~])?").prop_map(|(name, value)| {
        (HeaderName::try_from(name).expect("a token"), HeaderValue::try_from(value).expect("no controls"))
    });
    proptest::collection::vec(field, 0..4).prop_map(|fields| {
        let mut map = HeaderMap::new();
        map.extend(fields);
        map
    })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = proptest::sample::select(vec![Method::GET, Method::HEAD, Method::POST, Method::OPTIONS]);
    let version = prop_oneof![4 => Just(Version::HTTP_11), 1 => Just(Version::HTTP_10)];
    let connection = proptest::option::weighted(0.3, proptest::sample::select(vec!["close", "keep-alive"]));
    let fields_of_request = (fields(), connection).prop_map(|(mut fields, connection)| {
        fields.insert("host", HeaderValue::from_static("a.example"));
        if let Some(option) = connection {
            fields.insert("connection", HeaderValue::from_static(option));
        }
        fields
    });
    let body = || proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..4);
    let status = proptest::sample::select(vec![200, 204, 206, 304, 404, 503]);
    let status = status.prop_map(|status| StatusCode::from_u16(status).expect("a status"));
    (method, version, fields_of_request, body(), any::<(bool, bool, [bool; 4])>(), status, fields(), body())
        .prop_map(|(method, version, fields, request_body, known, status, response_fields, response_body)| {
            Exchange {
                has_known_lengths: (known.0 || version == Version::HTTP_10, known.1),
                method,
                version,
                fields,
                request_body,
                status,
                response_fields,
                response_body,
                is_raw_piece: known.2,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn both_roles_understand_each_other(
        exchanges in proptest::collection::vec(exchange(), 1..5),
        piece_bytes in 1..200_usize,
    ) {
        let mut pair = Pair::new(piece_bytes);
        for exchange in &exchanges {
            pair.send_request(exchange);
            pair.send_response(exchange);
            pair.receive_response(exchange);
            let is_kept_alive = pair.server.phase() == Phase::Idle;
            prop_assert_eq!(pair.client.can_be_reused(), is_kept_alive, "both agree on keep-alive");
            if !is_kept_alive {
                break;
            }
        }
    }
}

/// A client and a server, and the bytes in transit between them.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
    now: Instant,
    piece_bytes: usize,
    wire: BytesMut,
}

impl Pair {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new(piece_bytes: usize) -> Self {
        let now = Instant::now();
        let (client, server) = (ClientConnection::new(), ServerConnection::new(now));
        Self { client, server, now, piece_bytes, wire: BytesMut::new() }
    }

    /// Sends the client's request and checks what the server receives.
    fn send_request(&mut self, exchange: &Exchange) {
        let whole = exchange.request_body.concat();
        let body = if exchange.has_known_lengths.0 {
            BodyLength::Known(whole.len() as u64)
        } else {
            BodyLength::Chunked
        };
        let Exchange { method, version, fields, .. } = exchange;
        let head = RequestHead { method, target: "/a?b", version: *version, fields: fields.into(), body };
        self.client.expect_response(head.info());
        head.encode(&mut self.wire).expect("a valid message");
        match body {
            BodyLength::Known(_) => self.wire.extend_from_slice(&whole),
            BodyLength::Chunked => {
                for piece in &exchange.request_body {
                    encode_chunk(piece, &mut self.wire);
                }
                encode_last_chunk(Some(&exchange.response_fields), &mut self.wire);
            }
        }
        let trailers =
            if body == BodyLength::Chunked { exchange.response_fields.clone() } else { HeaderMap::new() };
        assert_eq!(self.receive_request(exchange, body), (whole, trailers));
    }

    /// Returns the body and the trailers that the server decodes.
    fn receive_request(&mut self, exchange: &Exchange, length: BodyLength) -> (Vec<u8>, HeaderMap) {
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut requests = 0;
        let bytes = self.wire.split();
        for piece in bytes.chunks(self.piece_bytes) {
            let mut input = piece;
            while let Some(event) = self
                .server
                .receive(std::mem::take(&mut input), self.now, &Limits::default())
                .expect("a valid message")
            {
                match event {
                    Event::Request(head) => {
                        requests += 1;
                        let request = head.into_request();
                        assert_eq!(request.method(), exchange.method);
                        assert_eq!(
                            (request.version(), request.uri().to_string()),
                            (exchange.version, "/a?b".to_owned())
                        );
                        assert_eq!(*request.body(), length);
                        let mut fields = request.headers().clone();
                        fields.remove("content-length");
                        fields.remove("transfer-encoding");
                        assert_eq!(fields, exchange.fields);
                    }
                    Event::Body(piece) => body.extend_from_slice(&piece),
                    Event::BodyEnd(fields) => trailers = fields.unwrap_or_default(),
                }
            }
        }
        assert_eq!(requests, 1);
        (body, trailers)
    }

    /// Sends the server's response.
    fn send_response(&mut self, exchange: &Exchange) {
        let pieces = &exchange.response_body;
        let length = exchange.has_known_lengths.1.then(|| pieces.concat().len() as u64);
        let head = ResponseHead::Fields(exchange.status, &exchange.response_fields);
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        let is_sent =
            self.server.encode_interim(StatusCode::EARLY_HINTS, &exchange.response_fields, &mut self.wire);
        assert_eq!(is_sent, exchange.version == Version::HTTP_11);
        self.server.begin(head, length, &Limits::default(), &date, &mut self.wire);
        for (piece, is_raw) in pieces.iter().zip(&exchange.is_raw_piece) {
            if *is_raw && self.server.sends_body() {
                let framed = self.server.raw_piece(piece.len() as u64, &mut self.wire);
                framed.expect("the length matches");
                self.wire.extend_from_slice(piece);
            } else {
                self.server.encode_piece(piece, &mut self.wire).expect("the length matches");
            }
        }
        self.server
            .finish(Some(&exchange.response_fields), self.now, &mut self.wire)
            .expect("the length matches");
    }

    /// Checks the response that the client decodes.
    fn receive_response(&mut self, exchange: &Exchange) {
        let bytes = self.wire.split();
        let (mut body, mut ends, mut begin, mut framing) = (Vec::new(), 0, 0, Framing::None);
        let mut interims = 0;
        let sizes = (0..bytes.len()).step_by(self.piece_bytes).skip(1).chain([bytes.len()]);
        for available in sizes {
            loop {
                let input = &bytes[begin..available];
                let (used, event) =
                    self.client.decode(input, &Limits::for_responses()).expect("a valid message");
                begin += used;
                match event {
                    ResponseEvent::Informational(head) => {
                        interims += 1;
                        assert_eq!(
                            (head.status(), head.fields().count()),
                            (103, exchange.response_fields.len())
                        );
                    }
                    ResponseEvent::Head(head) => {
                        framing = head.framing();
                        assert_eq!(head.status(), exchange.status.as_u16());
                        for (name, value) in &exchange.response_fields {
                            let mut fields = head.fields();
                            assert!(fields.any(|field| field == (name.as_str(), value.as_bytes())));
                        }
                    }
                    ResponseEvent::Data(data) => body.extend_from_slice(data),
                    ResponseEvent::End(trailers) => {
                        ends += 1;
                        let is_carried = framing == Framing::Chunked && !exchange.response_fields.is_empty();
                        assert_eq!(trailers.as_ref(), is_carried.then_some(&exchange.response_fields));
                    }
                    ResponseEvent::NeedData => break,
                }
            }
        }
        assert_eq!((begin, interims), (bytes.len(), u32::from(exchange.version == Version::HTTP_11)));
        if ends == 0 {
            assert_eq!(self.client.end_of_input(), Ok(InputEnd::ResponseComplete));
            assert_eq!(self.server.phase(), Phase::Close);
        }
        let has_body = exchange.method != Method::HEAD && ![204, 304].contains(&exchange.status.as_u16());
        assert_eq!(body, if has_body { exchange.response_body.concat() } else { Vec::new() });
    }
}
