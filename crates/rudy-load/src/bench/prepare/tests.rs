//! Plans from options, and options that are rejected.

use std::time::Duration;

use rudy_request::Access;

use super::*;
use crate::bench::{ArrivalsName, ExpectedOptions, OutputOptions, RequestOptions};

fn options() -> Options {
    Options {
        urls: vec!["http://127.0.0.1:1/".parse().unwrap()],
        url_file: None,
        request: RequestOptions::default(),
        expected: ExpectedOptions::default(),
        pace: PaceOptions { timeout: Duration::from_secs(10), ..PaceOptions::default() },
        connections: ConnectionOptions {
            connections: None,
            connections_max: None,
            threads: None,
            disables_keep_alive: false,
            requests_per_connection: None,
            pipeline: NonZeroU32::MIN,
            streams: None,
            sources: None,
            connect_rate: None,
        },
        access: Access::default(),
        split: None,
        start_at: None,
        objective: None,
        slo_search: None,
        output: OutputOptions::default(),
    }
}

fn number(number: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(number)
}

fn changed(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = options();
    change(&mut options);
    options
}

fn plan(change: impl FnOnce(&mut Options)) -> Plan {
    prepare(&changed(change)).unwrap().plan
}

#[test]
fn the_default_is_a_closed_loop_of_ten_seconds_after_a_second_of_warm_up() {
    let plan = plan(|_| {});
    assert_eq!((plan.pace, plan.until), (Pace::Closed, Until::Time(Duration::from_secs(10))));
    assert_eq!((plan.warm_up, plan.connections.get()), (Duration::from_secs(1), 64));
    assert!(plan.threads <= plan.connections);
}

#[test]
fn an_open_loop_without_a_number_of_connections_opens_more_at_need() {
    let most = |change: fn(&mut Options)| plan(change).connections_max.get();
    let rate = Some(Rate::Constant(100.0));
    assert_eq!(most(|_| {}), 64, "a closed loop has a connection for each request in flight");
    assert_eq!(plan(|options| options.pace.rate = rate).connections_max, DEFAULT_CONNECTIONS_MAX);
    assert_eq!(
        most(|o| (o.pace.rate, o.connections.connections) = (Some(Rate::Constant(1.0)), number(8))),
        8
    );
    assert_eq!(
        most(|o| (o.pace.rate, o.connections.connections_max) = (Some(Rate::Constant(1.0)), number(80))),
        80
    );
}

#[test]
fn a_number_of_requests_and_a_ramp_have_no_warm_up() {
    let counted = plan(|options| options.pace.requests = Some(5));
    assert_eq!((counted.until, counted.warm_up), (Until::Requests(5), Duration::ZERO));
    assert_eq!(counted.connections.get(), 5, "the other connections would have nothing to do");
    let ramp = plan(|options| options.pace.rate = Some(Rate::Ramp(1.0, 5.0)));
    let profile = Profile::Ramp { from: 1.0, to: 5.0, over: Duration::from_secs(10) };
    assert_eq!((ramp.pace, ramp.warm_up), (Pace::Open(profile, Arrivals::Uniform), Duration::ZERO));
    let counted =
        plan(|options| (options.pace.requests, options.pace.rate) = (Some(5), Some(Rate::Constant(9.0))));
    assert_eq!(counted.connections.get(), 64, "requests that are due may need them all at once");
}

#[test]
fn one_request_per_connection_sends_connection_close() {
    for plan in [
        plan(|options| options.connections.disables_keep_alive = true),
        plan(|options| options.connections.requests_per_connection = number(1)),
    ] {
        assert_eq!(plan.requests_per_connection, number(1));
        let request = String::from_utf8_lossy(&plan.mix.get(0).bytes).into_owned();
        assert!(request.contains("connection: close\r\n"), "{request}");
    }
}

#[test]
fn a_body_is_sent_with_post_and_can_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    std::fs::write(&path, "from a file").unwrap();
    for (body, end) in
        [("typed".to_owned(), "\r\n\r\ntyped"), (format!("@{}", path.display()), "\r\n\r\nfrom a file")]
    {
        let plan = plan(|options| options.request.bodies.push(body));
        let request = String::from_utf8_lossy(&plan.mix.get(0).bytes).into_owned();
        assert!(request.starts_with("POST / HTTP/1.1\r\n") && request.ends_with(end), "{request}");
    }
}

#[test]
fn sources_are_all_addresses_of_their_range() {
    let plan = plan(|options| options.connections.sources = Some("127.0.0.0/28".parse().unwrap()));
    assert_eq!(plan.sources.len(), 15);
}

