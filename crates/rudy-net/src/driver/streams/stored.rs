//! What all connections store of request bodies that no service has read.

use std::sync::atomic::{AtomicU64, Ordering};

use rudy_runtime::is_planted;

use crate::transport::PARTIAL_READ_BYTES;

/// What the connections of this process store.
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// What a connection may store in any case: as much as one of HTTP/1.1 by default. So small requests arrive even if the uploads
/// of others, which no service reads, use up the limit.
const SHARE_BYTES: u64 = 16 * 1024;

/// What a connection stores. Given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct StoredBytes(u64);

impl StoredBytes {
    /// Counts what the connection stores now.
    pub(super) fn set(&mut self, bytes: u64) {
        if bytes != self.0 {
            TOTAL.fetch_add(bytes, Ordering::Relaxed);
            TOTAL.fetch_sub(self.0, Ordering::Relaxed);
            self.0 = bytes;
        }
    }

    /// Returns how much the connection may read now: what is left of its share while all connections store more than `limit`.
    /// Connections that read at the same time may exceed the limit by one read each.
    pub(super) fn room(&self, limit: u64) -> usize {
        if Self::total() <= limit {
            return usize::MAX;
        }
        let room = usize::try_from(SHARE_BYTES.saturating_sub(self.0)).unwrap_or(usize::MAX);
        // Reads of a few bytes cost more than these bytes.
        if room < PARTIAL_READ_BYTES { 0 } else { room }
    }

    /// Returns what all connections store.
    pub(super) fn total() -> u64 {
        TOTAL.load(Ordering::Relaxed)
    }
}

impl Drop for StoredBytes {
    fn drop(&mut self) {
        if !is_planted("bytes of a request body that stay counted") {
            self.set(0);
        }
    }
}

/// Returns what the HTTP/2 connections of this process store of request bodies that no service has read, in bytes.
#[must_use]
pub fn http2_stored_bytes() -> u64 {
    StoredBytes::total()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_share_a_limit() {
        let mut stored = [StoredBytes::default(), StoredBytes::default(), StoredBytes::default()];
        stored[0].set(100_000);
        stored[1].set(1000);
        // Other tests of this process may store something, too.
        let others = StoredBytes::total() - 101_000;
        let room = |stored: &StoredBytes, limit| stored.room(others + limit);
        assert_eq!([0, 1, 2].map(|at| room(&stored[at], 101_000)), [usize::MAX; 3]);
        assert_eq!([0, 1, 2].map(|at| room(&stored[at], 100_999)), [0, 15_384, 16_384]);
        stored[1].set(16_200);
        assert_eq!(room(&stored[1], 100_000), 0);
        stored[0].set(0);
        assert_eq!(room(&stored[1], 16_200), usize::MAX);
    }
}
