//! Reports of artificial runs. `SNAPSHOTS=overwrite cargo test -p rudy-load report` updates the files in this
//! folder; review the changes.

use std::time::Duration;

use rudy_request::{Failure, FailureKind};
use snapbox::{assert_data_eq, file};

use super::{Config, Document, Rows, Run, render};
use crate::bench::Recorder;
use crate::bench::run::{Interval, Outcome, ThreadTime};

/// Two threads with two connections each, in a closed loop.
pub(in crate::bench) fn config() -> Config {
    Config {
        target: "http://127.0.0.1:8080/".into(),
        urls: 1,
        remote: "127.0.0.1:8080".into(),
        connections: 4,
        threads: 2,
        http_version: "1.1".into(),
        streams: None,
        pipeline: 1,
        requests_per_connection: None,
        connections_max: None,
        rate: None,
        rate_at_end: None,
        arrivals: None,
        seed: None,
        duration_s: Some(2.0),
        requests: None,
        warm_up_s: 1.0,
        timeout_s: 10.0,
        deadline_s: None,
        tls_sessions: None,
        round_trip_s: None,
        share: None,
    }
}

/// Successful responses with latencies from 1 to 1.1 ms.
fn successes(count: u64) -> Recorder {
    let mut recorder = Recorder { sent: count, opened: 4, peak_in_flight: 1, ..Recorder::default() };
    recorder.received_bytes = count * 250;
    recorder.body_bytes = count * 100;
    for number in 0..count {
        let latency = Duration::from_micros(1000 + number % 100);
        recorder.record_response(200, latency, true);
        recorder.first_byte.record(latency / 2);
    }
    recorder.connect.record_n(Duration::from_micros(40), 4);
    recorder
}

fn outcome(recorder: Recorder) -> Outcome {
    let idle = ThreadTime {
        cpu: Duration::from_millis(1200),
        wall: Duration::from_secs(3),
        ..ThreadTime::default()
    };
    Outcome {
        recorder,
        duration: Duration::from_secs(2),
        in_flight_at_end: 0,
        threads: vec![idle; 2],
        relay: None,
        is_interrupted: false,
    }
}

fn run(config: Config, recorder: Recorder) -> Run {
    Run { config, outcome: outcome(recorder) }
}

#[test]
fn the_report_of_a_closed_loop_without_failures() {
    assert_data_eq!(render(&run(config(), successes(7600)), false), file!["closed.txt"]);
}

#[test]
fn the_report_of_a_closed_loop_with_all_kinds_of_failures() {
    let mut recorder = successes(5000);
    for (status, count) in [(404, 20), (500, 3), (503, 40)] {
        (0..count).for_each(|_| recorder.record_response(status, Duration::from_millis(2), false));
    }
    for failure in [
        Failure::Connect(std::io::ErrorKind::ConnectionRefused.into()),
        Failure::Read(std::io::ErrorKind::ConnectionReset.into()),
        Failure::Timeout,
    ] {
        recorder.record_failure(&failure, Duration::from_secs(10));
    }
    (0..2).for_each(|_| recorder.record_response(200, Duration::from_millis(2), false));
    recorder.record_unexpected_body(17, Some(100));
    recorder.record_unexpected_body(100, Some(100));
    recorder.latency.record(Duration::from_millis(200));
    let mut run = run(config(), recorder);
    run.config.urls = 3;
    run.outcome.in_flight_at_end = 4;
    run.outcome.is_interrupted = true;
    assert_data_eq!(render(&run, false), file!["failed.txt"]);
}

/// An open loop.
fn open(rate: f64) -> Config {
    Config { rate: Some(rate), arrivals: Some("uniform".into()), warm_up_s: 0.0, ..config() }
}

/// Successful responses in an open loop, with the same schedule delay for each.
fn sent(count: u64, delay: Duration) -> Recorder {
    let mut recorder = successes(count);
    for number in 0..count {
        recorder.service.record(Duration::from_micros(1000 + number % 100));
    }
    recorder.schedule_delay.record_n(delay, count);
    recorder
}

#[test]
fn the_report_of_an_open_loop_that_kept_its_rate() {
    let mut recorder = sent(2000, Duration::from_micros(20));
    recorder.schedule_delay.record(Duration::from_micros(900));
    let config = Config { arrivals: Some("poisson".into()), seed: Some(7), ..open(1000.0) };
    assert_data_eq!(render(&run(config, recorder), false), file!["open.txt"]);
}

/// The third line of the report: the verdict.
fn verdict(run: &Run) -> String {
    render(run, false).lines().nth(2).unwrap_or_default().to_owned()
}

