//! Tests bodies that are compressed while they are sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use rudy_message::semantics::negotiation::Coding;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange};

use super::*;

/// What a source does next.
#[derive(Debug, Clone)]
enum Next {
    Piece(Vec<u8>),
    Trailers(HeaderMap),
    Wait,
    Fail,
}

/// A source that follows a script, and is dropped when nothing needs it.
struct Script {
    steps: VecDeque<Next>,
    length: Option<u64>,
    is_live: bool,
    alive: Arc<()>,
}

impl BodyStream for Script {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        match self.steps.pop_front() {
            None if self.is_live => Poll::Pending,
            None => Poll::Ready(None),
            Some(Next::Piece(bytes)) => Poll::Ready(Some(Ok(BodyPiece::Data(bytes.into())))),
            Some(Next::Trailers(fields)) => Poll::Ready(Some(Ok(BodyPiece::Trailers(fields)))),
            Some(Next::Fail) => Poll::Ready(Some(Err("the app died".into()))),
            Some(Next::Wait) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_live(&self) -> bool {
        self.is_live
    }
}

fn script(steps: impl IntoIterator<Item = Next>) -> Script {
    Script { steps: steps.into_iter().collect(), length: None, is_live: false, alive: Arc::default() }
}

fn compressed(body: Body, coding: Coding) -> CompressedBody<()> {
    let encoder = Encoder::new(coding, 4, body.length(), Effort::Live).unwrap();
    CompressedBody::new(body, encoder, ())
}

fn of_script(script: Script, coding: Coding) -> CompressedBody<()> {
    compressed(Body::Stream(Box::new(script)), coding)
}

fn text(bytes: &str) -> Next {
    Next::Piece(bytes.as_bytes().to_vec())
}

/// All that a body sends: its bytes, its trailers, and whether it ends without an error.
fn all(mut body: CompressedBody<()>) -> (Vec<u8>, Option<HeaderMap>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut bytes, mut trailers) = (Vec::new(), None);
        while let Some(piece) = poll_fn(|cx| body.poll_piece(cx, Instant::now(), u64::MAX)).await {
            match piece {
                Ok(BodyPiece::Data(piece)) => bytes.extend_from_slice(&piece),
                Ok(BodyPiece::Trailers(fields)) => trailers = Some(fields),
                Ok(BodyPiece::File(_)) => panic!("a file is not compressed"),
                Err(_) => return (bytes, trailers, false),
            }
        }
        (bytes, trailers, true)
    })
}

/// Decodes as far as possible. Returns whether the coding is complete.
fn decode(coding: Coding, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut decoder: Box<dyn Read> = match coding {
        Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        Coding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4096)),
        Coding::Identity => Box::new(bytes),
    };
    let (mut plain, mut part) = (Vec::new(), [0; 1024]);
    loop {
        match decoder.read(&mut part) {
            Ok(0) => return (plain, true),
            Ok(length) => plain.extend_from_slice(&part[..length]),
            Err(_) => return (plain, false),
        }
    }
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{number}, ").into_bytes()).collect()
}

#[test]
fn each_message_of_a_stream_arrives_at_once() {
    for coding in Coding::COMPRESSED {
        let messages = ["data: one\n\n", "data: two\n\n", "data: three\n\n"];
        let steps = messages.into_iter().flat_map(|message| [text(message), Next::Wait, Next::Wait]);
        let mut body = of_script(script(steps), coding);
        let mut cx = Context::from_waker(Waker::noop());
        let mut sent = Vec::new();
        for count in 1..=messages.len() {
            let Poll::Ready(Some(Ok(BodyPiece::Data(piece)))) =
                body.poll_piece(&mut cx, Instant::now(), u64::MAX)
            else {
                panic!("message {count} is sent")
            };
            sent.extend_from_slice(&piece);
            assert_eq!(decode(coding, &sent), (messages[..count].concat().into_bytes(), false));
            assert!(body.poll_piece(&mut cx, Instant::now(), u64::MAX).is_pending(), "nothing is sent twice");
        }
        let (rest, _, is_ok) = all(body);
        sent.extend(rest);
        assert_eq!((decode(coding, &sent), is_ok), ((messages.concat().into_bytes(), true), true));
    }
}

#[test]
fn a_failure_is_reported_after_what_precedes_it_and_the_coding_has_no_end() {
    for coding in Coding::COMPRESSED {
        for steps in [vec![text("begun"), Next::Fail], vec![text("begun"), Next::Wait, Next::Fail]] {
            let (sent, _, is_ok) = all(of_script(script(steps), coding));
            assert!(!is_ok);
            assert_eq!(decode(coding, &sent), (b"begun".to_vec(), false), "{coding:?}");
        }
        let (sent, _, is_ok) = all(of_script(script([Next::Fail]), coding));
        assert!(!is_ok && !decode(coding, &sent).1);
    }
}

