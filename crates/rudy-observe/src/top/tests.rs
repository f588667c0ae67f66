//! The output for invented threads.

use super::*;

fn thread(tid: u32, name: &str, cpu_ms: u64) -> ThreadDifference {
    ThreadDifference {
        tid,
        name: name.to_owned(),
        state: if cpu_ms > 0 { 'R' } else { 'S' },
        cpu: Duration::from_millis(cpu_ms),
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

fn options(threads: Option<usize>, shows_idle: bool) -> Options {
    let interval = Duration::from_secs(2);
    Options { target: Target::Pid(0), interval, count: None, threads, shows_idle, json: false, plain: true }
}

/// The table without the first line, which is about the test process.
fn rows(options: &Options) -> String {
    let mut process = Process::own().unwrap();
    let sample = process.sample().unwrap();
    let text = table::table(&View::new(&process, &sample, difference(), options, None));
    text.split_once("\n\n").unwrap().1.to_owned()
}

#[test]
fn the_busiest_thread_stands_first_and_the_idle_ones_are_counted() {
    let expected = r"    TID      NID NAME             CPU %   USER    SYS   WAIT   VOL/s INVOL/s STATE
  19771   0x4d3b acceptor\u{1b}[2J   90.0   22.5   67.5    0.9       5       2 R
    101     0x65 worker            20.0    5.0   15.0    0.2       5       2 R
      -        - (ended)           15.0
Not shown: 2 idle (--idle)
";
    assert_eq!(rows(&options(None, false)), expected);
}

#[test]
fn what_is_left_out_is_named() {
    assert!(
        rows(&options(Some(1), false)).ends_with("Not shown: 1 less busy (--threads), 2 idle (--idle)\n")
    );
    assert!(rows(&options(Some(3), true)).ends_with("Not shown: 1 idle (--idle)\n"));
    assert!(!rows(&options(None, true)).contains("Not shown"));
}

#[test]
fn an_object_has_its_units_in_its_keys() {
    let mut process = Process::own().unwrap();
    let sample = process.sample().unwrap();
    let view = View::new(&process, &sample, difference(), &options(None, false), None);
    let object: serde_json::Value = serde_json::from_str(&json::line(&view)).unwrap();
    assert_eq!(object["interval_ms"], 2000.0);
    assert_eq!(object["cpu_percent"], 125.0);
    assert_eq!(object["cpu_of_ended_threads_percent"], 15.0);
    assert_eq!(object["threads_busy"], 2);
    let busiest = &object["busiest"][0];
    assert_eq!((busiest["nid"].as_str(), busiest["tid"].as_u64()), (Some("0x4d3b"), Some(19_771)));
    assert_eq!(busiest["cpu_percent"], 90.0);
    assert_eq!(busiest["voluntary_switches_per_s"], 5.0);
    assert_eq!(object["busiest"].as_array().map(Vec::len), Some(2));
}
