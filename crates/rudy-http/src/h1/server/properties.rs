//! Property tests: any bytes and any order of calls cause no panic and stay within the memory limits.

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use rudy_message::{DateLine, ResponseHead};

use super::{Receiving, Sending, ServerConnection};
use crate::Limits;
use crate::h1::Phase;

/// Limits that inputs of a few hundred bytes reach.
const LIMITS: Limits = Limits {
    head_bytes: 96,
    head_fields: 4,
    target_bytes: 24,
    body_bytes: 64,
    chunk_extension_bytes: 8,
    drain_bytes: 32,
    head_timeout: Duration::from_secs(10),
    first_request_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(75),
    body_rate_min: 500,
    send_rate_min: 500,
    rate_grace: Duration::from_secs(10),
    send_stall_timeout: Duration::from_secs(30),
    half_close_timeout: Duration::from_secs(15),
    requests_per_connection: Some(5),
    http2: crate::h2::Limits::DEFAULT,
};

/// The calls that a caller may make, in any order.
#[derive(Debug, Clone)]
enum Call {
    Receive(Vec<u8>),
    WantBody,
    IgnoreBody,
    Interim,
    Begin(u16, Option<u64>),
    Piece(Vec<u8>),
    RawPiece(u64),
    Finish,
    EndOfInput,
    Wait(u64),
    Stop,
}

/// Fragments that form requests in some orders, and a few that break them.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"GET / HTTP/1.1\r\n",
        b"POST /a HTTP/1.1\r\n",
        b"HEAD / HTTP/1.0\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 40\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"5\r\nhello\r\n",
        b"0\r\n",
        b"2;a=b\r\nhi\r\n",
        b"X: y\r\n",
        b" ",
        b"\x16",
        b"\0",
        b"\xff",
        b"hello",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    let word = prop_oneof![
        20 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ];
    proptest::collection::vec(word, 0..4).prop_map(|words| words.concat())
}

fn call() -> impl Strategy<Value = Call> {
    let status = proptest::sample::select(vec![200, 204, 304, 404, 101, 100]);
    let length = proptest::option::of(0..12_u64);
    let piece = proptest::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        8 => bytes().prop_map(Call::Receive),
        1 => Just(Call::WantBody),
        1 => Just(Call::IgnoreBody),
        1 => Just(Call::Interim),
        3 => (status, length).prop_map(|(status, length)| Call::Begin(status, length)),
        2 => piece.prop_map(Call::Piece),
        1 => (0..12_u64).prop_map(Call::RawPiece),
        3 => Just(Call::Finish),
        1 => Just(Call::EndOfInput),
        1 => (0..80_u64).prop_map(Call::Wait),
        1 => Just(Call::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_order_of_calls_panics_or_exceeds_the_memory_limit(
        calls in proptest::collection::vec(call(), 0..60)
    ) {
        let mut driver = Driver::new();
        for call in calls {
            driver.call(call);
            let pending = driver.connection.buffer.len();
            prop_assert!(pending <= LIMITS.head_bytes, "{pending} bytes are buffered");
        }
    }
}

/// A caller that meets only the documented requirements of the methods.
struct Driver {
    connection: ServerConnection,
    now: Instant,
    out: BytesMut,
}

impl Driver {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new() -> Self {
        let now = Instant::now();
        Self { connection: ServerConnection::new(now), now, out: BytesMut::new() }
    }

    fn call(&mut self, call: Call) {
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        match call {
            Call::Receive(bytes) => self.receive(&bytes, &date),
            Call::WantBody => self.connection.encode_continue(&mut self.out),
            Call::IgnoreBody => self.connection.ignore_body(),
            Call::Interim => {
                let _ =
                    self.connection.encode_interim(StatusCode::EARLY_HINTS, &HeaderMap::new(), &mut self.out);
            }
            // Each request has one response.
            Call::Begin(status, length) if self.connection.sending == Sending::ResponseDue => {
                let status = StatusCode::from_u16(status).unwrap();
                let head = ResponseHead::Fields(status, &HeaderMap::new());
                self.connection.begin(head, length, &LIMITS, &date, &mut self.out);
            }
            Call::Begin(..) => {}
            // A real caller cuts the connection after an error. The state machine must survive further calls.
            Call::Piece(piece) => drop(self.connection.encode_piece(&piece, &mut self.out)),
            Call::RawPiece(length) => drop(self.connection.raw_piece(length, &mut self.out)),
            Call::Finish => drop(self.connection.finish(None, self.now, &mut self.out)),
            Call::EndOfInput => drop(self.connection.end_of_input()),
            Call::Wait(seconds) => {
                self.now += Duration::from_secs(seconds);
                let _ = self.connection.timeout(self.now, &LIMITS);
            }
            Call::Stop => self.connection.close_after_response(),
        }
    }

    /// Passes as much input as the connection accepts, and reads all events.
    fn receive(&mut self, bytes: &[u8], date: &DateLine) {
        if let Some(suspended) = self.connection.suspend() {
            self.connection = suspended.resume();
        }
        if !self.connection.wants_input(&LIMITS) {
            return;
        }
        let mut input = &bytes[..bytes.len().min(self.connection.input_room(&LIMITS))];
        loop {
            match self.connection.receive(std::mem::take(&mut input), self.now, &LIMITS) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(rejection) => {
                    self.connection.reject(rejection, date, &mut self.out);
                    assert_eq!(self.connection.phase(), Phase::Close);
                }
            }
        }
        let waits_for_peer = matches!(
            self.connection.receiving,
            Receiving::Head(_) | Receiving::Body(_) | Receiving::Drain(..)
        );
        let is_open = !self.connection.input_ended && !matches!(self.connection.sending, Sending::Upgrade);
        if waits_for_peer && is_open && self.connection.sending == Sending::Idle {
            assert!(self.connection.wants_input(&LIMITS), "a connection that waits for input accepts it");
        }
    }
}
