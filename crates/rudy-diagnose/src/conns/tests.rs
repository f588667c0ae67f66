//! The output for invented sockets.

use std::time::Instant;

use rudy_observe::{Descriptors, Socket, Sockets, State};

use super::counts::Counts;
use super::history::History;
use super::verdict::Verdict;
use super::*;

fn socket(state: State, local: &str, remote: &str) -> Socket {
    let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
    let not_accepted = if state == State::Listen { 3 } else { 0 };
    let unread_bytes = if state == State::Established { 600 } else { 0 };
    Socket { state, local, remote, unread_bytes, unsent_bytes: 0, not_accepted }
}

fn sockets(at: Instant, close_wait: usize) -> Sockets {
    let mut with_descriptor = vec![
        socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"),
        socket(State::Established, "10.0.0.1:80", "10.0.0.7:5000"),
        socket(State::Established, "10.0.0.1:80", "10.0.0.8:5000"),
    ];
    with_descriptor
        .extend((0..close_wait).map(|_| socket(State::CloseWait, "10.0.0.1:4000", "10.0.0.9:443")));
    let open = Some(10 + close_wait as u64);
    Sockets {
        at,
        descriptors: Descriptors { open, limit: Some(1024) },
        with_descriptor,
        without_descriptor: vec![socket(State::TimeWait, "10.0.0.1:80", "10.0.0.7:4999")],
        udp: 0,
        unix: 2,
        in_no_table: [("TCP".to_owned(), 1)].into(),
    }
}

/// The test process.
fn own() -> Processes {
    Processes::open(&Target::Pid(std::process::id())).unwrap()
}

/// Without the first line, which is about the test process.
fn below_title(text: &str) -> &str {
    text.split_once("\n\n").unwrap().1
}

#[test]
fn states_say_what_they_mean_and_what_has_no_descriptor_stands_apart() {
    let text = table::by_state(&own(), &sockets(Instant::now(), 10));
    let expected = "\
STATE         SOCKETS    UNREAD    UNSENT
LISTEN              1                      waits for connections; 3 are not accepted yet
ESTABLISHED         2  1.17 KiB            open
CLOSE_WAIT         10                      closed by the peer, but not by this process: a leak if they stay
unix                2
in no table         1                      TCP 1: closed, never bound, or in another network namespace

Without a descriptor, on its ports or to its remote addresses:
TIME_WAIT           1                      closed on both sides; gone within a minute
";
    assert_eq!(below_title(&text), expected);
    assert!(text.contains(": descriptors 20 of 1024, 16 sockets\n"), "{text}");
}

#[test]
fn the_remote_with_the_most_sockets_stands_first() {
    let text = table::groups(&own(), &sockets(Instant::now(), 10), By::RemoteAddress, 2);
    let expected = "\
REMOTE        SOCKETS  STATES
10.0.0.9:443       10  CLOSE_WAIT 10
10.0.0.7            2  ESTABLISHED 1; without descriptor: TIME_WAIT 1
Not shown: 1 address with fewer (--rows)
";
    assert_eq!(below_title(&text), expected);
}

#[test]
fn a_watch_shows_the_change_since_its_start() {
    let start = Instant::now();
    let first = Counts::of(&sockets(start, 0));
    let later = Counts::of(&sockets(start + Duration::from_secs(10), 5));
    let beginning = table::beginning(&own(), &first);
    assert_eq!(
        beginning.split_once('\n').unwrap().1,
        "     0.0 s  descriptors 10 of 1024, sockets 6, LISTEN 1, ESTABLISHED 2, unix 2, in no table 1; without descriptor: TIME_WAIT 1\n"
    );
    assert_eq!(
        table::line(&later, &first),
        "    10.0 s  descriptors 15 of 1024 (+5), sockets 11 (+5), LISTEN 1, ESTABLISHED 2, CLOSE_WAIT 5 (+5), unix 2, \
         in no table 1; without descriptor: TIME_WAIT 1\n"
    );
    // A counter that dropped to zero is still shown.
    assert!(table::line(&first, &later).contains("CLOSE_WAIT 0 (-5)"));
    assert_eq!(
        table::conclusion(&first, &later),
        "In 10.0 s: descriptors +5 (+0.50/s), sockets +5 (+0.50/s), CLOSE_WAIT +5 (+0.50/s)\n"
    );
    assert_eq!(table::conclusion(&first, &first), "");
    let same = Counts::of(&sockets(start + Duration::from_secs(10), 0));
    assert_eq!(table::conclusion(&first, &same), "In 10.0 s: nothing has changed\n");
}

