//! The load generator against servers with known behaviour.

mod server;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rudy_load::Mix;
use rudy_load::bench::{AbortCondition, Expected, Outcome, Pace, Plan, RunError, Until, run};
use rudy_request::{FailureKind, Protocols, Relay, Remote, Template};
use rudy_stats::Histogram;
use rudy_stats::schedule::{Arrivals, Profile, Share};

use server::{OK, Response, Server};

fn plan(server: &Server) -> Plan {
    plan_for(server.address())
}

fn plan_for(address: SocketAddr) -> Plan {
    let url = format!("http://{address}/").parse().expect("an address makes a URL");
    let request = Template::default().encode(&url).expect("a plain request");
    Plan {
        remote: Remote::Ip(address),
        security: None,
        mix: Arc::new(Mix::new(vec![(request, 1)]).expect("one request")),
        connections: number(4),
        connections_max: NonZeroU32::MIN,
        threads: number(2),
        pace: Pace::Closed,
        share: Share::WHOLE,
        until: Until::Requests(101),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(10),
        abort_condition: None,
        deadline: None,
        protocols: Protocols::Http1,
        in_flight_per_connection: NonZeroU32::MIN,
        requests_per_connection: None,
        connect_rate: 1e4,
        sources: Arc::new([]),
        expected: Arc::default(),
        relay: None,
        interval: Duration::from_secs(1),
    }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

fn run_plan(plan: &Plan) -> Outcome {
    run(plan, &mut ()).expect("the server listens")
}

fn failures(outcome: &Outcome, kind: FailureKind) -> u64 {
    outcome.recorder.failure_count(kind)
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    let server = Server::start(|_| Response::text(OK));
    let outcome = run_plan(&plan(&server));
    assert_eq!((outcome.recorder.succeeded, outcome.recorder.sent, server.requests()), (101, 101, 101));
    assert_eq!((outcome.recorder.failed(), outcome.recorder.opened, server.connections()), (0, 4, 4));
    assert_eq!(outcome.recorder.body_bytes, 5 * 101);
    assert_eq!(outcome.recorder.received_bytes, OK.len() as u64 * 101);
}

#[test]
fn pipelined_requests_all_have_a_response() {
    let server = Server::start(|_| Response::text(OK));
    let outcome = run_plan(&Plan { in_flight_per_connection: number(8), ..plan(&server) });
    assert_eq!((outcome.recorder.succeeded, server.requests()), (101, 101));
}

#[test]
fn each_request_can_open_a_connection() {
    let server = Server::start(|_| Response::text(OK));
    let outcome = run_plan(&Plan { requests_per_connection: NonZeroU32::new(1), ..plan(&server) });
    assert_eq!((outcome.recorder.succeeded, server.connections()), (101, 101));
}

#[test]
fn requests_of_the_warm_up_are_not_counted() {
    let server = Server::start(|_| Response::text(OK));
    // On a busy machine the first request may be late, so the warm-up is long enough.
    let (warm_up, time) = (Duration::from_millis(500), Duration::from_millis(100));
    let plan = Plan {
        requests_per_connection: NonZeroU32::new(1),
        warm_up,
        until: Until::Time(time),
        ..plan(&server)
    };
    let outcome = run_plan(&plan);
    let recorder = &outcome.recorder;
    assert_eq!(outcome.duration, time);
    assert_eq!((recorder.succeeded, recorder.latency.len()), (recorder.sent, recorder.sent));
    assert!(server.requests() > recorder.sent, "there was a warm-up");
    // The last warm-up request of each slot may have connected after its end.
    assert!(recorder.opened <= recorder.sent + 4, "{} for {}", recorder.opened, recorder.sent);
    assert_eq!(recorder.connect.len(), recorder.opened);
}

#[test]
fn a_connection_that_the_server_closes_after_a_response_is_no_failure() {
    let server = Server::start(|number| {
        let text = OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        if number % 3 == 0 { Response::last(&text) } else { Response::text(OK) }
    });
    let outcome = run_plan(&plan(&server));
    assert_eq!((outcome.recorder.succeeded, outcome.recorder.failed()), (101, 0));
}

#[test]
fn failures_are_counted_by_kind() {
    let server = Server::start(|number| match number % 4 {
        0 => Response::text("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        1 => Response::last("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
        2 => Response::last("nonsense\r\n\r\n"),
        _ => Response::text("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour"),
    });
    let expected = Expected { body_bytes: Some(4), body: Some("four".into()), same_as_first: None };
    let plan = Plan { expected: Arc::new(expected), until: Until::Requests(100), ..plan(&server) };
    let outcome = run_plan(&plan);
    assert_eq!((outcome.recorder.statuses[500], outcome.recorder.succeeded), (25, 25));
    assert_eq!(failures(&outcome, FailureKind::Short), 25);
    assert_eq!(failures(&outcome, FailureKind::Malformed), 25);
    assert_eq!(outcome.recorder.requests(), 100);
}

#[test]
fn the_latency_of_a_server_with_a_constant_delay_is_that_delay() {
    let delay = Duration::from_millis(20);
    let server = Server::delaying(delay);
    let until = Until::Time(Duration::from_millis(400));
    let outcome = run_plan(&Plan { until, ..plan(&server) });
    let recorder = &outcome.recorder;
    // In 400 ms, each of four connections can start twenty requests, on a busy machine fewer.
    assert!(recorder.sent <= 80, "{}", recorder.sent);
    assert_eq!(
        (recorder.succeeded, recorder.latency.len(), server.requests()),
        (recorder.sent, recorder.sent, recorder.sent)
    );
    // No response comes earlier, up to three digits. Together they take at most the time of four connections.
    assert!(recorder.latency.min() >= delay.mul_f64(0.999), "{:?}", recorder.latency);
    let total = recorder.latency.mean() * u32::try_from(recorder.sent).expect("few");
    let available = 4 * (outcome.duration + recorder.latency.max());
    assert!(total <= available.mul_f64(1.001), "{total:?} of {available:?}");
    assert!(recorder.latency.min() < 10 * delay, "{:?}", recorder.latency);
}

#[test]
fn each_reset_connection_is_a_read_failure() {
    let server = Server::resetting();
    let outcome = run_plan(&plan(&server));
    assert_eq!((failures(&outcome, FailureKind::Read), outcome.recorder.requests()), (101, 101));
    assert_eq!((server.requests(), server.connections()), (101, 101));
}

#[test]
fn each_incomplete_body_is_a_short_body_failure() {
    let server = Server::cutting();
    let outcome = run_plan(&plan(&server));
    assert_eq!((failures(&outcome, FailureKind::Short), outcome.recorder.requests()), (101, 101));
    assert_eq!((outcome.recorder.succeeded, outcome.recorder.responses(), server.requests()), (0, 0, 101));
}

#[test]
fn requests_to_a_silent_server_time_out() {
    let server = Server::silent();
    let timeout = Duration::from_millis(50);
    let outcome = run_plan(&Plan { timeout, until: Until::Requests(4), ..plan(&server) });
    assert_eq!(failures(&outcome, FailureKind::Timeout), 4);
    // Times have three digits.
    assert!(outcome.recorder.latency_failed.min() >= timeout.mul_f64(0.999));
}

#[test]
fn a_hanging_request_of_the_warm_up_is_reported_as_spillover() {
    let server = Server::start(|number| if number == 0 { Response::never() } else { Response::text(OK) });
    // Long enough for a busy machine to send the first request in one interval, and to respond to the others
    // in the next.
    let (warm_up, timeout) = (Duration::from_millis(500), Duration::from_secs(2));
    let until = Until::Time(Duration::from_millis(100));
    let outcome = run_plan(&Plan { warm_up, timeout, until, connections: number(2), ..plan(&server) });
    assert_eq!(outcome.recorder.failed(), 0);
    // It was sent during the warm-up, and given up this much later.
    assert!(
        outcome.recorder.warmup_spillover >= timeout.saturating_sub(warm_up),
        "{:?}",
        outcome.recorder.warmup_spillover
    );
}

#[test]
fn an_open_loop_sends_every_due_request() {
    let server = Server::start(|_| Response::text(OK));
    let pace = Pace::Open(Profile::Constant(500.0), Arrivals::Uniform);
    let until = Until::Time(Duration::from_millis(400));
    let outcome = run_plan(&Plan { pace, until, ..plan(&server) });
    assert_eq!(outcome.recorder.sent, 200);
    assert_eq!(outcome.recorder.succeeded, outcome.recorder.sent);
    assert_eq!(outcome.recorder.schedule_delay.len(), outcome.recorder.sent);
}

#[test]
fn requests_that_exceed_their_deadline_are_not_sent() {
    let server = Server::silent();
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    let deadline = Some(Duration::from_millis(20));
    let until = Until::Time(Duration::from_millis(200));
    let one = NonZeroU32::MIN;
    let outcome = run_plan(&Plan { pace, until, deadline, connections: one, threads: one, ..plan(&server) });
    assert_eq!(outcome.recorder.failed(), 200);
    // The connection is free again when a request misses its deadline, which is checked every 2 ms.
    assert!(outcome.recorder.sent < 200, "two are due each time");
}

/// A thousand requests per second for a second, over four connections.
fn thousand(server: &Server) -> Plan {
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    Plan { pace, until: Until::Time(Duration::from_secs(1)), ..plan(server) }
}

#[test]
fn requests_that_were_due_before_the_end_are_sent_after_it() {
    // Each connection meets the stall with about the 700th request, and is free again after the end.
    let server = Server::start(|number| {
        if (700..704).contains(&number) {
            thread::sleep(Duration::from_millis(500));
        }
        Response::text(OK)
    });
    let recorder = run_plan(&thousand(&server)).recorder;
    assert_eq!((recorder.succeeded, recorder.sent, server.requests()), (1000, 1000, 1000));
    assert!(recorder.sent_after_end > 0, "{recorder:?}");
    // Three in ten were due during the stall, the first of which waited for half a second.
    assert!(recorder.latency.quantile(0.99) >= Duration::from_millis(400), "{:?}", recorder.latency);
}

#[test]
fn requests_without_a_response_by_the_timeout_after_the_end_are_failed() {
    let server = Server::start(|number| if number < 700 { Response::text(OK) } else { Response::never() });
    let timeout = Duration::from_millis(600);
    let outcome = run_plan(&Plan { timeout, ..thousand(&server) });
    let recorder = &outcome.recorder;
    assert_eq!((recorder.succeeded, recorder.requests(), outcome.in_flight_at_end), (700, 1000, 0));
    let [not_sent, timed_out] =
        [FailureKind::NotSent, FailureKind::Timeout].map(|kind| recorder.failure_count(kind));
    assert_eq!(not_sent + timed_out, 300);
    assert!(not_sent > 0, "four connections cannot have all of them in flight");
    assert_eq!(recorder.given_up.len(), 300);
    // The last ones were due at the end, and the time for their responses is the timeout.
    assert!(recorder.given_up.quantile(0.5) >= timeout, "{:?}", recorder.given_up);
}

/// Stops the run when this number of intervals have passed.
struct Stop(u32);

impl rudy_load::bench::Watch for Stop {
    fn should_continue(&mut self) -> bool {
        self.0 > 0
    }

    fn interval(&mut self, _: &rudy_load::bench::Interval) {
        self.0 = self.0.saturating_sub(1);
    }
}

#[test]
fn requests_that_were_due_before_an_interrupt_are_counted() {
    let server = Server::silent();
    let until = Until::Time(Duration::from_mins(10));
    let plan = Plan { until, interval: Duration::from_millis(200), ..thousand(&server) };
    let outcome = run(&plan, &mut Stop(2)).expect("the server listens");
    assert!(outcome.is_interrupted);
    assert_eq!(outcome.in_flight_at_end, 4);
    // At least those of the two intervals; nothing that became due later.
    let not_sent = outcome.recorder.failure_count(FailureKind::NotSent);
    let due = outcome.duration.as_millis();
    assert!(not_sent >= 396 && u128::from(not_sent) <= due, "{not_sent} in {due} ms");
}

#[test]
fn a_server_that_does_not_listen_is_an_error() {
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
fn a_connection_that_the_server_closes_while_others_are_opened_is_opened_again() {
    let (listener, server) = (TcpListener::bind("127.0.0.1:0").unwrap(), Server::silent());
    let remote = Remote::Ip(listener.local_addr().unwrap());
    // The second connection begins a tenth of a second after the first.
    let (connect_rate, until) = (10.0, Until::Requests(20));
    let (connections, threads) = (number(2), NonZeroU32::MIN);
    let plan = Plan { remote, connections, threads, connect_rate, until, ..plan(&server) };
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(listener.accept().unwrap());
            for _ in 0..2 {
                let (mut client, _) = listener.accept().unwrap();
                thread::spawn(move || {
                    while client.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
                        client.write_all(OK.as_bytes()).unwrap();
                    }
                });
            }
        });
        let outcome = run_plan(&plan);
        assert_eq!((outcome.recorder.succeeded, outcome.recorder.closed_by_server), (20, 1));
    });
}

