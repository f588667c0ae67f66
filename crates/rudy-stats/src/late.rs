//! The delay of chunks in endless streams, against the schedule of each stream.

use std::time::Duration;

/// A stream with chunks at an interval: chunk k is due at t₁ + (k − 1) × interval, where t₁ is the arrival of
/// the first one.
///
/// An early chunk does not move the schedule. Times are nanoseconds since a common origin, which keeps this
/// type small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The arrival of the first chunk.
    first_ns: u64,
    /// Number of chunks.
    chunks: u32,
}

impl Stream {
    /// Records a chunk, and returns its delay. `None` for the first chunk; an early one has no delay.
    pub fn chunk(&mut self, at: Duration, interval: Duration) -> Option<Duration> {
        let at = nanoseconds(at);
        self.chunks = self.chunks.saturating_add(1);
        if self.chunks == 1 {
            self.first_ns = at;
            return None;
        }
        Some(Duration::from_nanos(at.saturating_sub(self.due_ns(self.chunks, interval))))
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
        let late = nanoseconds(now).saturating_sub(self.due_ns(self.chunks.saturating_add(1), interval));
        self.chunks > 0 && late > nanoseconds(interval).saturating_mul(2)
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
    fn a_chunk_is_late_against_the_schedule_of_its_first() {
        let mut stream = Stream::default();
        let late: Vec<_> = [500, 1500, 2540, 3400, 4700]
            .map(|at| stream.chunk(Duration::from_millis(at), SECOND).map(|late| late.as_millis()))
            .into();
        assert_eq!(late, [None, Some(0), Some(40), Some(0), Some(200)]);
        assert_eq!(stream.chunks(), 5);
    }

    #[test]
    fn it_stalls_when_two_intervals_have_passed_since_a_chunk_was_due() {
        let mut stream = Stream::default();
        assert!(!stream.stalls(SECOND * 100, SECOND), "no schedule yet");
        stream.chunk(SECOND, SECOND);
        // The second chunk is due at 2 s.
        assert!(!stream.stalls(SECOND * 4, SECOND));
        assert!(stream.stalls(SECOND * 4 + Duration::from_millis(1), SECOND));
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<Stream>() <= 16);
    }
}
