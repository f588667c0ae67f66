//! The delay of chunks in endless streams, against the schedule of each stream.

use std::time::Duration;

/// A stream with chunks at an interval: chunk k is due at t₁ + (k − 1) × interval, where t₁ is the arrival of
/// the first one.
///
/// An early chunk shows that the first one was late, and moves the schedule: otherwise, a server that starts slowly would
/// have that much time for every later chunk. Times are nanoseconds since a common origin, which keeps this
/// type small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSchedule {
    /// When the first chunk was due, as far as is known: the earliest time that any chunk implies.
    first_ns: u64,
    /// Number of chunks.
    chunks: u32,
}

impl StreamSchedule {
    /// Records a chunk, and returns its delay. `None` for the first chunk; an early one has no delay.
    pub fn chunk(&mut self, at: Duration, interval: Duration) -> Option<Duration> {
        let at = nanoseconds(at);
        self.chunks = self.chunks.saturating_add(1);
        if self.chunks == 1 {
            self.first_ns = at;
            return None;
        }
        let due = self.due_ns(self.chunks, interval);
        self.first_ns = self.first_ns.saturating_sub(due.saturating_sub(at));
        Some(Duration::from_nanos(at.saturating_sub(due)))
    }

    /// Number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Whether the next chunk has been due for more than two intervals. A stream without a first chunk has no
    /// schedule and does not stall.
    #[must_use]
    pub fn stalls(&self, now: Duration, interval: Duration) -> bool {
        let delay = nanoseconds(now).saturating_sub(self.due_ns(self.chunks.saturating_add(1), interval));
        self.chunks > 0 && delay > nanoseconds(interval).saturating_mul(2)
    }

    fn due_ns(&self, chunk: u32, interval: Duration) -> u64 {
        let steps = u64::from(chunk.saturating_sub(1));
        self.first_ns.saturating_add(nanoseconds(interval).saturating_mul(steps))
    }
}

/// A run has fewer than 2^64 of them, which are 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_delay_of_a_chunk_is_measured_from_the_first_one_or_an_earlier_schedule() {
        let mut stream = StreamSchedule::default();
        let delays: Vec<_> = [500, 1500, 2540, 3400, 4700]
            .map(|at| stream.chunk(Duration::from_millis(at), SECOND).map(|delay| delay.as_millis()))
            .into();
        // The fourth is 100 ms early, so the first one was late by as much.
        assert_eq!(delays, [None, Some(0), Some(40), Some(0), Some(300)]);
        assert_eq!(stream.chunks(), 5);
    }

    #[test]
    fn a_late_first_chunk_gives_later_ones_no_time() {
        // A server whose ticks are each second, and whose first and fourth chunk are 700 ms late.
        let mut stream = StreamSchedule::default();
        let delays: Vec<_> = [1700, 2000, 3000, 4700, 5000]
            .map(|at| stream.chunk(Duration::from_millis(at), SECOND).map(|delay| delay.as_millis()))
            .into();
        assert_eq!(delays, [None, Some(0), Some(0), Some(700), Some(0)]);
    }

    #[test]
    fn a_stream_stalls_two_intervals_after_a_chunk_was_due() {
        let mut stream = StreamSchedule::default();
        assert!(!stream.stalls(SECOND * 100, SECOND), "no schedule yet");
        stream.chunk(SECOND, SECOND);
        // The second chunk is due at 2 s.
        assert!(!stream.stalls(SECOND * 4, SECOND));
        assert!(stream.stalls(SECOND * 4 + Duration::from_millis(1), SECOND));
    }

    #[test]
    fn a_stream_schedule_fits_into_16_bytes() {
        assert!(size_of::<StreamSchedule>() <= 16);
    }
}
