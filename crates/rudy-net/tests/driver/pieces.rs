//! Bodies whose pieces ignore the requested size, and clients that do not read.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, EndReason, FileRange, Limits, Reply, Response};

use crate::scene::Scene;
use crate::service::live_body::LARGE;
use crate::service::{Server, read_to_close, read_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn streamed(body: impl BodyStream + 'static) -> Reply {
    let mut response = Response::new(StatusCode::OK);
    response.body = Body::Stream(Box::new(body));
    response.into()
}

/// Returns its pieces regardless of the requested size, and pauses after each.
struct Resting {
    pieces: VecDeque<BodyPiece>,
    length: Option<u64>,
    rests: bool,
}

impl BodyStream for Resting {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        assert!(max > 0);
        self.rests = !self.rests;
        if self.rests {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Returns pieces larger than the budget of a poll, and around the size that is gathered, and an empty one.
fn pieces() -> VecDeque<BodyPiece> {
    let mut pieces: VecDeque<_> = [2 << 20, 16 * 1024, 1, 16 * 1024 + 1, 0, 16 * 1024 - 1]
        .map(|length| BodyPiece::Data(Bytes::from(vec![b'x'; length])))
        .into();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let stat = file.metadata().unwrap();
    let modified_ns = i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec());
    let range = FileRange { file: Arc::new(file), start: 0, length: 1 << 20, size: 1 << 20, modified_ns };
    pieces.insert(3, BodyPiece::File(range));
    pieces
}

/// Decodes chunks, and checks every byte between them.
fn decode(mut chunked: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = chunked.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&chunked[..line]).unwrap(), 16).unwrap();
        let chunk = &chunked[line + 2..];
        assert_eq!(&chunk[length..length + 2], b"\r\n", "after a chunk of {length} bytes");
        body.extend_from_slice(&chunk[..length]);
        chunked = &chunk[length + 2..];
        if length == 0 {
            assert!(chunked.is_empty(), "{} bytes after the end", chunked.len());
            return body;
        }
    }
}

#[test]
fn pieces_of_any_size_arrive_complete_with_every_framing() {
    let expected: Vec<u8> = pieces()
        .into_iter()
        .flat_map(|piece| match piece {
            BodyPiece::Data(data) => data.to_vec(),
            BodyPiece::File(range) => vec![0; usize::try_from(range.length).unwrap()],
            BodyPiece::Trailers(_) => Vec::new(),
        })
        .collect();
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let length = expected.len() as u64;
    for (request, length, is_chunked) in
        [(last, None, true), (last, Some(length), false), ("GET / HTTP/1.0\r\n\r\n", None, false)]
    {
        let scene = Scene::start(move |_| streamed(Resting { pieces: pieces(), length, rests: false }));
        let mut stream = scene.send(request);
        let head = read_until(&mut stream, "\r\n\r\n");
        let mut body = Vec::new();
        stream.read_to_end(&mut body).unwrap();
        assert_eq!(head.contains("chunked"), is_chunked, "{head}");
        let body = if is_chunked { decode(&body) } else { body };
        assert!(body == expected, "{head}");
        let outcome = scene.outcomes.recv().unwrap();
        assert_eq!((outcome.end_reason, outcome.body_bytes), (EndReason::Completed, expected.len() as u64));
    }
}

/// A piece that has begun is completed, followed by the end of the body.
#[test]
fn a_stop_during_a_piece_of_a_live_body_completes_the_piece() {
    let server = Server::start(Limits::default());
    let mut stream = server.send("GET /live/large-and-patient HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(&mut stream, "\r\n\r\n");
    // The piece is larger than the socket buffer.
    stream.read_exact(&mut [0; 10]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let reader = std::thread::spawn(move || {
        let mut body = Vec::new();
        stream.read_to_end(&mut body).unwrap();
        body
    });
    assert_eq!(runtime.block_on(server.engine.stop(Duration::from_mins(1))).aborted, 0);
    let rest = reader.join().unwrap();
    assert!(rest.len() >= LARGE.len() - 10 && rest.ends_with(b"xxx\r\n0\r\n\r\n"));
}

/// An endless body that reports when it may read ahead, and gives up the client on demand.
struct ReadingAhead {
    blocked: Sender<Waker>,
    gives_up: Arc<Mutex<bool>>,
}

impl BodyStream for ReadingAhead {
    fn poll_piece(
        &mut self,
        _: &mut Context<'_>,
        _: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let length = LARGE.len().min(usize::try_from(max).unwrap());
        Poll::Ready(Some(Ok(BodyPiece::Data(Bytes::from_static(&LARGE[..length])))))
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _: Instant) -> Poll<()> {
        let _ = self.blocked.send(cx.waker().clone());
        if *self.gives_up.lock().unwrap() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn a_body_reads_ahead_while_its_client_does_not_read() {
    let (blocked, polls) = channel();
    let gives_up = Arc::new(Mutex::new(false));
    let ends = gives_up.clone();
    let scene =
        Scene::start(move |_| streamed(ReadingAhead { blocked: blocked.clone(), gives_up: ends.clone() }));
    let mut stream = scene.send(GET);
    read_until(&mut stream, "\r\n\r\n");
    let waker = polls.recv().unwrap();
    // Its source wakes it for all new data, and each wake-up polls it.
    for _ in 0..5 {
        polls.try_iter().for_each(drop);
        waker.wake_by_ref();
        polls.recv().unwrap();
    }
    *gives_up.lock().unwrap() = true;
    waker.wake();
    assert_eq!(scene.outcomes.recv().unwrap().end_reason, EndReason::PeerStalled);
    assert!(!read_to_close(&mut stream).1);
}
