//! A member of the upstream, with the counts on which the pool bases its decisions.
//!
//! All counts are sequentially consistent. Several rules need this: one thread writes a count and then reads another,
//! while a second thread does the reverse. On x86 only a plain store would be cheaper otherwise.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::choice::Candidate;
use crate::circuit::{Availability, Circuit, CircuitOptions, WHOLE};
use crate::decide::MemberState;
use crate::instant::AtomicInstant;
use crate::options::Options;
use crate::slowness;
use crate::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use crate::sync::{Mutex, MutexGuard};

/// The settings of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberOptions {
    /// Maximum number of connections.
    pub limit: usize,
    /// Its share of the requests in relation to the other members, at least 1.
    pub weight: u32,
    /// The [hash](crate::hash) of its name, for [`Choice::Hash`](crate::Choice::Hash).
    pub hash: u64,
    /// Members of the lowest number get the requests, as long as one of them is up.
    pub priority: u32,
    /// Whether it gets no requests until it is [restored](crate::Pool::restore).
    pub is_retired: bool,
}

/// A connection limit alone.
impl From<usize> for MemberOptions {
    fn from(limit: usize) -> Self {
        Self { limit, weight: 1, hash: 0, priority: 0, is_retired: false }
    }
}

/// An address or a process of the upstream.
#[derive(Debug)]
pub struct Member<A> {
    id: u64,
    address: A,
    weight: u64,
    hash: u64,
    priority: u32,
    /// The virtual time of its next turn in a round robin.
    turn: AtomicU64,
    requests_max: u64,
    requests: AtomicU64,
    limit: AtomicUsize,
    /// Number of connections: idle, in use, or being opened.
    open: AtomicUsize,
    /// Number of connections in use or being opened.
    in_flight: AtomicUsize,
    /// Number of connections that the upstream has not accepted yet.
    unaccepted: AtomicUsize,
    /// Number of connections that are tunnels.
    tunnels: AtomicUsize,
    /// Number of failed requests.
    failures: AtomicU64,
    /// The moving average of the latency in microseconds, or 0 for none.
    latency: AtomicU64,
    /// Number of latencies since the start or the last ejection.
    latencies: AtomicU64,
    is_retired: AtomicBool,
    /// None while unknown. Has no meaning while a request is in flight.
    idle_since: AtomicInstant,
    circuit: Mutex<Circuit>,
    circuit_options: CircuitOptions,
    /// Whether the circuit is closed: then requests do not lock it.
    is_closed: AtomicBool,
}

impl<A> Member<A> {
    pub(crate) fn new(id: u64, address: A, member: MemberOptions, pool: &Options, now: Instant) -> Self {
        Self {
            id,
            address,
            weight: u64::from(member.weight.max(1)),
            hash: member.hash,
            priority: member.priority,
            turn: AtomicU64::new(0),
            requests_max: pool.requests_per_member.unwrap_or(u64::MAX),
            requests: AtomicU64::new(0),
            limit: AtomicUsize::new(member.limit),
            open: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            unaccepted: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            latency: AtomicU64::new(0),
            latencies: AtomicU64::new(0),
            is_retired: AtomicBool::new(member.is_retired),
            idle_since: AtomicInstant::at(now),
            circuit: Mutex::default(),
            circuit_options: pool.circuit,
            is_closed: AtomicBool::new(true),
        }
    }

    /// The id passed to [`Pool::add`](crate::Pool::add).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The address to connect to.
    pub fn address(&self) -> &A {
        &self.address
    }

    /// Members of the lowest number get the requests, as long as one of them is up.
    pub fn priority(&self) -> u32 {
        self.priority
    }

    /// Number of requests that the member got so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    /// Whether the member got [`Options::requests_per_member`](crate::Options::requests_per_member) requests.
    pub fn reached_request_limit(&self) -> bool {
        self.requests() >= self.requests_max
    }

    /// Whether the member is [retired](crate::Pool::retire) and has no connections left.
    pub fn is_drained(&self) -> bool {
        self.is_retired.load(SeqCst) && self.open.load(SeqCst) == 0
    }

    /// Since when the member has no request in flight, or `None` while it has one. Dropping a permit records no time: the
    /// member then counts as idle from the next call on.
    pub fn idle_since(&self, now: Instant) -> Option<Instant> {
        (self.in_flight() == 0).then(|| self.idle_since.get_or_store(now))
    }

