//! Table tests of events and the steps that follow.

use std::collections::BTreeMap;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Processes and a clock that the test controls.
struct Simulation {
    set: ProcessSet,
    start: Instant,
    now: Instant,
    idle_since: BTreeMap<MemberId, Instant>,
    /// Whether starts fail.
    starts_fail: bool,
}

impl Simulation {
    fn new(min: usize, max: usize) -> Self {
        let start = Instant::now();
        let rules = Rules {
            min,
            max,
            idle_timeout: Some(1000 * MS),
            retire_timeout: 2000 * MS,
            stop_timeout: 300 * MS,
        };
        let set = ProcessSet::new(rules);
        Self { set, start, now: start, idle_since: BTreeMap::new(), starts_fail: false }
    }

    fn apply(&mut self, event: &str) {
        let words: Vec<_> = event.split(' ').collect();
        let id = || words[1].parse().unwrap();
        match words[0] {
            "begin" => {}
            "at" => self.now = self.start + words[1].parse::<u32>().unwrap() * MS,
            "grow" => self.set.request_more(),
            "replace" => self.set.replace(id()),
            "drained" => self.set.drained(id()),
            "idle" => drop(self.idle_since.insert(id(), self.now)),
            "busy" => drop(self.idle_since.remove(&id())),
            "ends" => drop(self.set.ended(id(), self.now, words.len() > 2)),
            "broken" => self.starts_fail = true,
            "fixed" => self.starts_fail = false,
            "stop" => self.set.stop(),
            "kill" => self.set.kill(),
            _ => panic!("{event}"),
        }
    }

    /// Returns the steps up to the next wait.
    fn steps(&mut self) -> String {
        let mut steps = Vec::new();
        loop {
            let idle_since = |id| self.idle_since.get(&id).copied();
            let (step, is_last) = match self.set.next(self.now, &idle_since) {
                Step::Start(id) if self.starts_fail => {
                    self.set.cannot_start(self.now);
                    (format!("try {id}"), false)
                }
                Step::Start(id) => {
                    self.set.started(self.now);
                    (format!("start {id}"), false)
                }
                Step::Retire(id) => (format!("retire {id}"), false),
                Step::Terminate(id) => (format!("terminate {id}"), false),
                Step::Kill(id) => (format!("kill {id}"), false),
                Step::Wait(None) => ("wait".to_owned(), true),
                Step::Wait(Some(until)) => {
                    assert!(until > self.now, "it would spin");
                    (format!("wait until {}", (until - self.start).as_millis()), true)
                }
                Step::Exit => ("over".to_owned(), true),
            };
            steps.push(step);
            assert!(steps.len() < 20, "{steps:?}");
            if is_last {
                return steps.join(", ");
            }
        }
    }
}

/// Runs a script: each line has events and the expected steps.
fn simulate(min: usize, max: usize, script: &[(&str, &str)]) {
    let mut simulation = Simulation::new(min, max);
    for (number, (events, expected)) in script.iter().enumerate() {
        events.split(", ").for_each(|event| simulation.apply(event));
        assert_eq!(simulation.steps(), *expected, "line {number}: {events}");
    }
}

#[test]
fn the_minimum_starts_at_once() {
    simulate(2, 5, &[("begin", "start 1, start 2, wait"), ("at 100000", "wait")]);
}

#[test]
fn a_kill_reaches_processes_in_every_state() {
    simulate(
        2,
        2,
        &[
            ("begin", "start 1, start 2, wait"),
            ("replace 2", "retire 2, wait until 2000"),
            ("kill", "kill 1, kill 2, wait"),
            ("ends 1, ends 2", "over"),
        ],
    );
    simulate(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("stop", "retire 1, terminate 1, wait until 300"),
            ("kill", "kill 1, wait"),
        ],
    );
}

#[test]
fn more_processes_start_on_demand_one_at_a_time_up_to_the_maximum() {
    simulate(
        0,
        2,
        &[
            ("begin", "wait"),
            ("grow, grow", "start 1, wait until 1000"),
            ("grow", "start 2, wait until 1000"),
            ("grow", "wait until 1000"),
            ("at 10000, ends 1", "wait until 11000"),
        ],
    );
}

