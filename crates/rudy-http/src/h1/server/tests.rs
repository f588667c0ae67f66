//! Tests of orders of calls that the conformance cases do not have.

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_message::{DateLine, LengthError, Rejection, RequestHead, ResponseHead};

use super::ServerConnection;
use crate::Limits;
use crate::h1::{Event, Phase, Timeout};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";

/// A connection with the state that its caller has.
struct Harness {
    connection: ServerConnection,
    limits: Limits,
    now: Instant,
    out: BytesMut,
}

impl Harness {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new() -> Self {
        let now = Instant::now();
        let connection = ServerConnection::new(now);
        Self { connection, limits: Limits::default(), now, out: BytesMut::new() }
    }

    fn receive<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Event<'a>>, Rejection> {
        self.suspend();
        self.connection.receive(bytes, self.now, &self.limits)
    }

    /// Suspends and resumes the connection if possible, which must have no effect.
    fn suspend(&mut self) {
        if let Some(suspended) = self.connection.suspend() {
            self.connection = suspended.resume();
        }
    }

    fn receive_request(&mut self, bytes: &[u8]) {
        let event = self.receive(bytes);
        assert!(matches!(event, Ok(Some(Event::Request(_)))), "{event:?}");
    }

    fn begin(&mut self, status: StatusCode) {
        let head = ResponseHead::Fields(status, &HeaderMap::new());
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        self.connection.begin(head, Some(0), &self.limits, &date, &mut self.out);
    }

    fn finish(&mut self) {
        self.connection.finish(None, self.now, &mut self.out).expect("the body is empty");
    }

    /// Sends a response, and returns whether it has `Connection: close`.
    fn respond(&mut self) -> bool {
        self.out.clear();
        self.begin(StatusCode::OK);
        self.finish();
        self.out.windows(19).any(|line| line == b"connection: close\r\n")
    }

    fn reject(&mut self, rejection: Rejection) {
        self.out.clear();
        self.connection.reject(rejection, &DateLine::new(SystemTime::UNIX_EPOCH), &mut self.out);
    }
}

