//! The shared state of a worker's connections, and its counters.

#[cfg(test)]
mod races;

use std::sync::Arc;
use std::time::Instant;

use crate::active::{ActiveExchange, ActiveExchanges};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::timers::{TimerFd, Timers};
use crate::tls::Handshakes;

/// A worker of an engine: a core's runtime in `percore`.
#[derive(Debug, Default)]
pub struct Worker {
    /// Events of this worker.
    pub counters: Counters,
    /// Set once: connections finish their exchange and close.
    stopping: AtomicBool,
    /// Set once: live streams and connections in another protocol end.
    ending_streams: AtomicBool,
    /// Set once: the connections that are left are reset.
    aborting: AtomicBool,
    pub(crate) timers: Arc<Timers>,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) active: Arc<ActiveExchanges>,
}

impl Worker {
    /// Closes all connections: idle ones at once, the others after the response in progress.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_connections();
    }

    /// Ends responses that have no end, and connections in another protocol.
    pub fn end_streams(&self) {
        self.ending_streams.store(true, Ordering::Release);
        self.wake_connections();
    }

    /// Whether [`Self::end_streams`] was called.
    pub(crate) fn is_ending_streams(&self) -> bool {
        self.ending_streams.load(Ordering::Acquire)
    }

    /// Resets the connections that are left, whose tasks the engine drops next.
    pub(crate) fn abort(&self) {
        self.aborting.store(true, Ordering::Release);
    }

    /// Whether [`Self::abort`] was called.
    pub(crate) fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Acquire)
    }

    /// Wakes idle connections to check whether they must close.
    pub(crate) fn wake_connections(&self) {
        self.timers.wake_all();
    }

    /// Returns the number of evicted connections that have not closed yet.
    pub(crate) fn evicted(&self) -> usize {
        self.timers.evicted()
    }

    /// Runs the timers of the worker's connections, and the turns of its handshakes, as a task of the engine.
    pub(crate) async fn run_timers(&self, timer_fd: TimerFd) {
        tokio::join!(self.timers.run(timer_fd), self.handshakes.run());
    }

    /// Whether a connection is open.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        // Reads `closed` first, so that a connection that opens and closes in between never makes the
        // difference negative.
        let closed = self.counters.closed.get();
        self.counters.accepted.get() > closed
    }

    /// Returns the number of connections that have received no part of a request since their last response.
    fn idle_connections(&self) -> usize {
        self.timers.idle()
    }

    /// Asks the connections what they wait for. Each answers as soon as it is polled. Must not wait on the thread of a worker.
    #[must_use]
    pub fn ask(&self) -> Question<'_> {
        self.timers.ask();
        Question(self)
    }

    /// Ends an exchange: resets its connection, or its stream in HTTP/2 and HTTP/3. Returns `false` if it is over, is being ended, or
    /// belongs to another worker.
    pub fn kill(&self, exchange: &Arc<ActiveExchange>) -> bool {
        let timer = self.active.kill(exchange);
        timer.map(|timer| self.timers.wake(timer)).is_some()
    }

    /// Returns the number of connections by state.
    #[must_use]
    pub fn connection_states(&self) -> ConnectionStates {
        // Reads `closed` first, as in `has_connections`.
        let closed = self.counters.closed.get();
        let open = self.counters.accepted.get().saturating_sub(closed);
        let handshaking = self.handshakes.unfinished() as u64;
        // A connection is idle for the timers until it has received a part of a request.
        let idle = (self.idle_connections() as u64).saturating_sub(handshaking).min(open);
        ConnectionStates { open, idle, handshaking }
    }

    /// Whether [`Self::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// A question to the connections of a worker. Dropping it ends it.
#[derive(Debug)]
pub struct Question<'w>(&'w Worker);

impl Question<'_> {
    /// Waits for the answers. Returns the exchanges in progress that have had to wait and have an observer, and `false` if a connection has
    /// not answered at this time, because the worker is busy: then they are the last known ones.
    #[must_use]
    pub fn answers(self, until: Instant) -> (Vec<Arc<ActiveExchange>>, bool) {
        let is_complete = self.0.timers.wait_for_answers(until);
        (self.0.active.all(), is_complete)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.timers.end_question();
    }
}

/// The number of connections by state. The numbers are read one after another, so they need not add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionStates {
    /// Open connections.
    pub open: u64,
    /// Those that wait for a request.
    pub idle: u64,
    /// Those whose TLS handshake is not complete.
    pub handshaking: u64,
}

/// Counters of a worker; readers add up all workers. With one worker for each core, only that core writes its
/// counters, so cores do not contend for a cache line. The thread engines have a single worker.
#[derive(Debug, Default)]
pub struct Counters {
    /// Accepted connections.
    pub accepted: Counter,
    /// Closed connections; `accepted - closed` are open.
    pub closed: Counter,
    /// Connections rejected because of a limit (connections, descriptors, connections per address).
    pub over_limit: Counter,
    /// Idle connections closed to make room for new ones.
    pub evicted: Counter,
    /// Connections that waited for a free thread, in the thread engines.
    pub queued: Counter,
    /// Completed TLS handshakes.
    pub handshakes: Counter,
    /// Those that resumed a session.
    pub resumed_handshakes: Counter,
    /// TLS handshakes that failed or were not completed.
    pub failed_handshakes: Counter,
    /// Requests received.
    pub requests: Counter,
    /// Panics in handlers or elsewhere in a connection: each is a bug in Rudy.
    pub panics: Counter,
    /// Requests rejected by the protocol: invalid heads and bodies, timeouts.
    pub rejected: Counter,
    /// Pauses of HTTP/2 connections that read nothing, because all of them store too much of request bodies.
    pub paused: Counter,
    /// Clients dropped because they fell too far behind a live stream.
    pub dropped: Counter,
    /// Bytes of responses sent to the kernel.
    pub sent_bytes: Counter,
    /// Bytes received.
    pub received_bytes: Counter,
    /// HTTP/3.
    pub http3: Http3Counters,
}

/// Events of HTTP/3 and QUIC.
#[derive(Debug, Default)]
pub struct Http3Counters {
    /// Connections whose handshake was completed.
    pub connections: Counter,
    /// Clients that had to show that they receive at their address (Retry).
    pub retries: Counter,
    /// Datagrams received.
    pub received_datagrams: Counter,
    /// Datagrams sent.
    pub sent_datagrams: Counter,
    /// Datagrams that the kernel has dropped, because a receive buffer was full.
    pub dropped_datagrams: Counter,
    /// Datagrams that were passed on to the other process of an upgrade.
    pub passed_datagrams: Counter,
    /// Datagrams that the other process of an upgrade did not receive fast enough, so that they were dropped.
    pub unpassed_datagrams: Counter,
    /// Sent packets that were lost on their way.
    pub lost_packets: Counter,
}

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