    /// Returns whether the member gets requests, and if not, why.
    pub fn availability(&self, now: Instant) -> Availability {
        if self.is_retired() { Availability::Retired } else { self.circuit().availability(now) }
    }

    /// Number of connections: idle, in use, or being opened.
    pub fn open(&self) -> usize {
        self.open.load(SeqCst)
    }

    /// Number of connections that are [tunnels](crate::Permit::begin_tunnel).
    pub fn tunnels(&self) -> usize {
        self.tunnels.load(Relaxed)
    }

    pub(crate) fn add_tunnel(&self) {
        self.tunnels.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_tunnel(&self) {
        self.tunnels.fetch_sub(1, Relaxed);
    }

    /// Number of failures that were recorded.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// Returns the time from a request to its response: a moving average, in which the last ten requests or so matter.
    pub fn latency(&self) -> Option<Duration> {
        let latency = self.latency.load(Relaxed);
        (latency > 0).then(|| Duration::from_micros(latency))
    }

    /// Returns the average if enough latencies are in it to compare members.
    pub(crate) fn known_latency(&self) -> Option<Duration> {
        self.latency().filter(|_| self.latencies.load(Relaxed) >= slowness::LATENCIES_MIN)
    }

    /// Counts a latency. Returns whether it is time to compare the average with those of other members.
    pub(crate) fn count_latency(&self) -> bool {
        let count = self.latencies.fetch_add(1, Relaxed) + 1;
        count >= slowness::LATENCIES_MIN && count.is_multiple_of(slowness::LATENCIES_MIN)
    }

    /// Ejects a member that is up because of its latency, which is measured again from then on. Returns whether it was ejected.
    pub(crate) fn eject_slow(&self, now: Instant) -> bool {
        let is_ejected =
            self.change_circuit(|circuit| !circuit.is_ejected() && circuit.eject(now, &self.circuit_options));
        if is_ejected {
            self.latencies.store(0, Relaxed);
            self.latency.store(0, Relaxed);
        }
        is_ejected
    }

    /// Updates the average. Two workers at the same time may lose a value, which matters less than the cost of a lock.
    pub(crate) fn record_latency(&self, latency: Duration) {
        let (average, latest) =
            (self.latency.load(Relaxed), u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        let latest = latest.max(1);
        let next = if average == 0 { latest } else { average - average / 8 + latest / 8 };
        self.latency.store(next.max(1), Relaxed);
    }

    /// Records a failure. Returns whether it begins an ejection of a member that was up.
    pub(crate) fn record_failure(&self, now: Instant) -> bool {
        self.change_circuit(|circuit| circuit.fail(now, &self.circuit_options))
    }

    /// Records a success. Returns whether it ends an ejection.
    pub(crate) fn record_success(&self, is_trial: bool, now: Instant) -> bool {
        !self.is_closed.load(SeqCst)
            && self.change_circuit(|circuit| circuit.succeed(is_trial, now, &self.circuit_options))
    }

    /// Records whether the member is healthy. Returns whether that is new.
    pub(crate) fn set_healthy(&self, is_healthy: bool, now: Instant) -> bool {
        self.change_circuit(|circuit| circuit.set_healthy(is_healthy, now, &self.circuit_options))
    }

    /// Begins the trial of a member whose ejection is over. Returns `false` if another request is its trial.
    pub(crate) fn begin_trial(&self, now: Instant) -> bool {
        self.is_closed.load(SeqCst)
            || self.change_circuit(|circuit| circuit.begin_trial(now, &self.circuit_options))
    }

    /// Whether the member is ejected or on trial.
    pub(crate) fn is_ejected(&self) -> bool {
        !self.is_closed.load(SeqCst) && self.circuit().is_ejected()
    }

    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.is_closed.load(SeqCst) || self.circuit().is_up(now)
    }

    fn change_circuit(&self, change: impl FnOnce(&mut Circuit) -> bool) -> bool {
        let mut circuit = self.circuit();
        let changed = change(&mut circuit);
        self.is_closed.store(circuit.is_closed(), SeqCst);
        changed
    }

    /// Ignores poisoning: each change is complete.
    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self, tried: &[u64], now: Instant) -> MemberState {
        MemberState {
            was_tried: tried.contains(&self.id),
            accepts_requests: self.accepts_requests(),
            open: self.open.load(SeqCst),
            limit: self.limit.load(SeqCst),
            is_up: self.is_up(now),
            in_flight: self.in_flight(),
        }
    }

