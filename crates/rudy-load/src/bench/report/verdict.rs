//! The verdict on a run: its validity warnings, and its limit.

use std::time::Duration;

use rudy_request::FailureKind;
use rudy_stats::Histogram;
use rudy_stats::validity::{Conditions, Limit, ThreadUse, Warning, check};

use super::Run;
use crate::units;

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::bench) struct Verdict {
    /// The most important finding, as a sentence.
    pub(in crate::bench) sentence: String,
    /// The limit of the run, if it is known.
    pub(in crate::bench) limit: Option<Limit>,
    /// All validity warnings.
    pub(in crate::bench) warnings: Vec<Warning>,
}

impl Verdict {
    pub(in crate::bench) fn new(run: &Run) -> Self {
        let warnings = check(&run.conditions());
        let not_sent = run.outcome.recorder.failure_count(FailureKind::NotSent);
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
            (_, Some(warning)) => to_sentence(&warning.to_string(), warning.limit()),
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

    /// Whether the client or its machine was the limit, so that the server may sustain a higher rate.
    pub(in crate::bench) fn is_client_limited(&self) -> bool {
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

/// A warning as a sentence, with advice.
fn to_sentence(warning: &str, limit: Option<Limit>) -> String {
    let mut letters = warning.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(letters).collect();
    limit.map_or_else(|| format!("{text}."), |limit| format!("{text}. {}", limit.advice()))
}

impl Run {
    /// The conditions from which the validity warnings are derived.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        let (config, recorder) = (&self.config, &self.outcome.recorder);
        let is_open = config.is_open();
        let opens_for_each_request = config.requests_per_connection == Some(1);
        let sent_in_time = recorder.sent.saturating_sub(recorder.sent_after_end);
        let threads = self.outcome.threads.iter().map(|time| ThreadUse {
            cpu_share: time.cpu_share() - time.spin_share(),
            run_delay_share: Some(time.run_delay_share()),
        });
        // While a connection is opened, and after its last request, no request is in flight on it.
        let keeps_connections = recorder.opened <= u64::from(config.max_connections());
        let are_opened_before = recorder.opened <= u64::from(config.connections);
        let p99 =
            |histogram: &Histogram| if are_opened_before { Duration::ZERO } else { histogram.quantile(0.99) };
        let connecting = p99(&recorder.connect) + p99(&recorder.tls);
        let is_always_busy =
            keeps_connections && recorder.failed() == 0 && (is_open || config.duration_s.is_some());
        let capacity = config.max_in_flight();
        // The recorder has the peak of one thread. If that thread had no free connection, all are taken as busy.
        let thread_capacity = capacity / u64::from(config.threads.max(1));
        let most_in_flight =
            if recorder.peak_in_flight >= thread_capacity { capacity } else { recorder.peak_in_flight };
        Conditions {
            due: self.due(),
            sent: is_open.then_some(sent_in_time),
            succeeded: Some(recorder.succeeded),
            failed: Some(recorder.requests().saturating_sub(recorder.succeeded)),
            schedule_delay_p99: is_open
                .then(|| recorder.schedule_delay.quantile(0.99).saturating_sub(connecting)),
            slowest_response: config.rate_at_end.is_none().then(|| recorder.service.max()),
            capacity: (is_open || is_always_busy).then_some(capacity),
            in_flight: Some(if is_always_busy { self.in_flight_by_littles_law() } else { self.in_flight() }),
            // Connections that were lost and opened again were not free either, and do not count in the peak.
            most_in_flight: (is_open && (opens_for_each_request || keeps_connections))
                .then_some(most_in_flight),
            mean_latency: Some(if is_open { recorder.service.mean() } else { recorder.latency.mean() }),
            duration: Some(self.outcome.duration),
            client_threads: threads.collect(),
            relay_cpu_share: self.outcome.relay.as_ref().map(super::ThreadTime::cpu_share),
            ..Conditions::default()
        }
    }
}