#[test]
fn a_relay_has_its_cpu_time_in_the_outcome() {
    let server = Server::start(|_| Response::text(OK));
    let relay = Relay::start(server.address(), Duration::from_millis(1)).expect("a free port");
    let remote = Remote::Ip(relay.address());
    let outcome = run_plan(&Plan { remote, relay: Some(Arc::new(relay)), ..plan(&server) });
    assert_eq!((outcome.recorder.succeeded, server.requests()), (101, 101));
    assert!(outcome.relay.is_some_and(|relay| relay.cpu_share() > 0.0), "{:?}", outcome.relay);
    assert_eq!(run_plan(&plan(&server)).relay, None);
}

#[test]
fn latency_is_the_sum_of_delay_and_service_if_each_request_opens_a_connection() {
    let server = Server::start(|_| Response::text(OK));
    let (requests_per_connection, until) = (NonZeroU32::new(1), Until::Requests(200));
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    let recorder = run_plan(&Plan { pace, until, requests_per_connection, ..plan(&server) }).recorder;
    assert_eq!((recorder.succeeded, recorder.schedule_delay.len()), (200, 200));
    let [latency, delay, service] =
        [&recorder.latency, &recorder.schedule_delay, &recorder.service].map(Histogram::mean);
    // Each value has three digits.
    assert!(latency.abs_diff(delay + service) <= latency.mul_f64(0.003), "{latency:?} {delay:?} {service:?}");
    // No request is sent before it has its connection.
    assert!(recorder.schedule_delay.min() >= recorder.connect.min().mul_f64(0.999), "{recorder:?}");
}

