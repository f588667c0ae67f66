//! A time that threads share without a lock.

use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicU64, Ordering};

/// An optional time.
#[derive(Debug)]
pub(crate) struct AtomicInstant {
    /// The earliest time that can be stored; earlier ones are stored as this one.
    origin: Instant,
    /// Nanoseconds since `origin` plus one, or 0 for none. Enough for 584 years.
    nanos: AtomicU64,
}

impl AtomicInstant {
    pub(crate) fn at(origin: Instant) -> Self {
        Self { origin, nanos: AtomicU64::new(1) }
    }

    pub(crate) fn load(&self) -> Option<Instant> {
        let nanos = self.nanos.load(Ordering::SeqCst).checked_sub(1)?;
        self.origin.checked_add(Duration::from_nanos(nanos))
    }

    /// Stores the time. Relaxed, as cheap as a plain store: another atomic orders later reads.
    pub(crate) fn store(&self, time: Instant) {
        self.nanos.store(self.nanos(time), Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.nanos.store(0, Ordering::Relaxed);
    }

    /// Returns the stored time. Stores `time` first if there is none.
    pub(crate) fn get_or_store(&self, time: Instant) -> Instant {
        let stored = self.nanos.compare_exchange(0, self.nanos(time), Ordering::SeqCst, Ordering::SeqCst);
        if stored.is_ok() { time } else { self.load().unwrap_or(time) }
    }

    fn nanos(&self, time: Instant) -> u64 {
        let nanos = time.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_stored_and_cleared() {
        shuttle::check_random(
            || {
                let origin = Instant::now();
                let later = origin + Duration::from_millis(5);
                let time = AtomicInstant::at(origin);
                assert_eq!(time.load(), Some(origin));
                time.store(later);
                assert_eq!((time.load(), time.get_or_store(origin)), (Some(later), later));
                time.clear();
                assert_eq!((time.load(), time.get_or_store(later)), (None, later));
                assert_eq!(time.load(), Some(later));
            },
            1,
        );
    }
}
