use super::*;

const MS: Duration = Duration::from_millis(1);

fn thread(cpu_share: f64, run_delay_share: f64) -> ThreadUse {
    ThreadUse { cpu_share, run_delay_share: Some(run_delay_share) }
}

/// A closed loop of 64 connections that were always busy.
fn closed() -> Conditions {
    Conditions {
        sent: Some(10_000),
        succeeded: Some(10_000),
        failed: Some(0),
        capacity: Some(64),
        in_flight: Some(64.0),
        client_threads: vec![thread(0.5, 0.0)],
        ..Conditions::default()
    }
}

/// An open loop that kept its rate, with half of the connections busy.
fn open() -> Conditions {
    Conditions {
        due: Some(10_000),
        schedule_delay_p99: Some(MS / 20),
        slowest_response: Some(2 * MS),
        in_flight: Some(32.0),
        most_in_flight: Some(64),
        ..closed()
    }
}

fn sentences(conditions: &Conditions) -> Vec<String> {
    check(conditions).iter().map(ToString::to_string).collect()
}

#[test]
fn an_undisturbed_run_and_an_unknown_one_have_no_warning() {
    assert_eq!(sentences(&closed()), Vec::<String>::new());
    assert_eq!(sentences(&open()), Vec::<String>::new());
    assert_eq!(sentences(&Conditions::default()), Vec::<String>::new());
}

