//! The client side of HTTP/2 against the server of the crate `h2`, in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod client;
#[path = "../h2_pair/mod.rs"]
mod h2_pair;
mod schedules;
mod server;

use h2::Reason;
use h2::server::Builder;
use http::{HeaderMap, HeaderValue, Method};
use rudy_http::Limits;
use rudy_http::h2::ErrorCode;

use crate::client::{Call, End, Outcome, make};
use crate::h2_pair::{PATIENCE, TRANSIT_BYTES, trailers};
use crate::server::{Action, Served, serve};

/// Runs the client against a server, which acts when a number of requests have arrived.
async fn run(
    calls: &[Call],
    limits: Limits,
    builder: &Builder,
    actions: &[(usize, Action)],
) -> (Outcome, Served) {
    let (client_io, server_io) = tokio::io::duplex(TRANSIT_BYTES);
    let server = tokio::spawn(serve(server_io, builder.clone(), actions.to_vec()));
    let both = async { (make(client_io, calls, limits).await, server.await.unwrap()) };
    tokio::time::timeout(PATIENCE, both).await.expect("the exchange ends")
}

/// Runs the client, and expects that each call ends without an error of the connection.
async fn run_all(calls: &[Call], builder: &Builder, actions: &[(usize, Action)]) -> (Outcome, Served) {
    let (outcome, served) = run(calls, Limits::for_responses(), builder, actions).await;
    assert_eq!(outcome.error, None);
    assert!(served.error.is_none(), "{:?}", served.error);
    assert!(outcome.replies.iter().all(|reply| reply.end.is_some()), "{:?}", outcome.replies);
    (outcome, served)
}

/// The windows of the protocol at its start.
fn small_windows() -> Limits {
    let mut limits = Limits::for_responses();
    limits.http2.stream_window_bytes = 65_535;
    limits.http2.connection_window_bytes = 65_535;
    limits
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|number| number.to_le_bytes()[1]).collect()
}

#[tokio::test]
async fn responses_with_and_without_a_length_or_content() {
    let cases = [
        (Call::get("/size/0"), 200, 0),
        (Call::get("/size/5"), 200, 5),
        (Call::get("/stream/300000"), 200, 300_000),
        (Call::new(Method::HEAD, "/size/1000"), 200, 0),
        (Call::new(Method::HEAD, "/stream/9"), 200, 0),
        (Call::get("/status/204"), 204, 0),
        (Call::get("/status/304"), 304, 0),
        (Call::get("/status/599"), 599, 0),
    ];
    let calls = cases.clone().map(|(call, ..)| call);
    let (outcome, _) = run_all(&calls, &Builder::new(), &[]).await;
    for ((call, status, bytes), reply) in cases.iter().zip(&outcome.replies) {
        assert_eq!((reply.status, reply.body.len()), (*status, *bytes), "{call:?}");
        assert_eq!(reply.end, Some(End::Whole));
    }
    assert_eq!(outcome.replies[3].fields["content-length"], "1000");
}

#[tokio::test]
async fn bodies_larger_than_all_windows_and_trailers_in_both_directions() {
    let mut calls = Vec::new();
    for bytes in [0, 1, 65_535, 65_536, 3_000_000] {
        let call = Call::post("/echo", content(bytes));
        calls.extend([
            call.clone(),
            call.clone().with_trailers(trailers()),
            call.with_trailers(HeaderMap::new()),
        ]);
    }
    for limits in [Limits::for_responses(), small_windows()] {
        let (outcome, served) = run(&calls, limits, &Builder::new(), &[]).await;
        assert!(outcome.error.is_none() && served.error.is_none(), "{:?} {:?}", outcome.error, served.error);
        for (call, reply) in calls.iter().zip(&outcome.replies) {
            assert!(reply.body == call.body, "{}", call.body.len());
            assert_eq!(reply.trailers.clone().unwrap_or_default(), call.trailers);
            assert_eq!(reply.end, Some(End::Whole));
        }
    }
}

#[tokio::test]
async fn interim_responses_precede_the_response() {
    let (outcome, _) = run_all(&[Call::get("/interim/9")], &Builder::new(), &[]).await;
    let reply = &outcome.replies[0];
    assert_eq!((&reply.interims[..], reply.status, reply.body.len()), (&[100, 103][..], 200, 9));
}

