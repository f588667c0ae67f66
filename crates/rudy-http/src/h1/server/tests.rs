//! What only shows when calls come in an order that no conformance case has.

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::ServerConnection;
use crate::Limits;
use crate::h1::{DateLine, Event, LengthError, Phase, Rejection, ResponseHead, Timeout};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";

/// A machine and what a driver has beside it.
struct Bench {
    machine: ServerConnection,
    limits: Limits,
    now: Instant,
    out: BytesMut,
}

impl Bench {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn new() -> Self {
        let now = Instant::now();
        let machine = ServerConnection::new(now);
        Self { machine, limits: Limits::default(), now, out: BytesMut::new() }
    }

    fn receive<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Event<'a>>, Rejection> {
        self.suspend();
        self.machine.receive(bytes, self.now, &self.limits)
    }

    /// Goes without a machine for a moment, as a driver does where it may: nothing of it may be seen.
    fn suspend(&mut self) {
        if let Some(suspended) = self.machine.suspend() {
            self.machine = suspended.resume();
        }
    }

    fn receive_request(&mut self, bytes: &[u8]) {
        let event = self.receive(bytes);
        assert!(matches!(event, Ok(Some(Event::Request(_)))), "{event:?}");
    }

    fn begin(&mut self, status: StatusCode) {
        let head = ResponseHead::Fields(status, &HeaderMap::new());
        let date = DateLine::new(SystemTime::UNIX_EPOCH);
        self.machine.begin(head, Some(0), &self.limits, &date, &mut self.out);
    }

    fn finish(&mut self) {
        self.machine.finish(None, self.now, &mut self.out).expect("nothing was promised");
    }

    /// Answers, and says whether the answer announces the close.
    fn answer(&mut self) -> bool {
        self.out.clear();
        self.begin(StatusCode::OK);
        self.finish();
        self.out.windows(19).any(|line| line == b"connection: close\r\n")
    }

    fn reject(&mut self, rejection: Rejection) {
        self.out.clear();
        self.machine.reject(rejection, &DateLine::new(SystemTime::UNIX_EPOCH), &mut self.out);
    }
}

