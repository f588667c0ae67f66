//! Reports of artificial runs. `SNAPSHOTS=overwrite cargo test -p rudy-load report` updates the files in this
//! folder; review the changes.

use std::time::Duration;

use snapbox::{assert_data_eq, file};

use super::seen::Seen;
use super::{Config, Document, Rows, Run, render};
use crate::bench::Recorder;
use crate::bench::run::{Interval, Outcome, ThreadTime};
use crate::{Failure, FailureKind};

fn config() -> Config {
    Config {
        target: "http://127.0.0.1:8080/".into(),
        urls: 1,
        remote: "127.0.0.1:8080".into(),
        connections: 4,
        threads: 2,
        pipeline: 1,
        requests_per_connection: None,
        rate: None,
        rate_at_end: None,
        arrivals: None,
        seed: None,
        duration_s: Some(2.0),
        requests: None,
        warm_up_s: 1.0,
        timeout_s: 10.0,
        deadline_s: None,
        share: None,
    }
}

/// Successful responses, each after a millisecond and slightly more than the previous one.
fn right(count: u64) -> Recorder {
    let mut seen = Recorder { right: count, sent: count, opened: 4, ..Recorder::default() };
    seen.statuses[200] = count;
    seen.received_bytes = count * 250;
    seen.body_bytes = count * 100;
    for number in 0..count {
        let took = Duration::from_micros(1000 + number % 100);
        seen.latency.record(took);
        seen.first_byte.record(took / 2);
    }
    seen.connect.record_n(Duration::from_micros(40), 4);
    seen
}

fn outcome(seen: Recorder) -> Outcome {
    let idle = ThreadTime { cpu: Duration::from_millis(1200), wall: Duration::from_secs(3) };
    Outcome {
        seen,
        duration: Duration::from_secs(2),
        unsent: 0,
        abandoned: 0,
        threads: vec![idle; 2],
        is_interrupted: false,
    }
}

fn run(config: Config, seen: Recorder) -> Run {
    Run { config, outcome: outcome(seen) }
}

#[test]
fn a_closed_loop_in_which_all_went_well() {
    assert_data_eq!(render(&run(config(), right(7600)), false), file!["closed.txt"]);
}

#[test]
fn everything_that_can_be_wrong() {
    let mut seen = right(5000);
    seen.statuses[404] = 20;
    seen.statuses[500] = 3;
    seen.statuses[503] = 40;
    for failure in [
        Failure::Connect(std::io::ErrorKind::ConnectionRefused.into()),
        Failure::Read(std::io::ErrorKind::ConnectionReset.into()),
        Failure::Timeout,
    ] {
        seen.fail(&failure, Duration::from_secs(10));
    }
    seen.statuses[200] += 2;
    seen.unexpected(17, Some(100));
    seen.unexpected(100, Some(100));
    seen.latency_failed.record_n(Duration::from_millis(2), 65);
    seen.latency.record(Duration::from_millis(200));
    let mut run = run(config(), seen);
    run.config.urls = 3;
    run.outcome.abandoned = 4;
    run.outcome.is_interrupted = true;
    assert_data_eq!(render(&run, false), file!["wrong.txt"]);
}

fn open(rate: f64) -> Config {
    Config { rate: Some(rate), arrivals: Some("uniform".into()), warm_up_s: 0.0, ..config() }
}

/// At a rate: each request was sent this much late.
fn sent(count: u64, late: Duration) -> Recorder {
    let mut seen = right(count);
    for number in 0..count {
        seen.service.record(Duration::from_micros(1000 + number % 100));
    }
    seen.lag.record_n(late, count);
    seen
}

#[test]
fn an_open_loop_that_kept_its_rate() {
    let mut seen = sent(2000, Duration::from_micros(20));
    seen.lag.record(Duration::from_micros(900));
    let config = Config { arrivals: Some("poisson".into()), seed: Some(7), ..open(1000.0) };
    assert_data_eq!(render(&run(config, seen), false), file!["open.txt"]);
}

#[test]
fn the_first_line_of_the_result_says_when_the_generator_was_the_limit() {
    let third_line = |run: &Run| render(run, false).lines().nth(2).unwrap_or_default().to_owned();
    let busy = ThreadTime { cpu: Duration::from_millis(2900), wall: Duration::from_secs(3) };

    let mut closed = run(config(), right(7600));
    assert_eq!(third_line(&closed), "");
    closed.outcome.seen.latency.clear();
    closed.outcome.seen.latency.record_n(Duration::from_micros(500), 7600);
    assert!(third_line(&closed).starts_with("The generator was the bottleneck: 2 of 4 requests that could"));
    closed.outcome.threads[1] = busy;
    assert!(
        third_line(&closed).starts_with("The generator was the bottleneck: one of its threads used 97 %")
    );
    assert_eq!(bottleneck(&closed), "generator");

    let mut punctual = run(open(1000.0), sent(2000, Duration::from_micros(20)));
    punctual.outcome.threads[1] = busy;
    assert_eq!(third_line(&punctual), "", "it looked at the clock");
    let mut late = run(open(1000.0), sent(2000, Duration::from_millis(20)));
    assert!(third_line(&late).contains("one request in 100 was sent 20.0 ms late or more"));
    assert!(third_line(&late).contains("on average 3 of 4 connections were free"));
    late.outcome.seen.service.record(Duration::from_millis(50));
    assert_eq!(bottleneck(&late), "null", "the server may have stood still");
    late.outcome.threads[1] = busy;
    assert!(third_line(&late).contains("97 % of a core, and requests were sent late."));
}

