//! Tests the driver of streams with a second protocol: each stream has an output of its own, and writes more when the peer acknowledges.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use rudy_http::h1::{Event, ServerConnection};
use rudy_http::h2::Priority;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange, Limits, Response};

use super::harness::{Fixed, Harness};
use super::toy::{DATA, END, HEAD, Memory, Toy};
use crate::driver::connection::Connection;
use crate::driver::poll_context::{Budget, PollContext};
use crate::driver::streams::{Multiplex, Reset, StreamId, Streams, Turn};
use crate::scratch::Scratch;

/// The numbers of streams begin here, beyond those of HTTP/2.
const FIRST: StreamId = 1 << 60;

/// What a peer has received of a stream: its bytes, and its end.
#[derive(Default, PartialEq, Eq)]
struct Received {
    body: Vec<u8>,
    end: Option<String>,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {:?}", self.body.len(), self.end)
    }
}

/// A connection, with a peer that acknowledges.
struct Pair {
    harness: Harness,
    connection: Connection<Fixed, Memory>,
    streams: Streams<Toy>,
    now: Instant,
    due: Option<Instant>,
    /// The bodies of the responses.
    bodies: Arc<Mutex<BTreeMap<StreamId, Body>>>,
}

impl Pair {
    /// A connection on which each of these bodies is requested. Each stream has room for as many bytes.
    fn new(room: u64, bodies: Vec<(StreamId, Body)>) -> Self {
        let bodies: Arc<Mutex<BTreeMap<_, _>>> = Arc::new(Mutex::new(bodies.into_iter().collect()));
        let (numbers, of_service) = (bodies.lock().keys().copied().collect::<Vec<_>>(), bodies.clone());
        let harness = Harness::new(Limits::default(), move |request, _| {
            let number = request.uri().path()[1..].parse().unwrap();
            let mut response = Response::new(StatusCode::OK);
            response.body = of_service.lock().remove(&number).unwrap();
            response.into()
        });
        let connection = harness.connection(Memory);
        let streams = Streams::new(Toy { room, ..Toy::default() }, 0);
        let mut pair = Self { harness, connection, streams, now: Instant::now(), due: None, bodies };
        for number in numbers {
            pair.request(number, Priority::default());
        }
        pair
    }

    /// Does what needs the connection, and an output that stays empty.
    fn turn<R>(
        &mut self,
        act: impl FnOnce(&mut Streams<Toy>, &mut Connection<Fixed, Memory>, &mut Turn<'_>) -> R,
    ) -> R {
        let mut scratch = Scratch::borrow_at(self.now);
        let Scratch { out, date, .. } = &mut *scratch;
        let budget = Budget::new(self.now);
        let mut turn = Turn { now: self.now, date, budget: &budget, out };
        self.streams.begin_poll(0, self.now, turn.out);
        let result = act(&mut self.streams, &mut self.connection, &mut turn);
        assert!(out.is_empty());
        result
    }

    fn request(&mut self, number: StreamId, priority: Priority) {
        let head = format!("GET /{number} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let (mut machine, limits) = (ServerConnection::new(self.now), rudy_http::Limits::default());
        let Ok(Some(Event::Request(head))) = machine.receive(head.as_bytes(), self.now, &limits) else {
            panic!("the request is valid")
        };
        self.streams.protocol.open(FIRST + number);
        self.turn(|streams, connection, turn| {
            streams.begin_exchange(connection, (FIRST + number, priority), &head, turn);
        });
    }

    /// Polls the streams once.
    fn poll(&mut self) {
        let mut scratch = Scratch::borrow_at(self.now);
        let (worker, budget) = (self.harness.worker.clone(), Budget::new(self.now));
        let cx = &mut Context::from_waker(Waker::noop());
        let mut poll_cx = PollContext::new(cx, &worker.counters, &budget);
        self.streams.begin_poll(0, self.now, &mut scratch.out);
        self.streams.poll_services(&self.connection, &mut poll_cx, &mut scratch);
        self.streams.write(&mut (), &mut poll_cx, &mut scratch).unwrap();
        self.streams.end_slow(&mut self.connection, &mut poll_cx, &mut scratch);
        self.streams.settle(&self.connection, &mut poll_cx);
        self.due = poll_cx.due;
    }

    /// The peer acknowledges bytes of a stream.
    fn acknowledge(&mut self, number: StreamId, bytes: usize) -> bool {
        let has_acknowledged = self.streams.protocol.acknowledge(FIRST + number, bytes);
        self.streams.open_window(Some(FIRST + number));
        has_acknowledged
    }

    /// Polls, and acknowledges on these streams, until nothing changes.
    fn finish(&mut self, numbers: &[StreamId], bytes: usize) {
        loop {
            self.poll();
            // One of them at a time, the last one first.
            if !numbers.iter().rev().any(|number| self.acknowledge(*number, bytes)) {
                return;
            }
        }
    }

    /// Returns what the peer has received of a stream.
    fn received(&self, number: StreamId) -> Received {
        let stream = &self.streams.protocol.streams[&(FIRST + number)];
        let (mut received, mut rest) = (Received::default(), &stream.received[..]);
        while let Some((&[kind, ref length @ ..], frame)) = rest.split_first_chunk::<5>() {
            let (payload, behind) = frame.split_at(u32::from_be_bytes(*length) as usize);
            assert_eq!(received.end, None, "a frame after the end of stream {number}");
            match kind {
                HEAD => assert_eq!(payload, b"200"),
                DATA => received.body.extend_from_slice(payload),
                END => received.end = Some(String::from_utf8(payload.to_vec()).unwrap()),
                _ => panic!("not a frame: {kind}"),
            }
            rest = behind;
        }
        if let Some(reset) = stream.reset {
            received.end = Some(format!("{reset:?}"));
        }
        received
    }

    fn all_received(&self) -> BTreeMap<StreamId, Received> {
        let numbers = self.streams.protocol.streams.keys().map(|stream| stream - FIRST);
        numbers.map(|number| (number, self.received(number))).collect()
    }
}

/// Returns bytes that reveal a wrong order.
pub(super) fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed).to_le_bytes()[0]).collect()
}