#[test]
fn a_stop_during_a_head_makes_its_response_the_last() {
    let mut harness = Harness::new();
    assert!(harness.receive(b"GET / HT").unwrap().is_none());
    harness.connection.close_after_response();
    assert_eq!(harness.connection.phase(), Phase::Head);
    harness.receive_request(&GET[8..]);
    assert!(harness.respond());
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn a_stop_closes_idle_and_draining_connections_at_once() {
    let mut harness = Harness::new();
    harness.connection.close_after_response();
    assert_eq!(harness.connection.phase(), Phase::Close);

    let mut harness = Harness::new();
    harness.receive_request(POST);
    assert!(!harness.respond());
    assert_eq!(harness.connection.phase(), Phase::Drain);
    harness.connection.close_after_response();
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn a_stop_during_a_response_closes_after_it() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    harness.begin(StatusCode::OK);
    harness.connection.close_after_response();
    harness.finish();
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn complete_requests_before_the_end_of_input_get_responses() {
    let mut harness = Harness::new();
    harness.receive_request(&[GET, GET, b"GET"].concat());
    assert!(harness.connection.end_of_input());
    assert!(!harness.connection.wants_input(&harness.limits));
    assert!(!harness.respond());
    harness.receive_request(&[]);
    harness.respond();
    assert!(harness.receive(&[]).unwrap().is_none(), "the rest is not a complete request");
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn the_last_response_after_the_end_of_input_announces_the_close() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    assert!(harness.connection.end_of_input());
    assert!(harness.respond());
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn an_end_of_input_within_a_request_is_reported() {
    let mut harness = Harness::new();
    assert!(harness.receive(b"GET").unwrap().is_none());
    assert!(!harness.connection.end_of_input());
    assert_eq!(harness.connection.phase(), Phase::Close);

    let mut harness = Harness::new();
    harness.receive_request(POST);
    assert!(!harness.connection.end_of_input());
}

#[test]
fn an_end_of_input_closes_a_draining_connection() {
    let mut harness = Harness::new();
    harness.receive_request(POST);
    harness.respond();
    assert!(harness.connection.end_of_input(), "the request has its response");
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn no_rejection_follows_the_head_of_a_response() {
    let mut harness = Harness::new();
    harness.receive_request(POST);
    harness.begin(StatusCode::OK);
    harness.reject(Rejection::BodyTooSlow);
    assert!(harness.out.is_empty());
    assert_eq!(harness.connection.phase(), Phase::Close);
}

#[test]
fn a_rejection_has_a_body_although_the_request_body_looks_like_head() {
    let mut harness = Harness::new();
    harness.receive_request(&[POST, b"HEAD / HTTP/1.1\r\n"].concat());
    harness.reject(Rejection::BodyTooSlow);
    assert!(harness.out.ends_with(b"minimum rate (`limits.body_rate_min`)\n"));
}

#[test]
fn nothing_is_read_after_a_rejection() {
    let mut harness = Harness::new();
    let rejection = harness.receive(b"GET  / HTTP/1.1\r\n").unwrap_err();
    harness.reject(rejection);
    let buffered = harness.connection.buffered_bytes();
    assert!(harness.receive(GET).unwrap().is_none());
    assert_eq!(harness.connection.buffered_bytes(), buffered, "later input is not buffered");
}

#[test]
fn a_rejected_head_can_be_read_again_if_only_its_meaning_is_wrong() {
    let host_of = |request: &str, split: usize| {
        let mut harness = Harness::new();
        let (first, rest) = request.as_bytes().split_at(split);
        let rejection = match harness.receive(first) {
            Ok(event) => {
                assert!(event.is_none(), "{request:?}");
                harness.receive(rest).unwrap_err()
            }
            Err(rejection) => rejection,
        };
        let head = RequestHead::of_rejected(harness.connection.buffered(), &harness.limits.of_message());
        let host = head.as_ref().map(|head| String::from_utf8(head.host().to_vec()).unwrap());
        let request = head.map(RequestHead::into_request);
        assert!(request.is_none_or(|request| request.headers().contains_key("host")));
        (rejection.status().as_u16(), host)
    };
    let host = |name: &str| Some(name.to_owned());
    for (request, status, expected) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", 413, host("a")),
        ("\r\nCONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405, host("a:1")),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417, host("a")),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, None),
        ("GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400, None),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, None),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, None),
    ] {
        for split in 0..request.len() {
            assert_eq!(host_of(request, split), (status, expected.clone()), "{request:?} {split}");
        }
    }
}

/// A service can respond with a page instead of the text.
#[test]
fn any_response_to_a_rejection_is_the_last_one() {
    for (request, has_body) in [("GET", true), ("HEAD", false)] {
        let mut harness = Harness::new();
        harness.receive(format!("{request}  / HTTP/1.1\r\n").as_bytes()).unwrap_err();
        assert!(harness.connection.begin_rejection());
        harness.begin(StatusCode::BAD_REQUEST);
        assert_eq!(harness.connection.sends_body(), has_body);
        assert!(harness.out.windows(19).any(|line| line == b"connection: close\r\n"));
        harness.finish();
        assert_eq!(harness.connection.phase(), Phase::Close);
    }
}

#[test]
fn the_input_buffer_of_a_pipelining_client_is_limited() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    while harness.connection.wants_input(&harness.limits) {
        assert!(harness.receive(GET).unwrap().is_none());
    }
    let pending = harness.connection.buffer.len();
    assert!(
        (harness.limits.head_bytes..harness.limits.head_bytes + GET.len()).contains(&pending),
        "{pending}"
    );
}

#[test]
fn an_idle_connection_has_no_buffer() {
    let mut harness = Harness::new();
    for byte in [b"\r\n", GET].concat() {
        harness.receive(&[byte]).unwrap();
    }
    harness.respond();
    assert_eq!(harness.connection.phase(), Phase::Idle);
    assert_eq!(harness.connection.buffer.into_vec().capacity(), 0);
}

#[test]
fn a_second_call_sends_no_second_100() {
    let mut harness = Harness::new();
    harness
        .receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    harness.connection.encode_continue(&mut harness.out);
    harness.connection.encode_continue(&mut harness.out);
    assert_eq!(&harness.out[..], b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn no_100_follows_the_head_of_a_response() {
    let mut harness = Harness::new();
    harness
        .receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    harness.begin(StatusCode::OK);
    harness.out.clear();
    harness.connection.encode_continue(&mut harness.out);
    assert!(harness.out.is_empty());
}

#[test]
fn an_exchange_has_no_deadline() {
    let mut harness = Harness::new();
    harness.receive_request(POST);
    assert_eq!(harness.connection.deadline(&harness.limits), None);
    let later = harness.now + Duration::from_hours(24);
    assert_eq!(harness.connection.timeout(later, &harness.limits), Timeout::NotYet);
}

#[test]
fn an_endless_timeout_has_no_deadline() {
    let mut harness = Harness::new();
    harness.limits.first_request_timeout = Duration::MAX;
    assert_eq!(harness.connection.deadline(&harness.limits), None);
}

#[test]
fn the_first_request_has_its_own_timeout() {
    let mut harness = Harness::new();
    let (accepted, first, next) = (harness.now, Duration::from_secs(3), Duration::from_secs(50));
    (harness.limits.first_request_timeout, harness.limits.idle_timeout) = (first, next);
    assert_eq!(harness.connection.deadline(&harness.limits), Some(accepted + first));
    assert_eq!(harness.connection.timeout(accepted + first, &harness.limits), Timeout::Close);
    harness.now += Duration::from_secs(2);
    harness.receive_request(GET);
    harness.respond();
    assert_eq!(harness.connection.deadline(&harness.limits), Some(harness.now + next));
}

#[test]
fn empty_lines_do_not_extend_the_wait_for_a_request() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    harness.respond();
    let state =
        |harness: &Harness| (harness.connection.phase(), harness.connection.deadline(&harness.limits));
    let idle = state(&harness);
    assert_eq!(idle, (Phase::Idle, Some(harness.now + harness.limits.idle_timeout)));
    for part in [&b"\r\n"[..], b"\r", b"\n\r\n", b"\r"] {
        harness.now += Duration::from_secs(1);
        assert!(harness.receive(part).unwrap().is_none());
        assert_eq!(state(&harness), idle);
    }
    harness.now += Duration::from_secs(1);
    let head = (Phase::Head, Some(harness.now + harness.limits.head_timeout));
    for part in [b"\nG", b"ET"] {
        assert!(harness.receive(part).unwrap().is_none());
        assert_eq!(state(&harness), head);
        harness.now += Duration::from_secs(1);
    }
    harness.receive_request(&GET[3..]);
}

#[test]
fn rfc9110_15_2_interim_responses_go_before_the_response_and_never_to_http10() {
    let send_interim = |harness: &mut Harness, status: u16| {
        let mut fields = HeaderMap::new();
        fields.insert("link", HeaderValue::from_static("</a.css>; rel=preload"));
        // RFC 9110 §8.6, RFC 9112 §6.1: a 1xx has no content to delimit.
        fields.insert("content-length", HeaderValue::from_static("3"));
        fields.insert("transfer-encoding", HeaderValue::from_static("chunked"));
        fields.insert("connection", HeaderValue::from_static("close"));
        harness.out.clear();
        let status = StatusCode::from_u16(status).expect("a status");
        let is_sent = harness.connection.encode_interim(status, &fields, &mut harness.out);
        assert_eq!(is_sent, !harness.out.is_empty());
        is_sent
    };
    let mut harness = Harness::new();
    assert!(!send_interim(&mut harness, 103), "no request");
    harness.receive_request(GET);
    for _ in 0..2 {
        assert!(send_interim(&mut harness, 103));
        assert_eq!(harness.out, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
    }
    for status in [100, 101, 200, 404] {
        assert!(!send_interim(&mut harness, status), "{status}");
    }
    harness.begin(StatusCode::OK);
    assert!(!send_interim(&mut harness, 103), "the response has begun");
    harness.finish();
    assert!(!send_interim(&mut harness, 103), "the response is finished");

    let mut harness = Harness::new();
    harness.receive_request(b"GET / HTTP/1.0\r\n\r\n");
    assert!(!send_interim(&mut harness, 103));
}

#[test]
fn rfc9110_10_1_1_another_interim_response_does_not_replace_100_continue() {
    let mut harness = Harness::new();
    harness
        .receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert!(harness.connection.encode_interim(StatusCode::EARLY_HINTS, &HeaderMap::new(), &mut harness.out));
    harness.connection.encode_continue(&mut harness.out);
    assert!(harness.out.ends_with(b"\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"));
}

#[test]
fn rfc9112_7_1_a_raw_piece_is_framed_as_a_chunk() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
    harness.connection.begin(head, None, &harness.limits, &date, &mut harness.out);
    harness.out.clear();
    harness.connection.raw_piece(0, &mut harness.out).unwrap();
    for raw in [&b"0123456789abcdef"[..], b"x"] {
        harness.connection.raw_piece(raw.len() as u64, &mut harness.out).unwrap();
        harness.out.extend_from_slice(raw);
    }
    harness.connection.encode_piece(b"yz", &mut harness.out).unwrap();
    assert_eq!(harness.out, "10\r\n0123456789abcdef\r\n1\r\nx\r\n2\r\nyz\r\n");
    harness.out.clear();
    harness.connection.raw_piece(1, &mut harness.out).unwrap();
    assert_eq!(harness.out, "1\r\n");
    harness.out.clear();
    harness.connection.encode_piece(&[], &mut harness.out).unwrap();
    assert_eq!(harness.out, "\r\n", "an empty piece ends the chunk");
    harness.out.clear();
    harness.connection.raw_piece(1, &mut harness.out).unwrap();
    harness.finish();
    assert_eq!(harness.out, "1\r\n\r\n0\r\n\r\n");
}

#[test]
fn a_raw_piece_counts_towards_the_length() {
    let mut harness = Harness::new();
    harness.receive_request(GET);
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
    harness.connection.begin(head, Some(3), &harness.limits, &date, &mut harness.out);
    harness.out.clear();
    harness.connection.raw_piece(2, &mut harness.out).unwrap();
    assert_eq!(harness.connection.raw_piece(2, &mut harness.out), Err(LengthError));
    assert_eq!(harness.connection.finish(None, harness.now, &mut harness.out), Err(LengthError));
    harness.connection.raw_piece(1, &mut harness.out).unwrap();
    harness.finish();
    assert!(harness.out.is_empty());
}
