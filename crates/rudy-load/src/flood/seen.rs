//! What a flood has shown.

use rudy_stats::Histogram;

use crate::{Failure, FailureKind};

/// Counts and times of all connections together; of a fixed size.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Connections that came to stand, with TLS where the URL says so.
    pub opened: u64,
    /// Connections that did not.
    pub refused: u64,
    /// Answers whose head came, by their status class: 1xx to 5xx and beyond.
    pub statuses: [u64; 10],
    /// Connections that the server ended in order: their answers were whole.
    pub ended: u64,
    /// Connections that broke, by [`FailureKind`].
    pub lost: [u64; FailureKind::ALL.len()],
    /// One failure of each kind, to show.
    pub examples: [Option<String>; FailureKind::ALL.len()],
    /// To a connection.
    pub connect: Histogram,
    /// From the request to the first byte of its answer.
    pub first_byte: Histogram,
    /// How late chunks were, each against its stream's own schedule.
    pub late: Histogram,
    /// Between one chunk of a stream and the next.
    pub gap: Histogram,
    /// Chunks, the greetings included.
    pub chunks: u64,
    /// Bytes received, heads included.
    pub received_bytes: u64,
}

impl Seen {
    /// A connection has come to its end before its time.
    pub(super) fn lose(&mut self, failure: &Failure) {
        let kind = failure.kind() as usize;
        match failure {
            Failure::Connect(_) | Failure::Tls(_) => self.refused += 1,
            _ => self.lost[kind] += 1,
        }
        self.examples[kind].get_or_insert_with(|| failure.to_string());
    }

    /// Connections that broke.
    #[must_use]
    pub fn lost_in_all(&self) -> u64 {
        self.lost.iter().sum()
    }

    pub(super) fn status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status / 100)) {
            *count += 1;
        }
    }
}