/// A name, conditions at a threshold, and conditions beyond it.
type Case = (&'static str, Conditions, Conditions);

fn thresholds() -> Vec<Case> {
    let threads = |thread| Conditions { client_threads: vec![thread], ..closed() };
    let in_flight = |in_flight| Conditions { in_flight: Some(in_flight), ..closed() };
    let background = |share| Conditions { background_cpu_share: Some(share), ..closed() };
    let variants = |highest| Conditions { background_cpu_of_variants: Some((0.0, highest)), ..closed() };
    vec![
        ("rate", Conditions { sent: Some(9900), ..open() }, Conditions { sent: Some(9899), ..open() }),
        (
            "schedule delay",
            Conditions { schedule_delay_p99: Some(MS), ..open() },
            Conditions { schedule_delay_p99: Some(MS + Duration::from_nanos(1)), ..open() },
        ),
        (
            "failed",
            Conditions { succeeded: Some(999), failed: Some(1), ..closed() },
            Conditions { succeeded: Some(998), failed: Some(1), ..closed() },
        ),
        ("client CPU", threads(thread(0.89, 0.0)), threads(thread(0.9, 0.0))),
        ("client run delay", threads(thread(0.5, 0.025)), threads(thread(0.5, 0.026))),
        ("run delay of an idle thread", threads(thread(0.001, 0.01)), threads(thread(0.001, 0.011))),
        (
            "server run delay",
            Conditions { server: Some(thread(2.0, 0.1)), ..closed() },
            Conditions { server: Some(thread(2.0, 0.11)), ..closed() },
        ),
        ("too many in flight", in_flight(67.0), in_flight(68.0)),
        // The client computed for half of the time.
        ("too few in flight", in_flight(29.0), in_flight(28.0)),
        ("background CPU", background(0.2), background(0.21)),
        ("background CPU of variants", variants(0.05), variants(0.051)),
        (
            "steal",
            Conditions { steal_share: Some(0.05), ..closed() },
            Conditions { steal_share: Some(0.051), ..closed() },
        ),
    ]
}

#[test]
fn each_check_passes_at_its_threshold_and_not_beyond() {
    for (case, at, beyond) in thresholds() {
        assert_eq!(sentences(&at), Vec::<String>::new(), "{case}");
        assert_eq!(check(&beyond).len(), 1, "{case}: {:?}", sentences(&beyond));
    }
}

#[test]
fn a_run_without_a_request_failed() {
    let nothing = Conditions { succeeded: Some(0), failed: Some(0), ..Conditions::default() };
    assert_eq!(check(&nothing), [Warning::Failed { share: 1.0 }]);
}

#[test]
fn an_open_loop_that_keeps_its_schedule_may_poll_the_clock() {
    let busy = Conditions { client_threads: vec![thread(1.0, 0.0)], ..open() };
    assert_eq!(check(&busy), []);
    let late = Conditions { schedule_delay_p99: Some(5 * MS), ..busy };
    assert!(check(&late).contains(&Warning::ClientCpu { share: 1.0 }));
}

#[test]
fn a_client_that_reads_all_responses_before_it_sends_is_not_suspect() {
    // 46 of 64 in flight at 72 % of a core: what `rudy bench` does on two cores.
    let batching = Conditions { in_flight: Some(46.0), client_threads: vec![thread(0.72, 0.0)], ..closed() };
    assert_eq!(check(&batching), []);
    // The client did nothing, and still most connections were free.
    let idle = Conditions { client_threads: vec![thread(0.1, 0.0)], ..batching };
    assert!(matches!(check(&idle)[..], [Warning::LittlesLaw { .. }]));
}

#[test]
fn requests_at_the_ends_of_a_short_run_are_not_a_wrong_count() {
    let long = Conditions {
        in_flight: Some(100.0),
        mean_latency: Some(250 * MS),
        duration: Some(10_000 * MS),
        ..closed()
    };
    assert_eq!(check(&long).len(), 1);
    assert_eq!(check(&Conditions { duration: Some(800 * MS), ..long }), []);
}

#[test]
fn free_connections_show_the_limit_of_a_late_run() {
    let late = Conditions { sent: Some(9000), schedule_delay_p99: Some(5 * MS), ..open() };
    let limit = |conditions: &Conditions| check(conditions)[0].limit();
    // All connections were busy at some time, half of them on average, and no response took as long as the delay.
    assert_eq!(limit(&late), Some(Limit::Client));
    assert_eq!(limit(&Conditions { slowest_response: Some(6 * MS), ..late.clone() }), None);
    assert_eq!(limit(&Conditions { in_flight: Some(60.0), ..late.clone() }), Some(Limit::Server));
    assert_eq!(
        limit(&Conditions { client_threads: vec![thread(0.95, 0.0)], ..late.clone() }),
        Some(Limit::Client)
    );
    assert_eq!(
        limit(&Conditions { client_threads: vec![thread(0.5, 0.4)], ..late.clone() }),
        Some(Limit::Machine)
    );
    // A server that stalled for a second, beside a client that waited for a core for 0.26 s.
    let stalled = Conditions {
        schedule_delay_p99: Some(951 * MS),
        slowest_response: Some(1000 * MS),
        duration: Some(4000 * MS),
        client_threads: vec![thread(0.5, 0.065)],
        ..late.clone()
    };
    assert_eq!(limit(&stalled), None);
    assert_eq!(limit(&Conditions { duration: Some(15_000 * MS), ..stalled }), Some(Limit::Machine));
    // A connection was free at any time, however slow the server was.
    let free = Conditions { most_in_flight: Some(63), in_flight: Some(60.0), ..late.clone() };
    assert_eq!(limit(&free), Some(Limit::Client));
    assert_eq!(limit(&Conditions { capacity: None, ..late }), None);
}

#[test]
fn each_warning_affects_its_metrics() {
    let affects = |warning: Warning| {
        [Metric::Latency, Metric::Rate, Metric::CpuPerRequest, Metric::Memory]
            .map(|metric| warning.affects(metric))
    };
    for waiting in [
        Warning::ClientCpu { share: 1.0 },
        Warning::ClientRunDelay { share: 0.45 },
        Warning::ServerRunDelay { share: 0.45 },
        Warning::ScheduleDelay { p99: MS, limit: None },
        Warning::Steal { share: 0.1 },
        Warning::LittlesLaw { in_flight: 1.0, capacity: 2.0 },
    ] {
        assert_eq!(affects(waiting), [true, true, false, false], "{waiting}");
    }
    for disturbed in
        [Warning::LittlesLaw { in_flight: 2.0, capacity: 1.0 }, Warning::BackgroundCpu { share: 0.5 }]
    {
        assert_eq!(affects(disturbed), [true, true, true, false], "{disturbed}");
    }
    for wrong in [Warning::RateNotKept { kept: 0.9, limit: None }, Warning::Failed { share: 0.1 }] {
        assert_eq!(affects(wrong), [true; 4], "{wrong}");
    }
}

#[test]
fn a_sentence_has_its_numbers_and_never_rounds_to_the_threshold() {
    for (warning, sentence) in [
        (
            Warning::RateNotKept { kept: 0.98999, limit: Some(Limit::Server) },
            "98.9 % of the due requests were sent, so the metrics are those of a lower rate: all connections were \
             busy, so the server or their number was the limit",
        ),
        (
            Warning::ScheduleDelay { p99: MS * 12 / 5, limit: None },
            "1 request in 100 was sent 2.40 ms late or more",
        ),
        (
            Warning::Failed { share: 0.001_001 },
            "0.11 % of the requests failed, and a failed request costs less",
        ),
        (Warning::ClientRunDelay { share: 0.45 }, "the client waited for a core 45.0 % of the time"),
        (
            Warning::LittlesLaw { in_flight: 80.0, capacity: 64.0 },
            "rate times latency gives 80.0 requests in flight, but the connections carry at most 64 (Little's law): \
             a count is wrong",
        ),
    ] {
        assert_eq!(warning.to_string(), sentence);
    }
}
