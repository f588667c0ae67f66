//! HTTP/2 over a socket pair, on a connection that the test polls.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http::StatusCode;
use http_body::Body as _;
use rudy_http::h2::PREFACE;
use rudy_http::h2::hpack::encode_stateless;

use super::harness::{Fixed, Harness};
use crate::driver::Serve;
use crate::transport::unacknowledged;
use crate::{Limits, Reply, Response};

/// Types and flags of frames (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END: u8 = 1;
const END_HEADERS: u8 = 4;

/// Counts how often a connection is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection, with its client.
struct Http2Pair {
    client: UnixStream,
    serving: Serve<Fixed>,
    wakes: Arc<Wakes>,
}

impl Http2Pair {
    /// Opens a connection, which is idle.
    async fn open(harness: &Harness) -> Self {
        let (ours, client) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let serving = harness.serve(tokio::net::UnixStream::from_std(ours).unwrap().into());
        let mut pair = Self { client, serving, wakes: Arc::default() };
        pair.send(&[&PREFACE[..], &frame(SETTINGS, 0, 0, b"")].concat()).await;
        pair
    }

    /// Sends bytes, and polls the connection until it has read them.
    async fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
        while unacknowledged(&self.client).unwrap() > 0 {
            tokio::task::yield_now().await;
            self.poll();
        }
    }

    fn poll(&mut self) {
        let waker = Waker::from(self.wakes.clone());
        assert!(Pin::new(&mut self.serving).poll(&mut Context::from_waker(&waker)).is_pending());
    }
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// Encodes the head of a request.
fn head(method: &str) -> BytesMut {
    let mut block = BytesMut::new();
    for (name, value) in [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/")] {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

#[tokio::test]
async fn a_connection_evicted_as_a_request_arrives_ends_soon() {
    let harness = Harness::new(Limits::default(), |_, _| Response::new(StatusCode::OK).into());
    let mut pair = Http2Pair::open(&harness).await;
    let timers = &harness.worker.timers;
    let (candidates, _) = timers.candidates(0);
    assert!(timers.evict(&candidates[0]));
    pair.send(&frame(HEADERS, END | END_HEADERS, 1, &head("GET"))).await;
    let before = pair.wakes.get();
    // Later than the end of the shutdown, and earlier than that of an idle connection.
    timers.advance(Instant::now() + Duration::from_secs(2));
    assert!(pair.wakes.get() > before);
}

/// The other task takes the last piece of a body, and waits for its end.
#[tokio::test]
async fn a_task_that_reads_a_body_wakes_its_connection() {
    let (sender, bodies) = channel();
    let harness = Harness::new(Limits::default(), move |request, _| {
        sender.send(request.into_body()).unwrap();
        Reply::Later(Box::pin(std::future::pending::<Response>()))
    });
    let mut pair = Http2Pair::open(&harness).await;
    let request = [frame(HEADERS, END_HEADERS, 1, &head("POST")), frame(DATA, END, 1, b"body")].concat();
    pair.send(&request).await;
    let mut body = bodies.recv().unwrap();
    let mut next_frame = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    assert!(next_frame().is_pending());
    pair.poll();
    let before = pair.wakes.get();
    let Poll::Ready(Some(Ok(piece))) = next_frame() else { panic!("the connection has sent the piece") };
    assert_eq!(piece.into_data().unwrap(), "body");
    assert!(next_frame().is_pending());
    assert!(pair.wakes.get() > before);
    pair.poll();
    assert!(matches!(next_frame(), Poll::Ready(None)));
}