#[test]
fn a_server_that_did_not_keep_up_is_not_the_generators_fault() {
    let mut overloaded = run(open(8000.0), sent(7600, Duration::from_millis(20)));
    overloaded.outcome.unsent = 8400;
    let text = render(&overloaded, false);
    let first = text.lines().nth(2).unwrap_or_default();
    assert!(
        first.starts_with("The server did not keep up with the rate: all connections were busy, and 47.5 %"),
        "{text}"
    );
    assert!(text.contains("16000 due, 7600 sent (47.50 %), 8400 not sent;"), "{text}");
    assert_eq!(bottleneck(&overloaded), "server");
}

fn bottleneck(run: &Run) -> String {
    serde_json::to_value(Document::of(run)).unwrap()["bottleneck"].to_string().trim_matches('"').to_owned()
}

#[test]
fn a_closed_loop_says_what_it_leaves_out_where_it_is_much() {
    let mut seen = right(100);
    seen.opened = 5;
    assert!(!render(&run(config(), seen.clone()), false).contains("closed loop nothing"));
    seen.latency.record(Duration::from_millis(200));
    let text = render(&run(config(), seen), false);
    assert!(text.contains("the one that took 200 ms blocked about 190 requests"), "{text}");
}

#[test]
fn what_scripts_look_for_is_in_the_last_two_lines() {
    for has_spectrum in [false, true] {
        let text = render(&run(config(), right(7600)), has_spectrum);
        assert!(text.ends_with("\nRequests/sec:   3800.00\nTransfer/sec:      0.91MB\n"), "{text}");
        assert_eq!(text.contains("1/(1-Percentile)"), has_spectrum);
    }
}

#[test]
fn nothing_seen_is_a_report_too() {
    let mut run = run(config(), Recorder::default());
    run.outcome.duration = Duration::ZERO;
    assert!(render(&run, false).ends_with("Requests/sec:      0.00\nTransfer/sec:       0.00B\n"));
    assert_eq!(serde_json::to_value(Document::of(&run)).unwrap()["latency_us"], serde_json::Value::Null);
}

#[test]
fn as_json_it_has_the_keys_that_people_know_and_their_units() {
    let mut run = run(open(1000.0), sent(2000, Duration::from_micros(20)));
    run.outcome.seen.fail(&Failure::Timeout, Duration::from_secs(10));
    let mut json = serde_json::to_value(Document::of(&run)).unwrap();
    let blob = json["latency_histogram"].take();
    assert!(blob.as_str().unwrap().starts_with("HIST"));
    for key in ["service", "schedule_lag", "first_byte", "connect", "latency_failed"] {
        json[&format!("{key}_histogram")].take();
    }
    json["rudy_version"].take();
    assert_data_eq!(serde_json::to_string_pretty(&json).unwrap() + "\n", file!["open.json"]);
}

#[test]
fn a_report_can_be_read_back_and_nothing_is_lost() {
    let mut seen = sent(2000, Duration::from_micros(20));
    seen.tls.record(Duration::from_millis(3));
    seen.ended = 3;
    seen.statuses[404] = 2;
    seen.fail(&Failure::Timeout, Duration::from_secs(10));
    seen.unexpected(1, Some(2));
    let document = Document::of(&run(open(1000.0), seen));
    let text = serde_json::to_string(&document).unwrap();
    let read: Document = serde_json::from_str(&text).unwrap();
    let run = Run::try_from(read).unwrap();
    assert_eq!(run.outcome.seen.failures[FailureKind::Timeout as usize], 1);
    assert_eq!(Document::of(&run), document);
}

#[test]
fn the_rows_of_a_run_add_up_to_its_report() {
    let parts = [right(100), Recorder::default(), right(37)];
    let mut text = Vec::new();
    let mut rows = Rows::new(&mut text);
    let mut total = Recorder::default();
    for (index, seen) in (0..).zip(parts) {
        total.merge(&seen);
        rows.write(&Interval { index, length: Duration::from_secs(1), seen, open: 4 }).unwrap();
    }
    let text = String::from_utf8(text).unwrap();
    let mut merged = Recorder::default();
    for line in text.lines() {
        let seen: Seen = serde_json::from_str(line).unwrap();
        merged.merge(&Recorder::try_from(seen).unwrap());
    }
    let report = |seen| Document::of(&run(config(), seen));
    assert_eq!(report(merged), report(total));
    assert_eq!(text.lines().count(), 3);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["index"], &last["end_s"], &last["right"]), (&2.into(), &3.0.into(), &37.into()));
}
