//! Decides whether what happened may happen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::content::first_wrong;
use crate::request::{Request, Resource, Route};
use crate::tls::ORDER_TIME;
use crate::trace::Trace;

/// How long the application of a cancelled request may hear nothing of it: the time of the network, and less than `response_timeout`.
const CANCEL_TIME: Duration = Duration::from_secs(4);

/// What went wrong, and all that is counted.
pub struct Judge {
    trace: Arc<Trace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<String>,
    /// How often each request has reached an application.
    reached: BTreeMap<u64, u32>,
    /// When clients have cancelled requests.
    cancelled: BTreeMap<u64, Instant>,
    /// The requests that may reach one again, because they are safe.
    repeatable: BTreeMap<u64, bool>,
    counts: Counts,
    excuses: BTreeSet<Excuse>,
    /// The routes whose connections to applications slow clients occupy, if they are few.
    occupied: BTreeSet<Route>,
    are_connections_few: bool,
    kinds: BTreeSet<Kind>,
    /// When the server was down: it is since the last time if that has no end.
    down: Vec<(Instant, Option<Instant>)>,
    /// The same for HTTP/3.
    without_http3: Vec<(Instant, Option<Instant>)>,
    /// The processes that have the port of HTTP/3, and take no new connections.
    leaving: u32,
}

/// Why something may go wrong in a run without being a fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// Connections break.
    Network,
    /// Requests for an application fail: it misbehaves, or has no address yet.
    Application(Route),
    /// The authority that signs certificates misbehaves: only an excuse for a certificate.
    Authority,
    /// The wall clock of the server was set: only an excuse for a certificate, and for the time of its order.
    Clock,
}

/// A kind of event. All pairs of kinds occur together in some runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The operator reloads a configuration.
    Reload,
    /// A new process replaces the old one.
    Upgrade,
    /// The server is killed.
    Crash,
    /// A client resets a connection, or the network breaks one.
    Reset,
    /// The operator purges cached responses.
    Purge,
    /// The disk of the cache is full or fails.
    Disk,
    /// A certificate is renewed before it expires.
    Expiry,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Reload, Self::Upgrade, Self::Crash, Self::Reset, Self::Purge, Self::Disk, Self::Expiry];
}

/// What has happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that clients have begun.
    pub requests: u64,
    /// Complete responses.
    pub responses: u64,
    /// Those with an error of the server, such as 502.
    pub errors: u64,
    /// Connections that ended without a response, or in one.
    pub broken: u64,
    /// Responses of the cache that another request has led to.
    pub hits: u64,
    /// What clients, applications and the operator did to disturb.
    pub disturbances: u64,
}

impl Judge {
    /// Creates a judge that has seen nothing.
    #[must_use]
    pub fn new(trace: Arc<Trace>) -> Self {
        Self { trace, state: Mutex::default() }
    }

    /// Tells something that a reader of the story understands.
    pub fn tell(&self, text: &str) {
        self.trace.tell(text);
    }

    /// Notes a fault of the server.
    pub fn fault(&self, text: String) {
        self.trace.tell(&format!("FAULT: {text}"));
        self.state.lock().faults.push(text);
    }

    /// Something of this kind happens.
    pub fn happens(&self, kind: Kind) {
        self.state.lock().kinds.insert(kind);
    }