#[test]
fn bytes_that_arrive_after_the_end_are_counted_apart() {
    // The last byte of each body follows after more than the whole run.
    let time = Duration::from_millis(200);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan { until: Until::Time(time), ..plan_for(listener.local_addr().unwrap()) };
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 {
                let (mut client, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    assert!(client.read(&mut [0; 4096]).unwrap() > 0);
                    let (start, last) = OK.as_bytes().split_at(OK.len() - 1);
                    client.write_all(start).unwrap();
                    thread::sleep(time);
                    client.write_all(last).unwrap();
                });
            }
        });
        let recorder = run_plan(&plan).recorder;
        assert_eq!((recorder.succeeded, recorder.received_bytes), (4, 4 * OK.len() as u64));
        assert!(recorder.received_bytes_after_end >= 4, "{recorder:?}");
    });
}

#[test]
fn an_open_loop_opens_connections_while_all_are_busy_up_to_its_maximum() {
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    let (connections, connections_max) = (number(2), number(16));
    let silent = Server::silent();
    let (until, interval) = (Until::Time(Duration::from_mins(10)), Duration::from_millis(200));
    let plan = |server: &Server| Plan { pace, connections, connections_max, ..plan(server) };
    let outcome = run(&Plan { until, interval, ..plan(&silent) }, &mut Stop(2)).expect("the server listens");
    assert_eq!((outcome.in_flight_at_end, outcome.recorder.opened), (16, 16));
    // A closed loop has a connection for each request in flight.
    let server = Server::start(|_| Response::text(OK));
    assert_eq!(run_plan(&Plan { pace: Pace::Closed, ..plan(&server) }).recorder.opened, 2);
}