#[test]
fn the_time_to_connect_is_no_lateness_of_the_client() {
    let ms = Duration::from_millis;
    let verdict = |delay_ms| {
        let mut recorder = Recorder { opened: 2000, ..sent(2000, ms(delay_ms)) };
        recorder.connect.record_n(ms(20), 2000);
        recorder.tls.record_n(ms(30), 2000);
        verdict(&run(Config { requests_per_connection: Some(1), ..open(1000.0) }, recorder))
    };
    assert!(verdict(50).starts_with("The rate was kept"), "{}", verdict(50));
    assert!(verdict(53).contains("so the client was the limit"), "{}", verdict(53));
}

#[test]
fn a_relay_without_time_left_is_named_also_if_the_rate_was_kept() {
    let verdict = |cpu_ms| {
        let mut run = run(open(1000.0), sent(2000, Duration::from_micros(20)));
        let (cpu, wall) = (Duration::from_millis(cpu_ms), Duration::from_secs(2));
        run.outcome.relay = Some(ThreadTime { cpu, wall, ..ThreadTime::default() });
        assert!(render(&run, false).contains(&format!("relay {} %", cpu_ms / 20)), "{}", render(&run, false));
        verdict(&run)
    };
    assert!(verdict(1700).starts_with("The rate was kept"), "{}", verdict(1700));
    assert!(
        verdict(1900).starts_with("The relay of --round-trip used 95.0 % of a core"),
        "{}",
        verdict(1900)
    );
}

#[test]
fn the_verdict_names_the_client_only_if_it_was_the_limit() {
    let busy = ThreadTime {
        cpu: Duration::from_millis(2900),
        wall: Duration::from_secs(3),
        ..ThreadTime::default()
    };
    let mut closed = run(config(), successes(7600));
    assert_eq!(verdict(&closed), "The client was not the limit: its busiest thread used 40 % of a core.");
    closed.outcome.threads[0].run_delay = Duration::from_millis(1350);
    assert!(
        verdict(&closed)
            .starts_with("The client waited for a core 45.0 % of the time. Give server and client")
    );
    assert_eq!(bottleneck(&closed), "machine");
    closed.outcome.threads[1] = busy;
    assert!(verdict(&closed).starts_with("The client used 96.7 % of a core, so responses waited for it."));
    assert_eq!(bottleneck(&closed), "client");
}

#[test]
fn spin_time_does_not_count_as_client_cpu_and_is_shown() {
    let mut kept = run(open(1000.0), sent(2000, Duration::from_micros(20)));
    let spinning = ThreadTime {
        cpu: Duration::from_millis(2900),
        spin: Duration::from_millis(2400),
        wall: Duration::from_secs(3),
        ..ThreadTime::default()
    };
    kept.outcome.threads[1] = spinning;
    let line = "The rate was kept: 99 % of the requests were sent within 20.0 µs of their due time.";
    assert_eq!(verdict(&kept), line);
    assert!(render(&kept, false).contains("client CPU   40 %; 97 % (80 % polling the clock)\n"));
}

#[test]
fn a_client_that_is_late_with_free_connections_is_the_limit() {
    let late = run(open(1000.0), sent(2000, Duration::from_millis(20)));
    assert!(
        verdict(&late).starts_with("1 request in 100 was sent 20.0 ms late or more: connections were free")
    );
    assert_eq!(bottleneck(&late), "client");
    let mut stalled = late;
    stalled.outcome.recorder.service.record(Duration::from_millis(50));
    stalled.outcome.recorder.peak_in_flight = 2;
    assert_eq!(bottleneck(&stalled), "null", "the server may have stalled");
}

#[test]
fn requests_not_sent_are_failed_and_make_percentiles_lower_bounds() {
    let mut recorder = sent(3705, Duration::from_micros(20));
    (0..295).for_each(|_| recorder.record_failure(&Failure::NotSent, Duration::from_millis(1200)));
    let run = run(open(2000.0), recorder);
    let text = render(&run, false);
    assert!(verdict(&run).starts_with("295 of 4,000 due requests were never sent"), "{text}");
    assert!(text.contains("  99 %        ≥ 1.20 s"), "{text}");
    assert!(
        text.contains("4000 due, 3705 sent before the end (92.62 %), 0 after it, 295 not sent;"),
        "{text}"
    );
    let json = serde_json::to_value(Document::new(&run)).unwrap();
    assert_eq!(json["latency_us"]["lower_bounds"], serde_json::json!(["mean", "p99", "p99_9", "max"]));
    assert_eq!(json["latency_us"]["p99_99"], serde_json::Value::Null);
    assert_eq!(
        (&json["failures"]["not_sent"]["count"], &json["bottleneck"]),
        (&295.into(), &"server".into())
    );
    assert!(json["success_rate"]["nines_at_least"].as_f64().unwrap() < 2.0);
}