#[test]
fn a_body_of_another_length_than_announced_fails() {
    for (length, is_complete) in [(4, false), (5, true), (6, false), (0, false)] {
        let source = Script { length: Some(length), ..script([text("he"), Next::Wait, text("llo")]) };
        let (sent, _, is_ok) = all(of_script(source, Coding::Gzip));
        assert_eq!((is_ok, decode(Coding::Gzip, &sent).1), (is_complete, is_complete), "{length}");
    }
}

#[test]
fn trailers_are_passed_on_without_digests_of_the_uncompressed_body() {
    let fields = [("x-time", "3"), ("content-digest", "x"), ("repr-digest", "y"), ("content-md5", "z")];
    let fields: HeaderMap = fields
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
    let (sent, trailers, _) = all(of_script(script([text("body"), Next::Trailers(fields)]), Coding::Gzip));
    assert_eq!(decode(Coding::Gzip, &sent), (b"body".to_vec(), true));
    let names: Vec<_> = trailers.unwrap().keys().cloned().collect();
    assert_eq!(names, ["x-time"]);
}

#[test]
fn a_live_body_that_the_server_ends_is_complete() {
    for coding in Coding::COMPRESSED {
        let source = Script { is_live: true, ..script([text("data: one\n\n")]) };
        let mut body = of_script(source, coding);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(Ok(BodyPiece::Data(first)))) =
            body.poll_piece(&mut cx, Instant::now(), u64::MAX)
        else {
            panic!("the message is sent")
        };
        assert!(body.poll_piece(&mut cx, Instant::now(), u64::MAX).is_pending());
        assert!(body.is_live() && body.end() && !body.is_live());
        let (rest, _, is_ok) = all(body);
        assert!(is_ok);
        assert_eq!(decode(coding, &[&*first, &rest].concat()), (b"data: one\n\n".to_vec(), true));
    }
}

#[test]
fn a_dropped_body_drops_its_source_while_a_piece_is_compressed() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let source = script([Next::Piece(numbers(50_000))]);
    let alive = Arc::downgrade(&source.alive);
    let mut body = of_script(source, Coding::Brotli);
    runtime.block_on(async {
        let first = poll_fn(|cx| Poll::Ready(body.poll_piece(cx, Instant::now(), u64::MAX).is_pending()));
        assert!(first.await, "the thread pool compresses the piece");
        assert!(alive.upgrade().is_some());
        drop(body);
        assert!(alive.upgrade().is_none());
    });
}

fn file(content: &[u8]) -> FileRange {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let metadata = file.metadata().unwrap();
    let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    let size = metadata.size();
    FileRange { file: Arc::new(file), start: 0, length: size, size, modified_ns }
}

#[test]
fn files_and_bytes_are_compressed_piece_by_piece() {
    let content = numbers(100_000);
    for coding in Coding::COMPRESSED {
        for body in [Body::File(file(&content)), Body::Bytes(Bytes::from(content.clone())), Body::Empty] {
            let is_empty = matches!(body, Body::Empty);
            let (sent, _, is_ok) = all(compressed(body, coding));
            let expected = if is_empty { Vec::new() } else { content.clone() };
            assert!(is_ok && decode(coding, &sent) == (expected, true), "{coding:?}");
        }
    }
}

#[test]
fn a_part_of_a_file_between_bytes_is_read_from_its_start() {
    let content = numbers(50_000);
    let part = FileRange { start: 100, length: 200_000, ..file(&content) };
    let pieces = VecDeque::from([
        BodyPiece::Data(Bytes::from_static(b"before")),
        BodyPiece::File(part),
        BodyPiece::Data(Bytes::from_static(b"after")),
    ]);
    let (sent, _, is_ok) = all(compressed(Body::Stream(Box::new(pieces)), Coding::Zstd));
    let expected = [b"before", &content[100..200_100], b"after"].concat();
    assert!(is_ok && decode(Coding::Zstd, &sent) == (expected, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_pieces_at_any_pace_are_decoded_again(
        coding in prop::sample::select(Coding::COMPRESSED.to_vec()),
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), 1_usize..60, any::<bool>()), 0..8),
    ) {
        let (mut steps, mut plain) = (Vec::new(), Vec::new());
        for (piece, times, waits) in pieces {
            let piece = piece.repeat(times);
            plain.extend_from_slice(&piece);
            steps.push(Next::Piece(piece));
            steps.extend(waits.then_some(Next::Wait));
        }
        let (sent, _, is_ok) = all(of_script(script(steps), coding));
        prop_assert!(is_ok);
        prop_assert_eq!(decode(coding, &sent), (plain, true));
    }
}

#[test]
fn no_piece_is_longer_than_the_connection_can_send() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let content = numbers(20_000);
    let mut body = compressed(Body::Bytes(content.clone().into()), Coding::Gzip);
    let mut sent = Vec::new();
    runtime.block_on(async {
        while let Some(piece) = poll_fn(|cx| body.poll_piece(cx, Instant::now(), 100)).await {
            let BodyPiece::Data(piece) = piece.unwrap() else { panic!("bytes") };
            assert!(piece.len() <= 100);
            sent.extend_from_slice(&piece);
        }
    });
    assert!(decode(Coding::Gzip, &sent) == (content, true));
}
