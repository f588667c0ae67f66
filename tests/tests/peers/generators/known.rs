//! Tests with servers of known behavior.

use rudy_tests::prelude::*;

use super::metrics::{Metrics, rudy, show, wrk};
use super::server::Server;

/// `rudy bench` stores three digits of each time, and wrk prints four.
const DIGITS: f64 = 0.999;

fn url(server: &Server) -> String {
    format!("http://{}/", server.address())
}

/// Runs both generators for one second with four connections, each against a separate server, and prints the
/// results.
fn second(expected: &str, server: impl Fn() -> Server, arguments: &[&str]) -> Option<[(Metrics, Server); 2]> {
    let program = program("wrk")?;
    let (ours, theirs) = (server(), server());
    let (our_url, their_url) = (url(&ours), url(&theirs));
    let warm_up = ["--warm-up-time", "0"];
    let (our_metrics, their_metrics) = thread::scope(|scope| {
        let ours =
            scope.spawn(|| rudy(&[&["-c4", "-d1", our_url.as_str()], &warm_up[..], arguments].concat()));
        let theirs = wrk(&program, &[&["-c4", "-d1s", their_url.as_str()], arguments].concat());
        (ours.join().expect("rudy bench has ended well").metrics(), theirs)
    });
    show(expected, &[("rudy bench", &our_metrics), ("wrk", &their_metrics)]);
    Some([(our_metrics, ours), (their_metrics, theirs)])
}

#[test]
fn a_constant_delay_is_the_median() {
    let delay = || Server::delaying(Duration::from_millis(20));
    let expected =
        "a delay of 20 ms: 200 answers at most in a second over four connections, none before 20 ms";
    let Some([(ours, server), (theirs, their_server)]) = second(expected, delay, &[]) else { return };
    assert_eq!((ours.responses, ours.error_responses, ours.broken), (server.requests(), 0, 0));
    assert!(ours.responses <= 200, "{ours:?}");
    assert!(theirs.responses <= their_server.requests(), "{theirs:?}");
    for metrics in [ours, theirs] {
        assert!(metrics.p50_ms >= 20.0 * DIGITS && metrics.p50_ms < 200.0, "{metrics:?}");
    }
}

#[test]
fn every_error_response_is_counted() {
    let failing = || Server::failing_one_in(20);
    let expected = "5 % of answers are 500";
    let Some(runs) = second(expected, failing, &[]) else { return };
    for (index, (metrics, server)) in runs.into_iter().enumerate() {
        let sent = server.requests().div_ceil(20);
        // Requests in flight at the end of wrk got a response from the server, but are not counted.
        let lost = if index == 0 { 0 } else { 4 };
        assert!((sent - lost..=sent).contains(&metrics.error_responses), "{metrics:?}, {sent} were sent");
        assert!((server.requests() - lost..=server.requests()).contains(&metrics.responses), "{metrics:?}");
    }
}

#[test]
fn truncated_bodies_and_reset_connections_do_not_count_as_responses() {
    for (expected, server) in [
        ("bodies cut short: each is a failure", Server::cutting as fn() -> Server),
        ("connections reset: each is a failure", Server::resetting),
    ] {
        let Some([(ours, server), (theirs, their_server)]) = second(expected, server, &[]) else { return };
        assert_eq!((ours.responses, ours.broken), (0, server.requests()), "{ours:?}");
        assert_eq!(theirs.responses, 0);
        assert!((1..=their_server.requests()).contains(&theirs.broken), "{theirs:?}");
    }
}

#[test]
fn a_missing_response_is_a_timeout() {
    // The shortest timeout of wrk is one second, so the run must be longer.
    let Some(program) = program("wrk") else { return };
    let server = Server::silent();
    let theirs = wrk(&program, &["-c4", "-d2s", "--timeout", "1s", &url(&server)]);
    let report = rudy(&["-c4", "-n12", "--timeout", "100ms", &url(&server)]);
    let ours = report.metrics();
    show(
        "no answers: each request is a timeout (of wrk's, none)",
        &[("rudy bench", &ours), ("wrk", &theirs)],
    );
    assert_eq!((ours.responses, ours.timeouts, ours.broken), (0, 12, 0));
    assert!(report.ms("/latency_failed_us/min") >= 100.0 * DIGITS, "{}", report.text);
    // wrk counts a response as late only when it arrives.
    assert_eq!((theirs.responses, theirs.timeouts), (0, 0));
}

/// A stall of 200 ms every 5 s. At a constant rate, 4 % of the requests meet the stall and wait up to 200 ms:
/// 1 % of all for more than 150 ms, and 1 in 1000 for more than 195 ms. Two periods are enough, wherever the
/// run starts.
#[test]
fn a_stall_shows_at_a_constant_rate_and_a_closed_loop_reports_the_omission() {
    let Some(program) = program("wrk") else { return };
    let ms = Duration::from_millis;
    // Slow enough that a closed loop leaves CPU time for the other tests.
    let stalling = || Server::stalling(ms(200), ms(5000), ms(5));
    let [for_open, for_closed, for_wrk] = [stalling(), stalling(), stalling()];
    let [open_url, closed_url, wrk_url] = [url(&for_open), url(&for_closed), url(&for_wrk)];
    let warm_up = ["--warm-up-time", "0", "-d10"];
    let (open, closed, theirs) = thread::scope(|scope| {
        let open = scope.spawn(|| rudy(&[&warm_up[..], &["-R200", "-c32", open_url.as_str()]].concat()));
        let closed = scope.spawn(|| rudy(&[&warm_up[..], &["-c4", closed_url.as_str()]].concat()));
        let theirs = wrk(&program, &["-c4", "-d10s", &wrk_url]);
        (
            open.join().expect("the thread does not panic"),
            closed.join().expect("the thread does not panic"),
            theirs,
        )
    });
    let [ours, ours_closed] = [&open, &closed].map(super::metrics::Report::metrics);
    show(
        "a stall of 200 ms every 5 s, 5 ms otherwise: at a rate p99 150 ms, p99.9 195 ms (wrk adds what it reckons was left out)",
        &[("rudy -R 200", &ours), ("rudy closed", &ours_closed), ("wrk", &theirs)],
    );
    // A busy machine makes waits longer, never shorter. Requests are due every 5 ms, so this much may be
    // missing.
    assert_eq!(open.count("/requests"), 2000);
    assert!(ours.p99_ms >= 145.0, "{}", open.text);
    assert!(open.ms("/latency_us/p99_9") >= 190.0, "{}", open.text);
    // Each of the four connections meets each stall once, among thousands of responses.
    assert!(ours_closed.p99_ms < ours.p99_ms / 2.0, "{}", closed.text);
    assert!(ours_closed.max_ms >= 150.0, "{}", closed.text);
    assert_contains!(closed.text, "A closed loop sends nothing while it waits for a response");
    assert!(!open.text.contains("In a closed loop"), "{}", open.text);
}
