//! What the clients have met, and what of it fails the run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wire::Lost;

/// How long after a fault responses may still show it: an application that dies repeatedly is started again after a pause,
/// and a request waits in a queue for up to `queue_timeout` (10 s).
const WINDOW: Duration = Duration::from_secs(15);
/// Failures that are printed with their text; further ones are only counted.
const SHOWN_MAX: usize = 20;

/// A kind of fault that the run causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process of an application was killed: 502, 503, 504, or a cut response.
    Kill,
    /// The configuration has little room: 503 (queue) or 507 (files).
    LittleRoom,
}

/// What all clients have met so far.
#[derive(Debug)]
pub(super) struct Tally {
    begin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// Requests that were sent before may show the fault.
    kill_until: Option<Instant>,
    little_room_until: Option<Instant>,
}

/// Numbers of a run.
#[derive(Debug, Default, Clone)]
pub(super) struct Counts {
    /// Whole responses by status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Requests that clients gave up on purpose.
    pub(super) given_up: u64,
    /// Responses that ended early after a kill.
    pub(super) cut: u64,
    /// Kept connections that the server had closed before it read the request.
    pub(super) stale: u64,
    pub(super) killed: u64,
    pub(super) reloads: u64,
    /// Everything that fails the run.
    pub(super) failures: u64,
    /// The texts of the first of them.
    pub(super) shown: Vec<String>,
}

/// A request as far as its outcome matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) what: &'a str,
    pub(super) at: Instant,
    /// The connection has had a response before, so that the server may close it at any time.
    pub(super) reused: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), state: Mutex::default() }
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Notes a fault that begins now and lasts so long. Its effects are allowed for a while longer.
    pub(super) fn fault(&self, fault: Fault, lasts: Duration) {
        let until = Some(Instant::now() + lasts + WINDOW);
        let mut state = self.state();
        match fault {
            Fault::Kill => state.kill_until = until,
            Fault::LittleRoom => state.little_room_until = until,
        }
    }

    pub(super) fn killed(&self) {
        self.state().counts.killed += 1;
    }

    pub(super) fn reload(&self) {
        self.state().counts.reloads += 1;
    }

    pub(super) fn give_up(&self) {
        self.state().counts.given_up += 1;
    }

    /// Notes a whole response. A 200 was checked before.
    pub(super) fn response(&self, asked: Asked, status: u16) {
        let mut state = self.state();
        *state.counts.statuses.entry(status).or_default() += 1;
        let allowed = match status {
            200 | 204 => true,
            502 | 504 => state.is_after(Fault::Kill, asked.at),
            503 => state.is_after(Fault::Kill, asked.at) || state.is_after(Fault::LittleRoom, asked.at),
            507 => state.is_after(Fault::LittleRoom, asked.at),
            _ => false,
        };
        if !allowed {
            self.fail(&mut state, asked, &format!("status {status}, which no fault explains"));
        }
    }

    /// Notes that there was no whole response.
    pub(super) fn lost(&self, asked: Asked, lost: &Lost) {
        let mut state = self.state();
        match lost {
            Lost::GivenUp => state.counts.given_up += 1,
            Lost::Closed if asked.reused => state.counts.stale += 1,
            Lost::Cut(_) if state.is_after(Fault::Kill, asked.at) => state.counts.cut += 1,
            lost => self.fail(&mut state, asked, &lost.to_string()),
        }
    }

    /// Notes a failure of the server that belongs to no request.
    pub(super) fn failure(&self, what: &str) {
        self.fail(&mut self.state(), Asked { what: "server", at: Instant::now(), reused: false }, what);
    }

    fn fail(&self, state: &mut State, asked: Asked, what: &str) {
        state.counts.failures += 1;
        if state.counts.shown.len() < SHOWN_MAX {
            let (sent, now) = (asked.at - self.begin, self.begin.elapsed());
            let times = format!("{:.2} s, sent at {:.2} s", now.as_secs_f64(), sent.as_secs_f64());
            state.counts.shown.push(format!("{}: {what} ({times}, reused: {})", asked.what, asked.reused));
        }
    }

    /// Nothing is half done where a holder panics: each change is one step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a request that was sent then may show this fault.
    fn is_after(&self, fault: Fault, sent: Instant) -> bool {
        let until = match fault {
            Fault::Kill => self.kill_until,
            Fault::LittleRoom => self.little_room_until,
        };
        until.is_some_and(|until| sent < until)
    }
}

impl Counts {
    /// Whole responses.
    pub(super) fn responses(&self) -> u64 {
        self.statuses.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses: Vec<_> =
            self.statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
        write!(f, "{}; {} given up, {} cut, ", statuses.join(", "), self.given_up, self.cut)?;
        write!(f, "{} closed before reuse, {} killed, {} reloads", self.stale, self.killed, self.reloads)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GivenUp => write!(f, "given up"),
            Self::Closed => write!(f, "closed without a response"),
            Self::Cut(place) => write!(f, "a cut response, which no fault explains: {place}"),
            Self::Hang(what) | Self::Wrong(what) => write!(f, "{what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked<'static> {
        Asked { what: "GET", at: Instant::now(), reused: false }
    }

    #[test]
    fn a_failed_request_is_allowed_after_the_fault_that_explains_it_and_not_before() {
        let table =
            [(502, Fault::Kill), (503, Fault::Kill), (503, Fault::LittleRoom), (507, Fault::LittleRoom)];
        for (status, fault) in table {
            let tally = Tally::new();
            tally.response(asked(), status);
            assert_eq!(tally.counts().failures, 1, "{status} without a fault");
            tally.fault(fault, Duration::ZERO);
            tally.response(asked(), status);
            assert_eq!(tally.counts().failures, 1, "{status} after {fault:?}");
        }
    }

    #[test]
    fn no_fault_explains_another_status_or_a_wrong_body() {
        let tally = Tally::new();
        tally.fault(Fault::Kill, Duration::ZERO);
        tally.fault(Fault::LittleRoom, Duration::ZERO);
        for status in [400, 404, 408, 500] {
            tally.response(asked(), status);
        }
        tally.lost(asked(), &Lost::Wrong("a body".into()));
        tally.lost(asked(), &Lost::Closed);
        assert_eq!(tally.counts().failures, 6);
    }

    #[test]
    fn a_kept_connection_may_be_closed() {
        let tally = Tally::new();
        tally.lost(Asked { reused: true, ..asked() }, &Lost::Closed);
        assert_eq!((tally.counts().failures, tally.counts().stale), (0, 1));
    }
}
