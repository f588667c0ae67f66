//! A wake-up does work only for the streams that it concerns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::StatusCode;
use parking_lot::Mutex;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, Limits, Reply, Response};

use super::harness::Harness;
use super::http2::{DATA, END, END_HEADERS, HEADERS, PING, Pair, SETTINGS, WINDOW_UPDATE, frame, head};

/// As many as a connection may have by default.
const STREAMS: u32 = 100;

/// A service or a body for each stream, which waits until it is ready.
#[derive(Default)]
struct Waiting {
    polls: AtomicUsize,
    streams: Mutex<Vec<(bool, Waker)>>,
}

impl Waiting {
    /// Whether the stream with this index is ready.
    fn poll(&self, index: usize, cx: &Context<'_>) -> bool {
        self.polls.fetch_add(1, Ordering::Relaxed);
        let (is_ready, waker) = &mut self.streams.lock()[index];
        waker.clone_from(cx.waker());
        *is_ready
    }

    fn add(&self) -> usize {
        let mut streams = self.streams.lock();
        streams.push((false, Waker::noop().clone()));
        streams.len() - 1
    }

    fn finish(&self, index: usize) {
        let mut streams = self.streams.lock();
        streams[index].0 = true;
        streams[index].1.wake_by_ref();
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }
}

/// A body without length that ends when it is ready.
struct WaitingBody(Arc<Waiting>, usize);

impl BodyStream for WaitingBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        if self.0.poll(self.1, cx) { Poll::Ready(None) } else { Poll::Pending }
    }

    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        self.0.poll(self.1, cx);
        Poll::Pending
    }
}

/// A server with services that wait, or with bodies that wait.
fn server(has_bodies: bool) -> (Harness, Arc<Waiting>) {
    let waiting = Arc::<Waiting>::default();
    let shared = waiting.clone();
    let harness = Harness::new(Limits::default(), move |_, _| {
        let (waiting, index) = (shared.clone(), shared.add());
        let mut response = Response::new(StatusCode::OK);
        if has_bodies {
            response.body = Body::Stream(Box::new(WaitingBody(waiting, index)));
            return response.into();
        }
        let mut response = Some(response);
        Reply::Later(Box::pin(std::future::poll_fn(move |cx| {
            if waiting.poll(index, cx) { Poll::Ready(response.take().unwrap()) } else { Poll::Pending }
        })))
    });
    (harness, waiting)
}

async fn send_requests(pair: &mut Pair) {
    let request = |number| frame(HEADERS, END | END_HEADERS, 2 * number + 1, &head("GET"));
    pair.send(&(0..STREAMS).flat_map(request).collect::<Vec<_>>()).await;
    while pair.turn().await && pair.is_woken() {}
}

#[tokio::test]
async fn a_wake_up_does_work_only_for_the_streams_that_it_concerns() {
    for has_bodies in [false, true] {
        let (harness, waiting) = server(has_bodies);
        let mut pair = Pair::open_http2(&harness).await;
        send_requests(&mut pair).await;
        assert_eq!(waiting.polls(), STREAMS as usize);
        pair.frames();
        // Neither a frame nor a wake-up of the connection concerns a stream.
        pair.send(&frame(PING, 0, 0, &[0; 8])).await;
        assert!(pair.turn().await);
        assert_eq!(waiting.polls(), STREAMS as usize, "{has_bodies}");
        for index in [70, 3] {
            pair.frames();
            let before = waiting.polls();
            waiting.finish(index);
            assert!(pair.is_woken() && pair.turn().await);
            assert_eq!(waiting.polls(), before + 1, "{has_bodies}");
            let last = pair.frames().pop().map(|(kind, stream, _)| (kind, stream as usize));
            assert_eq!(last, Some((if has_bodies { DATA } else { HEADERS }, 2 * index + 1)));
        }
    }
}

/// Such packets are no frames, which are counted.
#[tokio::test]
async fn packets_of_a_byte_poll_no_body_that_has_no_window() {
    let (harness, waiting) = server(true);
    let mut pair = Pair::open_http2(&harness).await;
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await;
    send_requests(&mut pair).await;
    // Each may read ahead.
    assert_eq!(waiting.polls(), STREAMS as usize);
    for byte in frame(PING, 0, 0, &[0; 8]) {
        pair.send(&[byte]).await;
        assert!(pair.turn().await);
    }
    assert_eq!(waiting.polls(), STREAMS as usize);
    let window = |stream: u32, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    pair.send(&window(2 * 50 + 1, 1)).await;
    assert_eq!(waiting.polls(), STREAMS as usize + 1);
    pair.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 9])).await;
    assert_eq!(waiting.polls(), 2 * STREAMS as usize);
    waiting.finish(50);
    pair.frames();
    assert!(pair.is_woken() && pair.turn().await);
    assert_eq!(pair.frames(), [(DATA, 2 * 50 + 1, Vec::new())]);
}
