//! The results of all requests, and which of them fail the run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wire::RequestError;

/// How long after a fault responses may still be affected. An application that dies repeatedly is restarted after a delay, and a
/// request may wait in the queue for `queue_timeout` (10 s).
const WINDOW: Duration = Duration::from_secs(15);
/// Number of failures to print. Further ones are only counted.
const SHOWN_MAX: usize = 20;

/// The kinds of faults that the run causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process of an application was killed: 502, 503, 504, or a truncated response.
    Kill,
    /// The configuration has low limits: 503 (queue) or 507 (buffer files).
    LowLimits,
}

/// The results of all clients so far.
#[derive(Debug)]
pub(super) struct Tally {
    begin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Requests sent before this time may be affected.
    kill_until: Option<Instant>,
    low_limits_until: Option<Instant>,
}

/// The counts of a run.
#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    /// Complete responses by status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Requests that clients cancelled on purpose.
    pub(super) cancelled: u64,
    /// Responses that were truncated after a kill.
    pub(super) truncated: u64,
    /// Reused connections that the server had closed before it read the request.
    pub(super) stale: u64,
    pub(super) killed: u64,
    pub(super) reloads: u64,
    pub(super) upgrades: u64,
    /// Results that fail the run.
    pub(super) failures: u64,
    /// The messages of the first failures.
    pub(super) shown: Vec<String>,
}

/// The properties of a request that affect how its result is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentRequest<'a> {
    pub(super) name: &'a str,
    pub(super) at: Instant,
    /// Whether the connection has had a response before. If so, the server may close it at any time.
    pub(super) reused: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), state: Mutex::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Records a fault that begins now and lasts for `lasts`. Its effects are allowed for a while longer.
    pub(super) fn fault(&self, fault: Fault, lasts: Duration) {
        let until = Some(Instant::now() + lasts + WINDOW);
        let mut state = self.state();
        match fault {
            Fault::Kill => state.kill_until = until,
            Fault::LowLimits => state.low_limits_until = until,
        }
    }

    pub(super) fn killed(&self) {
        self.state().counts.killed += 1;
    }

    pub(super) fn reload(&self) {
        self.state().counts.reloads += 1;
    }

    pub(super) fn upgrade(&self) {
        self.state().counts.upgrades += 1;
    }

    pub(super) fn cancelled(&self) {
        self.state().counts.cancelled += 1;
    }

    /// Records a complete response. The body of a 200 was checked before.
    pub(super) fn response(&self, sent_request: SentRequest, status: u16) {
        let mut state = self.state();
        *state.counts.statuses.entry(status).or_default() += 1;
        let allowed = match status {
            200 | 204 => true,
            502 | 504 => state.is_after(Fault::Kill, sent_request.at),
            503 => {
                state.is_after(Fault::Kill, sent_request.at)
                    || state.is_after(Fault::LowLimits, sent_request.at)
            }
            507 => state.is_after(Fault::LowLimits, sent_request.at),
            _ => false,
        };
        if !allowed {
            self.fail(&mut state, sent_request, &format!("unexpected status {status}"));
        }
    }

    /// Records a request without a complete response.
    pub(super) fn request_error(&self, sent_request: SentRequest, error: &RequestError) {
        let mut state = self.state();
        match error {
            RequestError::Cancelled => state.counts.cancelled += 1,
            RequestError::Closed if sent_request.reused => state.counts.stale += 1,
            RequestError::Truncated(_) if state.is_after(Fault::Kill, sent_request.at) => {
                state.counts.truncated += 1;
            }
            error => self.fail(&mut state, sent_request, &error.to_string()),
        }
    }

    /// Records a failure of the server that is not related to a request.
    pub(super) fn failure(&self, message: &str) {
        self.fail(
            &mut self.state(),
            SentRequest { name: "server", at: Instant::now(), reused: false },
            message,
        );
    }

    fn fail(&self, state: &mut State, sent_request: SentRequest, message: &str) {
        state.counts.failures += 1;
        if state.counts.shown.len() < SHOWN_MAX {
            let (sent, now) = (sent_request.at - self.begin, self.begin.elapsed());
            let times = format!("{:.2} s, sent at {:.2} s", now.as_secs_f64(), sent.as_secs_f64());
            state
                .counts
                .shown
                .push(format!("{}: {message} ({times}, reused: {})", sent_request.name, sent_request.reused));
        }
    }

    /// Ignores poisoning: each change is one step, so a panic leaves the state consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the fault may affect a request sent at this time.
    fn is_after(&self, fault: Fault, sent: Instant) -> bool {
        let until = match fault {
            Fault::Kill => self.kill_until,
            Fault::LowLimits => self.low_limits_until,
        };
        until.is_some_and(|until| sent < until)
    }
}

impl Counts {
    /// Number of complete responses.
    pub(super) fn responses(&self) -> u64 {
        self.statuses.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses: Vec<_> =
            self.statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
        write!(f, "{}; {} cancelled, {} truncated, ", statuses.join(", "), self.cancelled, self.truncated)?;
        write!(f, "{} closed before reuse, {} killed, ", self.stale, self.killed)?;
        write!(f, "{} reloads, {} upgrades", self.reloads, self.upgrades)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => write!(f, "cancelled"),
            Self::Closed => write!(f, "closed without a response"),
            Self::Truncated(place) => write!(f, "unexpected truncated response: {place}"),
            Self::Timeout(what) | Self::Invalid(what) => write!(f, "{what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_request() -> SentRequest<'static> {
        SentRequest { name: "GET", at: Instant::now(), reused: false }
    }

    #[test]
    fn a_failed_request_is_allowed_only_after_a_fault_that_causes_it() {
        let table =
            [(502, Fault::Kill), (503, Fault::Kill), (503, Fault::LowLimits), (507, Fault::LowLimits)];
        for (status, fault) in table {
            let tally = Tally::new();
            tally.response(sent_request(), status);
            assert_eq!(tally.counts().failures, 1, "{status} without a fault");
            tally.fault(fault, Duration::ZERO);
            tally.response(sent_request(), status);
            assert_eq!(tally.counts().failures, 1, "{status} after {fault:?}");
        }
    }

    #[test]
    fn other_statuses_and_wrong_bodies_are_never_allowed() {
        let tally = Tally::new();
        tally.fault(Fault::Kill, Duration::ZERO);
        tally.fault(Fault::LowLimits, Duration::ZERO);
        for status in [400, 404, 408, 500] {
            tally.response(sent_request(), status);
        }
        tally.request_error(sent_request(), &RequestError::Invalid("a body".into()));
        tally.request_error(sent_request(), &RequestError::Closed);
        assert_eq!(tally.counts().failures, 6);
    }

    #[test]
    fn a_reused_connection_may_be_closed() {
        let tally = Tally::new();
        tally.request_error(SentRequest { reused: true, ..sent_request() }, &RequestError::Closed);
        assert_eq!((tally.counts().failures, tally.counts().stale), (0, 1));
    }
}
