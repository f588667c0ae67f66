//! Evaluates a step: whether it met the objective, and if not, why.

use std::time::Duration;

use rudy_stats::Slo;
use rudy_stats::knee::{Cause, Report};
use rudy_stats::validity::{LATE, RATE_KEPT};

use crate::bench::report::Run;
use crate::bench::run::Interval;
use crate::{FailureKind, units};

/// A generator thread with a CPU usage above this share was saturated.
const BUSY: f64 = 0.9;

/// Factor by which the delay must grow over a step to count as a backlog.
const GROWTH: f64 = 2.0;

/// The evaluation of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruling {
    pub(super) report: Report,
    /// The reason, with figures.
    pub(super) words: String,
}

impl Ruling {
    /// The evaluation of a step in which no connection could be opened.
    pub(super) fn gone(words: String) -> Self {
        Self { report: Report::Broke(Cause::Errors), words }
    }
}

/// Compares a step with the objective. It also fails if the rate was not kept or requests piled up, because
/// requests that still wait at the end have no latency yet.
pub(super) fn judge(slo: &Slo, run: &Run, slope: &Slope) -> Ruling {
    let seen = &run.outcome.recorder;
    let judgements = slo.judge(&seen.latency, run.success_rate());
    let (held, broken): (Vec<_>, Vec<_>) = judgements.iter().partition(|judgement| judgement.holds());
    let ratio = run.rate_ratio().unwrap_or(1.0);
    // A request that was never sent is a failure because of the backlog.
    let is_not_sent = run.outcome.recorder.failures(FailureKind::NotSent) > 0;
    let is_behind = ratio < RATE_KEPT || slope.grows();
    let words = |judgements: &[&rudy_stats::slo::Judgement]| {
        judgements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    if broken.is_empty() && !is_behind {
        return Ruling { report: Report::Held, words: words(&held) };
    }
    let late = seen.schedule_delay.quantile(0.99);
    let is_late = is_behind || late > LATE;
    let behind = format!(
        "{} of what was due was sent, late by {} at 99 %",
        units::share_down(ratio, 1),
        units::duration(late)
    );
    let (cause, words) = if !is_not_sent && broken.iter().any(|judgement| judgement.is_of_errors()) {
        (Cause::Errors, words(&broken))
    } else if is_late && is_generators(run) {
        (Cause::Generator, format!("the generator was late: {behind}"))
    } else if broken.is_empty() || is_not_sent {
        (Cause::Backlog, format!("requests piled up: {behind}"))
    } else {
        (Cause::Latency, words(&broken))
    };
    Ruling { report: Report::Broke(cause), words }
}

/// Whether the generator itself caused the delay.
fn is_generators(run: &Run) -> bool {
    let seen = &run.outcome.recorder;
    let config = &run.config;
    let is_one_each = config.requests_per_connection == Some(1);
    // The thread with the fewest connections decides.
    let places = u64::from(config.connections / config.threads.max(1)) * u64::from(config.pipeline);
    // Connections that were lost and reopened were not free either.
    let have_stood = is_one_each || seen.opened <= u64::from(config.connections);
    let has_always_free = have_stood && seen.peak_in_flight < places;
    let is_busy = run.outcome.threads.iter().any(|thread| thread.share() >= BUSY);
    has_always_free || (is_busy && run.in_flight() < BUSY * units::float(config.max_in_flight()))
}

/// The delay of the requests over a step.
#[derive(Debug, Clone, Default)]
pub(super) struct Slope {
    mean_delays: Vec<Duration>,
}

impl Slope {
    pub(super) fn add(&mut self, interval: &Interval) {
        // A step has few parts. What is sent after the last one shows no more of the rate.
        if !interval.recorder.schedule_delay.is_empty() && interval.recorder.sent_after_end == 0 {
            self.mean_delays.push(interval.recorder.schedule_delay.mean());
        }
    }

    /// Whether the delay grew in every part and is large at the end. The rate then exceeds the capacity, and a
    /// longer step would have been worse. The delay shows this before the percentiles do.
    fn grows(&self) -> bool {
        let delays = &self.mean_delays;
        let (Some(first), Some(last)) = (delays.first(), delays.last()) else { return false };
        delays.len() > 2
            && delays.is_sorted_by(|a, b| a < b)
            && *last > LATE
            && last.as_secs_f64() > first.as_secs_f64() * GROWTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Recorder;
    use crate::bench::report::Config;
    use crate::bench::run::{Outcome, ThreadTime};

    const MS: Duration = Duration::from_millis(1);

    /// One second with 1000 requests over two connections on each of two threads, sent on time, with
    /// responses after 1 ms.
    fn run() -> Run {
        let config = Config {
            target: "http://127.0.0.1:8080/".into(),
            urls: 1,
            remote: "127.0.0.1:8080".into(),
            connections: 4,
            threads: 2,
            pipeline: 1,
            requests_per_connection: None,
            rate: Some(1000.0),
            rate_at_end: None,
            arrivals: Some("uniform".into()),
            seed: None,
            duration_s: Some(1.0),
            requests: None,
            warm_up_s: 0.0,
            timeout_s: 10.0,
            deadline_s: None,
            share: None,
        };
        let mut seen =
            Recorder { succeeded: 1000, sent: 1000, peak_in_flight: 2, opened: 4, ..Recorder::default() };
        seen.statuses[200] = 1000;
        seen.schedule_delay.record_n(MS / 50, 1000);
        let threads = vec![ThreadTime { cpu: 500 * MS, wall: 1000 * MS, ..ThreadTime::default() }; 2];
        let mut run = Run {
            config,
            outcome: Outcome { recorder: seen, threads, duration: 1000 * MS, ..Outcome::default() },
        };
        answered_after(&mut run, MS);
        run
    }

    fn answered_after(run: &mut Run, time: Duration) {
        let seen = &mut run.outcome.recorder;
        for histogram in [&mut seen.latency, &mut seen.service] {
            histogram.clear();
            histogram.record_n(time, 1000);
        }
    }

    /// A third of the due requests was not sent.
    fn fall_behind(run: &mut Run) {
        run.outcome.recorder.sent_after_end = 334;
    }

    fn fail(run: &mut Run, count: u64) {
        run.outcome.recorder.succeeded -= count;
        run.outcome.recorder.statuses[200] -= count;
        run.outcome.recorder.statuses[500] += count;
    }

    fn send_late(run: &mut Run) {
        run.outcome.recorder.schedule_delay.record_n(5 * MS, 100);
    }

    fn slope(mean_delays_ms: &[u32]) -> Slope {
        let mut slope = Slope::default();
        for &delay in mean_delays_ms {
            let mut interval = Interval::default();
            interval.recorder.schedule_delay.record_n(delay * MS, 10);
            slope.add(&interval);
        }
        slope
    }

    fn ruling(change: fn(&mut Run)) -> Ruling {
        let mut run = run();
        change(&mut run);
        judge(&"p99<20ms, errors<1%".parse().unwrap(), &run, &Slope::default())
    }

    /// A name, a change, the expected evaluation, and a part of the reason.
    type Case = (&'static str, fn(&mut Run), Report, &'static str);

    #[test]
    fn what_broke_is_said_of_each_step() {
        use Cause::{Backlog, Errors, Generator, Latency};
        let cases: &[Case] = &[
            ("all is well", |_| {}, Report::Held, "p99 1"),
            ("late, and all is well", send_late, Report::Held, "p99 1"),
            ("slow", |run| answered_after(run, 50 * MS), Report::Broke(Latency), "p99 50"),
            ("errors", |run| fail(run, 10), Report::Broke(Errors), "errors 1 %"),
            ("behind, each place taken", fall_behind, Report::Broke(Backlog), "piled up: 66.6 %"),
            (
                "behind, a place always free",
                |run| {
                    fall_behind(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                Report::Broke(Generator),
                "the generator was late: 66.6 %",
            ),
            (
                "behind, no place in a pipeline taken",
                |run| {
                    fall_behind(run);
                    run.config.pipeline = 2;
                },
                Report::Broke(Generator),
                "the generator was late",
            ),
            (
                "behind, places free and a thread busy",
                |run| {
                    fall_behind(run);
                    run.outcome.threads[1].cpu = 990 * MS;
                },
                Report::Broke(Generator),
                "the generator was late",
            ),
            (
                "behind, each place taken and a thread busy",
                |run| {
                    fall_behind(run);
                    answered_after(run, 4 * MS);
                    run.outcome.threads[1].cpu = 990 * MS;
                },
                Report::Broke(Backlog),
                "piled up",
            ),
            (
                "behind, connections were lost",
                |run| {
                    fall_behind(run);
                    (run.outcome.recorder.peak_in_flight, run.outcome.recorder.opened) = (1, 5);
                },
                Report::Broke(Backlog),
                "piled up",
            ),
            (
                "behind, a connection for each request",
                |run| {
                    fall_behind(run);
                    (run.outcome.recorder.peak_in_flight, run.outcome.recorder.opened) = (1, 1000);
                    run.config.requests_per_connection = Some(1);
                },
                Report::Broke(Generator),
                "the generator was late",
            ),
            (
                "slow because it was sent late",
                |run| {
                    answered_after(run, 50 * MS);
                    send_late(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                Report::Broke(Generator),
                "late by 5",
            ),
            (
                "errors come first",
                |run| {
                    fail(run, 500);
                    fall_behind(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                Report::Broke(Errors),
                "errors 50 %",
            ),
        ];
        for (name, change, report, why) in cases {
            let ruling = ruling(*change);
            assert_eq!(ruling.report, *report, "{name}: {}", ruling.words);
            assert!(ruling.words.contains(why), "{name}: {}", ruling.words);
        }
    }

    #[test]
    fn what_gets_later_and_later_does_not_hold() {
        let slo = "p99<20ms".parse().unwrap();
        assert_eq!(judge(&slo, &run(), &slope(&[1, 2, 3, 4, 5])).report, Report::Broke(Cause::Backlog));
        assert_eq!(judge(&slo, &run(), &slope(&[5, 4, 3, 2, 1])).report, Report::Held);
    }

    #[test]
    fn requests_pile_up_where_each_part_is_later_and_the_last_by_much() {
        for (delays, grows) in [
            (&[][..], false),
            (&[5], false),
            (&[1, 5], false),
            (&[1, 2, 3], true),
            (&[0, 1, 2, 3, 4], true),
            // Not twice the delay.
            (&[10, 12, 15, 18, 20], false),
            (&[10, 12, 15, 18, 21], true),
            // It recovered, or did not grow.
            (&[1, 9, 3, 5, 9], false),
            (&[1, 2, 2, 3, 9], false),
            (&[1, 2, 3, 9, 8], false),
            // A delay below a millisecond is ignored.
            (&[0, 0, 1], false),
        ] {
            assert_eq!(slope(delays).grows(), grows, "{delays:?}");
        }
    }

    #[test]
    fn a_part_in_which_nothing_was_sent_says_nothing_of_lateness() {
        let mut slope = slope(&[1, 2, 3]);
        slope.add(&Interval::default());
        assert!(slope.grows());
    }
}