pub(super) fn range(bytes: &[u8], start: u64, length: u64) -> FileRange {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    range_of(file, start, length)
}

fn range_of(file: File, start: u64, length: u64) -> FileRange {
    let stat = file.metadata().unwrap();
    let modified_ns = i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec());
    FileRange { file: Arc::new(file), start, length, size: stat.len(), modified_ns }
}

/// Returns bodies from bytes, a file and all kinds of pieces, with the expected result.
fn bodies(length: usize) -> (Vec<(StreamId, Body)>, BTreeMap<StreamId, Received>) {
    let [first, second, third] = [1, 2, 3].map(|seed| pattern(seed, length));
    let (half, whole) = (length / 2, length as u64);
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-sum"), HeaderValue::from_static("17"))]);
    let pieces = VecDeque::from([
        BodyPiece::Data(Bytes::copy_from_slice(&third[..3])),
        BodyPiece::File(range(&third, 3, half as u64 - 3)),
        BodyPiece::Data(Bytes::copy_from_slice(&third[half..])),
        BodyPiece::Trailers(trailers),
    ]);
    let bodies = vec![
        (1, Body::Bytes(first.clone().into())),
        (2, Body::File(range(&[&b"before"[..], &second, b"behind"].concat(), 6, whole))),
        (3, Body::Stream(Box::new(pieces))),
        (4, Body::Empty),
    ];
    let received = |body, end: &str| Received { body, end: Some(end.to_owned()) };
    let expected = [
        (1, received(first, "")),
        (2, received(second, "")),
        (3, received(third, "x-sum=17;")),
        (4, Received::default()),
    ];
    (bodies, expected.into())
}

/// Sends the bodies, and returns what the peer has received.
fn send(room: u64, bodies: Vec<(StreamId, Body)>) -> BTreeMap<StreamId, Received> {
    let numbers: Vec<_> = bodies.iter().map(|(number, _)| *number).collect();
    let mut pair = Pair::new(room, bodies);
    pair.finish(&numbers, usize::try_from(room).unwrap_or(usize::MAX).max(7));
    assert!(pair.streams.is_empty());
    pair.all_received()
}

#[test]
fn concurrent_bodies_arrive_complete_with_any_room() {
    for (room, length) in [(1, 300), (10, 3000), (65_536, 100), (65_536, 2_000_000), (1 << 40, 2_000_000)] {
        let (bodies, expected) = bodies(length);
        assert_eq!(send(room, bodies), expected, "room for {room} bytes");
    }
}

/// What a body has before a pause is an output of its stream, not of the next one.
#[test]
fn a_body_that_pauses_is_sent_up_to_the_pause() {
    struct Pausing(Option<BodyPiece>);

    impl BodyStream for Pausing {
        fn poll_piece(
            &mut self,
            _: &mut Context<'_>,
            _: Instant,
            _: u64,
        ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
            self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(piece))))
        }
    }

    let pausing = |text: &'static str| Body::Stream(Box::new(Pausing(Some(BodyPiece::Data(text.into())))));
    let mut pair = Pair::new(100, vec![(1, pausing("first")), (2, pausing("second"))]);
    pair.finish(&[1, 2], 100);
    let sent = |text: &str| Received { body: text.as_bytes().to_vec(), end: None };
    assert_eq!([1, 2].map(|number| pair.received(number)), [sent("first"), sent("second")]);
}

