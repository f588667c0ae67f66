//! What a client can make its connection do in one poll, in which the other connections of the core wait.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;
use http_body::Body as _;
use rudy_service::{Body, Limits, Reply, RequestBody, Response};

use super::harness::Harness;
use super::http2::{DATA, END, END_HEADERS, GOAWAY, HEADERS, PING, Pair, WINDOW_UPDATE, frame, head};

/// More than a poll may handle.
const REQUESTS: usize = 2000;

/// A poll handles 128 requests, and no more that arrive with the last of them in one read.
const REQUESTS_IN_POLL: usize = 128;

/// A server that counts its calls, and responds with a body of this size.
fn counting(body_bytes: usize, is_later: bool) -> (Harness, Arc<AtomicUsize>) {
    let calls = Arc::<AtomicUsize>::default();
    let counter = calls.clone();
    let harness = Harness::new(Limits::default(), move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(StatusCode::OK);
        response.body = Body::Bytes(Bytes::from(vec![b'x'; body_bytes]));
        if is_later { Reply::Later(Box::pin(std::future::ready(response))) } else { response.into() }
    });
    (harness, calls)
}

/// Sends requests, and polls the connection until all are handled. Returns the largest number in one poll.
async fn most_in_a_poll(pair: &mut Pair, requests: &[u8], calls: &AtomicUsize) -> usize {
    let (mut most, mut rest) = (0, requests);
    while calls.load(Ordering::Relaxed) < REQUESTS {
        while let Ok(written @ 1..) = pair.client.write(rest) {
            rest = &rest[written..];
        }
        let before = calls.load(Ordering::Relaxed);
        assert!(pair.turn().await);
        most = most.max(calls.load(Ordering::Relaxed) - before);
    }
    most
}

/// Whether the responses are there at once or in the first poll of the handler, and whatever their size is.
#[tokio::test]
async fn no_connection_delays_another_by_more_than_one_budget_of_pipelined_requests() {
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na";
    for request in [&get[..], &post[..]] {
        for (body_bytes, is_later) in [(0, false), (0, true), (10_000, false), (100_000, false)] {
            let (harness, calls) = counting(body_bytes, is_later);
            let most = most_in_a_poll(&mut Pair::open(&harness), &request.repeat(REQUESTS), &calls).await;
            let expected = REQUESTS_IN_POLL.min(512 * 1024 / body_bytes.max(1) + 1);
            assert!((1..=expected).contains(&most), "{body_bytes} {is_later}: {most}");
        }
    }
}

#[tokio::test]
async fn no_connection_delays_another_by_more_than_one_budget_of_http2_requests() {
    // With more, the client would open more streams than it may.
    for body_bytes in [0, 100] {
        let (harness, calls) = counting(body_bytes, false);
        let mut pair = Pair::open_http2(&harness).await;
        // For all that the server sends.
        let window = frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes());
        let request = |number| frame(HEADERS, END | END_HEADERS, 2 * number + 1, &head("GET"));
        let requests = (0..u32::try_from(REQUESTS).unwrap()).flat_map(request);
        let requests: Vec<_> = window.into_iter().chain(requests).collect();
        let most = most_in_a_poll(&mut pair, &requests, &calls).await;
        assert!((1..=REQUESTS_IN_POLL).contains(&most), "{body_bytes}: {most}");
        // None is lost.
        while pair.received.len() < REQUESTS * body_bytes {
            assert!(pair.turn().await);
        }
        assert_eq!(calls.load(Ordering::Relaxed), REQUESTS);
    }
}

/// A service that takes all there is, in its own task.
#[tokio::test]
async fn no_connection_delays_another_by_more_than_one_budget_of_an_upload() {
    let discard = |body: RequestBody| async move {
        let mut body = std::pin::pin!(body);
        while std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await.is_some() {}
        Response::new(StatusCode::OK)
    };
    let harness = Harness::new(Limits::default(), move |request, _| {
        Reply::Later(Box::pin(discard(request.into_body())))
    });
    let mut pair = Pair::open(&harness);
    let bytes = 4 << 20;
    let upload = [
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(),
        &vec![0; bytes],
    ]
    .concat();
    let mut rest = &upload[..];
    while pair.received.is_empty() {
        while let Ok(written @ 1..) = pair.client.write(rest) {
            rest = &rest[written..];
        }
        let before = harness.worker.counters.received_bytes.get();
        assert!(pair.turn().await);
        assert!(harness.worker.counters.received_bytes.get() - before <= 600 * 1024);
    }
}

/// Each packet wakes the connection, whose work depends on its streams.
#[tokio::test]
async fn packets_without_a_whole_frame_end_the_connection() {
    let mut limits = Limits::default();
    limits.http.http2.control_frames = 100;
    for (name, input) in [
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("a head", frame(HEADERS, END, 1, &[0x82; 200])),
        ("a body", [frame(HEADERS, END_HEADERS, 1, &head("POST")), frame(DATA, 0, 1, &[0; 10_000])].concat()),
    ] {
        let harness = Harness::new(limits.clone(), |_, _| Reply::Later(Box::pin(std::future::pending())));
        let mut pair = Pair::open_http2(&harness).await;
        let mut packets = 0;
        while packets < 1000 && !pair.frames().iter().any(|(kind, ..)| *kind == GOAWAY) {
            pair.send(&[input[packets % input.len()]]).await;
            packets += 1;
        }
        assert!((100..200).contains(&packets), "{name}: {packets}");
    }
}

/// The head of a frame in a packet of its own; the smallest packets of a body; a slow terminal in a tunnel.
#[tokio::test]
async fn packets_of_normal_clients_do_not_end_the_connection() {
    let mut limits = Limits::default();
    limits.http.http2.control_frames = 100;
    for (piece_bytes, packet_bytes) in [(100, 9), (10_000, 256), (1, 10)] {
        let harness = Harness::new(limits.clone(), |_, _| Reply::Later(Box::pin(std::future::pending())));
        let mut pair = Pair::open_http2(&harness).await;
        pair.send(&frame(HEADERS, END_HEADERS, 1, &head("POST"))).await;
        for _ in 0..60_000 / piece_bytes.max(100) {
            let data = frame(DATA, 0, 1, &vec![0; piece_bytes]);
            let (start, rest) = data.split_at(packet_bytes);
            pair.send(start).await;
            for packet in rest.chunks(packet_bytes.max(100)) {
                pair.send(packet).await;
            }
        }
        assert!(pair.turn().await);
        assert!(!pair.frames().iter().any(|(kind, ..)| *kind == GOAWAY), "{piece_bytes}");
    }
}
