//! The size of the records that a connection sends.

use std::time::{Duration, Instant};

use rudy_tls::RECORD_PLAINTEXT_BYTES_MAX;

/// The size of the first records: three packets. A client can decrypt a record only when all of it has arrived, which
/// takes round trips while the connection is slow at its start.
const FIRST_BYTES: usize = 4 * 1024;
/// The number of bytes after which records have the maximum size, which costs less CPU. By then the client receives at
/// least this much in a round trip.
const FIRST_TOTAL_BYTES: usize = 64 * 1024;
/// The pause after which the connection starts with small records again, as TCP starts with a small window.
const PAUSE: Duration = Duration::from_secs(1);

/// Chooses the size of records: small at the start and after a pause.
pub(super) struct RecordSize {
    sent_bytes: usize,
    last: Option<Instant>,
}

impl RecordSize {
    pub(super) fn new() -> Self {
        Self { sent_bytes: 0, last: None }
    }

    /// Returns the size of the next record.
    pub(super) fn get(&mut self, now: Instant) -> usize {
        if self.last.is_some_and(|last| now.duration_since(last) > PAUSE) {
            self.sent_bytes = 0;
        }
        self.last = Some(now);
        if self.sent_bytes < FIRST_TOTAL_BYTES { FIRST_BYTES } else { RECORD_PLAINTEXT_BYTES_MAX }
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
