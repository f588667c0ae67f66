//! Limits on what a peer may do without purpose: a number at once, which recovers over time and with progress.

use std::time::Instant;

use crate::limits::http2::Limits;

/// Frames without purpose that a connection may send for each request: some clients send PRIORITY with each.
const FRAMES_FOR_REQUEST: u32 = 8;

/// Reads of a few bytes that may come before each one that completes something: some clients send the head of a frame, or of a
/// record of TLS, in a packet of its own.
const READS_FOR_FRAME: u32 = 4;

/// Bytes for which one such read may come besides: a path that cuts each packet of an upload in two, and again, costs less than its bytes.
const BYTES_FOR_READ: u32 = 64;

/// What a peer may still do without purpose.
#[derive(Debug)]
pub(crate) struct Allowances {
    frames: Allowance,
    reads: Allowance,
    resets: Allowance,
}

/// The peer has exceeded a limit, which ends the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excess(pub(crate) &'static str);

impl Allowances {
    pub(crate) fn new(now: Instant) -> Self {
        let [frames, reads, resets] = [Allowance::new(now); 3];
        Self { frames, reads, resets }
    }

    /// Counts a frame without purpose.
    pub(crate) fn count_frame(&mut self, limits: &Limits, now: Instant) -> Result<(), Excess> {
        let is_allowed = self.frames.take(limits.control_frames, now);
        if is_allowed { Ok(()) } else { Err(Excess("too many frames without purpose")) }
    }

    /// Counts a read of a few bytes that complete no frame.
    pub(crate) fn count_partial_read(&mut self, limits: &Limits, now: Instant) -> Result<(), Excess> {
        let is_allowed = self.reads.take(limits.control_frames, now);
        if is_allowed { Ok(()) } else { Err(Excess("too many packets without a whole frame")) }
    }

    /// Counts a read of a number of bytes that completes a frame, or has much of one.
    pub(crate) fn count_whole_read(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.reads.give_back(READS_FOR_FRAME + bytes / BYTES_FOR_READ, 0);
    }

    /// Counts a stream that the peer cancels, or makes this side reset.
    pub(crate) fn count_reset(&mut self, limits: &Limits, now: Instant) -> Result<(), Excess> {
        let is_allowed = self.resets.take(limits.resets, now);
        if is_allowed { Ok(()) } else { Err(Excess("too many streams were reset")) }
    }

    /// Counts a stream that ends properly.
    pub(crate) fn count_end(&mut self) {
        self.resets.give_back(1, 0);
    }

    /// Counts a request or response: real work.
    pub(crate) fn count_exchange(&mut self) {
        self.frames.give_back(FRAMES_FOR_REQUEST, 0);
    }

    /// Counts frames of a body that the peer receives, for each of which it may send `frames`.
    pub(crate) fn count_sent(&mut self, frames: u32) {
        self.frames.give_back(frames, 0);
    }
}

/// How often a peer may still do something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Negative with credit.
    used: i64,
    /// When `used` was last reduced.
    since: Instant,
}

/// The part of a limit that recovers each second.
const RECOVERY: u32 = 10;

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { used: 0, since: now }
    }

    /// Uses up one of `limit`. Returns whether the limit allows it. A tenth of the limit recovers each second.
    pub(crate) fn take(&mut self, limit: u32, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since).as_secs();
        if elapsed > 0 {
            let recovered = u64::from((limit / RECOVERY).max(1)).saturating_mul(elapsed);
            self.give_back(u32::try_from(recovered).unwrap_or(u32::MAX), 0);
            self.since = now;
        }
        self.charge();
        self.used <= i64::from(limit)
    }

    /// Uses up one, which the next [`Self::take`] notices.
    pub(crate) fn charge(&mut self) {
        self.used = self.used.saturating_add(1);
    }

    /// Recovers with progress: what happens as part of real work is not limited. What has not been used yet is kept as a credit
    /// of at most `credit_max`, for frames that answer this progress later.
    pub(crate) fn give_back(&mut self, count: u32, credit_max: u32) {
        let least = self.used.min(-i64::from(credit_max));
        self.used = (self.used - i64::from(count)).max(least);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn a_limit_recovers_over_time_and_with_progress() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        assert!((0..100).all(|_| allowance.take(100, now)));
        assert!(!allowance.take(100, now));
        allowance.give_back(2, 0);
        assert!(allowance.take(100, now));
        assert!(!allowance.take(100, now));
        let later = now + Duration::from_millis(2500);
        assert_eq!((0..100).filter(|_| allowance.take(100, later)).count(), 19);
        assert!((0..100).all(|_| allowance.take(100, later + Duration::from_hours(1))));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn reads_of_a_few_bytes_are_paid_for_by_whole_ones() {
        let (now, limits) = (Instant::now(), Limits::DEFAULT);
        let goes_on = |pieces: u32, bytes: usize| {
            let mut allowances = Allowances::new(now);
            (0..1_000).all(|_| {
                allowances.count_whole_read(bytes);
                (0..pieces).all(|_| allowances.count_partial_read(&limits, now).is_ok())
            })
        };
        // An upload of 170 KiB in records of 1 KiB, ten pieces each, had ended after its 1,000th piece.
        assert!(goes_on(10, 1_024));
        assert!(!goes_on(1_023, 1_024), "byte by byte");
        assert!(goes_on(4, 9) && !goes_on(8, 9), "a frame of nine bytes");
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn a_credit_is_bounded_and_kept() {
        let now = Instant::now();
        let mut allowance = Allowance::new(now);
        for _ in 0..10 {
            allowance.give_back(20, 50);
        }
        // Neither time nor progress without a credit removes it.
        let later = now + Duration::from_secs(5);
        assert!(allowance.take(10, later));
        allowance.give_back(1, 0);
        assert_eq!((0..100).filter(|_| allowance.take(10, later)).count(), 59);
    }
}
