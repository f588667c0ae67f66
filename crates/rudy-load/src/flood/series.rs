//! Samples of a flood and its server over time.

use super::run::Progress;
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

/// A sample of the processes of the server, with their CPU usage since the previous one.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerPoint {
    pub(super) rss_bytes: u64,
    /// Allocated memory: private pages, and those that the processes share once.
    pub(super) private_bytes: u64,
    pub(super) descriptors: Option<u64>,
    /// CPU usage in all, as a fraction of one core.
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
    use std::time::Duration;

    use super::*;

    fn points(samples: &[(u32, u64)]) -> Vec<Point> {
        let point = |(open, private_bytes): &(u32, u64)| Point {
            progress: Progress { at: Duration::ZERO, planned: *open, open: *open, stalled: 0 },
            chunks: 0,
            server: Some(ServerPoint { private_bytes: *private_bytes, ..ServerPoint::default() }),
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
