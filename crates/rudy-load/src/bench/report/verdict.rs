//! What the first lines of a report say: whether the run is valid, and what limited it.

use rudy_stats::validity::{Conditions, Limit, ThreadUse, Warning, check};

use super::Run;
use crate::FailureKind;
use crate::units;

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::bench) struct Verdict {
    /// The most important fact, as a sentence.
    pub(in crate::bench) sentence: String,
    /// The bottleneck of the run, if it is known.
    pub(in crate::bench) limit: Option<Limit>,
    /// All validity warnings.
    pub(in crate::bench) warnings: Vec<Warning>,
}

impl Verdict {
    pub(in crate::bench) fn of(run: &Run) -> Self {
        let warnings = check(&run.conditions());
        let not_sent = run.outcome.recorder.failures(FailureKind::NotSent);
        let limit = if not_sent > 0 { Some(Limit::Server) } else { warnings.iter().find_map(Warning::limit) };
        let sentence = match (run.due(), warnings.first()) {
            _ if run.outcome.recorder.requests() == 0 => {
                "No request ended, so nothing was measured.".to_owned()
            }
            (Some(due), _) if not_sent > 0 => format!(
                "{} of {} due requests were never sent, because all connections waited for responses until the end. They \
                 count as failed, and ≥ marks what depends on them.",
                units::count(not_sent),
                units::count(due)
            ),
            (_, Some(warning)) => sentence(&warning.to_string(), warning.limit()),
            (Some(_), None) => format!(
                "The rate was kept: 99 % of the requests were sent within {} of their due time.",
                units::duration(run.outcome.recorder.schedule_delay.quantile(0.99))
            ),
            (None, None) => format!(
                "The client was not the limit: its busiest thread used {:.0} % of a core.",
                run.client_cpu() * 100.0
            ),
        };
        Self { sentence, limit, warnings }
    }

    /// Whether the generator could not send as much as the server might have received.
    pub(in crate::bench) fn is_of_the_client(&self) -> bool {
        matches!(self.limit, Some(Limit::Client | Limit::Machine))
    }

    /// The name of the limit in JSON.
    pub(super) fn bottleneck(&self) -> Option<&'static str> {
        self.limit.map(|limit| match limit {
            Limit::Client => "client",
            Limit::Server => "server",
            Limit::Machine => "machine",
        })
    }
}

/// With a capital, a full stop and advice.
fn sentence(warning: &str, limit: Option<Limit>) -> String {
    let mut letters = warning.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(letters).collect();
    limit.map_or_else(|| format!("{text}."), |limit| format!("{text}. {}", limit.advice()))
}

impl Run {
    /// The conditions that decide whether the run is valid.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        let (config, recorder) = (&self.config, &self.outcome.recorder);
        let is_open = config.is_open();
        let is_one_each = config.requests_per_connection == Some(1);
        let in_time = recorder.sent.saturating_sub(recorder.sent_after_end);
        let threads = self.outcome.threads.iter().map(|time| ThreadUse {
            cpu_share: time.share() - time.spin_share(),
            run_delay_share: Some(time.run_delay_share()),
        });
        // A connection carries no request while it is opened, or after the last request.
        let stays_busy = recorder.opened <= u64::from(config.connections)
            && recorder.failed() == 0
            && (is_open || config.duration_s.is_some());
        let capacity = config.max_in_flight();
        // The recorder knows the peak of one thread. A thread without a free connection counts as all.
        let of_a_thread = capacity / u64::from(config.threads.max(1));
        let most_in_flight =
            if recorder.peak_in_flight >= of_a_thread { capacity } else { recorder.peak_in_flight };
        Conditions {
            due: self.due(),
            sent: is_open.then_some(in_time),
            succeeded: Some(recorder.succeeded),
            failed: Some(recorder.requests().saturating_sub(recorder.succeeded)),
            schedule_delay_p99: is_open.then(|| recorder.schedule_delay.quantile(0.99)),
            slowest_response: config.rate_at_end.is_none().then(|| recorder.service.max()),
            capacity: (is_open || stays_busy).then_some(capacity),
            in_flight: Some(if stays_busy { self.in_flight_by_law() } else { self.in_flight() }),
            // Connections that were lost and opened again were not free either.
            most_in_flight: (is_open && (is_one_each || recorder.opened <= u64::from(config.connections)))
                .then_some(most_in_flight),
            mean_latency: Some(if is_open { recorder.service.mean() } else { recorder.latency.mean() }),
            duration: Some(self.outcome.duration),
            client_threads: threads.collect(),
            ..Conditions::default()
        }
    }
}
