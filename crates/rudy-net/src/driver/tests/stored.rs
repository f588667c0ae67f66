//! Request bodies over HTTP/2 that no service reads.

use std::io::Write;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body::Body as _;
use rudy_service::{Limits, Reply, Response};

use super::harness::Harness;
use super::http2::{DATA, END, END_HEADERS, HEADERS, Pair, WINDOW_UPDATE, frame, head};

/// The window of a stream.
const BODY_BYTES: usize = 65_535;

/// A POST with a body on this stream, whose end is to come.
fn post(stream: u32, body_bytes: usize) -> Vec<u8> {
    let data = vec![0; body_bytes];
    let data = data.chunks(16_384).flat_map(|data| frame(DATA, 0, stream, data));
    frame(HEADERS, END_HEADERS, stream, &head("POST")).into_iter().chain(data).collect()
}

#[tokio::test]
async fn bodies_of_all_connections_together_are_bounded() {
    let mut limits = Limits::default();
    limits.http.http2.windows_total_bytes = 100_000;
    let (sender, bodies) = channel();
    let harness = Harness::new(limits, move |request, _| {
        sender.send(request.into_body()).unwrap();
        Reply::Later(Box::pin(std::future::pending::<Response>()))
    });
    let uploads: Vec<_> = (0..3).map(|number| post(2 * number + 1, BODY_BYTES)).collect();
    let mut pairs = Vec::new();
    for _ in 0..20 {
        let mut pair = Pair::open_http2(&harness).await;
        let mut rest = &uploads.concat()[..];
        for _ in 0..20 {
            if let Ok(written @ 1..) = pair.client.write(rest) {
                rest = &rest[written..];
            }
            assert!(pair.turn().await);
        }
        pairs.push(pair);
    }
    let stored = |pairs: &[Pair]| pairs.iter().map(Pair::unread).sum::<u64>();
    let received = harness.worker.counters.received_bytes.get();
    // The limit, the share of each connection, one read, and the heads.
    assert!(received <= 100_000 + 20 * 16_384 + 65_536 + 20 * 100, "{received}");
    assert!(stored(&pairs) > 0 && harness.worker.counters.paused.get() >= 10);
    // A small request of another client is not affected.
    let mut other = Pair::open_http2(&harness).await;
    other.send(&[post(1, 10_000), frame(DATA, END, 1, b"")].concat()).await;
    assert_eq!(other.unread(), 0);
    // When the services read, all that was sent arrives.
    let mut read = Vec::new();
    while stored(&pairs) > 0 {
        read.extend(bodies.try_iter());
        for body in &mut read {
            while let Poll::Ready(Some(Ok(_))) =
                Pin::new(&mut *body).poll_frame(&mut Context::from_waker(Waker::noop()))
            {}
        }
        for pair in &mut pairs {
            assert!(pair.turn().await);
        }
    }
}

/// A connection that is over gives back what it has stored.
#[tokio::test]
async fn connections_that_end_make_room_for_others() {
    let mut limits = Limits::default();
    limits.http.http2.windows_total_bytes = 10_000;
    let harness = Harness::new(limits, |_, _| Reply::Later(Box::pin(std::future::pending::<Response>())));
    for _ in 0..5 {
        let mut pair = Pair::open_http2(&harness).await;
        pair.send(&post(1, 60_000)[..40_000]).await;
        assert_eq!(pair.unread(), 0);
    }
}

/// Otherwise, a service that holds what it has taken would be counted as one that reads.
#[tokio::test]
async fn a_piece_is_stored_until_the_service_requests_the_next() {
    let (sender, bodies) = channel();
    let harness = Harness::new(Limits::default(), move |request, _| {
        sender.send(request.into_body()).unwrap();
        Reply::Later(Box::pin(std::future::pending::<Response>()))
    });
    let mut pair = Pair::open_http2(&harness).await;
    pair.send(&post(1, BODY_BYTES)).await;
    let mut body = bodies.recv().unwrap();
    let mut next = || Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
    let updates = |pair: &mut Pair| pair.frames().iter().any(|(kind, ..)| *kind == WINDOW_UPDATE);
    updates(&mut pair);
    assert!(next().is_pending());
    assert!(pair.turn().await);
    let Poll::Ready(Some(Ok(piece))) = next() else { panic!("a piece") };
    assert!(pair.turn().await);
    assert!(!updates(&mut pair));
    assert_eq!(piece.into_data().unwrap().len(), BODY_BYTES);
    assert!(next().is_pending());
    assert!(pair.turn().await);
    assert!(updates(&mut pair));
}

/// While its connection reads nothing, a client is not slow.
#[tokio::test]
async fn a_pause_is_not_the_fault_of_the_client() {
    let mut limits = Limits::default();
    limits.http.http2.windows_total_bytes = 0;
    limits.http.rate_grace = Duration::ZERO;
    let (sender, bodies) = channel();
    let harness = Harness::new(limits, move |request, _| {
        sender.send(request.into_body()).unwrap();
        Reply::Later(Box::pin(std::future::pending::<Response>()))
    });
    let mut pair = Pair::open_http2(&harness).await;
    pair.send(&post(1, 40_000)[..30_000]).await;
    let _stored = bodies.recv().unwrap();
    pair.client.write_all(&post(3, 10)).unwrap();
    for _ in 0..10 {
        assert!(pair.turn().await);
    }
    assert!(pair.unread() > 0);
    assert!(!pair.frames().iter().any(|(kind, ..)| *kind == HEADERS), "no response, such as 408");
}
