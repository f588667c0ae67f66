//! What all connections may have sent without an acknowledgement: each keeps a copy of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rudy_quic::SEND_WINDOW_BYTES;

/// What a connection may have in transit in any case.
const SHARE_BYTES: u64 = SEND_WINDOW_BYTES;

/// The maximum for a connection: 16 MiB are 160 MiB/s at 100 ms.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The part of a connection in the sum of all.
#[derive(Debug)]
pub(crate) struct SendBudget {
    granted: u64,
    total: Arc<AtomicU64>,
}

impl SendBudget {
    /// Creates the budget of a new connection, whose share counts in no sum.
    pub(crate) fn new(total: Arc<AtomicU64>) -> Self {
        Self { granted: 0, total }
    }

    /// Returns what the connection may have in transit, if that changes: twice its congestion window, as long as all connections together
    /// have at most `limit` beyond their shares.
    pub(crate) fn adapt(&mut self, congestion_window: u64, limit: u64) -> Option<u64> {
        let wanted = (2 * congestion_window).clamp(SHARE_BYTES, MAX_BYTES) - SHARE_BYTES;
        // Small changes are not worth a change.
        let is_change =
            wanted > self.granted + SHARE_BYTES || wanted + SHARE_BYTES < self.granted || wanted == 0;
        if wanted == self.granted || !is_change {
            return None;
        }
        let granted = if wanted > self.granted {
            let others = self.total.load(Ordering::Relaxed) - self.granted;
            wanted.min(limit.saturating_sub(others)).max(self.granted)
        } else {
            wanted
        };
        self.set(granted)
    }

    /// Gives back what is beyond the share: an idle connection sends nothing.
    pub(crate) fn release(&mut self) -> Option<u64> {
        self.set(0)
    }

    fn set(&mut self, granted: u64) -> Option<u64> {
        if granted == self.granted {
            return None;
        }
        self.total.fetch_add(granted, Ordering::Relaxed);
        self.total.fetch_sub(self.granted, Ordering::Relaxed);
        self.granted = granted;
        Some(SHARE_BYTES + granted)
    }
}

impl Drop for SendBudget {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_share_a_limit_beyond_what_each_has() {
        let total = Arc::<AtomicU64>::default();
        let [mut first, mut second] = [0, 1].map(|_| SendBudget::new(total.clone()));
        assert_eq!(first.adapt(10_000, 1 << 20), None);
        assert_eq!(first.adapt(400_000, 1 << 20), Some(800_000));
        assert_eq!(first.adapt(401_000, 1 << 20), None);
        assert_eq!(second.adapt(u64::MAX / 2, 1 << 20), Some((1 << 20) - 800_000 + 2 * SHARE_BYTES));
        assert_eq!(total.load(Ordering::Relaxed), 1 << 20);
        assert_eq!(first.release(), Some(SHARE_BYTES));
        assert_eq!(second.adapt(500_000, 1 << 20), Some(1_000_000));
        assert_eq!(second.adapt(14_720, 1 << 20), Some(SHARE_BYTES));
        drop([first, second]);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