/// The server refuses only those above its limit that were sent before its settings arrived.
#[tokio::test]
async fn many_requests_beyond_the_concurrent_streams() {
    let calls: Vec<Call> =
        (0..500).map(|number| Call::get(&format!("/size/{}", number % 7 * 1000))).collect();
    let (outcome, served) = run_all(&calls, Builder::new().max_concurrent_streams(5), &[]).await;
    for (number, reply) in outcome.replies.iter().enumerate() {
        assert_eq!((reply.end, reply.body.len()), (Some(End::Whole), number % 7 * 1000));
    }
    let attempts: usize = outcome.replies.iter().map(|reply| reply.attempts).sum();
    assert!((501..=500 + 95).contains(&attempts), "{attempts}");
    assert_eq!(served.requests.len(), 500);
}

#[tokio::test]
async fn requests_that_the_server_refuses_are_repeated() {
    let calls = [Call::get("/refuse/2"), Call::post("/refuse/3", content(200_000))];
    let (outcome, _) = run_all(&calls, &Builder::new(), &[]).await;
    let attempts = outcome.replies.iter().map(|reply| (reply.attempts, reply.status));
    assert_eq!(attempts.collect::<Vec<_>>(), [(3, 200), (4, 200)]);
}

#[tokio::test]
async fn requests_that_the_client_cancels() {
    let mut calls = vec![Call::get("/hang").cancelled_after(0); 20];
    calls.extend(vec![Call::post("/echo", content(300_000)).cancelled_after(100_000); 5]);
    calls.extend(vec![Call::get("/size/1000000").cancelled_after(1); 20]);
    calls.push(Call::get("/size/500000"));
    let (outcome, served) = run_all(&calls, &Builder::new(), &[]).await;
    let (last, cancelled) = outcome.replies.split_last().unwrap();
    assert!(cancelled.iter().all(|reply| reply.end == Some(End::Cancelled)), "{cancelled:?}");
    assert_eq!(last.body.len(), 500_000);
    assert!(served.cancelled.iter().all(|code| *code == Reason::CANCEL), "{:?}", served.cancelled);
}

/// More than either side remembers (RFC 9113 §5.1).
#[tokio::test]
async fn many_requests_that_the_client_cancels_at_once() {
    let mut calls = vec![Call::get("/size/1").cancelled_after(0); 1000];
    calls.push(Call::get("/size/9"));
    let mut builder = Builder::new();
    builder.max_pending_accept_reset_streams(10_000).max_concurrent_streams(2000);
    let (outcome, _) = run_all(&calls, &builder, &[]).await;
    assert_eq!(outcome.replies[1000].body.len(), 9);
}

#[tokio::test]
async fn streams_that_the_server_resets() {
    let calls = [vec![Call::get("/reset"); 10], vec![Call::get("/size/9")]].concat();
    let (outcome, _) = run_all(&calls, &Builder::new(), &[]).await;
    let (last, reset) = outcome.replies.split_last().unwrap();
    assert!(reset.iter().all(|reply| reply.end == Some(End::Reset(ErrorCode::INTERNAL_ERROR))), "{reset:?}");
    assert_eq!(last.body.len(), 9);
}

/// The response is complete, and the server resets the stream because it does not read the request (RFC 9113 §8.1).
#[tokio::test]
async fn early_responses() {
    let calls = vec![Call::post("/early/100", content(500_000)); 20];
    let (outcome, _) = run_all(&calls, &Builder::new(), &[]).await;
    for reply in &outcome.replies {
        assert_eq!((reply.end, reply.body.len()), (Some(End::Whole), 100));
    }
}

/// RFC 9113 §6.8: the requests in transit are answered, and the client sends no later ones.
#[tokio::test]
async fn a_server_that_shuts_down_loses_nothing() {
    let calls = vec![Call::post("/echo", content(10_000)); 150];
    let mut builder = Builder::new();
    builder.max_concurrent_streams(20);
    let actions = [(10, Action::ShutDown)];
    let (outcome, served) = run(&calls, Limits::for_responses(), &builder, &actions).await;
    assert_eq!((outcome.error, outcome.go_away), (None, Some(ErrorCode::NO_ERROR)));
    let answered = outcome.replies.iter().filter(|reply| reply.end == Some(End::Whole)).count();
    assert!(answered >= 10 && answered == served.requests.len(), "{answered} {}", served.requests.len());
    assert!(outcome.replies.iter().all(|reply| matches!(reply.end, None | Some(End::Whole))));
}

