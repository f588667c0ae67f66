//! The receive windows of all connections, which bound what clients can make the process store.

use std::sync::atomic::{AtomicU64, Ordering};

/// By how much windows have grown, in the whole process.
static GROWN_BYTES: AtomicU64 = AtomicU64::new(0);

/// By how much the windows of a connection have grown. Given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct GrownWindows(u64);

impl GrownWindows {
    /// Counts the current growth of the connection.
    pub(super) fn set(&mut self, bytes: u64) {
        if bytes != self.0 {
            GROWN_BYTES.fetch_add(bytes, Ordering::Relaxed);
            GROWN_BYTES.fetch_sub(self.0, Ordering::Relaxed);
            self.0 = bytes;
        }
    }

    /// Whether windows may grow further. Connections that grow at the same time may exceed the limit by one step each.
    pub(super) fn may_grow(limit: u64) -> bool {
        GROWN_BYTES.load(Ordering::Relaxed) < limit
    }
}

impl Drop for GrownWindows {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_share_a_limit() {
        let mut windows = [GrownWindows::default(), GrownWindows::default()];
        windows[0].set(10);
        windows[1].set(5);
        assert!(GrownWindows::may_grow(16) && !GrownWindows::may_grow(15));
        windows[0].set(3);
        assert!(GrownWindows::may_grow(9));
        drop(windows);
        assert!(GrownWindows::may_grow(1));
    }
}
