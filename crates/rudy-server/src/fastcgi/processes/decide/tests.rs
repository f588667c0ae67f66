//! What happens, and what is done about it.

use std::collections::BTreeMap;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Processes that are as the test says, and time that passes as it says.
struct Play {
    set: ProcessSet,
    start: Instant,
    now: Instant,
    idle_since: BTreeMap<MemberId, Instant>,
    /// Nothing can be started.
    is_broken: bool,
}

impl Play {
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
        Self { set, start, now: start, idle_since: BTreeMap::new(), is_broken: false }
    }

    fn happens(&mut self, event: &str) {
        let words: Vec<_> = event.split(' ').collect();
        let id = || words[1].parse().unwrap();
        match words[0] {
            "begin" => {}
            "at" => self.now = self.start + words[1].parse::<u32>().unwrap() * MS,
            "grow" => self.set.want_more(),
            "replace" => self.set.replace(id()),
            "drained" => self.set.drained(id()),
            "idle" => drop(self.idle_since.insert(id(), self.now)),
            "busy" => drop(self.idle_since.remove(&id())),
            "ends" => drop(self.set.ended(id(), self.now, words.len() > 2)),
            "broken" => self.is_broken = true,
            "mended" => self.is_broken = false,
            "stop" => self.set.stop(),
            "kill" => self.set.kill(),
            _ => panic!("{event}"),
        }
    }

    /// What is done until there is nothing to do.
    fn steps(&mut self) -> String {
        let mut steps = Vec::new();
        loop {
            let idle_since = |id| self.idle_since.get(&id).copied();
            let (step, is_last) = match self.set.next(self.now, &idle_since) {
                Step::Start(id) if self.is_broken => {
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
                Step::Over => ("over".to_owned(), true),
            };
            steps.push(step);
            assert!(steps.len() < 20, "{steps:?}");
            if is_last {
                return steps.join(", ");
            }
        }
    }
}

/// Plays a piece: in each line what happens, and what is done then.
fn play(min: usize, max: usize, piece: &[(&str, &str)]) {
    let mut play = Play::new(min, max);
    for (number, (events, expected)) in piece.iter().enumerate() {
        events.split(", ").for_each(|event| play.happens(event));
        assert_eq!(play.steps(), *expected, "line {number}: {events}");
    }
}

#[test]
fn as_many_start_at_once_as_always_run() {
    play(2, 5, &[("begin", "start 1, start 2, wait"), ("at 100000", "wait")]);
}

#[test]
fn all_are_killed_at_once_whatever_they_are_at() {
    play(
        2,
        2,
        &[
            ("begin", "start 1, start 2, wait"),
            ("replace 2", "retire 2, wait until 2000"),
            ("kill", "kill 1, kill 2, wait"),
            ("ends 1, ends 2", "over"),
        ],
    );
    play(
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
fn others_start_when_they_are_wanted_one_at_a_time_and_no_more_than_may_be() {
    play(
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
fn idle_ones_end_the_longest_idle_first_and_the_least_stay() {
    play(
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
fn a_busy_one_that_is_to_end_as_soon_as_it_is_idle_is_not_looked_at_all_the_time() {
    let mut play = Play::new(0, 1);
    play.set.rules.idle_timeout = Some(Duration::ZERO);
    play.happens("grow");
    assert_eq!(play.steps(), "start 1, wait until 100");
    play.happens("idle 1");
    assert_eq!(play.steps(), "retire 1, wait until 2000");
}

#[test]
fn one_that_does_not_end_is_killed() {
    play(
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
fn one_that_does_not_finish_its_requests_is_ended_all_the_same() {
    play(
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
fn the_successor_of_the_only_one_starts_when_that_has_ended() {
    play(
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
fn where_there_is_room_the_successor_starts_before_the_end() {
    play(
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
fn one_that_dies_soon_is_followed_after_a_pause() {
    play(
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
fn one_that_ends_in_order_is_followed_at_once() {
    play(1, 1, &[("begin", "start 1, wait"), ("ends 1 in order", "start 2, wait")]);
}

#[test]
fn what_cannot_be_started_is_tried_less_and_less_often() {
    play(
        1,
        2,
        &[
            ("broken", "try 1, wait until 100"),
            ("grow, grow", "wait until 100"),
            ("at 100", "try 1, wait until 300"),
            ("at 300", "try 1, wait until 700"),
            ("mended, at 700", "start 1, wait"),
        ],
    );
}

#[test]
fn what_is_wanted_in_a_pause_starts_after_it_and_nothing_else() {
    play(
        0,
        1,
        &[
            ("broken, grow", "try 1, wait"),
            ("mended, at 100", "wait"),
            ("grow", "start 1, wait until 1100"),
            ("ends 1", "wait"),
            ("grow", "wait until 300"),
            ("at 300", "start 2, wait until 1300"),
        ],
    );
}

#[test]
fn all_end_at_a_stop_and_none_is_started() {
    play(
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
fn one_that_is_retired_ends_at_a_stop_too() {
    play(
        1,
        1,
        &[
            ("begin", "start 1, wait"),
            ("replace 1", "retire 1, wait until 2000"),
            ("stop", "terminate 1, wait until 300"),
            ("ends 1", "over"),
        ],
    );
    play(0, 1, &[("stop", "over")]);
}
