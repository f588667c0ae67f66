//! The clocks for the cache and for time stamps of files.

use std::time::UNIX_EPOCH;

use rudy_runtime::{clock, current};
use rustix::time::{ClockId, clock_gettime};

/// Returns the milliseconds of the coarse monotonic clock. It is a few milliseconds late, but fast enough to read for every request.
#[must_use]
pub fn monotonic_ms() -> u64 {
    if let Some(simulation) = current() {
        return u64::try_from(simulation.uptime().as_millis()).unwrap_or(u64::MAX);
    }
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // Both are positive: the clock starts at 0 at boot.
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// Returns the nanoseconds since 1970, as in the time stamps of files.
pub(super) fn unix_ns() -> i128 {
    let since = clock::utc().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