/// Conflicting options, each with the expected message and exit code.
#[test]
fn conflicting_options_are_rejected_with_advice() {
    type Change = fn(&mut Options);
    let rejected: &[(&str, Change)] = &[
        ("use -c 5 or fewer", |o| (o.pace.requests, o.connections.connections) = (Some(5), number(6))),
        ("--round-trip carries at most 1000 connections", |o| {
            (o.access.round_trip, o.connections.connections) = (Some(Duration::from_millis(1)), number(1001));
        }),
        ("--max-connections needs a rate", |o| o.connections.connections_max = number(65)),
        ("--max-connections 63 is lower than the 64", |o| {
            (o.pace.rate, o.connections.connections_max) = (Some(Rate::Constant(1.0)), number(63));
        }),
        ("use -t 64 or fewer", |o| o.connections.threads = number(65)),
        ("--requests must be at least 1", |o| o.pace.requests = Some(0)),
        ("all of them count", |o| {
            (o.pace.requests, o.pace.warm_up) = (Some(100), Some(Duration::from_secs(1)));
        }),
        ("--duration must be greater", |o| o.pace.duration = Some(Duration::ZERO)),
        ("--timeout must be greater", |o| o.pace.timeout = Duration::ZERO),
        ("use --timeout", |o| o.pace.deadline = Some(Duration::from_secs(1))),
        ("--arrivals needs a rate", |o| o.pace.arrivals = Some(ArrivalsName::Poisson)),
        ("--seed needs --arrivals poisson and a rate", |o| o.pace.seed = Some(1)),
        ("uniform arrivals are not random", |o| {
            (o.pace.seed, o.pace.rate) = (Some(1), Some(Rate::Constant(5.0)));
        }),
        ("remove --requests", |o| {
            (o.pace.requests, o.pace.rate) = (Some(100), Some(Rate::Ramp(1.0, 5.0)));
        }),
        ("remove --warm-up-time", |o| {
            (o.pace.warm_up, o.pace.rate) = (Some(Duration::from_secs(1)), Some(Rate::Ramp(1.0, 5.0)));
        }),
        ("remove --requests-per-connection", |o| {
            (o.connections.disables_keep_alive, o.connections.requests_per_connection) = (true, number(2));
        }),
        ("remove --disable-keepalive", |o| {
            o.connections.disables_keep_alive = true;
            o.connections.pipeline = NonZeroU32::new(2).unwrap();
        }),
        ("needs persistent connections", |o| {
            (o.connections.disables_keep_alive, o.connections.connect_rate) = (true, Some(5.0));
        }),
        ("address families differ", |o| o.connections.sources = Some("::1".parse().unwrap())),
        ("give them with --sources", |o| o.connections.connections = number(1_000_000)),
        ("cannot read /nowhere: ", |o| o.request.bodies.push("@/nowhere".into())),
        ("cannot read /nowhere: ", |o| o.expected.body = Some("/nowhere".into())),
        ("cannot read /nowhere", |o| o.url_file = Some("/nowhere".into())),
        ("more than 67108864 bytes", |o| o.request.bodies.push("@/dev/zero".into())),
        ("more than 67108864 bytes", |o| o.url_file = Some("/dev/zero".into())),
        ("add --http2", |o| o.connections.streams = number(2)),
        ("use --streams with --http2", |o| {
            (o.request.is_http2, o.connections.pipeline) = (true, NonZeroU32::new(2).unwrap());
        }),
        ("remove --disable-keepalive", |o| {
            (o.request.is_http2, o.connections.disables_keep_alive) = (true, true);
            o.connections.streams = number(2);
        }),
        ("the maximum is 10000", |o| (o.request.is_http2, o.connections.streams) = (true, number(10_001))),
        ("the maximum is 256", |o| o.connections.pipeline = NonZeroU32::new(257).unwrap()),
        ("at least 1", |o| o.connections.connect_rate = Some(0.5)),
        ("--duration must be at most 100 days", |o| o.pace.duration = Some(Duration::MAX)),
        ("--warm-up-time must be at most 100 days", |o| o.pace.warm_up = Some(Duration::MAX)),
        ("--interval must be at most 100 days", |o| o.output.interval = Some(Duration::MAX)),
        ("no URL", |o| o.urls.clear()),
        ("at least 100 ms", |o| o.output.interval = Some(Duration::from_millis(99))),
    ];
    for (expected, change) in rejected {
        let error = prepare(&changed(change)).unwrap_err();
        assert_eq!(error.exit(), rudy_command::Exit::BadInput, "{error}");
        assert!(error.to_string().contains(expected), "{error}: {expected}");
    }
    let error = prepare(&changed(|o| o.urls = vec!["http://unknown.invalid/".parse().unwrap()])).unwrap_err();
    assert_eq!(error.exit(), rudy_command::Exit::CannotRun, "{error}");
}
