//! The size of the records that a connection sends, and how many it sends at once.

use std::time::{Duration, Instant};

use rudy_tls::RECORD_PLAINTEXT_BYTES_MAX;

/// The size of the first records: three packets. A client can decrypt a record only when all of it has arrived, which
/// takes round trips while the connection is slow at its start.
pub(super) const FIRST_BYTES: usize = 4 * 1024;
/// The number of bytes after which records have the maximum size, which costs less CPU. By then the client receives at
/// least this much in a round trip.
const FIRST_TOTAL_BYTES: usize = 64 * 1024;
/// The pause after which the connection starts with small records again, as TCP starts with a small window.
const PAUSE: Duration = Duration::from_secs(1);

/// The maximum size of the plaintext that is sent at once: one system call for eight records.
pub(super) const BATCH_BYTES_MAX: usize = 8 * RECORD_PLAINTEXT_BYTES_MAX;

/// Chooses the size of records: small at the start and after a pause.
pub(super) struct RecordSize {
    sent_bytes: usize,
    last: Option<Instant>,
    batch_bytes: usize,
}

impl RecordSize {
    pub(super) fn new() -> Self {
        Self { sent_bytes: 0, last: None, batch_bytes: RECORD_PLAINTEXT_BYTES_MAX }
    }

    /// Returns the size of the next record.
    pub(super) fn get(&mut self, now: Instant) -> usize {
        if self.last.is_some_and(|last| now.duration_since(last) > PAUSE) {
            self.sent_bytes = 0;
        }
        self.last = Some(now);
        if self.sent_bytes < FIRST_TOTAL_BYTES { FIRST_BYTES } else { RECORD_PLAINTEXT_BYTES_MAX }
    }

    /// Returns how much is sent at once: twice as much as the last time, since the socket has accepted that. So a connection stores at
    /// most as much as the kernel.
    pub(super) fn batch(&self) -> usize {
        self.batch_bytes
    }

    /// Notes how much of what was sent at once the socket has not accepted.
    pub(super) fn left(&mut self, left_bytes: usize, of_bytes: usize) {
        if left_bytes > 0 {
            self.batch_bytes = RECORD_PLAINTEXT_BYTES_MAX;
        } else if of_bytes >= self.batch_bytes {
            self.batch_bytes = (2 * self.batch_bytes).min(BATCH_BYTES_MAX);
        }
    }

    /// Counts sent bytes.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_grow_with_the_bytes_and_are_small_again_after_a_pause() {
        let (mut size, mut now) = (RecordSize::new(), Instant::now());
        for _ in 0..16 {
            assert_eq!(size.get(now), 4096);
            size.sent(4096);
            now += PAUSE;
        }
        assert_eq!(size.get(now), 16384);
        size.sent(usize::MAX);
        size.sent(usize::MAX);
        assert_eq!(size.get(now + PAUSE), 16384);
        assert_eq!(size.get(now + 3 * PAUSE), 4096);
    }
}
