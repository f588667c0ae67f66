//! One address of the upstream, or one of its processes, with the counts that the pool decides by.
//!
//! The counts are sequentially consistent throughout: several rules need it (a thread writes one count and then reads
//! another, while a second thread does the reverse), and on x86 only a plain store would be cheaper otherwise.

use std::time::Instant;

use crate::decide::Load;
use crate::instant::AtomicInstant;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// One address of the upstream, or one of its processes.
#[derive(Debug)]
pub struct Member<A> {
    id: u64,
    address: A,
    requests_max: u64,
    requests: AtomicU64,
    limit: AtomicUsize,
    /// Connections: idle, in use, or being opened.
    open: AtomicUsize,
    /// Connections that are not idle.
    in_flight: AtomicUsize,
    /// Connections that wait for the upstream to accept them.
    unaccepted: AtomicUsize,
    is_retired: AtomicBool,
    /// None while it is unknown, and without meaning while a request is in flight.
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

    /// The number it was added with.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where to connect to.
    pub fn address(&self) -> &A {
        &self.address
    }

    /// Requests that it was given so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    /// Whether it has had [`Options::requests_per_member`](crate::Options::requests_per_member) and gets no more.
    pub fn reached_request_limit(&self) -> bool {
        self.requests() >= self.requests_max
    }

    /// Whether it was [retired](crate::Pool::retire) and has no connection any more.
    pub fn is_drained(&self) -> bool {
        self.is_retired.load(SeqCst) && self.open.load(SeqCst) == 0
    }

    /// Since when it has no request in flight; `None` while it has one. A permit that is dropped passes no
    /// time: the member then counts as idle from the first call that finds it so.
    pub fn idle_since(&self, now: Instant) -> Option<Instant> {
        (self.in_flight() == 0).then(|| self.idle_since.get_or_store(now))
    }

    /// A connection to it failed: other members get new connections first, until this time or until a connection succeeds.
    pub fn back_off(&self, until: Instant) {
        self.backed_off_until.store(until);
    }

    pub(crate) fn clear_back_off(&self) {
        if self.backed_off_until.load().is_some() {
            self.backed_off_until.clear();
        }
    }

    pub(crate) fn load(&self, now: Instant) -> Load {
        Load {
            takes_requests: self.takes_requests(),
            open: self.open.load(SeqCst),
            limit: self.limit.load(SeqCst),
            is_backed_off: self.backed_off_until.load().is_some_and(|until| now < until),
            in_flight: self.in_flight(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(SeqCst)
    }

    pub(crate) fn takes_requests(&self) -> bool {
        !self.is_retired.load(SeqCst) && !self.reached_request_limit()
    }

    /// Whether a released connection is kept.
    pub(crate) fn keeps_connections(&self) -> bool {
        self.takes_requests()
            && self.unaccepted.load(SeqCst) == 0
            && self.open.load(SeqCst) <= self.limit.load(SeqCst)
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
    }

    pub(crate) fn retire(&self) {
        self.is_retired.store(true, SeqCst);
    }

    /// Counts a request on a connection that is in use already. `false` if the member takes none any more.
    pub(crate) fn count_request(&self) -> bool {
        let add = |requests| (requests < self.requests_max).then_some(requests + 1);
        !self.is_retired.load(SeqCst) && self.requests.fetch_update(SeqCst, SeqCst, add).is_ok()
    }

    /// Counts a request on a connection that was idle or is new. `false` if the member takes none any more.
    pub(crate) fn begin_request(&self) -> bool {
        let begins = self.count_request();
        if begins {
            self.in_flight.fetch_add(1, SeqCst);
        }
        begins
    }

    /// The connection is no longer in use. Without a time, [`Self::idle_since`] determines it.
    pub(crate) fn end_request(&self, now: Option<Instant>) {
        match now {
            Some(now) => self.idle_since.store(now),
            None => self.idle_since.clear(),
        }
        self.in_flight.fetch_sub(1, SeqCst);
    }

    /// Counts a new connection. The caller holds the queue's lock and has found room for it.
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
