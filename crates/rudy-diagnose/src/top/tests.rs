//! The output for invented threads.

use rudy_observe::ThreadDifference;

use super::*;

pub(super) fn thread(tid: u32, name: &str, cpu_ms: u64) -> ThreadDifference {
    ThreadDifference {
        tid,
        name: name.to_owned(),
        state: if cpu_ms > 0 { 'R' } else { 'S' },
        cpu: Duration::from_millis(cpu_ms),
        cpu_since_start: Duration::from_millis(cpu_ms * 10),
        age: Duration::from_secs(100),
        cpu_user: Duration::from_millis(cpu_ms / 4),
        cpu_system: Duration::from_millis(cpu_ms - cpu_ms / 4),
        ready: Some(Duration::from_millis(cpu_ms / 100)),
        voluntary_switches: 10,
        involuntary_switches: 3,
    }
}

fn difference() -> Difference {
    Difference {
        time: Duration::from_secs(2),
        cpu: Duration::from_millis(2500),
        cpu_user: Duration::from_millis(600),
        cpu_system: Duration::from_millis(1900),
        threads: vec![
            thread(100, "main", 0),
            thread(101, "worker", 400),
            thread(19_771, "acceptor\x1b[2J", 1800),
            thread(103, "finalizer", 0),
        ],
        threads_begun: 0,
        threads_ended: 2,
        cpu_of_ended: Duration::from_millis(300),
    }
}

fn settings(threads: Option<usize>, shows_idle: bool) -> Settings {
    let options = Options {
        target: Target::Pid(0),
        interval: Duration::from_secs(2),
        count: None,
        threads,
        sort: Sort::Cpu,
        sums_names: false,
        shows_stacks: false,
        dumps: None,
        shows_idle,
        json: false,
        plain: true,
    };
    Settings::new(&options)
}

/// Calls a function with a view of a difference of this process.
fn with_view<T>(difference: &Difference, settings: &Settings, take: impl FnOnce(&View<'_>) -> T) -> T {
    let mut processes = Processes::open(&Target::Pid(std::process::id())).unwrap();
    let sample = processes.sample().unwrap();
    take(&View::new(&mut processes, &sample, difference, None, settings, None).unwrap())
}

/// The table without the first lines, which are about the test process.
fn rows(difference: &Difference, settings: &Settings) -> String {
    let text = with_view(difference, settings, table::table);
    text.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn the_busiest_thread_stands_first_and_the_idle_ones_are_counted() {
    let expected = r"    TID NAME             CPU %   USER    SYS   WAIT     TOTAL   VOL/s INVOL/s STATE
  19771 acceptor\u{1b}[2J   90.0   22.5   67.5    0.9     18.00       5       2 R
    101 worker            20.0    5.0   15.0    0.2      4.00       5       2 R
      - (ended)           15.0
Not shown: 2 idle (--idle)
";
    assert_eq!(rows(&difference(), &settings(None, false)), expected);
}

#[test]
fn what_is_left_out_is_named() {
    let rows = |threads, shows_idle| rows(&difference(), &settings(threads, shows_idle));
    assert!(rows(Some(1), false).ends_with("Not shown: 1 less busy (--threads), 2 idle (--idle)\n"));
    assert!(rows(Some(3), true).ends_with("Not shown: 1 idle (--idle)\n"));
    assert!(!rows(None, true).contains("Not shown"));
}

#[test]
fn an_idle_process_has_a_verdict_and_the_threads_that_were_busy_before() {
    let mut threads: Vec<_> = (1..=9).map(|tid| thread(tid, "worker", 0)).collect();
    threads[6].cpu_since_start = Duration::from_mins(135);
    threads[6].age = Duration::from_hours(24);
    let difference = Difference { time: Duration::from_secs(1), threads, ..Difference::default() };
    let text = with_view(&difference, &settings(None, false), table::table);
    assert!(text.contains("\n=> idle: its 9 threads used 0.0 % of a core in the last 1.00 s"), "{text}");
    let first = text.lines().find(|line| line.contains(" worker ")).unwrap();
    assert!(first.starts_with("      7 worker ") && first.contains(" 2:15:00 "), "{first}");
    assert!(text.ends_with("Not shown: 4 idle (--idle)\n"), "{text}");
}

#[test]
fn stacks_of_the_first_threads_are_read() {
    let mut processes = Processes::open(&Target::Pid(std::process::id())).unwrap();
    let sample = processes.sample().unwrap();
    let difference = sample.since(&sample);
    let settings = Settings { shows_stacks: true, shows_idle: true, ..settings(None, true) };
    let view = View::new(&mut processes, &sample, &difference, None, &settings, None).unwrap();
    assert!(view.stacks.first().is_some_and(|stacks| stacks.kernel.is_some()));
    assert!(table::table(&view).contains(" in the kernel: "));
    let object: serde_json::Value = serde_json::from_str(&json::line(&view)).unwrap();
    assert!(object["busiest"][0]["kernel_stack"]["source"].is_string(), "{object}");
}

#[test]
fn a_key_changes_what_is_shown() {
    let mut settings = settings(None, false);
    for (key, sort) in [(b't', Sort::Total), (b'n', Sort::Name), (b'w', Sort::Wait), (b'c', Sort::Cpu)] {
        assert_eq!((settings.key(key), settings.sort), (Effect::Redraw, sort));
    }
    for key in *b"gsi?" {
        assert_eq!(settings.key(key), Effect::Redraw);
    }
    assert!(settings.sums_names && settings.shows_stacks && settings.shows_idle && settings.shows_help);
    let before = settings.clone();
    assert_eq!((settings.key(b'x'), settings.key(b'q')), (Effect::Nothing, Effect::Quit));
    assert_eq!(settings, before);
}

#[test]
fn an_object_has_its_units_in_its_keys() {
    let line = with_view(&difference(), &settings(None, false), json::line);
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["interval_ms"], 2000.0);
    assert_eq!(object["cpu_percent"], 125.0);
    assert_eq!(object["cpu_of_ended_threads_percent"], 15.0);
    assert_eq!(object["threads_busy"], 2);
    assert_eq!(object["verdicts"][0]["kind"], "whole_core");
    assert_eq!(
        (&object["hottest"]["cpu_and_ready_percent"], &object["management_cpu_percent"]),
        (&90.9.into(), &90.0.into())
    );
    let busiest = &object["busiest"][0];
    assert_eq!((busiest["nid"].as_str(), busiest["tid"].as_u64()), (Some("0x4d3b"), Some(19_771)));
    assert_eq!(busiest["cpu_percent"], 90.0);
    assert_eq!((&busiest["cpu_since_start_s"], &busiest["role"]), (&18.0.into(), &"management".into()));
    assert_eq!(busiest["voluntary_switches_per_s"], 5.0);
    assert_eq!(object["busiest"].as_array().map(Vec::len), Some(2));
}