#[test]
fn an_overloaded_server_is_the_limit() {
    let mut overloaded = run(open(4000.0), sent(8000, Duration::from_millis(20)));
    overloaded.outcome.recorder.sent_after_end = 4200;
    overloaded.outcome.recorder.peak_in_flight = 2;
    let text = render(&overloaded, false);
    assert!(
        verdict(&overloaded)
            .contains("all connections were busy, so the server or their number was the limit"),
        "{text}"
    );
    assert!(
        text.contains("8000 due, 3800 sent before the end (47.50 %), 4200 after it, 0 not sent;"),
        "{text}"
    );
    assert_eq!(bottleneck(&overloaded), "server");
}

#[test]
fn latencies_are_shown_by_status_class_if_there_are_several() {
    let mut recorder = successes(100);
    assert!(!render(&run(config(), recorder.clone()), false).contains("2xx"));
    recorder.record_response(503, Duration::from_micros(10), false);
    let run = run(config(), recorder);
    assert!(render(&run, false).contains("    latency        2xx        5xx first byte"));
    let json = serde_json::to_value(Document::new(&run)).unwrap();
    assert_eq!(json["latency_by_status_us"]["5xx"]["max"], 10.007);
}

fn bottleneck(run: &Run) -> String {
    serde_json::to_value(Document::new(run)).unwrap()["bottleneck"].to_string().trim_matches('"').to_owned()
}

#[test]
fn a_closed_loop_warns_of_many_omitted_requests() {
    let mut recorder = successes(100);
    recorder.opened = 5;
    assert!(!render(&run(config(), recorder.clone()), false).contains("closed loop sends nothing"));
    recorder.latency.record(Duration::from_millis(200));
    let text = render(&run(config(), recorder), false);
    assert!(text.contains("the one that took 200 ms blocked about 190 requests"), "{text}");
}

#[test]
fn the_last_two_lines_have_the_format_of_wrk() {
    for has_spectrum in [false, true] {
        let text = render(&run(config(), successes(7600)), has_spectrum);
        assert!(text.ends_with("\nRequests/sec:   3800.00\nTransfer/sec:      0.91MB\n"), "{text}");
        assert_eq!(text.contains("1/(1-Percentile)"), has_spectrum);
    }
}

#[test]
fn a_run_without_requests_has_a_report() {
    let mut run = run(config(), Recorder::default());
    run.outcome.duration = Duration::ZERO;
    assert!(render(&run, false).ends_with("Requests/sec:      0.00\nTransfer/sec:       0.00B\n"));
    assert_eq!(serde_json::to_value(Document::new(&run)).unwrap()["latency_us"], serde_json::Value::Null);
}

#[test]
fn the_json_report_has_known_keys_with_units() {
    let mut run = run(open(1000.0), sent(2000, Duration::from_micros(20)));
    run.outcome.recorder.record_failure(&Failure::Timeout, Duration::from_secs(10));
    let mut json = serde_json::to_value(Document::new(&run)).unwrap();
    let blob = json["latency_histogram"].take();
    assert!(blob.as_str().unwrap().starts_with("HIST"));
    json["status_class_histograms"]["2xx"].take();
    for key in ["given_up", "service", "schedule_delay", "first_byte", "connect", "latency_failed"] {
        json[&format!("{key}_histogram")].take();
    }
    json["rudy_version"].take();
    assert_data_eq!(serde_json::to_string_pretty(&json).unwrap() + "\n", file!["open.json"]);
}

#[test]
fn a_json_report_is_lossless() {
    let mut recorder = sent(2000, Duration::from_micros(20));
    recorder.tls.record(Duration::from_millis(3));
    recorder.closed_by_server = 3;
    recorder.statuses[404] = 2;
    recorder.record_failure(&Failure::Timeout, Duration::from_secs(10));
    recorder.record_unexpected_body(1, Some(2));
    let run = run(open(1000.0), recorder);
    let text = serde_json::to_string(&Document::new(&run)).unwrap();
    let read: Run = serde_json::from_str(&text).unwrap();
    assert_eq!(read.outcome.recorder.failure_count(FailureKind::Timeout), 1);
    assert_eq!(read, run);
}

#[test]
fn the_rows_of_a_run_add_up_to_its_report() {
    let parts = [successes(100), Recorder::default(), successes(37)];
    let mut text = Vec::new();
    let mut rows = Rows::new(&mut text);
    let mut total = Recorder::default();
    for (index, recorder) in (0..).zip(parts) {
        total.merge(&recorder);
        let recorder = Box::new(recorder);
        rows.write(&Interval { index, length: Duration::from_secs(1), recorder, open: 4 }).unwrap();
    }
    let text = String::from_utf8(text).unwrap();
    let mut merged = Recorder::default();
    for line in text.lines() {
        merged.merge(&serde_json::from_str(line).unwrap());
    }
    assert_eq!(merged, total);
    assert_eq!(text.lines().count(), 3);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["index"], &last["end_s"], &last["succeeded"]), (&2.into(), &3.0.into(), &37.into()));
}
