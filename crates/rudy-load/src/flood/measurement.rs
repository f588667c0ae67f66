//! The counts and histograms of a flood.

use rudy_request::{Failure, FailureKind};
use rudy_stats::Histogram;

/// Counts and histograms of all connections, in constant memory.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    /// Opened connections, whose TLS handshake is complete if they have one.
    pub opened: u64,
    /// Connections that could not be opened.
    pub connect_failed: u64,
    /// Responses by status class: 1xx to 5xx and above.
    pub statuses: [u64; 10],
    /// Connections that the server closed after a complete response.
    pub closed_by_server: u64,
    /// Failed connections by [`FailureKind`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// An example of each kind of failure.
    pub examples: [Option<String>; FailureKind::ALL.len()],
    /// Connect time: from the start of the attempt to TCP connected.
    pub connect: Histogram,
    /// Time to the first byte of the response, from the send of the request.
    pub first_byte: Histogram,
    /// Delay of chunks relative to the schedule of their stream.
    pub chunk_delay: Histogram,
    /// Time between consecutive chunks of a stream.
    pub gap: Histogram,
    /// Number of chunks, greetings included.
    pub chunks: u64,
    /// Bytes received, with the header.
    pub received_bytes: u64,
}

impl Measurement {
    /// Records a connection that could not be opened, or that failed before the end of its response.
    pub(super) fn record_failure(&mut self, failure: &Failure) {
        let kind = failure.kind() as usize;
        match failure {
            Failure::Connect(_) | Failure::Tls(_) => self.connect_failed += 1,
            _ => self.failures[kind] += 1,
        }
        self.examples[kind].get_or_insert_with(|| failure.to_string());
    }

    /// Number of failed connections.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Responses by class of their status: `2xx: 9,000, 4xx: 3`.
    pub(super) fn status_classes(&self) -> String {
        let classes = self.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let text: Vec<_> =
            classes.map(|(class, count)| format!("{class}xx: {}", rudy_units::count(*count))).collect();
        if text.is_empty() { "none".into() } else { text.join(", ") }
    }

    /// Records the status of a response.
    pub(super) fn record_status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status / 100)) {
            *count += 1;
        }
    }
}