#[test]
fn a_request_that_blocks_its_connection_keeps_no_other_from_being_sent() {
    // Ten connections are needed, the first nine for requests without a response.
    let server = Server::start(|number| if number < 9 { Response::never() } else { Response::text(OK) });
    let pace = Pace::Open(Profile::Constant(1000.0), Arrivals::Uniform);
    let (until, timeout) = (Until::Requests(100), Duration::from_secs(1));
    let (threads, connections, connections_max) = (NonZeroU32::MIN, number(1), number(100));
    let recorder =
        run_plan(&Plan { pace, until, timeout, threads, connections, connections_max, ..plan(&server) })
            .recorder;
    assert_eq!((recorder.succeeded, recorder.failure_count(FailureKind::Timeout)), (91, 9));
    assert!(recorder.peak_in_flight >= 10, "{recorder:?}");
}

/// Responds to this number of requests over all connections. Then it closes its listener and all connections.
fn serve_and_end(listener: TcpListener, requests: u64) {
    let (address, served) = (listener.local_addr().expect("it is bound"), AtomicU64::new(0));
    let respond = |mut client: TcpStream| {
        while client.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
            match served.fetch_add(1, Ordering::SeqCst) {
                number if number < requests => client.write_all(OK.as_bytes()).expect("a client that reads"),
                // The acceptor gets one more connection, and stops.
                _ => return drop(TcpStream::connect(address)),
            }
        }
    };
    thread::scope(|scope| {
        let mut open = Vec::new();
        while let Ok((client, _)) = listener.accept()
            && served.load(Ordering::SeqCst) <= requests
        {
            open.push(client.try_clone().expect("a further descriptor"));
            scope.spawn(|| respond(client));
        }
        drop(listener);
        for client in open {
            let _ = client.shutdown(Shutdown::Both);
        }
    });
}

