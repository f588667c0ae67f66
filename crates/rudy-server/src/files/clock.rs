//! The two clocks that files are measured by.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds of a clock that only goes forward, a few of them late: the coarse clock is read without asking the
/// hardware, and every request asks.
pub(crate) fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // Both are positive: the clock begins at 0 when the machine does.
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// The time of day in nanoseconds since 1970, as files are stamped.
pub(super) fn unix_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
