//! Samples of a flood and its server over time.

use std::time::Duration;

use rudy_observe::{Process, Sample};

use super::run::Progress;

/// A sample.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) progress: Progress,
    /// Number of chunks so far.
    pub(super) chunks: u64,
    /// The server process, if it is measured.
    pub(super) server: Option<ServerPoint>,
}

/// A sample of the server process, with its activity since the previous one.
#[derive(Debug, Clone)]
pub(super) struct ServerPoint {
    pub(super) rss_bytes: u64,
    pub(super) descriptors: Option<u64>,
    /// CPU usage of all threads, as a fraction of one core.
    pub(super) cpu: f64,
    /// The same by thread; idle threads are omitted.
    pub(super) threads: Vec<ThreadPoint>,
    /// Context switches per second.
    pub(super) switches: f64,
}

/// CPU usage of a thread, as a fraction of one core.
#[derive(Debug, Clone)]
pub(super) struct ThreadPoint {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) cpu: f64,
}

/// The measurement of a server process.
#[derive(Debug)]
pub(super) struct Watched {
    process: Process,
    /// The sample before the first connection.
    first: Sample,
    last: Sample,
    /// Why the measurement ended.
    pub(super) lost: Option<String>,
}

impl Watched {
    pub(super) fn new(mut process: Process) -> Result<Self, rudy_observe::Error> {
        let first = process.sample()?;
        Ok(Self { process, last: first.clone(), first, lost: None })
    }

    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.process.name(), self.process.pid())
    }

    /// The memory before the first connection.
    pub(super) fn rss_at_start(&self) -> u64 {
        self.first.memory.rss_bytes
    }

    /// CPU time since that sample.
    pub(super) fn cpu_since_start(&self) -> Duration {
        self.last.since(&self.first).cpu
    }

    /// Takes a sample. Returns `None` after the process has ended.
    pub(super) fn sample(&mut self) -> Option<ServerPoint> {
        if self.lost.is_some() {
            return None;
        }
        let sample = match self.process.sample() {
            Ok(sample) => sample,
            Err(error) => {
                self.lost = Some(error.to_string());
                return None;
            }
        };
        let difference = sample.since(&self.last);
        let threads = difference.threads.iter().map(|thread| ThreadPoint {
            tid: thread.tid,
            name: thread.name.clone(),
            cpu: difference.share(thread.cpu),
        });
        let switches =
            |thread: &rudy_observe::ThreadDifference| thread.voluntary_switches + thread.involuntary_switches;
        let point = ServerPoint {
            rss_bytes: sample.memory.rss_bytes,
            descriptors: sample.descriptors.open,
            cpu: difference.threads.iter().map(|thread| difference.share(thread.cpu)).sum(),
            threads: threads.filter(|thread| thread.cpu > 0.0).collect(),
            switches: difference.rate(difference.threads.iter().map(switches).sum()),
        };
        self.last = sample;
        Some(point)
    }
}

/// The memory per connection: the growth since before the first connection, at the maximum number of
/// connections.
pub(super) fn memory_per_connection(points: &[Point], rss_at_start: u64) -> Option<f64> {
    let fullest =
        points.iter().filter(|point| point.server.is_some()).max_by_key(|point| point.progress.open)?;
    let server = fullest.server.as_ref()?;
    if fullest.progress.open == 0 {
        return None;
    }
    Some(
        crate::units::float(server.rss_bytes.saturating_sub(rss_at_start)) / f64::from(fullest.progress.open),
    )
}