#[test]
fn requests_that_are_due_while_a_server_refuses_connections_fail_whatever_the_number_of_connections() {
    for connections in [1, 8, 64] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pace = Pace::Open(Profile::Constant(500.0), Arrivals::Uniform);
        let (until, threads) = (Until::Time(Duration::from_secs(1)), NonZeroU32::MIN);
        let plan = Plan { connections: number(connections), pace, until, threads, ..plan_for(address) };
        let server = thread::spawn(|| serve_and_end(listener, 100));
        let recorder = run_plan(&plan).recorder;
        server.join().unwrap();
        assert_eq!((recorder.succeeded, recorder.requests()), (100, 500), "{connections}: {recorder:?}");
        assert_eq!(recorder.failure_count(FailureKind::NotSent), 0, "{connections}: {recorder:?}");
    }
}

#[test]
fn requests_use_the_connections_that_a_server_keeps_while_it_refuses_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Each request is due long after the response to the last one.
    let pace = Pace::Open(Profile::Constant(2.0), Arrivals::Uniform);
    let (until, threads) = (Until::Requests(3), NonZeroU32::MIN);
    // The second connection begins a tenth of a second after the first.
    let plan = Plan { connections: number(2), connect_rate: 10.0, pace, until, threads, ..plan_for(address) };
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            drop(listener);
            while client.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
                client.write_all(OK.as_bytes()).unwrap();
            }
        });
        let recorder = run_plan(&plan).recorder;
        assert_eq!(recorder.succeeded, 3, "{recorder:?}");
    });
}

#[test]
fn an_open_loop_has_the_computed_percentiles_of_a_stall() {
    // A fifth of the due requests meet the stall and wait up to 200 ms. So a tenth of all wait for more than
    // 100 ms, and a hundredth for more than 190 ms.
    let pace = Pace::Open(Profile::Constant(500.0), Arrivals::Uniform);
    let until = Until::Time(Duration::from_secs(4));
    let server = Server::stalling(Duration::from_millis(200), Duration::from_secs(1), Duration::ZERO);
    let open = run_plan(&Plan { pace, until, ..plan(&server) }).recorder.latency;
    let closed =
        || run_plan(&Plan { until: Until::Time(Duration::from_secs(1)), ..plan(&server) }).recorder.latency;
    // Other load on this machine only increases the waits, so the minimum of several runs is the best
    // estimate.
    let closed = (0..5).map(|_| closed()).find(|recorder| recorder.quantile(0.9) < open.quantile(0.9) / 2);
    let closed = closed.expect("a closed loop that leaves the stall out");
    let row = |name: &str, recorder: &Histogram| {
        let at = |quantile| recorder.quantile(quantile).as_secs_f64() * 1000.0;
        println!(
            "{name:<12} p50 {:>8.3}  p90 {:>8.3}  p99 {:>8.3} ms  {} requests",
            at(0.5),
            at(0.9),
            at(0.99),
            recorder.len()
        );
    };
    row("open loop", &open);
    row("closed loop", &closed);
    println!("arithmetic   p50    0.000  p90  100.000  p99  190.000 ms");
    assert!(open.quantile(0.9) >= Duration::from_millis(95), "{open:?}");
    assert!(open.quantile(0.99) >= Duration::from_millis(185), "{open:?}");
}

#[test]
fn the_share_of_errors_is_that_of_the_server() {
    let server = Server::failing_one_in(20);
    let outcome = run_plan(&Plan { until: Until::Requests(2000), ..plan(&server) });
    assert_eq!((outcome.recorder.statuses[500], outcome.recorder.succeeded), (100, 1900));
    assert_eq!(outcome.recorder.latency_failed.len(), 100, "the latencies of errors are recorded separately");
}

#[test]
fn an_open_loop_is_aborted_before_the_timeout() {
    let silent = Server::silent();
    let slow = Server::start(|_| {
        thread::sleep(Duration::from_millis(10));
        Response::text(OK)
    });
    let outcome = |server, max_unanswered| {
        let abort_condition = AbortCondition { after: Duration::from_millis(1), max_unanswered, rate: 100.0 };
        run_plan(&Plan {
            pace: Pace::Open(Profile::Constant(200.0), Arrivals::Uniform),
            until: Until::Time(Duration::from_millis(100)),
            // The test would not end in time.
            timeout: Duration::from_hours(1),
            abort_condition: Some(abort_condition),
            ..plan(server)
        })
    };
    let failed = outcome(&silent, 3.0);
    assert_eq!((failed.recorder.succeeded, failed.recorder.failed(), failed.is_interrupted), (0, 20, false));
    // With few requests in flight, all responses are awaited.
    assert_eq!(outcome(&slow, 20.0).recorder.succeeded, 20);
}