#[test]
fn an_object_has_what_the_table_has() {
    let start = Instant::now();
    let later = sockets(start + Duration::from_secs(10), 5);
    let change = Counts::of(&later).since(&Counts::of(&sockets(start, 0)));
    let options = Options {
        target: Target::Pid(0),
        by: Some(By::RemoteAddress),
        watch: None,
        rows: 1,
        json: true,
        plain: false,
    };
    let line = json::sample(&own(), &later, Some(&change), &options);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["descriptors"], 15);
    assert_eq!(object["descriptors_limit"], 1024);
    assert_eq!(object["tcp"]["established"]["unread_bytes"], 1200);
    assert_eq!(object["without_descriptor"]["time_wait"]["sockets"], 1);
    assert_eq!(object["not_accepted"], 3);
    assert_eq!(object["since_start"]["tcp"]["close_wait"], 5);
    assert_eq!(
        object["remotes"],
        serde_json::json!([
            { "address": "10.0.0.9:443", "sockets": 5, "tcp": { "close_wait": 5 }, "without_descriptor": {} }
        ])
    );
    assert_eq!(object.get("locals"), None);
}

/// The minimum time of the tests.
const TIME_MIN: Duration = Duration::from_secs(100);

/// A watch with one sample each second.
fn watched(seconds: usize, limit: u64, sample: impl Fn(usize) -> Sockets) -> History {
    let mut history = History::default();
    let start = Instant::now();
    for second in 0..=seconds {
        let mut sockets = sample(second);
        sockets.at = start + Duration::from_secs(second as u64);
        sockets.descriptors.limit = Some(limit);
        sockets.descriptors.open = Some(sockets.total() as u64 + 5);
        history.push(&sockets, &Counts::of(&sockets));
    }
    history
}

fn keys(leaks: &[verdict::Leak]) -> Vec<String> {
    leaks.iter().map(|leak| leak.key.to_string()).collect()
}

#[test]
fn a_leak_is_named_by_state_and_remote_with_the_time_that_is_left() {
    let history = watched(100, 300, |second| sockets(Instant::now(), 2 * second));
    let verdict = Verdict::of(&history, TIME_MIN);
    assert_eq!(keys(&verdict.leaks), ["CLOSE_WAIT to 10.0.0.9:443"]);
    let growth = verdict.leaks[0].growth().unwrap();
    assert!((growth.per_s - 2.0).abs() < 0.05, "{growth:?}");
    // 211 of 300 are open, so 89 are left.
    let run_out = verdict.run_out.unwrap();
    assert!((run_out.in_s - 89.0 / 2.0).abs() < 2.0 && run_out.earliest_s < run_out.in_s, "{run_out:?}");
    let text = sentence::conclusion(&verdict, history.descriptors, 100.0);
    assert!(text.starts_with("Leak: CLOSE_WAIT to 10.0.0.9:443 grows by 2/s ("), "{text}");
    assert!(text.contains("; descriptors run out in 44 s, at "), "{text}");
}

#[test]
fn growth_counts_only_after_the_minimum_time() {
    let history = watched(99, 1000, |second| sockets(Instant::now(), 2 * second));
    let verdict = Verdict::of(&history, TIME_MIN);
    assert!(!verdict.is_leak() && !verdict.is_long_enough);
    assert_eq!(keys(&verdict.growing), ["CLOSE_WAIT to 10.0.0.9:443"]);
    let text = sentence::conclusion(&verdict, history.descriptors, 100.0);
    assert!(
        text.starts_with("No verdict after 99 s and 100 samples: it takes 100 s and 20 samples.\n"),
        "{text}"
    );
}

/// A pool of `count` connections to a remote address.
fn pool(count: usize) -> Sockets {
    let mut pool = sockets(Instant::now(), 0);
    let connection = socket(State::Established, "10.0.0.1:4001", "10.0.0.9:5432");
    pool.with_descriptor.extend((0..count).map(|_| connection.clone()));
    pool
}

#[test]
fn open_connections_have_three_times_as_long_because_a_pool_may_be_filling() {
    let early = Verdict::of(&watched(200, 10_000, pool), TIME_MIN);
    assert_eq!((early.is_leak(), early.is_long_enough), (false, true));
    assert_eq!(keys(&early.growing), ["ESTABLISHED to 10.0.0.9:5432"]);
    let late = Verdict::of(&watched(300, 10_000, pool), TIME_MIN);
    assert_eq!(keys(&late.leaks), ["ESTABLISHED to 10.0.0.9:5432"]);
    let full = Verdict::of(&watched(300, 10_000, |second| pool(second.min(150))), TIME_MIN);
    assert!(!full.is_leak() && full.growing.is_empty());
}

