//! Samples of a flood and its server over time.

use std::time::Duration;

use rudy_observe::{Process, Sample};
use rudy_request::Remote;

use super::run::Progress;
use super::warnings::listener_warning;
use crate::units::float;

/// A sample of a flood.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) progress: Progress,
    /// The number of chunks so far.
    pub(super) chunks: u64,
    /// The server process, if it is measured.
    pub(super) server: Option<ServerPoint>,
}

/// A sample of the server process, with its CPU usage since the previous one.
#[derive(Debug, Clone)]
pub(super) struct ServerPoint {
    pub(super) rss_bytes: u64,
    /// Heap and stacks, which no other process shares.
    pub(super) private_bytes: u64,
    pub(super) descriptors: Option<u64>,
    /// CPU usage of all threads, as a fraction of one core.
    pub(super) cpu: f64,
    /// CPU usage by thread, without idle threads.
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

/// Samples a server process.
#[derive(Debug)]
pub(super) struct ServerMonitor {
    process: Process,
    /// The sample before the first connection.
    first: Sample,
    last: Sample,
    /// The error that ended the measurement.
    pub(super) end_reason: Option<String>,
    /// A warning that this may not be the process of the server.
    pub(super) warning: Option<String>,
}

impl ServerMonitor {
    pub(super) fn new(mut process: Process, remote: &Remote) -> Result<Self, rudy_observe::Error> {
        let first = process.sample()?;
        let warning = listener_warning(&mut process, remote);
        Ok(Self { process, last: first.clone(), first, end_reason: None, warning })
    }

    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.process.name(), self.process.pid())
    }

    /// The private memory before the first connection, in bytes.
    pub(super) fn private_bytes_before(&self) -> u64 {
        self.first.memory.anonymous_bytes
    }

    /// CPU time since the sample before the first connection.
    pub(super) fn cpu_since_start(&self) -> Duration {
        self.last.since(&self.first).cpu
    }

    /// Takes a sample. Returns `None` if the process has ended.
    pub(super) fn sample(&mut self) -> Option<ServerPoint> {
        if self.end_reason.is_some() {
            return None;
        }
        let sample = match self.process.sample() {
            Ok(sample) => sample,
            Err(error) => {
                self.end_reason = Some(error.to_string());
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
            private_bytes: sample.memory.anonymous_bytes,
            descriptors: sample.descriptors.open,
            cpu: difference.threads.iter().map(|thread| difference.share(thread.cpu)).sum(),
            threads: threads.filter(|thread| thread.cpu > 0.0).collect(),
            switches: difference.rate(difference.threads.iter().map(switches).sum()),
        };
        self.last = sample;
        Some(point)
    }
}

/// The private memory of a server. A server that allocates the tables of all connections at its start has a small
/// growth and a large total, so both are needed to compare servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// The private memory with the maximum number of open connections, in bytes.
    pub(super) total: u64,
    /// The growth in bytes per connection, from `base` connections to the maximum.
    pub(super) per_connection: Option<f64>,
    /// The number of connections from which on the growth is measured.
    pub(super) base: u32,
}

impl Memory {
    /// The memory over the samples; `None` without samples of the server. `base` is the number of connections from
    /// which on the growth is measured.
    pub(super) fn new(points: &[Point], base: u32) -> Option<Self> {
        let samples =
            || points.iter().filter_map(|point| Some((point.progress.open, point.server.as_ref()?)));
        let (max_open, largest) = samples().max_by_key(|(open, _)| *open)?;
        let first = samples().find(|(open, _)| *open >= base).filter(|(open, _)| *open < max_open);
        let per_connection = first.map(|(open, first)| {
            (float(largest.private_bytes) - float(first.private_bytes)) / f64::from(max_open - open)
        });
        let base = first.map_or(base, |(open, _)| open);
        Some(Self { total: largest.private_bytes, per_connection, base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(samples: &[(u32, u64)]) -> Vec<Point> {
        let point = |(open, private_bytes): &(u32, u64)| Point {
            progress: Progress { at: Duration::ZERO, planned: *open, open: *open, stalled: 0 },
            chunks: 0,
            server: Some(ServerPoint {
                rss_bytes: 0,
                private_bytes: *private_bytes,
                descriptors: None,
                cpu: 0.0,
                threads: Vec::new(),
                switches: 0.0,
            }),
        };
        samples.iter().map(point).collect()
    }

    #[test]
    fn memory_has_a_total_and_the_growth_between_two_numbers_of_connections() {
        // A server that allocates the tables of all connections with the first one.
        let samples =
            [(0, 1_000_000), (10, 9_000_000), (1001, 9_500_000), (9001, 13_500_000), (9001, 14_300_000)];
        let memory = Memory::new(&points(&samples), 1000).unwrap();
        assert_eq!(memory, Memory { total: 14_300_000, per_connection: Some(600.0), base: 1001 });
        assert_eq!(Memory::new(&points(&samples[..2]), 1000).unwrap().per_connection, None);
        assert_eq!(Memory::new(&[], 1000), None);
    }
}
