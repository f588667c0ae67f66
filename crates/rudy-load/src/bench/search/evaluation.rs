//! Evaluates a step: whether it met the objective, and if not, why.

use std::time::Duration;

use rudy_stats::search::{Cause, StepResult};
use rudy_stats::validity::{Limit, SCHEDULE_DELAY_MAX, Warning, check};
use rudy_stats::{Slo, SuccessRate, slo};

use crate::FailureKind;
use crate::bench::report::Run;
use crate::bench::run::Interval;
use crate::units;

/// Factor by which the delay must grow over a step to count as a backlog.
const GROWTH: f64 = 2.0;

/// The evaluation of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evaluation {
    pub(super) result: StepResult,
    /// The metrics of the objective, or the reason of the failure.
    pub(super) reason: String,
}

impl Evaluation {
    fn failed(cause: Cause, reason: String) -> Self {
        Self { result: StepResult::Failed(cause), reason }
    }

    /// The evaluation of a step in which no connection could be opened.
    pub(super) fn not_connected(reason: String) -> Self {
        Self::failed(Cause::Errors, reason)
    }
}

/// Compares a step with the objective. A request that was due and has no response has failed. The step also fails
/// if the rate was not kept or requests piled up, because a longer step would have been worse.
pub(super) fn evaluate(slo: &Slo, run: &Run, trend: &Trend) -> Evaluation {
    let recorder = &run.outcome.recorder;
    let due = run.due().unwrap_or_else(|| recorder.requests());
    let terms = |due| slo.evaluate(&recorder.latency, SuccessRate::new(recorder.succeeded, due));
    let (passed, failed): (Vec<_>, Vec<_>) = terms(due).into_iter().partition(|term| term.passes());
    let warnings = check(&run.conditions());
    let sent_late = warnings.iter().find(|warning| is_late(warning));
    let is_behind = matches!(sent_late, Some(Warning::RateNotKept { .. })) || trend.grows();
    if failed.is_empty() && !is_behind {
        return Evaluation { result: StepResult::Passed, reason: sentence(&passed) };
    }
    // Requests that no connection was free for are a backlog and no errors of the server. Those without a response are
    // late: the step may have ended before their timeout, because they were too many.
    let not_sent = recorder.failures(FailureKind::NotSent);
    let late = slo.late_at_most().map(|(limit, _)| (limit, recorder.failures(FailureKind::Timeout)));
    let late = late.filter(|(_, count)| *count > 0);
    let known = due - not_sent - late.map_or(0, |(_, count)| count);
    let has_errors = terms(known).iter().any(|term| !term.passes() && term.is_about_errors());
    let of_client = sent_late.filter(|late| matches!(late.limit(), Some(Limit::Client | Limit::Machine)));
    if has_errors {
        Evaluation::failed(Cause::Errors, sentence(&failed))
    } else if let Some(warning) = of_client {
        Evaluation::failed(Cause::Client, warning.to_string())
    } else if is_behind || not_sent > 0 {
        let delay = units::duration(recorder.schedule_delay.quantile(0.99));
        let sent = units::share_down(run.rate_ratio().unwrap_or(1.0), 1);
        let reason = format!(
            "requests piled up: {sent} of the due requests were sent in time, 1 in 100 {delay} late or more"
        );
        Evaluation::failed(Cause::Backlog, reason)
    } else if let Some((limit, count)) = late {
        let reason =
            format!("{} had no response within {}", units::counted(count, "request"), units::duration(limit));
        Evaluation::failed(Cause::Latency, reason)
    } else if failed.iter().all(|term| term.has_too_few_requests()) {
        Evaluation::failed(Cause::TooFewRequests, sentence(&failed))
    } else {
        Evaluation::failed(Cause::Latency, sentence(&failed))
    }
}

fn is_late(warning: &Warning) -> bool {
    matches!(warning, Warning::RateNotKept { .. } | Warning::ScheduleDelay { .. })
}

