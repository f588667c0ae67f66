//! The load generator against servers with known behaviour.

mod server;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_load::bench::{Expected, Outcome, Pace, Plan, RunError, Until, run};
use rudy_load::{FailureKind, Mix, Remote, Template};
use rudy_stats::Histogram;
use rudy_stats::schedule::{Arrivals, Profile, Share};

use server::{Answer, OK, Server};

fn plan(server: &Server) -> Plan {
    let url = server.url().parse().expect("an address makes a URL");
    let request = Template::default().encode(&url).expect("a plain request");
    Plan {
        remote: Remote::Ip(server.address()),
        security: None,
        mix: Arc::new(Mix::new(vec![(request, 1)]).expect("one request")),
        connections: number(4),
        threads: number(2),
        pace: Pace::Closed,
        share: Share::WHOLE,
        until: Until::Requests(101),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        deadline: None,
        pipeline: NonZeroU32::MIN,
        requests_per_connection: None,
        connect_rate: 1e4,
        sources: Arc::new([]),
        expected: Arc::default(),
        interval: Duration::from_secs(1),
    }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

fn go(plan: &Plan) -> Outcome {
    run(plan, &mut ()).expect("the server listens")
}

fn failures(outcome: &Outcome, kind: FailureKind) -> u64 {
    outcome.seen.failures[kind as usize]
}

#[test]
fn as_many_requests_are_made_as_were_asked_for() {
    let server = Server::start(|_| Answer::text(OK));
    let outcome = go(&plan(&server));
    assert_eq!((outcome.seen.right, outcome.seen.sent, server.requests()), (101, 101, 101));
    assert_eq!((outcome.seen.failed(), outcome.seen.opened, server.connections()), (0, 4, 4));
    assert_eq!(outcome.seen.body_bytes, 5 * 101);
    assert_eq!(outcome.seen.received_bytes, OK.len() as u64 * 101);
}

#[test]
fn a_pipeline_has_several_requests_under_way_and_loses_none() {
    let server = Server::start(|_| Answer::text(OK));
    let outcome = go(&Plan { pipeline: number(8), ..plan(&server) });
    assert_eq!((outcome.seen.right, server.requests()), (101, 101));
}

#[test]
fn each_request_can_have_a_connection_of_its_own() {
    let server = Server::start(|_| Answer::text(OK));
    let outcome = go(&Plan { requests_per_connection: NonZeroU32::new(1), ..plan(&server) });
    assert_eq!((outcome.seen.right, server.connections()), (101, 101));
}

#[test]
fn what_warms_up_is_not_counted() {
    let server = Server::start(|_| Answer::text(OK));
    // On a busy machine the first request may be late, so the warm-up is long enough.
    let (warm_up, time) = (Duration::from_millis(500), Duration::from_millis(100));
    let plan = Plan {
        requests_per_connection: NonZeroU32::new(1),
        warm_up,
        until: Until::Time(time),
        ..plan(&server)
    };
    let outcome = go(&plan);
    let seen = &outcome.seen;
    assert_eq!(outcome.duration, time);
    assert_eq!((seen.right, seen.latency.len()), (seen.sent, seen.sent));
    assert!(server.requests() > seen.sent, "there was a warm-up");
    // The last warm-up request of each slot may have connected after its end.
    assert!(seen.opened <= seen.sent + 4, "{} for {}", seen.opened, seen.sent);
    assert_eq!(seen.connect.len(), seen.opened);
}

#[test]
fn a_connection_that_the_server_closes_in_order_is_no_failure() {
    let server = Server::start(|number| {
        let text = OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        if number % 3 == 0 { Answer::last(&text) } else { Answer::text(OK) }
    });
    let outcome = go(&plan(&server));
    assert_eq!((outcome.seen.right, outcome.seen.failed()), (101, 0));
}

#[test]
fn what_is_not_right_is_counted_as_what_it_is() {
    let server = Server::start(|number| match number % 4 {
        0 => Answer::text("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        1 => Answer::last("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        2 => Answer::last("nonsense\r\n\r\n"),
        _ => Answer::text("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour"),
    });
    let expected = Expected { body_bytes: Some(4), body: Some("four".into()), repeats: None };
    let outcome = go(&Plan { expected: Arc::new(expected), until: Until::Requests(100), ..plan(&server) });
    assert_eq!((outcome.seen.statuses[500], outcome.seen.right), (25, 25));
    assert_eq!(failures(&outcome, FailureKind::Short), 25);
    assert_eq!(failures(&outcome, FailureKind::Malformed), 25);
    assert_eq!(outcome.seen.requests(), 100);
}

#[test]
fn a_constant_delay_is_seen_as_that_delay() {
    let delay = Duration::from_millis(20);
    let server = Server::delaying(delay);
    let until = Until::Time(Duration::from_millis(400));
    let outcome = go(&Plan { until, ..plan(&server) });
    let seen = &outcome.seen;
    // In 400 ms, each of four connections can start twenty requests, on a busy machine fewer.
    assert!(seen.sent <= 80, "{}", seen.sent);
    assert_eq!((seen.right, seen.latency.len(), server.requests()), (seen.sent, seen.sent, seen.sent));
    // No response comes earlier, up to three digits. Together they take at most the time of four connections.
    assert!(seen.latency.min() >= delay.mul_f64(0.999), "{:?}", seen.latency);
    let together = seen.latency.mean() * u32::try_from(seen.sent).expect("few");
    let had = 4 * (outcome.duration + seen.latency.max());
    assert!(together <= had.mul_f64(1.001), "{together:?} of {had:?}");
    assert!(seen.latency.min() < 10 * delay, "{:?}", seen.latency);
}

#[test]
fn each_connection_that_is_reset_is_a_failure_to_read() {
    let server = Server::resetting();
    let outcome = go(&plan(&server));
    assert_eq!((failures(&outcome, FailureKind::Read), outcome.seen.requests()), (101, 101));
    assert_eq!((server.requests(), server.connections()), (101, 101));
}

#[test]
fn each_body_that_is_cut_is_a_short_one() {
    let server = Server::cutting();
    let outcome = go(&plan(&server));
    assert_eq!((failures(&outcome, FailureKind::Short), outcome.seen.requests()), (101, 101));
    assert_eq!((outcome.seen.right, outcome.seen.answers(), server.requests()), (0, 0, 101));
}

#[test]
fn a_server_that_never_answers_meets_the_time_for_it() {
    let server = Server::silent();
    let timeout = Duration::from_millis(50);
    let outcome = go(&Plan { timeout, until: Until::Requests(4), ..plan(&server) });
    assert_eq!(failures(&outcome, FailureKind::Timeout), 4);
    // Times have three digits.
    assert!(outcome.seen.latency_failed.min() >= timeout.mul_f64(0.999));
}

#[test]
fn a_request_of_the_warm_up_that_hangs_is_seen_in_what_counts() {
    let server = Server::start(|number| if number == 0 { Answer::never() } else { Answer::text(OK) });
    // Long enough for a busy machine to send the first request in one interval, and to respond to the others
    // in the next.
    let (warm_up, timeout) = (Duration::from_millis(500), Duration::from_secs(2));
    let until = Until::Time(Duration::from_millis(100));
    let outcome = go(&Plan { warm_up, timeout, until, connections: number(2), ..plan(&server) });
    assert_eq!(outcome.seen.failed(), 0);
    // It was sent during the warm-up, and given up this much later.
    assert!(outcome.seen.carried_over >= timeout.saturating_sub(warm_up), "{:?}", outcome.seen.carried_over);
}

#[test]
fn at_a_rate_every_request_is_sent_that_is_due() {
    let server = Server::start(|_| Answer::text(OK));
    let pace = Pace::Open(Profile::Constant(500.0), Arrivals::Uniform);
    let until = Until::Time(Duration::from_millis(400));
    let outcome = go(&Plan { pace, until, ..plan(&server) });
    assert_eq!(outcome.seen.sent + outcome.unsent, 200);
    assert_eq!(outcome.seen.right, outcome.seen.sent);
    assert_eq!(outcome.seen.lag.len(), outcome.seen.sent);
}

#[test]
fn what_waits_longer_than_its_deadline_is_not_sent() {
    let server = Server::silent();
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    let deadline = Some(Duration::from_millis(20));
    let until = Until::Time(Duration::from_millis(200));
    let outcome = go(&Plan { pace, until, deadline, ..plan(&server) });
    assert_eq!(outcome.seen.failed() + outcome.unsent, 200);
    assert!(outcome.seen.sent < 200, "four connections cannot have all of them in flight");
}

#[test]
fn where_nobody_listens_nothing_is_measured() {
    let server = Server::silent();
    // The port is bound, so no other process can listen on it.
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    let address = held.local_addr().ok().and_then(|address| address.as_socket()).expect("it is bound");
    let error = run(&Plan { remote: Remote::Ip(address), ..plan(&server) }, &mut ()).unwrap_err();
    assert!(matches!(error, RunError::Connect(..)), "{error}");
    assert!(error.to_string().contains("connection refused"), "{error}");
}

#[test]
fn a_stall_is_seen_at_the_percentiles_that_arithmetic_gives() {
    // A fifth of the due requests meet the stall and wait up to 200 ms. So a tenth of all wait for more than
    // 100 ms, and a hundredth for more than 190 ms.
    let pace = Pace::Open(Profile::Constant(500.0), Arrivals::Uniform);
    let until = Until::Time(Duration::from_secs(4));
    let server = Server::stalling(Duration::from_millis(200), Duration::from_secs(1), Duration::ZERO);
    let open = go(&Plan { pace, until, ..plan(&server) }).seen.latency;
    let closed = || go(&Plan { until: Until::Time(Duration::from_secs(1)), ..plan(&server) }).seen.latency;
    // Other load on this machine only increases the waits, so the minimum of several runs is the best
    // estimate.
    let closed = (0..5).map(|_| closed()).find(|seen| seen.quantile(0.9) < open.quantile(0.9) / 2);
    let closed = closed.expect("a closed loop that leaves the stall out");
    let row = |name: &str, seen: &Histogram| {
        let at = |quantile| seen.quantile(quantile).as_secs_f64() * 1000.0;
        println!(
            "{name:<12} p50 {:>8.3}  p90 {:>8.3}  p99 {:>8.3} ms  {} requests",
            at(0.5),
            at(0.9),
            at(0.99),
            seen.len()
        );
    };
    row("open loop", &open);
    row("closed loop", &closed);
    println!("arithmetic   p50    0.000  p90  100.000  p99  190.000 ms");
    assert!(open.quantile(0.9) >= Duration::from_millis(95), "{open:?}");
    assert!(open.quantile(0.99) >= Duration::from_millis(185), "{open:?}");
}

#[test]
fn a_share_of_errors_is_the_share_that_was_sent() {
    let server = Server::failing_one_in(20);
    let outcome = go(&Plan { until: Until::Requests(2000), ..plan(&server) });
    assert_eq!((outcome.seen.statuses[500], outcome.seen.right), (100, 1900));
    assert_eq!(outcome.seen.latency_failed.len(), 100, "the errors' times are kept apart");
}
