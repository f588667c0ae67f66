//! How a flood and its server stood, moment by moment.

use std::time::Duration;

use rudy_observe::{Process, Sample};

use super::run::Moment;

/// One moment.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) moment: Moment,
    /// Chunks so far.
    pub(super) chunks: u64,
    /// The server, where it is looked at.
    pub(super) server: Option<ServerPoint>,
}

/// The server at one moment, and what it did since the one before.
#[derive(Debug, Clone)]
pub(super) struct ServerPoint {
    pub(super) rss_bytes: u64,
    pub(super) descriptors: Option<u64>,
    /// CPU of all threads, as a share of one core.
    pub(super) cpu: f64,
    /// The same by thread; those that did nothing are left out.
    pub(super) threads: Vec<ThreadPoint>,
    /// Context switches per second.
    pub(super) switches: f64,
}

/// What a thread burnt, as a share of one core.
#[derive(Debug, Clone)]
pub(super) struct ThreadPoint {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) cpu: f64,
}

/// A server that is looked at.
#[derive(Debug)]
pub(super) struct Watched {
    process: Process,
    /// Before the first connection.
    first: Sample,
    last: Sample,
    /// Why it is looked at no more.
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

    /// Its memory before the first connection.
    pub(super) fn rss_at_start(&self) -> u64 {
        self.first.memory.rss_bytes
    }

    /// Its CPU since then.
    pub(super) fn cpu_since_start(&self) -> Duration {
        self.last.since(&self.first).cpu
    }

    /// Looks at it once more. Nothing any more once it has ended.
    pub(super) fn look(&mut self) -> Option<ServerPoint> {
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

/// What a connection takes: what memory has grown by since before the first, at the moment when most stood.
pub(super) fn memory_per_connection(points: &[Point], rss_at_start: u64) -> Option<f64> {
    let fullest =
        points.iter().filter(|point| point.server.is_some()).max_by_key(|point| point.moment.open)?;
    let server = fullest.server.as_ref()?;
    if fullest.moment.open == 0 {
        return None;
    }
    Some(crate::units::float(server.rss_bytes.saturating_sub(rss_at_start)) / f64::from(fullest.moment.open))
}