fn sentence(terms: &[slo::Evaluation]) -> String {
    terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The delay of the requests over a step.
#[derive(Debug, Clone, Default)]
pub(super) struct Trend {
    mean_delays: Vec<Duration>,
}

impl Trend {
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
            && *last > SCHEDULE_DELAY_MAX
            && last.as_secs_f64() > first.as_secs_f64() * GROWTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use crate::bench::Recorder;
    use crate::bench::report::Config;
    use crate::bench::report::tests::config;
    use crate::bench::run::{Outcome, ThreadTime};

    const MS: Duration = Duration::from_millis(1);

    /// One second with 1000 requests over two connections on each of two threads, sent on time, with
    /// responses after 1 ms.
    fn run() -> Run {
        let config = Config {
            rate: Some(1000.0),
            arrivals: Some("uniform".into()),
            duration_s: Some(1.0),
            warm_up_s: 0.0,
            ..config()
        };
        let mut recorder =
            Recorder { succeeded: 1000, sent: 1000, peak_in_flight: 2, opened: 4, ..Recorder::default() };
        recorder.statuses[200] = 1000;
        recorder.schedule_delay.record_n(MS / 50, 1000);
        let threads = vec![ThreadTime { cpu: 500 * MS, wall: 1000 * MS, ..ThreadTime::default() }; 2];
        let mut run =
            Run { config, outcome: Outcome { recorder, threads, duration: 1000 * MS, ..Outcome::default() } };
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
        (0..500).for_each(|_| run.outcome.recorder.fail(&Failure::NotSent, MS));
    }

    fn fail(run: &mut Run, count: u64) {
        run.outcome.recorder.succeeded -= count;
        run.outcome.recorder.statuses[200] -= count;
        run.outcome.recorder.statuses[500] += count;
    }

    fn send_late(run: &mut Run) {
        run.outcome.recorder.schedule_delay.record_n(5 * MS, 100);
    }

    fn trend(mean_delays_ms: &[u32]) -> Trend {
        let mut trend = Trend::default();
        for &delay in mean_delays_ms {
            let mut interval = Interval::default();
            interval.recorder.schedule_delay.record_n(delay * MS, 10);
            trend.add(&interval);
        }
        trend
    }

    fn evaluation(change: fn(&mut Run)) -> Evaluation {
        let mut run = run();
        change(&mut run);
        evaluate(&"p99<20ms, errors<1%".parse().unwrap(), &run, &Trend::default())
    }

    /// A name, a change, the expected evaluation, and a part of the reason.
    type Case = (&'static str, fn(&mut Run), StepResult, &'static str);

    #[test]
    fn each_failure_has_its_cause() {
        use Cause::{Backlog, Client, Errors, Latency};
        let cases: &[Case] = &[
            ("all is well", |_| {}, StepResult::Passed, "p99 1"),
            ("late, and all is well", send_late, StepResult::Passed, "p99 1"),
            ("slow", |run| answered_after(run, 50 * MS), StepResult::Failed(Latency), "p99 50"),
            ("errors", |run| fail(run, 10), StepResult::Failed(Errors), "errors 1 %"),
            ("behind, each connection busy", fall_behind, StepResult::Failed(Backlog), "piled up: 66.6 %"),
            (
                "behind, a connection always free",
                |run| {
                    fall_behind(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                StepResult::Failed(Client),
                "66.6 % of the due",
            ),
            (
                "behind, with room in each pipeline",
                |run| {
                    fall_behind(run);
                    run.config.pipeline = 2;
                },
                StepResult::Failed(Client),
                "the client was the limit",
            ),
            (
                "behind, connections free and a thread busy",
                |run| {
                    fall_behind(run);
                    run.outcome.threads[1].cpu = 990 * MS;
                },
                StepResult::Failed(Client),
                "the client was the limit",
            ),
            (
                "behind, each connection busy and a thread busy",
                |run| {
                    fall_behind(run);
                    answered_after(run, 4 * MS);
                    run.outcome.threads[1].cpu = 990 * MS;
                },
                StepResult::Failed(Backlog),
                "piled up",
            ),
            (
                "behind, connections were lost",
                |run| {
                    fall_behind(run);
                    (run.outcome.recorder.peak_in_flight, run.outcome.recorder.opened) = (1, 5);
                },
                StepResult::Failed(Backlog),
                "piled up",
            ),
            (
                "behind, a connection for each request",
                |run| {
                    fall_behind(run);
                    (run.outcome.recorder.peak_in_flight, run.outcome.recorder.opened) = (1, 1000);
                    run.config.requests_per_connection = Some(1);
                },
                StepResult::Failed(Client),
                "the client was the limit",
            ),
            (
                "slow because it was sent late",
                |run| {
                    answered_after(run, 50 * MS);
                    send_late(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                StepResult::Failed(Client),
                "was sent 5",
            ),
            (
                "no response to some",
                |run| {
                    run.outcome.recorder.succeeded -= 100;
                    run.outcome.recorder.statuses[200] -= 100;
                    (0..100).for_each(|_| run.outcome.recorder.fail(&Failure::Timeout, MS));
                },
                StepResult::Failed(Latency),
                "100 requests had no response within 20",
            ),
            (
                "errors come first",
                |run| {
                    fail(run, 500);
                    fall_behind(run);
                    run.outcome.recorder.peak_in_flight = 1;
                },
                StepResult::Failed(Errors),
                "errors 66.7 %",
            ),
        ];
        for (name, change, report, why) in cases {
            let evaluation = evaluation(*change);
            assert_eq!(evaluation.result, *report, "{name}: {}", evaluation.reason);
            assert!(evaluation.reason.contains(why), "{name}: {}", evaluation.reason);
        }
    }

    #[test]
    fn a_step_with_a_growing_delay_fails() {
        let slo = "p99<20ms".parse().unwrap();
        assert_eq!(
            evaluate(&slo, &run(), &trend(&[1, 2, 3, 4, 5])).result,
            StepResult::Failed(Cause::Backlog)
        );
        assert_eq!(evaluate(&slo, &run(), &trend(&[5, 4, 3, 2, 1])).result, StepResult::Passed);
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
            assert_eq!(trend(delays).grows(), grows, "{delays:?}");
        }
    }

    #[test]
    fn a_part_without_requests_is_no_evidence_of_delay() {
        let mut trend = trend(&[1, 2, 3]);
        trend.add(&Interval::default());
        assert!(trend.grows());
    }
}