#[test]
fn descriptors_that_have_run_out_are_no_plateau() {
    let until = |seconds| watched(seconds, 64, |second| sockets(Instant::now(), (2 * second).min(54)));
    for seconds in [29, 60, 500] {
        let verdict = Verdict::of(&until(seconds), TIME_MIN);
        assert_eq!(keys(&verdict.leaks), ["CLOSE_WAIT to 10.0.0.9:443"], "{seconds}");
    }
    let verdict = Verdict::of(&until(60), TIME_MIN);
    let text = sentence::leaks(&verdict);
    assert!(text.ends_with("; descriptors have run out\n"), "{text}");
}

#[test]
fn a_watch_that_begins_without_descriptors_names_the_closed_sockets_that_hold_them() {
    let full = |seconds| watched(seconds, 64, |_| sockets(Instant::now(), 54));
    let verdict = Verdict::of(&full(19), TIME_MIN);
    assert_eq!(keys(&verdict.leaks), ["CLOSE_WAIT to 10.0.0.9:443"]);
    assert_eq!(
        sentence::leaks(&verdict),
        "Leak: CLOSE_WAIT to 10.0.0.9:443 holds 54 of 64 descriptors; descriptors have run out\n"
    );
    assert!(!Verdict::of(&full(18), TIME_MIN).is_leak(), "too few samples");
    // Open connections may be in use.
    let busy = watched(100, 64, |_| pool(54));
    assert!(!Verdict::of(&busy, TIME_MIN).is_leak());
}

#[test]
fn descriptors_that_are_no_sockets_leak_too() {
    let mut history = History::default();
    let start = Instant::now();
    for second in 0..=300_u64 {
        let mut sockets = sockets(start + Duration::from_secs(second), 0);
        sockets.descriptors.open = Some(10 + second);
        history.push(&sockets, &Counts::of(&sockets));
    }
    assert_eq!(keys(&Verdict::of(&history, TIME_MIN).leaks), ["descriptors"]);
}

#[test]
fn connections_without_a_descriptor_leak_no_descriptors() {
    let history = watched(300, 10_000, |second| {
        let mut sockets = sockets(Instant::now(), 0);
        let closed = socket(State::LastAck, "10.0.0.1:80", "10.0.0.7:4998");
        sockets.without_descriptor.extend((0..second).map(|_| closed.clone()));
        sockets
    });
    let verdict = Verdict::of(&history, TIME_MIN);
    assert_eq!(keys(&verdict.leaks), ["LAST_ACK from 10.0.0.7 without descriptor"]);
    assert_eq!(verdict.run_out, None);
}

#[test]
fn a_long_watch_keeps_its_growth_in_bounded_memory() {
    let history = watched(5000, 100_000, |second| sockets(Instant::now(), second / 10));
    assert!(history.times_s().len() <= 1200);
    assert_eq!((history.samples, history.seconds()), (5001, 5000.0));
    let growth = Verdict::of(&history, TIME_MIN).leaks[0].growth().unwrap();
    assert!((growth.per_s - 0.1).abs() < 0.01, "{growth:?}");
}

#[test]
fn a_verdict_as_json_has_units_in_its_keys() {
    let history = watched(100, 300, |second| sockets(Instant::now(), 2 * second));
    let verdict = Verdict::of(&history, TIME_MIN);
    let line = json::verdict(&own(), &verdict, &history);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&object["verdict"], &object["watched_s"]), (&"leak".into(), &100.0.into()));
    let leak = &object["leaks"][0];
    assert_eq!((&leak["counter"], &leak["remote"]), (&"close_wait".into(), &"10.0.0.9:443".into()));
    assert!(object["descriptors_run_out_s"].as_f64() < Some(60.0) && leak["per_s"].as_f64() > Some(1.9));
}

#[test]
fn a_chart_has_the_counts_the_slope_of_the_leak_and_the_limit_that_it_reaches() {
    let history = watched(100, 300, |second| sockets(Instant::now(), 2 * second));
    let svg = plot::svg("a & b", &history, &Verdict::of(&history, TIME_MIN));
    for part in
        ["a &amp; b", "CLOSE_WAIT to 10.0.0.9:443", "slope of a leak", "limit of 300 descriptors", "dash s0"]
    {
        assert!(svg.contains(part), "{part} in {svg}");
    }
    let healthy = watched(100, 30_000, |_| sockets(Instant::now(), 2));
    let svg = plot::svg("", &healthy, &Verdict::of(&healthy, TIME_MIN));
    assert!(svg.contains("CLOSE_WAIT") && !svg.contains("dash s") && !svg.contains("limit of"), "{svg}");
    let one = plot::svg("", &watched(0, 300, |_| sockets(Instant::now(), 2)), &Verdict::default());
    assert!(one.contains("CLOSE_WAIT") && !one.contains("NaN"), "{one}");
}