#[test]
fn a_stop_while_a_head_comes_in_makes_its_answer_the_last() {
    let mut bench = Bench::new();
    assert!(bench.receive(b"GET / HT").unwrap().is_none());
    bench.machine.close_after_response();
    assert_eq!(bench.machine.phase(), Phase::Head);
    bench.receive_request(&GET[8..]);
    assert!(bench.answer());
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn a_stop_closes_an_idle_connection_at_once_and_one_that_drains() {
    let mut bench = Bench::new();
    bench.machine.close_after_response();
    assert_eq!(bench.machine.phase(), Phase::Close);

    let mut bench = Bench::new();
    bench.receive_request(POST);
    assert!(!bench.answer());
    assert_eq!(bench.machine.phase(), Phase::Drain);
    bench.machine.close_after_response();
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn a_stop_after_the_head_of_an_answer_closes_behind_it() {
    let mut bench = Bench::new();
    bench.receive_request(GET);
    bench.begin(StatusCode::OK);
    bench.machine.close_after_response();
    bench.finish();
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn requests_sent_before_the_end_of_input_are_all_answered() {
    let mut bench = Bench::new();
    bench.receive_request(&[GET, GET, b"GET"].concat());
    assert!(bench.machine.end_of_input());
    assert!(!bench.machine.wants_input(&bench.limits));
    assert!(!bench.answer());
    bench.receive_request(&[]);
    bench.answer();
    assert!(bench.receive(&[]).unwrap().is_none(), "what is left over is no request");
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn the_last_answer_before_the_end_of_input_says_so() {
    let mut bench = Bench::new();
    bench.receive_request(GET);
    assert!(bench.machine.end_of_input());
    assert!(bench.answer());
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn an_end_of_input_in_the_middle_of_something_is_out_of_order() {
    let mut bench = Bench::new();
    assert!(bench.receive(b"GET").unwrap().is_none());
    assert!(!bench.machine.end_of_input());
    assert_eq!(bench.machine.phase(), Phase::Close);

    let mut bench = Bench::new();
    bench.receive_request(POST);
    assert!(!bench.machine.end_of_input());
}

#[test]
fn an_end_of_input_closes_a_connection_that_drains() {
    let mut bench = Bench::new();
    bench.receive_request(POST);
    bench.answer();
    assert!(bench.machine.end_of_input(), "the request has had its answer");
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn an_answer_that_has_begun_is_never_followed_by_a_refusal() {
    let mut bench = Bench::new();
    bench.receive_request(POST);
    bench.begin(StatusCode::OK);
    bench.reject(Rejection::BodyTooSlow);
    assert!(bench.out.is_empty());
    assert_eq!(bench.machine.phase(), Phase::Close);
}

#[test]
fn a_body_that_looks_like_a_head_does_not_take_the_words_from_a_refusal() {
    let mut bench = Bench::new();
    bench.receive_request(&[POST, b"HEAD / HTTP/1.1\r\n"].concat());
    bench.reject(Rejection::BodyTooSlow);
    assert!(bench.out.ends_with(b"minimum rate\n"));
}

#[test]
fn nothing_is_read_behind_a_refusal() {
    let mut bench = Bench::new();
    let rejection = bench.receive(b"GET  / HTTP/1.1\r\n").unwrap_err();
    bench.reject(rejection);
    assert!(bench.receive(GET).unwrap().is_none());
    assert!(bench.machine.pending.is_empty(), "nothing is kept of what comes after");
}

#[test]
fn a_client_that_pipelines_far_ahead_has_to_wait() {
    let mut bench = Bench::new();
    bench.receive_request(GET);
    while bench.machine.wants_input(&bench.limits) {
        assert!(bench.receive(GET).unwrap().is_none());
    }
    let pending = bench.machine.pending.len();
    assert!((bench.limits.head_bytes..bench.limits.head_bytes + GET.len()).contains(&pending), "{pending}");
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let mut bench = Bench::new();
    for byte in [b"\r\n", GET].concat() {
        bench.receive(&[byte]).unwrap();
    }
    bench.answer();
    assert_eq!(bench.machine.phase(), Phase::Idle);
    assert_eq!(bench.machine.pending.into_vec().capacity(), 0);
}

#[test]
fn a_service_that_asks_for_the_body_again_gets_no_second_100() {
    let mut bench = Bench::new();
    bench.receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    bench.machine.encode_continue(&mut bench.out);
    bench.machine.encode_continue(&mut bench.out);
    assert_eq!(&bench.out[..], b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn no_100_follows_the_head_of_an_answer() {
    let mut bench = Bench::new();
    bench.receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    bench.begin(StatusCode::OK);
    bench.out.clear();
    bench.machine.encode_continue(&mut bench.out);
    assert!(bench.out.is_empty());
}

#[test]
fn no_deadline_of_the_machine_runs_during_an_exchange() {
    let mut bench = Bench::new();
    bench.receive_request(POST);
    assert_eq!(bench.machine.deadline(&bench.limits), None);
    let later = bench.now + Duration::from_hours(24);
    assert_eq!(bench.machine.timeout(later, &bench.limits), Timeout::NotYet);
}

#[test]
fn a_time_without_end_is_no_deadline() {
    let mut bench = Bench::new();
    bench.limits.first_request_timeout = Duration::MAX;
    assert_eq!(bench.machine.deadline(&bench.limits), None);
}

#[test]
fn the_first_request_has_a_timeout_of_its_own() {
    let mut bench = Bench::new();
    let (accepted, first, next) = (bench.now, Duration::from_secs(3), Duration::from_secs(50));
    (bench.limits.first_request_timeout, bench.limits.idle_timeout) = (first, next);
    assert_eq!(bench.machine.deadline(&bench.limits), Some(accepted + first));
    assert_eq!(bench.machine.timeout(accepted + first, &bench.limits), Timeout::Close);
    bench.now += Duration::from_secs(2);
    bench.receive_request(GET);
    bench.answer();
    assert_eq!(bench.machine.deadline(&bench.limits), Some(bench.now + next));
}

#[test]
fn rfc9110_15_2_interim_responses_go_before_the_response_and_never_to_http10() {
    let early = |bench: &mut Bench, status: u16| {
        let mut fields = HeaderMap::new();
        fields.insert("link", HeaderValue::from_static("</a.css>; rel=preload"));
        // RFC 9110 §8.6, RFC 9112 §6.1: a 1xx has no content to delimit.
        fields.insert("content-length", HeaderValue::from_static("3"));
        fields.insert("transfer-encoding", HeaderValue::from_static("chunked"));
        fields.insert("connection", HeaderValue::from_static("close"));
        bench.out.clear();
        let status = StatusCode::from_u16(status).expect("a status");
        let is_sent = bench.machine.encode_interim(status, &fields, &mut bench.out);
        assert_eq!(is_sent, !bench.out.is_empty());
        is_sent
    };
    let mut bench = Bench::new();
    assert!(!early(&mut bench, 103), "no request");
    bench.receive_request(GET);
    for _ in 0..2 {
        assert!(early(&mut bench, 103));
        assert_eq!(bench.out, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
    }
    for status in [100, 101, 200, 404] {
        assert!(!early(&mut bench, status), "{status}");
    }
    bench.begin(StatusCode::OK);
    assert!(!early(&mut bench, 103), "the response has begun");
    bench.finish();
    assert!(!early(&mut bench, 103), "the response is finished");

    let mut bench = Bench::new();
    bench.receive_request(b"GET / HTTP/1.0\r\n\r\n");
    assert!(!early(&mut bench, 103));
}

#[test]
fn rfc9110_10_1_1_an_interim_response_does_not_stand_for_100_continue() {
    let mut bench = Bench::new();
    bench.receive_request(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert!(bench.machine.encode_interim(StatusCode::EARLY_HINTS, &HeaderMap::new(), &mut bench.out));
    bench.machine.encode_continue(&mut bench.out);
    assert!(bench.out.ends_with(b"\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"));
}

#[test]
fn rfc9112_7_1_a_chunk_that_is_sent_past_the_machine_is_framed_as_any_other() {
    let mut bench = Bench::new();
    bench.receive_request(GET);
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
    bench.machine.begin(head, None, &bench.limits, &date, &mut bench.out);
    bench.out.clear();
    bench.machine.raw_piece(0, &mut bench.out).unwrap();
    for raw in [&b"0123456789abcdef"[..], b"x"] {
        bench.machine.raw_piece(raw.len() as u64, &mut bench.out).unwrap();
        bench.out.extend_from_slice(raw);
    }
    bench.machine.piece(b"yz", &mut bench.out).unwrap();
    assert_eq!(bench.out, "10\r\n0123456789abcdef\r\n1\r\nx\r\n2\r\nyz\r\n");
    bench.out.clear();
    bench.machine.raw_piece(1, &mut bench.out).unwrap();
    assert_eq!(bench.out, "1\r\n");
    bench.out.clear();
    bench.machine.piece(&[], &mut bench.out).unwrap();
    assert_eq!(bench.out, "\r\n", "an empty piece ends the chunk");
    bench.out.clear();
    bench.machine.raw_piece(1, &mut bench.out).unwrap();
    bench.finish();
    assert_eq!(bench.out, "1\r\n\r\n0\r\n\r\n");
}

#[test]
fn what_is_sent_past_the_machine_counts_towards_the_length() {
    let mut bench = Bench::new();
    bench.receive_request(GET);
    let date = DateLine::new(SystemTime::UNIX_EPOCH);
    let head = ResponseHead::Fields(StatusCode::OK, &HeaderMap::new());
    bench.machine.begin(head, Some(3), &bench.limits, &date, &mut bench.out);
    bench.out.clear();
    bench.machine.raw_piece(2, &mut bench.out).unwrap();
    assert_eq!(bench.machine.raw_piece(2, &mut bench.out), Err(LengthError));
    assert_eq!(bench.machine.finish(None, bench.now, &mut bench.out), Err(LengthError));
    bench.machine.raw_piece(1, &mut bench.out).unwrap();
    bench.finish();
    assert!(bench.out.is_empty());
}