    /// Returns the kinds of what has happened.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<Kind> {
        self.state.lock().kinds.clone()
    }

    /// From now on, something may go wrong for this reason.
    pub fn excuse(&self, excuse: Excuse) {
        self.state.lock().excuses.insert(excuse);
    }

    /// A slow client occupies connections to applications. If they are few, requests of others wait without success.
    pub fn occupies(&self, route: Route) {
        self.state.lock().occupied.insert(route);
    }

    /// A configuration permits few connections to each application.
    pub fn permits_few_connections(&self) {
        self.state.lock().are_connections_few = true;
    }

    /// The server is stopped or killed now.
    pub fn goes_down(&self) {
        self.state.lock().down.push((Instant::now(), None));
    }

    /// The server accepts connections again.
    pub fn is_up(&self) {
        if let Some((_, end)) = self.state.lock().down.last_mut() {
            *end = Some(Instant::now());
        }
    }

    /// A process that has the port of HTTP/3 takes no new connections over it: the next one has the port when this one has ended.
    pub fn leaves_http3(&self) {
        let mut state = self.state.lock();
        state.leaving += 1;
        if state.leaving == 1 {
            state.without_http3.push((Instant::now(), None));
        }
    }

    /// Such a process has ended, or all of them if `is_alone`, and the next one has the port.
    pub fn has_http3(&self, is_alone: bool) {
        let mut state = self.state.lock();
        state.leaving = if is_alone { 0 } else { state.leaving.saturating_sub(1) };
        if state.leaving == 0
            && let Some((_, end @ None)) = state.without_http3.last_mut()
        {
            *end = Some(Instant::now());
        }
    }

    /// Returns whether the server may have taken no connection over HTTP/3 at some time since then.
    #[must_use]
    pub fn is_without_http3(&self, since: Instant) -> bool {
        self.state.lock().without_http3.iter().any(|(_, end)| end.is_none_or(|end| end >= since))
    }

    /// Returns whether something may have gone wrong in an exchange, with an application if it is known, that began at this time and ends
    /// now.
    #[must_use]
    pub fn is_excused(&self, begin: Instant, route: Option<Route>) -> bool {
        let state = self.state.lock();
        let was_down = state.down.iter().any(|(_, end)| end.is_none_or(|end| end >= begin));
        let concerns = |excuse: &Excuse| match excuse {
            Excuse::Network => true,
            Excuse::Application(of) => route == Some(*of),
            Excuse::Authority | Excuse::Clock => false,
        };
        let is_occupied = state.are_connections_few && route.is_some_and(|of| state.occupied.contains(&of));
        was_down || is_occupied || state.excuses.iter().any(concerns)
    }

    /// A client has received a certificate that is not valid, or none, on a connection that began at this time.
    pub fn check_certificate(&self, begin: Instant, error: &dyn Debug) {
        let before = begin.checked_sub(ORDER_TIME).unwrap_or(begin);
        if !self.is_certificate_excused(before) {
            self.fault(format!("a client got no valid certificate: {error:?}"));
        }
    }

    /// Returns whether the server may not have got a certificate since this time.
    pub fn is_certificate_excused(&self, since: Instant) -> bool {
        let is_excuse = |excuse| self.state.lock().excuses.contains(excuse);
        [Excuse::Authority, Excuse::Clock].iter().any(is_excuse) || self.is_excused(since, None)
    }

    /// Returns whether the wall clock of the server was set.
    #[must_use]
    pub fn has_set_clock(&self) -> bool {
        self.state.lock().excuses.contains(&Excuse::Clock)
    }

    /// Returns whether the authority has misbehaved, and the wall clock of the server was set: pauses after failures may last longer then.
    #[must_use]
    pub fn has_long_pauses(&self) -> bool {
        self.has_set_clock() && self.state.lock().excuses.contains(&Excuse::Authority)
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        self.state.lock().faults.clone()
    }

    /// Returns what has happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Counts something.
    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.state.lock().counts);
    }

    /// A client begins a request. One that `is_repeatable` may reach an application more than once (RFC 9110 §9.2.2).
    pub fn begins(&self, id: u64, is_repeatable: bool) {
        let mut state = self.state.lock();
        state.repeatable.insert(id, is_repeatable);
        state.counts.requests += 1;
    }

    /// A request has reached an application.
    pub fn reached_origin(&self, id: u64) {
        let mut state = self.state.lock();
        let times = state.reached.entry(id).or_default();
        *times += 1;
        let (times, known) = (*times, state.repeatable.get(&id).copied());
        drop(state);
        match known {
            None => self.fault(format!("an application got request {id}, which no client has sent")),
            Some(false) if times > 1 => {
                self.fault(format!(
                    "request {id} must not be repeated, but reached an application {times} times"
                ));
            }
            _ => {}
        }
    }

    /// The server has refused a request, so no application has it, and the client may send it again (RFC 9113 §8.7).
    pub fn refused(&self, id: u64) {
        let times = self.state.lock().reached.get(&id).copied().unwrap_or(0);
        if times > 0 {
            self.fault(format!("request {id} was refused, but has reached an application"));
        }
    }

    /// A client has received the head of a response, with the id of the request that an application responded to. One that follows the
    /// protocol since a time gets a response of an application, or an error that shows that there is none.
    pub(crate) fn check_head(
        &self,
        Request { id, route, .. }: Request,
        status: u16,
        of: Option<&str>,
        follows_since: Option<Instant>,
    ) {
        if status == 200 && route != Route::Files && of != Some(&id.to_string()) {
            self.fault(format!("request {id} got the response of {of:?}"));
        }
        let Some(begin) = follows_since.filter(|_| status != 200) else { return };
        if !(matches!(status, 502..=504) && self.is_excused(begin, Some(route))) {
            self.fault(format!("request {id} got status {status}"));
        }
    }

    /// A client has cancelled a request, on a connection that carries what it sends.
    pub fn cancels(&self, id: u64) {
        self.state.lock().cancelled.insert(id, Instant::now());
    }

    /// The server has given up a request for which an application hangs since `begin`. It waits for a limited time, and not for a
    /// response that no client waits for.
    pub fn check_wait(&self, id: u64, begin: Instant, limit: Duration) {
        let waited = begin.elapsed();
        let cancelled = self.state.lock().cancelled.get(&id).copied();
        if waited > limit {
            self.fault(format!("request {id} waited {waited:?} for an application that hangs"));
        } else if let Some(cancelled) = cancelled
            && begin.max(cancelled).elapsed() > CANCEL_TIME
        {
            self.fault(format!(
                "request {id} went on for {:?} after its client cancelled it",
                cancelled.elapsed()
            ));
        }
    }

    /// A client has received a part of a body, from this offset on.
    pub fn check_bytes(&self, id: u64, resource: Resource, offset: usize, bytes: &[u8]) {
        if let Some(at) = first_wrong(resource.number, offset, bytes) {
            self.fault(format!("request {id}: byte {} of {resource:?} is {}", offset + at, bytes[at]));
        } else if offset + bytes.len() > resource.length {
            self.fault(format!("request {id}: more than the {} bytes of {resource:?}", resource.length));
        }
    }
}
