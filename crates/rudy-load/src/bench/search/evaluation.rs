//! The evaluation of a step: whether it met the objective, and the cause if not.

use std::time::Duration;

use rudy_request::FailureKind;
use rudy_stats::search::{Cause, StepResult};
use rudy_stats::validity::{Limit, RATE_KEPT_MIN, SCHEDULE_DELAY_MAX, Warning, check};
use rudy_stats::{Slo, SuccessRate, slo};

use crate::bench::report::Run;
use crate::bench::run::Interval;
use crate::units;

/// Minimum factor by which the latency grows over a step with a backlog.
const DELAY_GROWTH_MIN: f64 = 2.0;

/// The evaluation of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evaluation {
    pub(super) result: StepResult,
    /// The values of the metrics in the objective, or the reason of the failure.
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

/// Compares a step with the objective. A request that was due and has no response counts as failed. The step also fails
/// if the rate was not kept or a backlog grew, because a longer step would have been worse.
pub(super) fn evaluate(slo: &Slo, run: &Run, trend: &LatencyTrend) -> Evaluation {
    let recorder = &run.outcome.recorder;
    let due = run.due().unwrap_or_else(|| recorder.requests());
    let terms = |due| slo.evaluate(&recorder.latency, SuccessRate::new(recorder.succeeded, due));
    let (passed, failed): (Vec<_>, Vec<_>) = terms(due).into_iter().partition(|term| term.passes());
    let warnings = check(&run.conditions());
    let late_warning = warnings.iter().find(|warning| is_sent_late(warning));
    let is_behind = matches!(late_warning, Some(Warning::RateNotKept { .. })) || trend.is_growing();
    if failed.is_empty() && !is_behind {
        return Evaluation { result: StepResult::Passed, reason: join_terms(&passed) };
    }
    // Requests for which no connection was free are a backlog and no errors of the server. Requests without a response
    // exceeded the latency: the step may have been aborted before their timeout.
    let not_sent = recorder.failure_count(FailureKind::NotSent);
    let late = slo.late_at_most().map(|(limit, _)| (limit, recorder.failure_count(FailureKind::Timeout)));
    let late = late.filter(|(_, count)| *count > 0);
    let with_outcome = due - not_sent - late.map_or(0, |(_, count)| count);
    let has_errors = terms(with_outcome).iter().any(|term| !term.passes() && term.is_about_errors());
    let is_of_client = |warning: &&Warning| matches!(warning.limit(), Some(Limit::Client | Limit::Machine));
    let client_warning = late_warning.filter(is_of_client);
    if has_errors {
        Evaluation::failed(Cause::Errors, join_terms(&failed))
    } else if let Some(warning) = client_warning {
        Evaluation::failed(Cause::Client, warning.to_string())
    } else if is_behind || not_sent > 0 {
        backlog(slo, run, trend, late.is_none())
    } else if let Some((limit, count)) = late {
        let reason =
            format!("{} had no response within {}", units::counted(count, "request"), units::duration(limit));
        Evaluation::failed(Cause::Latency, reason)
    } else if failed.iter().all(|term| term.has_too_few_requests()) {
        Evaluation::failed(Cause::TooFewRequests, join_terms(&failed))
    } else {
        Evaluation::failed(Cause::Latency, join_terms(&failed))
    }
}

/// The evaluation of a step in which requests piled up. If those that were sent meet the objective from their send on, more
/// connections would have carried more requests.
fn backlog(slo: &Slo, run: &Run, trend: &LatencyTrend, has_responses: bool) -> Evaluation {
    let recorder = &run.outcome.recorder;
    let sent_in_time = run.rate_ratio().unwrap_or(1.0);
    if sent_in_time >= RATE_KEPT_MIN {
        let last = trend.means.last().copied().unwrap_or_default();
        let reason = format!("latency grew during the step, to {} on average", units::duration(last));
        return Evaluation::failed(Cause::Backlog, reason);
    }
    let successes = SuccessRate::new(recorder.succeeded, recorder.sent);
    let is_met = slo.evaluate(&recorder.service, successes).iter().all(|term| term.passes());
    let cause = if has_responses && is_met { Cause::Connections } else { Cause::Backlog };
    let reason = format!(
        "requests piled up: {} of the due requests were sent in time, 1 in 100 {} late or more",
        units::share_down(sent_in_time, 1),
        units::duration(recorder.schedule_delay.quantile(0.99))
    );
    Evaluation::failed(cause, reason)
}

/// Whether a warning reports requests that were sent late or not at all.
fn is_sent_late(warning: &Warning) -> bool {
    matches!(warning, Warning::RateNotKept { .. } | Warning::ScheduleDelay { .. })
}

