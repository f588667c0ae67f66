//! The metrics of the process: the counters of its workers, added up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rudy_net::engine::Model;
use rudy_net::{ConnectionStates, Counters, Worker};
use rudy_pipeline::exchange::{Finished, Recorder, RouteName};
use rudy_runtime::clock;
use serde_json::{Value, json};

use super::{RequestMetrics, RequestSnapshot};

/// The metrics of the process. They survive reloads.
#[derive(Debug)]
pub struct Metrics {
    started: Instant,
    start_time: SystemTime,
    engine: OnceLock<(Model, Vec<Arc<Worker>>)>,
    requests: RequestMetrics,
    /// Whether a configuration counts requests by route.
    counts_requests: AtomicBool,
}

impl Metrics {
    /// Starts the uptime now, for one worker.
    #[must_use]
    pub fn new() -> Self {
        Self::of_workers(1)
    }

    /// Starts the uptime now, for an engine with this number of workers.
    #[must_use]
    pub fn of_workers(workers: usize) -> Self {
        Self {
            started: clock::now(),
            start_time: clock::utc(),
            engine: OnceLock::new(),
            requests: RequestMetrics::new(workers),
            counts_requests: AtomicBool::new(false),
        }
    }

    /// Sets the engine and its workers. Only the first call has an effect.
    pub fn set_engine(&self, model: Model, workers: Vec<Arc<Worker>>) {
        let _already_set = self.engine.set((model, workers));
    }

    /// Returns the workers, after the start of the engine.
    pub fn workers(&self) -> &[Arc<Worker>] {
        self.engine.get().map_or(&[], |(_, workers)| workers)
    }

    /// Returns the time since the start.
    pub fn uptime(&self) -> Duration {
        clock::since(self.started)
    }

    /// Returns the engine after its start.
    pub fn engine(&self) -> Option<Model> {
        self.engine.get().map(|(model, _)| *model)
    }

    /// Returns the time of its creation, at the start of the process.
    pub fn start_time(&self) -> SystemTime {
        self.start_time
    }

    /// Returns the sum of a counter over the workers.
    pub fn sum(&self, count: fn(&Counters) -> u64) -> u64 {
        self.workers().iter().map(|worker| count(&worker.counters)).sum()
    }

    /// Returns the number of connections of all workers by state.
    pub fn connection_states(&self) -> ConnectionStates {
        let states = self.workers().iter().map(|worker| worker.connection_states());
        states.fold(ConnectionStates::default(), |sum, states| ConnectionStates {
            open: sum.open + states.open,
            idle: sum.idle + states.idle,
            handshaking: sum.handshaking + states.handshaking,
        })
    }

    /// Returns the number of requests so far, including those in progress.
    pub fn requests(&self) -> u64 {
        self.sum(|counters| counters.requests.get())
    }

    /// Returns the counters of requests by route, from now on in use.
    pub fn count_requests(&self) -> &RequestMetrics {
        self.counts_requests.store(true, Ordering::Relaxed);
        &self.requests
    }

    /// Goes on with the counters of the routes that a configuration has, too.
    pub fn keep_routes<'r>(&self, routes: impl Iterator<Item = &'r RouteName>) {
        self.requests.keep(routes);
    }

    /// Returns what was counted by route; `None` if no configuration counts.
    pub fn requests_by_route(&self) -> Option<RequestSnapshot> {
        self.counts_requests.load(Ordering::Relaxed).then(|| self.requests.snapshot())
    }

    /// Returns the sums of all counters over the workers.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let sum = |count: fn(&Counters) -> u64| self.sum(count);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": clock::since(self.started).as_secs(),
            "engine": self.engine().map(|model| model.to_string()),
            "workers": self.workers().len(),
            "connections": {
                "open": self.connection_states().open,
                "accepted": sum(|counters| counters.accepted.get()),
                "queued": sum(|counters| counters.queued.get()),
                "over_limit": sum(|counters| counters.over_limit.get()),
                "evicted": sum(|counters| counters.evicted.get()),
                "dropped": sum(|counters| counters.dropped.get()),
            },
            "handshakes": {
                "completed": sum(|counters| counters.handshakes.get()),
                "resumed": sum(|counters| counters.resumed_handshakes.get()),
                "failed": sum(|counters| counters.failed_handshakes.get()),
            },
            "requests": {
                "received": sum(|counters| counters.requests.get()),
                "rejected": sum(|counters| counters.rejected.get()),
                "panicked": sum(|counters| counters.panics.get()),
            },
            "bytes": {
                "sent": sum(|counters| counters.sent_bytes.get()),
                "received": sum(|counters| counters.received_bytes.get()),
            },
            "memory": { "resident_bytes": resident_bytes() },
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the second number of statm, which counts pages (proc(5)). `smaps_rollup` would separate shared pages, but it walks every
/// page table, which blocks the worker for milliseconds.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

impl Recorder for Metrics {
    fn began(&self) {
        self.count_requests().began();
    }

    fn finished(&self, exchange: &Finished<'_>) {
        self.count_requests().count(exchange);
    }

    fn ended(&self) {
        self.count_requests().ended();
    }
}
