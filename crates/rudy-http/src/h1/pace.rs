//! How long a peer that is slow may take.

use std::time::{Duration, Instant};

/// Measures one direction of an exchange against its minimum rate.
///
/// Only the time in which we wait for the peer counts: while a service is busy and takes nothing, its client is not slow.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    bytes: u64,
    waited: Duration,
    /// Since when we wait, if we do.
    waiting: Option<Instant>,
    /// When bytes last moved while we waited.
    moved: Option<Instant>,
}

impl Pace {
    /// From here on we wait for the peer, if we did not yet.
    pub fn wait(&mut self, now: Instant) {
        if self.waiting.is_none() {
            self.waiting = Some(now);
            self.moved = Some(now);
        }
    }

    /// The peer moved bytes; we no longer wait.
    pub fn moved(&mut self, bytes: u64, now: Instant) {
        self.bytes += bytes;
        self.moved = Some(now);
        if let Some(since) = self.waiting.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// When the peer is too slow: it has had `grace` and a second for each `rate` bytes it has moved. `None` while we do
    /// not wait, or where there is no minimum.
    #[must_use]
    pub fn rate_deadline(&self, grace: Duration, rate: u32) -> Option<Instant> {
        let since = self.waiting?;
        if rate == 0 {
            return None;
        }
        let allowed = grace.saturating_add(Duration::from_secs(self.bytes / u64::from(rate)));
        since.checked_add(allowed.saturating_sub(self.waited))
    }

    /// When a peer that moves nothing at all has stalled. `None` while we do not wait.
    #[must_use]
    pub fn stall_deadline(&self, stall: Duration) -> Option<Instant> {
        self.waiting?;
        self.moved?.checked_add(stall)
    }
}