fn join_terms(terms: &[slo::Evaluation]) -> String {
    terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The latency over a step, from the due time. A queue that grows in the client, in the server, or on connections that are opened for it
/// shows here.
#[derive(Debug, Clone, Default)]
pub(super) struct LatencyTrend {
    /// The mean of each interval.
    means: Vec<Duration>,
    /// Whether the step has ended.
    is_over: bool,
}

impl LatencyTrend {
    pub(super) fn add(&mut self, interval: &Interval) {
        // Requests that are sent after the end have no effect on whether the rate is kept.
        self.is_over |= interval.recorder.sent_after_end > 0;
        if !interval.recorder.latency.is_empty() && !self.is_over {
            self.means.push(interval.recorder.latency.mean());
        }
    }

    /// Whether the latency grew in every interval and is large at the end. The rate then exceeds the capacity, and a
    /// longer step would have been worse. The means show this before the percentiles do.
    fn is_growing(&self) -> bool {
        let means = &self.means;
        let (Some(first), Some(last)) = (means.first(), means.last()) else { return false };
        means.len() > 2
            && means.is_sorted_by(|a, b| a < b)
            && *last > SCHEDULE_DELAY_MAX
            && last.as_secs_f64() > first.as_secs_f64() * DELAY_GROWTH_MIN
    }
}

#[cfg(test)]
mod tests {
    use rudy_request::Failure;

    use super::*;
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
        set_latency(&mut run, MS);
        run
    }

    fn set_latency(run: &mut Run, time: Duration) {
        let recorder = &mut run.outcome.recorder;
        for histogram in [&mut recorder.latency, &mut recorder.service] {
            histogram.clear();
            histogram.record_n(time, 1000);
        }
    }

    /// A third of the due requests was not sent.
    fn fall_behind(run: &mut Run) {
        (0..500).for_each(|_| run.outcome.recorder.record_failure(&Failure::NotSent, MS));
    }

    fn fail(run: &mut Run, count: u64) {
        run.outcome.recorder.succeeded -= count;
        run.outcome.recorder.statuses[200] -= count;
        run.outcome.recorder.statuses[500] += count;
    }

    fn send_late(run: &mut Run) {
        run.outcome.recorder.schedule_delay.record_n(5 * MS, 100);
    }

    fn trend(means_ms: &[u32]) -> LatencyTrend {
        let mut trend = LatencyTrend::default();
        for &mean in means_ms {
            let mut interval = Interval::default();
            interval.recorder.latency.record_n(mean * MS, 10);
            trend.add(&interval);
        }
        trend
    }

    fn evaluation(change: fn(&mut Run)) -> Evaluation {
        let mut run = run();
        change(&mut run);
        evaluate(&"p99<20ms, errors<1%".parse().unwrap(), &run, &LatencyTrend::default())
    }

    /// A name, a change of the run, the expected result, and a part of the reason.
    type Case = (&'static str, fn(&mut Run), StepResult, &'static str);

    #[test]
    fn the_cause_of_a_failed_step_is_found() {
        use Cause::{Client, Connections, Errors, Latency};
        let cases: &[Case] = &[
            ("all is well", |_| {}, StepResult::Passed, "p99 1"),
            ("late, and all is well", send_late, StepResult::Passed, "p99 1"),
            ("slow", |run| set_latency(run, 50 * MS), StepResult::Failed(Latency), "p99 50"),
            ("errors", |run| fail(run, 10), StepResult::Failed(Errors), "errors 1 %"),
            ("behind, all busy", fall_behind, StepResult::Failed(Connections), "piled up: 66.6 %"),
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
                    set_latency(run, 4 * MS);
                    run.outcome.threads[1].cpu = 990 * MS;
                },
                StepResult::Failed(Connections),
                "piled up",
            ),
            (
                "behind, connections were lost",
                |run| {
                    fall_behind(run);
                    (run.outcome.recorder.peak_in_flight, run.outcome.recorder.opened) = (1, 5);
                },
                StepResult::Failed(Connections),
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
                    set_latency(run, 50 * MS);
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
                    (0..100).for_each(|_| run.outcome.recorder.record_failure(&Failure::Timeout, MS));
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
        for (name, change, expected, reason) in cases {
            let evaluation = evaluation(*change);
            assert_eq!(evaluation.result, *expected, "{name}: {}", evaluation.reason);
            assert!(evaluation.reason.contains(reason), "{name}: {}", evaluation.reason);
        }
    }

    #[test]
    fn connections_are_the_cause_only_if_responses_come_in_time_after_the_send() {
        use Cause::{Backlog, Connections};
        let slo = "p99<20ms".parse().unwrap();
        let result = |service_ms: u32| {
            let mut run = run();
            fall_behind(&mut run);
            set_latency(&mut run, service_ms * MS);
            evaluate(&slo, &run, &LatencyTrend::default()).result
        };
        let [in_time, near, late] = [1, 19, 21].map(result);
        assert_eq!([in_time, near], [StepResult::Failed(Connections); 2]);
        assert_eq!(late, StepResult::Failed(Backlog));
    }

    #[test]
    fn a_step_with_a_growing_latency_fails() {
        let slo = "p99<20ms".parse().unwrap();
        assert_eq!(
            evaluate(&slo, &run(), &trend(&[1, 2, 3, 4, 5])).result,
            StepResult::Failed(Cause::Backlog)
        );
        assert_eq!(evaluate(&slo, &run(), &trend(&[5, 4, 3, 2, 1])).result, StepResult::Passed);
    }

    #[test]
    fn a_latency_grows_if_each_interval_is_slower_and_the_last_one_much_slower() {
        for (delays, is_growing) in [
            (&[][..], false),
            (&[5], false),
            (&[1, 5], false),
            (&[1, 2, 3], true),
            (&[0, 1, 2, 3, 4], true),
            // Not twice the first one.
            (&[10, 12, 15, 18, 20], false),
            (&[10, 12, 15, 18, 21], true),
            // It recovered, or did not grow.
            (&[1, 9, 3, 5, 9], false),
            (&[1, 2, 2, 3, 9], false),
            (&[1, 2, 3, 9, 8], false),
            // A latency below a millisecond is ignored.
            (&[0, 0, 1], false),
        ] {
            assert_eq!(trend(delays).is_growing(), is_growing, "{delays:?}");
        }
    }

    #[test]
    fn an_interval_without_requests_is_ignored_in_the_trend() {
        let mut trend = trend(&[1, 2, 3]);
        trend.add(&Interval::default());
        assert!(trend.is_growing());
    }
}