/// Of two streams that can always send more, each gets as much as the other.
#[test]
fn incremental_responses_take_turns_and_urgent_ones_come_first() {
    let mut pair = Pair::new(1 << 30, Vec::new());
    let sent = |pair: &Pair| {
        [1, 2, 3].map(|number| pair.streams.protocol.window(FIRST + number)).map(|window| (1 << 30) - window)
    };
    let large = (1..=3).map(|number| (number, Body::Bytes(pattern(0, 1 << 20).into()))).collect();
    *pair.bodies.lock() = large;
    for (number, urgency, incremental) in [(1, 3, true), (2, 3, true), (3, 1, false)] {
        pair.request(number, Priority { urgency, incremental });
    }
    pair.poll();
    assert_eq!(sent(&pair), [0, 0, 512 << 10]);
    pair.poll();
    pair.poll();
    assert_eq!(sent(&pair), [256 << 10, 256 << 10, 1 << 20]);
    pair.streams.change_priority(FIRST + 2, Priority { urgency: 0, incremental: true });
    pair.poll();
    assert_eq!(sent(&pair), [256 << 10, 768 << 10, 1 << 20]);
}

#[test]
fn a_failing_stream_does_not_affect_the_others() {
    struct Failing;

    impl BodyStream for Failing {
        fn poll_piece(
            &mut self,
            _: &mut Context<'_>,
            _: Instant,
            _: u64,
        ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
            Poll::Ready(Some(Err("injected".into())))
        }
    }

    let (mut bodies, mut expected) = bodies(100_000);
    bodies.insert(1, (9, Body::Stream(Box::new(Failing))));
    expected.insert(9, Received { body: Vec::new(), end: Some("Failed".to_owned()) });
    assert_eq!(send(65_536, bodies), expected);
}

/// A file that is shorter than its range from the start, within a frame, and one that shrinks behind what is sent.
#[test]
fn a_file_that_shrinks_ends_only_its_stream() {
    let (mut bodies, mut expected) = bodies(100_000);
    let shrunk = |size, range: FileRange| {
        range.file.set_len(size).unwrap();
        Body::File(range)
    };
    let content = pattern(9, 50_000);
    bodies.insert(0, (5, Body::File(range(b"short", 0, 100))));
    bodies.insert(2, (6, shrunk(40_000, range(&content, 0, 50_000))));
    bodies.push((7, shrunk(49_999, range(&content, 0, 10))));
    let sent: [(StreamId, &[u8]); 3] = [(5, b"short"), (6, b""), (7, b"")];
    expected.extend(
        sent.map(|(number, sent)| (number, Received { body: sent.to_vec(), end: Some("Failed".to_owned()) })),
    );
    assert_eq!(send(65_536, bodies), expected);
}

/// A file that grows and is touched while it is sent.
#[test]
fn a_growing_file_is_sent_as_announced() {
    let content = pattern(9, 1 << 20);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let range = range_of(file.try_clone().unwrap(), 0, 1 << 20);
    let mut pair = Pair::new(1 << 30, vec![(1, Body::File(range))]);
    pair.poll();
    file.write_all(b"more").unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    pair.finish(&[1], 1 << 30);
    assert_eq!(pair.received(1).body, content);
}

#[test]
fn a_stream_that_is_not_acknowledged_does_not_block_the_others_and_has_a_deadline() {
    let mut pair = Pair::new(5, vec![(1, Body::Bytes("blocked".into())), (2, Body::Bytes("whole".into()))]);
    pair.finish(&[2], 100);
    let whole = Received { body: b"whole".to_vec(), end: Some(String::new()) };
    assert_eq!(pair.received(2), whole);
    let limits = Limits::default().http;
    let wait = limits.rate_grace.min(limits.send_stall_timeout);
    assert_eq!(pair.due, Some(pair.now + wait));
    for (pause, reset) in [(wait / 2, None), (wait / 2, Some(Reset::Cancelled))] {
        pair.now += pause;
        pair.poll();
        assert_eq!(pair.streams.protocol.streams[&(FIRST + 1)].reset, reset);
    }
    assert!(pair.streams.is_empty());
}

/// The peer resets streams in all of their phases; what arrives later for them does nothing.
#[test]
fn a_stream_that_the_peer_resets_ends_alone() {
    let large = |seed| Body::Bytes(pattern(seed, 100_000).into());
    let mut pair = Pair::new(1000, vec![(1, large(1)), (2, large(2)), (3, large(3))]);
    pair.poll();
    for number in [1, 3] {
        pair.turn(|streams, connection, turn| streams.drop_exchange(connection, FIRST + number, None, turn));
        pair.acknowledge(number, 10);
        pair.streams.change_priority(FIRST + number, Priority { urgency: 0, incremental: false });
        pair.turn(|streams, _, turn| {
            streams.receive_body(FIRST + number, b"late", true, turn);
            streams.receive_end(FIRST + number, None, turn);
        });
    }
    assert_eq!(pair.streams.protocol.passed_on, 8);
    pair.finish(&[1, 2, 3], 1 << 20);
    assert_eq!([1, 2, 3].map(|number| pair.received(number).body.len()), [1000, 100_000, 1000]);
    assert!(pair.streams.is_empty());
}