    /// Describes the member with this index for the choice of one; `None` if it accepts no requests.
    pub(crate) fn candidate(&self, member: usize, tried: &[u64], now: Instant) -> Option<Candidate> {
        if !self.accepts_requests() {
            return None;
        }
        let (mut is_up, mut is_half_open, mut share) = (true, false, WHOLE);
        if !self.is_closed.load(SeqCst) {
            self.change_circuit(|circuit| {
                (is_up, is_half_open) = (circuit.is_up(now), circuit.is_ejected());
                share = circuit.share(now, &self.circuit_options);
                false
            });
        }
        let in_flight = self.in_flight();
        Some(Candidate {
            member,
            weight: self.weight * share,
            full_weight: self.weight,
            in_flight,
            turn: self.turn(),
            hash: self.hash,
            priority: self.priority,
            // Not the number of open connections: an idle one can be used.
            has_capacity: in_flight < self.limit.load(SeqCst),
            is_up,
            is_half_open: is_up && is_half_open,
            was_tried: tried.contains(&self.id),
        })
    }

    /// Returns the virtual time of its next turn.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.load(SeqCst)
    }

    /// Takes the turn of a candidate, and sets its next one. Returns `false` if another worker has taken it.
    pub(crate) fn take_turn(&self, candidate: &Candidate, next: u64) -> bool {
        self.turn.compare_exchange(candidate.turn, next, SeqCst, SeqCst).is_ok()
    }

    /// Number of connections in use or being opened.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(SeqCst)
    }

    pub(crate) fn accepts_requests(&self) -> bool {
        !self.is_retired.load(SeqCst) && !self.reached_request_limit()
    }

    /// Whether it accepts another request, on an idle or a new connection.
    pub(crate) fn has_capacity(&self) -> bool {
        self.accepts_requests() && self.in_flight() < self.limit.load(SeqCst)
    }

    /// Whether a released connection may become idle.
    pub(crate) fn retains_connections(&self) -> bool {
        self.accepts_requests()
            && self.unaccepted.load(SeqCst) == 0
            && self.open.load(SeqCst) <= self.limit.load(SeqCst)
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
    }

    pub(crate) fn retire(&self) {
        self.is_retired.store(true, SeqCst);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(SeqCst)
    }

    /// Reverts [`Self::retire`].
    pub(crate) fn restore(&self, now: Instant) {
        self.change_circuit(|circuit| {
            circuit.start_slowly(now, &self.circuit_options);
            true
        });
        self.is_retired.store(false, SeqCst);
    }

    /// Counts a request. Returns `false` if the member accepts no more requests.
    fn count_request(&self) -> bool {
        if self.is_retired.load(SeqCst) {
            return false;
        }
        if self.requests_max == u64::MAX {
            self.requests.fetch_add(1, SeqCst);
            return true;
        }
        let add = |requests| (requests < self.requests_max).then_some(requests + 1);
        self.requests.fetch_update(SeqCst, SeqCst, add).is_ok()
    }

    /// Counts a request on an idle or new connection. Returns `false` if the member accepts no more requests.
    pub(crate) fn begin_request(&self) -> bool {
        let begins = self.count_request();
        if begins {
            self.in_flight.fetch_add(1, SeqCst);
        }
        begins
    }

    /// Marks a connection as no longer in use. Without a time, [`Self::idle_since`] determines it.
    pub(crate) fn end_request(&self, now: Option<Instant>) {
        match now {
            Some(now) => self.idle_since.store(now),
            None => self.idle_since.clear(),
        }
        self.in_flight.fetch_sub(1, SeqCst);
    }

    /// Counts a new connection and its request, if the member has capacity. The caller holds the queue's lock.
    pub(crate) fn reserve(&self) -> bool {
        let is_reserved = self.open.load(SeqCst) < self.limit.load(SeqCst) && self.begin_request();
        if is_reserved {
            self.open_one();
        }
        is_reserved
    }

    /// Counts a new connection. The caller holds the queue's lock.
    pub(crate) fn open_one(&self) {
        self.open.fetch_add(1, SeqCst);
    }

    pub(crate) fn close_one(&self) {
        self.open.fetch_sub(1, SeqCst);
    }

    pub(crate) fn add_unaccepted(&self) {
        self.unaccepted.fetch_add(1, SeqCst);
    }

    pub(crate) fn remove_unaccepted(&self) {
        self.unaccepted.fetch_sub(1, SeqCst);
    }
}