#[test]
fn idle_processes_end_longest_idle_first_down_to_the_minimum() {
    simulate(
        1,
        3,
        &[
            ("begin", "start 1, wait"),
            ("grow", "start 2, wait until 1000"),
            ("grow", "start 3, wait until 1000"),
            ("at 100, idle 2", "wait until 1100"),
            ("at 200, idle 1", "wait until 1100"),
            ("at 1099", "wait until 1100"),
            ("at 1100", "retire 2, wait until 1200"),
            ("drained 2", "terminate 2, wait until 1200"),
            ("at 1150, ends 2, busy 1", "wait until 2150"),
            ("at 1160, idle 3, idle 1", "wait until 2160"),
            ("at 2160", "retire 1, wait until 4160"),
            ("drained 1", "terminate 1, wait until 2460"),
            ("ends 1", "wait"),
        ],
    );
}

#[test]
fn a_busy_process_with_no_idle_timeout_is_not_polled_constantly() {
    let mut simulate = Simulation::new(0, 1);
    simulate.set.rules.idle_timeout = Some(Duration::ZERO);
    simulate.apply("grow");
    assert_eq!(simulate.steps(), "start 1, wait until 100");
    simulate.apply("idle 1");
    assert_eq!(simulate.steps(), "retire 1, wait until 2000");
}

#[test]
fn a_process_that_does_not_end_is_killed() {
    simulate(
        0,
        1,
        &[
            ("grow", "start 1, wait until 1000"),
            ("idle 1, at 1000", "retire 1, wait until 3000"),
            ("at 1500, drained 1", "terminate 1, wait until 1800"),
            ("at 1800", "kill 1, wait"),
            ("at 9000", "wait"),
            ("ends 1", "wait"),
        ],
    );
}

#[test]
fn a_process_that_does_not_finish_its_requests_is_terminated() {
    simulate(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("replace 1", "retire 1, wait until 2000"),
            ("at 2000", "terminate 1, wait until 2300"),
            ("ends 1", "start 2, wait"),
        ],
    );
}

#[test]
fn with_a_maximum_of_one_the_successor_starts_after_the_end() {
    simulate(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("replace 1", "retire 1, wait until 2000"),
            ("grow, drained 1", "terminate 1, wait until 300"),
            ("replace 1, drained 1", "wait until 300"),
            ("ends 1", "start 2, wait"),
            ("replace 1, drained 1, drained 2", "wait"),
        ],
    );
}

#[test]
fn below_the_maximum_the_successor_starts_before_the_end() {
    simulate(
        1,
        2,
        &[
            ("begin", "start 1, wait"),
            ("replace 1", "retire 1, start 2, wait until 2000"),
            ("ends 1", "wait"),
        ],
    );
}

#[test]
fn a_process_that_fails_soon_is_replaced_after_a_pause() {
    simulate(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("at 10, ends 1", "wait until 110"),
            ("at 110", "start 2, wait"),
            ("ends 2", "wait until 310"),
            ("at 310", "start 3, wait"),
            ("at 5310, ends 3", "start 4, wait"),
            ("ends 4", "wait until 5410"),
        ],
    );
}

#[test]
fn a_process_that_exits_cleanly_is_replaced_at_once() {
    simulate(1, 1, &[("begin", "start 1, wait"), ("ends 1 in order", "start 2, wait")]);
}

#[test]
fn failed_starts_are_repeated_with_growing_pauses() {
    simulate(
        1,
        2,
        &[
            ("broken", "try 1, wait until 100"),
            ("grow, grow", "wait until 100"),
            ("at 100", "try 1, wait until 300"),
            ("at 300", "try 1, wait until 700"),
            ("fixed, at 700", "start 1, wait"),
        ],
    );
}

#[test]
fn a_process_requested_during_a_pause_starts_after_it() {
    simulate(
        0,
        1,
        &[
            ("broken, grow", "try 1, wait"),
            ("fixed, at 100", "wait"),
            ("grow", "start 1, wait until 1100"),
            ("ends 1", "wait"),
            ("grow", "wait until 300"),
            ("at 300", "start 2, wait until 1300"),
        ],
    );
}

#[test]
fn a_stop_ends_all_processes_and_starts_none() {
    simulate(
        2,
        3,
        &[
            ("begin", "start 1, start 2, wait"),
            ("stop", "retire 1, terminate 1, retire 2, terminate 2, wait until 300"),
            ("grow, ends 1", "wait until 300"),
            ("at 300", "kill 2, wait"),
            ("ends 2", "over"),
        ],
    );
}

#[test]
fn a_retired_process_ends_at_a_stop() {
    simulate(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("replace 1", "retire 1, wait until 2000"),
            ("stop", "terminate 1, wait until 300"),
            ("ends 1", "over"),
        ],
    );
    simulate(0, 1, &[("stop", "over")]);
}
