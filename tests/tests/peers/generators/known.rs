//! Against servers that do as they are told.

use std::thread;
use std::time::Duration;

use rudy_tests::program;

use super::figures::{Figures, rudy, show, wrk};
use super::server::Server;

/// Of each time three digits are kept, and wrk prints four.
const DIGITS: f64 = 0.999;

/// Runs both for a second over four connections, each against a server of its own, and shows what they say.
fn second(expected: &str, server: impl Fn() -> Server, arguments: &[&str]) -> Option<[(Figures, Server); 2]> {
    let program = program("wrk")?;
    let (ours, its) = (server(), server());
    let (our_url, its_url) = (ours.url(), its.url());
    let warm_up = ["--warm-up-time", "0"];
    let (ours_said, its_said) = thread::scope(|scope| {
        let ours =
            scope.spawn(|| rudy(&[&["-c4", "-d1", our_url.as_str()], &warm_up[..], arguments].concat()));
        let its = wrk(&program, &[&["-c4", "-d1s", its_url.as_str()], arguments].concat());
        (ours.join().expect("rudy bench has ended well").figures(), its)
    });
    show(expected, &[("rudy bench", &ours_said), ("wrk", &its_said)]);
    Some([(ours_said, ours), (its_said, its)])
}

#[test]
fn a_constant_delay_is_the_median() {
    let delay = || Server::delaying(Duration::from_millis(20));
    let expected =
        "a delay of 20 ms: 200 answers at most in a second over four connections, none before 20 ms";
    let Some([(ours, server), (its, its_server)]) = second(expected, delay, &[]) else { return };
    assert_eq!((ours.answers, ours.wrong, ours.broken), (server.requests(), 0, 0));
    assert!(ours.answers <= 200, "{ours:?}");
    assert!(its.answers <= its_server.requests(), "{its:?}");
    for figures in [ours, its] {
        assert!(figures.p50_ms >= 20.0 * DIGITS && figures.p50_ms < 200.0, "{figures:?}");
    }
}

#[test]
fn a_share_of_errors_is_counted_to_the_last() {
    let failing = || Server::failing_one_in(20);
    let expected = "5 % of answers are 500";
    let Some(runs) = second(expected, failing, &[]) else { return };
    for (index, (figures, server)) in runs.into_iter().enumerate() {
        let sent = server.requests().div_ceil(20);
        // What is under way when wrk ends has been answered and is not counted.
        let lost = if index == 0 { 0 } else { 4 };
        assert!((sent - lost..=sent).contains(&figures.wrong), "{figures:?}, {sent} were sent");
        assert!((server.requests() - lost..=server.requests()).contains(&figures.answers), "{figures:?}");
    }
}

#[test]
fn bodies_that_are_cut_and_connections_that_are_reset_are_no_answers() {
    for (expected, server) in [
        ("bodies cut short: each is a failure", Server::cutting as fn() -> Server),
        ("connections reset: each is a failure", Server::resetting),
    ] {
        let Some([(ours, server), (its, its_server)]) = second(expected, server, &[]) else { return };
        assert_eq!((ours.answers, ours.broken), (0, server.requests()), "{ours:?}");
        assert_eq!(its.answers, 0);
        assert!((1..=its_server.requests()).contains(&its.broken), "{its:?}");
    }
}

#[test]
fn what_is_never_answered_is_a_timeout() {
    // The shortest time for an answer that wrk can be told is a second, and the run must be longer for one to pass.
    let Some(program) = program("wrk") else { return };
    let server = Server::silent();
    let its = wrk(&program, &["-c4", "-d2s", "--timeout", "1s", &server.url()]);
    let report = rudy(&["-c4", "-n12", "--timeout", "100ms", &server.url()]);
    let ours = report.figures();
    show("no answers: each request is a timeout (of wrk's, none)", &[("rudy bench", &ours), ("wrk", &its)]);
    assert_eq!((ours.answers, ours.timeouts, ours.broken), (0, 12, 0));
    assert!(report.ms("/latency_failed_us/min") >= 100.0 * DIGITS, "{}", report.text);
    // It counts an answer as late when it comes.
    assert_eq!((its.answers, its.timeouts), (0, 0));
}

/// 200 ms of every 5 s. Of what is due at a rate, 4 % meet the stall and wait for between 200 ms and nothing: 1 % of all for
/// more than 150 ms, and 1 in 1000 for more than 195 ms. Two whole periods hold that, wherever in one they begin.
#[test]
fn a_stall_is_seen_at_a_rate_and_its_omission_said_in_a_closed_loop() {
    let Some(program) = program("wrk") else { return };
    let ms = Duration::from_millis;
    // So slow that a closed loop leaves the machine to the other tests.
    let stalling = || Server::stalling(ms(200), ms(5000), ms(5));
    let [for_open, for_closed, for_wrk] = [stalling(), stalling(), stalling()];
    let [open_url, closed_url, wrk_url] = [for_open.url(), for_closed.url(), for_wrk.url()];
    let warm_up = ["--warm-up-time", "0", "-d10"];
    let (open, closed, its) = thread::scope(|scope| {
        let open = scope.spawn(|| rudy(&[&warm_up[..], &["-R200", "-c32", open_url.as_str()]].concat()));
        let closed = scope.spawn(|| rudy(&[&warm_up[..], &["-c4", closed_url.as_str()]].concat()));
        let its = wrk(&program, &["-c4", "-d10s", &wrk_url]);
        (open.join().expect("it has ended well"), closed.join().expect("it has ended well"), its)
    });
    let [ours, ours_closed] = [&open, &closed].map(super::figures::Report::figures);
    show(
        "a stall of 200 ms every 5 s, 5 ms otherwise: at a rate p99 150 ms, p99.9 195 ms (wrk adds what it reckons was left out)",
        &[("rudy -R 200", &ours), ("rudy closed", &ours_closed), ("wrk", &its)],
    );
    // A busy machine makes waits longer, never shorter. What is due comes every 5 ms, so that much may be missing.
    assert_eq!(open.count("/sent") + open.count("/unsent"), 2000);
    assert!(ours.p99_ms >= 145.0, "{}", open.text);
    assert!(open.ms("/latency_us/p99_9") >= 190.0, "{}", open.text);
    // Each of four connections meets each stall once, of some thousands of answers.
    assert!(ours_closed.p99_ms < ours.p99_ms / 2.0, "{}", closed.text);
    assert!(ours_closed.max_ms >= 150.0, "{}", closed.text);
    assert!(
        closed.text.contains("A closed loop sends nothing while it waits for a response"),
        "{}",
        closed.text
    );
    assert!(!open.text.contains("In a closed loop"), "{}", open.text);
}
