//! A member of the upstream, with the counts on which the pool bases its decisions.
//!
//! All counts are sequentially consistent. Several rules need this: one thread writes a count and then reads another,
//! while a second thread does the reverse. On x86 only a plain store would be cheaper otherwise.

use std::time::Instant;

use crate::decide::MemberState;
use crate::instant::AtomicInstant;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// An address or a process of the upstream.
#[derive(Debug)]
pub struct Member<A> {
    id: u64,
    address: A,
    requests_max: u64,
    requests: AtomicU64,
    limit: AtomicUsize,
    /// Number of connections: idle, in use, or being opened.
    open: AtomicUsize,
    /// Number of connections in use or being opened.
    in_flight: AtomicUsize,
    /// Number of connections that the upstream has not accepted yet.
    unaccepted: AtomicUsize,
    is_retired: AtomicBool,
    /// None while unknown. Has no meaning while a request is in flight.
    idle_since: AtomicInstant,
    backed_off_until: AtomicInstant,
}

impl<A> Member<A> {
    pub(crate) fn new(id: u64, address: A, limit: usize, requests_max: Option<u64>, now: Instant) -> Self {
        Self {
            id,
            address,
            requests_max: requests_max.unwrap_or(u64::MAX),
            requests: AtomicU64::new(0),
            limit: AtomicUsize::new(limit),
            open: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            unaccepted: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
            idle_since: AtomicInstant::at(now),
            backed_off_until: AtomicInstant::none(now),
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

    /// Records that connecting to this member failed. The pool prefers other members for new connections until this time,
    /// or until a connection succeeds.
    pub fn back_off(&self, until: Instant) {
        self.backed_off_until.store(until);
    }

    pub(crate) fn clear_back_off(&self) {
        if self.backed_off_until.load().is_some() {
            self.backed_off_until.clear();
        }
    }

    pub(crate) fn load(&self, now: Instant) -> MemberState {
        MemberState {
            accepts_requests: self.accepts_requests(),
            open: self.open.load(SeqCst),
            limit: self.limit.load(SeqCst),
            is_backed_off: self.backed_off_until.load().is_some_and(|until| now < until),
            in_flight: self.in_flight(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(SeqCst)
    }

    pub(crate) fn accepts_requests(&self) -> bool {
        !self.is_retired.load(SeqCst) && !self.reached_request_limit()
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

    /// Counts a request on a connection that is in use. Returns `false` if the member accepts no more requests.
    pub(crate) fn count_request(&self) -> bool {
        let add = |requests| (requests < self.requests_max).then_some(requests + 1);
        !self.is_retired.load(SeqCst) && self.requests.fetch_update(SeqCst, SeqCst, add).is_ok()
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

    /// Counts a new connection. The caller holds the queue's lock and has found capacity.
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
