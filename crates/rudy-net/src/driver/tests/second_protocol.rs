//! Tests the pump with a second protocol: several bodies share a connection, and frames never interleave.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange};

use super::toy::{DATA, END, RESET, Toy};

/// What a peer has received of a stream: its bytes, and its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    body: Vec<u8>,
    end: Option<String>,
}

/// Reads frames until the connection ends, and opens the window of each stream by the bytes received.
fn receive(mut peer: UnixStream) -> BTreeMap<u8, Received> {
    let mut streams = BTreeMap::<u8, Received>::new();
    let mut head = [0; 6];
    while peer.read_exact(&mut head).is_ok() {
        let [kind, number, length @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        peer.read_exact(&mut payload).unwrap();
        let stream = streams.entry(number).or_default();
        assert!(stream.end.is_none(), "a frame after the end of stream {number}");
        match kind {
            DATA => {
                // Fails after everything has been sent, when the window does not matter.
                let _ = peer.write_all(&[&[number][..], &length].concat());
                stream.body.extend(payload);
            }
            END => stream.end = Some(String::from_utf8(payload).unwrap()),
            RESET => stream.end = Some("reset".to_owned()),
            _ => panic!("not a frame: {head:?}"),
        }
    }
    streams
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

async fn pair() -> (tokio::net::UnixStream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = tokio::net::UnixStream::from_std(ours).unwrap();
    // Registers the readiness, so that a single poll finds it.
    ours.writable().await.unwrap();
    (ours, peer)
}

/// Sends the bodies over one connection, and returns what the peer has received.
async fn send(window: u64, bodies: Vec<(u8, Body)>) -> BTreeMap<u8, Received> {
    let (ours, peer) = pair().await;
    let peer = std::thread::spawn(move || receive(peer));
    let mut toy = Toy::new(ours, window, bodies);
    poll_fn(|cx| toy.poll(cx, Instant::now(), &mut None)).await.unwrap();
    drop(toy);
    peer.join().unwrap()
}

/// Returns bodies from bytes, a file and all kinds of pieces, with the expected result.
fn bodies(length: usize) -> (Vec<(u8, Body)>, BTreeMap<u8, Received>) {
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
        (4, received(Vec::new(), "")),
    ];
    (bodies, expected.into())
}

#[tokio::test]
async fn concurrent_bodies_arrive_complete_with_any_window() {
    for (window, length) in
        [(1, 300), (10, 3000), (65_536, 100), (65_536, 2_000_000), (u64::MAX >> 1, 2_000_000)]
    {
        let (bodies, expected) = bodies(length);
        assert_eq!(send(window, bodies).await, expected, "windows of {window} bytes");
    }
}

/// If all bodies are always ready, each stream sends as much as the others in a poll.
#[tokio::test]
async fn streams_take_turns() {
    let (ours, mut peer) = pair().await;
    let large = || Body::Bytes(pattern(0, 1 << 20).into());
    let mut toy = Toy::new(ours, 1 << 20, [(1, large()), (2, large())]);
    assert!(toy.poll(&mut Context::from_waker(Waker::noop()), Instant::now(), &mut None).is_pending());
    let mut head = [0; 6];
    let numbers = [(); 4].map(|()| {
        peer.read_exact(&mut head).unwrap();
        peer.read_exact(&mut [0; 16 * 1024]).unwrap();
        head[1]
    });
    assert_eq!(numbers, [1, 2, 1, 2]);
}

#[tokio::test]
async fn a_failing_stream_does_not_affect_the_others() {
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
    expected.insert(9, Received { body: Vec::new(), end: Some("reset".to_owned()) });
    assert_eq!(send(65_536, bodies).await, expected);
}

/// A file that is shorter than its range from the start, within a frame, and one that shrinks behind what is sent.
#[tokio::test]
async fn a_file_that_shrinks_ends_only_its_stream() {
    let (mut bodies, mut expected) = bodies(100_000);
    let shrunk = |size, range: FileRange| {
        range.file.set_len(size).unwrap();
        Body::File(range)
    };
    let content = pattern(9, 50_000);
    bodies.insert(0, (5, Body::File(range(b"short", 0, 100))));
    bodies.insert(2, (6, shrunk(40_000, range(&content, 0, 50_000))));
    bodies.push((7, shrunk(49_999, range(&content, 0, 10))));
    let sent: [(u8, &[u8]); 3] = [(5, b"short"), (6, b""), (7, b"")];
    expected.extend(
        sent.map(|(number, sent)| (number, Received { body: sent.to_vec(), end: Some("reset".to_owned()) })),
    );
    assert_eq!(send(65_536, bodies).await, expected);
}

/// A file that grows and is touched while it is sent.
#[tokio::test]
async fn a_growing_file_is_sent_as_announced() {
    let content = pattern(9, 1 << 20);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let range = range_of(file.try_clone().unwrap(), 0, 1 << 20);
    let (ours, peer) = pair().await;
    let mut toy = Toy::new(ours, 1 << 30, [(1, Body::File(range))]);
    assert!(toy.poll(&mut Context::from_waker(Waker::noop()), Instant::now(), &mut None).is_pending());
    file.write_all(b"more").unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let peer = std::thread::spawn(move || receive(peer));
    poll_fn(|cx| toy.poll(cx, Instant::now(), &mut None)).await.unwrap();
    drop(toy);
    assert_eq!(peer.join().unwrap()[&1], Received { body: content, end: Some(String::new()) });
}

/// The rest of a partially sent frame comes first, even if its stream is dropped in between.
#[tokio::test]
async fn frames_never_interleave() {
    let kinds =
        || [Body::Bytes(pattern(1, 1 << 20).into()), Body::File(range(&pattern(1, 1 << 20), 0, 1 << 20))];
    for body in kinds() {
        let (ours, peer) = pair().await;
        let sock = socket2::SockRef::from(&ours);
        sock.set_send_buffer_size(4096).unwrap();
        let mut toy = Toy::new(ours, 1 << 20, [(1, body), (2, Body::Bytes(pattern(2, 100_000).into()))]);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(toy.poll(cx, Instant::now(), &mut None).is_pending());
        // The peer does not read, so a frame is partially sent.
        let dropped = toy.streams.iter().position(|stream| stream.number == 1).unwrap();
        toy.streams.remove(dropped);
        toy.output.push(&mut BytesMut::from(&[RESET, 1, 0, 0, 0, 0][..]), Vec::new());
        let peer = std::thread::spawn(move || receive(peer));
        poll_fn(|cx| toy.poll(cx, Instant::now(), &mut None)).await.unwrap();
        drop(toy);
        let received = peer.join().unwrap();
        let first = &received[&1];
        assert_eq!(first.end.as_deref(), Some("reset"));
        assert!(first.body.len() % (16 * 1024) == 0 && pattern(1, 1 << 20).starts_with(&first.body));
        assert_eq!(received[&2], Received { body: pattern(2, 100_000), end: Some(String::new()) });
    }
}

#[tokio::test]
async fn a_stream_without_a_window_does_not_block_the_others_and_has_a_deadline() {
    let (ours, mut peer) = pair().await;
    let mut toy = Toy::new(ours, 5, [(1, Body::Bytes("blocked".into())), (2, Body::Bytes("whole".into()))]);
    let (cx, start) = (&mut Context::from_waker(Waker::noop()), Instant::now());
    let mut due = None;
    let mut frames = |expected: &[&[u8]]| {
        let mut bytes = vec![0; expected.concat().len()];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected.concat());
    };
    assert!(toy.poll(cx, start, &mut due).is_pending());
    frames(&[b"D\x01\0\0\0\x05block", b"D\x02\0\0\0\x05whole", b"E\x02\0\0\0\0"]);
    assert_eq!(due, Some(start + toy.limits.send_stall_timeout));
    let late = start + toy.limits.send_stall_timeout;
    assert!(toy.poll(cx, start, &mut due).is_pending());
    assert!(toy.poll(cx, late, &mut due).is_ready());
    frames(&[b"R\x01\0\0\0\0"]);
}
