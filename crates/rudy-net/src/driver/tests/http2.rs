//! HTTP/2 over a socket pair, on a connection that the test polls.

use std::io::{self, Read, Write};
use std::net::Shutdown;
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
use rudy_service::{EndReason, Limits, Reply, Response};

use super::harness::{Fixed, Harness};
use crate::driver::Serve;
use crate::driver::http1::PEER_CHECK_INTERVAL;
use crate::transport::unacknowledged;

/// Types and flags of frames (RFC 9113 §6).
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const END: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

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
pub(super) struct Pair {
    pub(super) client: UnixStream,
    serving: Serve<Fixed>,
    wakes: Arc<Wakes>,
    /// What the client has received.
    pub(super) received: Vec<u8>,
}

impl Pair {
    /// Opens a connection, on which nothing is sent.
    pub(super) fn open(harness: &Harness) -> Self {
        let (ours, client) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let serving = harness.serve(tokio::net::UnixStream::from_std(ours).unwrap().into());
        Self { client, serving, wakes: Arc::default(), received: Vec::new() }
    }

    /// Opens an idle connection of HTTP/2.
    pub(super) async fn open_http2(harness: &Harness) -> Self {
        let mut pair = Self::open(harness);
        pair.send(&[&PREFACE[..], &frame(SETTINGS, 0, 0, b"")].concat()).await;
        pair
    }

    /// Sends bytes, and polls the connection until it has read them.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
        while self.unread() > 0 && self.turn().await {}
    }

    /// Returns how much the connection has not read.
    pub(super) fn unread(&self) -> u64 {
        unacknowledged(&self.client).unwrap()
    }

    /// Polls the connection once, when the runtime has seen its socket, and receives what it sends. Returns whether it is open.
    pub(super) async fn turn(&mut self) -> bool {
        tokio::task::yield_now().await;
        let waker = Waker::from(self.wakes.clone());
        let is_open = Pin::new(&mut self.serving).poll(&mut Context::from_waker(&waker)).is_pending();
        let error = self.client.read_to_end(&mut self.received).err();
        assert!(error.is_none_or(|error| error.kind() == io::ErrorKind::WouldBlock));
        is_open
    }

    /// Whether the connection was woken since the last call.
    pub(super) fn is_woken(&self) -> bool {
        self.wakes.0.swap(0, Ordering::Relaxed) > 0
    }

    fn poll(&mut self) {
        let waker = Waker::from(self.wakes.clone());
        assert!(Pin::new(&mut self.serving).poll(&mut Context::from_waker(&waker)).is_pending());
    }

    /// Removes the frames that the client has received: the type of each, its stream, and its payload.
    pub(super) fn frames(&mut self) -> Vec<(u8, u32, Vec<u8>)> {
        let (mut rest, mut frames) = (&self.received[..], Vec::new());
        while let Some((head, payload)) = rest.split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            frames.push((head[3], stream, payload[..length].to_vec()));
            rest = &payload[length..];
        }
        self.received.clear();
        frames
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes the head of a request.
pub(super) fn head(method: &str) -> BytesMut {
    head_for(method, "/")
}

pub(super) fn head_for(method: &str, path: &str) -> BytesMut {
    let mut block = BytesMut::new();
    for (name, value) in [(":method", method), (":scheme", "http"), (":authority", "a.test"), (":path", path)]
    {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut block);
    }
    block
}

#[tokio::test]
async fn a_connection_evicted_as_a_request_arrives_ends_soon() {
    let harness = Harness::new(Limits::default(), |_, _| Response::new(StatusCode::OK).into());
    let mut pair = Pair::open_http2(&harness).await;
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
    let mut pair = Pair::open_http2(&harness).await;
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

/// The end of the input has been read, so that only a query finds out that the client is gone.
#[tokio::test]
async fn a_client_that_resets_after_its_write_side_was_closed_is_noticed_soon() {
    let harness = Harness::new(Limits::default(), |_, _| Reply::Later(Box::pin(std::future::pending())));
    let mut pair = Pair::open_http2(&harness).await;
    pair.send(&frame(HEADERS, END | END_HEADERS, 1, &head("GET"))).await;
    pair.client.shutdown(Shutdown::Write).unwrap();
    assert!(pair.turn().await && pair.is_woken() && pair.turn().await);
    pair.client = UnixStream::pair().unwrap().0;
    pair.wakes.0.store(0, Ordering::Relaxed);
    harness.worker.timers.advance(Instant::now() + 2 * PEER_CHECK_INTERVAL);
    assert!(pair.is_woken());
    let waker = Waker::from(pair.wakes.clone());
    assert!(Pin::new(&mut pair.serving).poll(&mut Context::from_waker(&waker)).is_ready());
    assert_eq!(harness.outcomes.try_recv().unwrap().end_reason, EndReason::PeerGone);
}