/// The requests above the last stream are known not to be processed, so that they can be repeated on another connection.
#[tokio::test]
async fn requests_above_the_last_stream_are_repeated() {
    let mut calls: Vec<Call> = (0..90).map(|number| Call::get(&format!("/size/{number}"))).collect();
    let (mut served, mut connections) = (Vec::new(), 0);
    while !calls.is_empty() {
        let (outcome, seen) =
            run(&calls, Limits::for_responses(), &Builder::new(), &[(20, Action::Abort)]).await;
        assert_eq!(outcome.error, None);
        served.extend(seen.requests);
        connections += 1;
        let is_refused = |call: &Call| !served.contains(&call.path);
        let unanswered = calls.iter().zip(&outcome.replies).filter(|(_, reply)| reply.end.is_none());
        calls = unanswered.map(|(call, _)| call.clone()).filter(is_refused).collect();
    }
    served.sort();
    served.dedup();
    assert_eq!((served.len(), connections), (90, 5));
}

#[tokio::test]
async fn windows_that_change_during_bodies() {
    let calls: Vec<Call> = (0..60).map(|_| Call::post("/echo", content(150_000))).collect();
    for windows in [&[0, 100_000][..], &[1000, 1_000_000], &[65_536, 0, 5_000_000]] {
        let actions = [1, 20, 40].map(|requests| (requests, Action::Windows(windows.to_vec())));
        let (outcome, served) = run_all(&calls, Builder::new().max_concurrent_streams(10), &actions).await;
        assert!(outcome.replies.iter().all(|reply| reply.body == content(150_000)), "{windows:?}");
        assert!(served.pongs >= windows.len(), "{windows:?}");
    }
}

/// The settings arrive after the first header blocks, which use the table at its default size.
#[tokio::test]
async fn tables_of_header_fields_of_any_size() {
    for bytes in [0, 1, 100, 4096, 65_536] {
        let calls: Vec<Call> = (0..200)
            .map(|number| {
                let mut call = Call::get("/size/9");
                call.fields.insert("x-number", HeaderValue::from(number % 9));
                call.fields.insert("x-large", HeaderValue::try_from("v".repeat(number)).unwrap());
                call
            })
            .collect();
        let (outcome, _) = run_all(&calls, Builder::new().header_table_size(bytes), &[]).await;
        assert!(outcome.replies.iter().all(|reply| reply.body.len() == 9), "{bytes}");
        // The names and values arrive whole, without the pseudo-fields.
        for (number, reply) in outcome.replies.iter().enumerate() {
            assert_eq!(reply.fields["x-head-bytes"], (8 + 1 + 7 + number).to_string(), "{bytes}");
        }
    }
}

#[tokio::test]
async fn pings_are_acknowledged() {
    let calls = vec![Call::post("/echo", content(100_000)); 5];
    let (_, served) = run_all(&calls, &Builder::new(), &[(1, Action::Ping)]).await;
    assert_eq!(served.pongs, 1);
}

#[tokio::test]
async fn header_lists_above_the_limits() {
    let mut large = Call::get("/size/1");
    large.fields.insert("large", HeaderValue::try_from("v".repeat(20_000)).unwrap());
    let calls = [Call::get("/head/60000"), Call::get("/head/70000"), large, Call::get("/size/9")];
    let (outcome, _) = run_all(&calls, Builder::new().max_header_list_size(10_000), &[]).await;
    let ends: Vec<_> = outcome.replies.iter().map(|reply| (reply.status, reply.end.unwrap())).collect();
    let too_large = End::Reset(ErrorCode::ENHANCE_YOUR_CALM);
    assert_eq!(ends, [(200, End::Whole), (0, too_large), (431, End::Whole), (200, End::Whole)]);
    // Twice the limit is not even decoded.
    let calls = [Call::get("/head/200000")];
    let (outcome, _) = run(&calls, Limits::for_responses(), &Builder::new(), &[]).await;
    assert_eq!(outcome.error.map(|error| error.code), Some(ErrorCode::ENHANCE_YOUR_CALM));
}
