//! What the connections of one worker share, and what it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::timers::{TimerFd, Timers};

/// One worker's share of the server: a core's runtime in the `percore` engine.
#[derive(Debug, Default)]
pub struct Worker {
    /// What happened here so far.
    pub counters: Counters,
    /// Set once: connections finish what they are at and close.
    stopping: AtomicBool,
    pub(crate) timers: Arc<Timers>,
}

impl Worker {
    /// Asks every connection to end: idle ones at once, the others after the response in progress.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_connections();
    }

    /// Has idle connections look again at what they wait for.
    pub(crate) fn wake_connections(&self) {
        self.timers.wake_all();
    }

    /// Its connections that are about to close because they were evicted.
    pub(crate) fn evicted(&self) -> usize {
        self.timers.evicted()
    }

    /// Keeps the deadlines of the worker's connections; its engine runs this beside them.
    pub(crate) async fn run_timers(&self, timer_fd: TimerFd) {
        self.timers.run(timer_fd).await;
    }

    /// Whether a connection is open.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        // Closed first: a connection that comes and goes in between is not counted as less than none.
        let closed = self.counters.closed.get();
        self.counters.accepted.get() > closed
    }

    /// Whether [`Self::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Counts of one worker, read by anybody, who adds up the workers. Where each core has a worker it alone writes them, so
/// that no two cores fight for a cache line; the engines with a thread for each connection have one worker.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections that ended, one way or another; `accepted - closed` are open.
    pub closed: Counter,
    /// Connections sent away because a limit was reached (connections, descriptors, per address).
    pub over_limit: Counter,
    /// Idle connections that had to close because others had no room.
    pub evicted: Counter,
    /// Connections for which no thread was free when they were accepted, in the engines with a thread for each.
    pub queued: Counter,
    /// Requests answered.
    pub requests: Counter,
    /// Panics, in handlers or anywhere else in a connection: each is a bug of ours.
    pub panics: Counter,
    /// Peers refused by the protocol: bad heads and bodies, timeouts.
    pub rejected: Counter,
    /// Peers dropped because they fell too far behind a stream that does not wait for them.
    pub dropped: Counter,
    /// Bytes of answers handed to the kernel.
    pub sent_bytes: Counter,
    /// Bytes read.
    pub received_bytes: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Its value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
