//! The clocks.

use std::time::{Duration, Instant, SystemTime};

use crate::simulation::{Simulation, current};

/// Returns the time of the monotonic clock.
#[must_use]
#[inline]
pub fn now() -> Instant {
    current().map_or_else(Instant::now, Simulation::now)
}

/// Returns how long ago a time of the monotonic clock was; zero for one in the future.
#[must_use]
#[inline]
pub fn since(time: Instant) -> Duration {
    now().saturating_duration_since(time)
}

/// Returns the time of the wall clock.
#[must_use]
#[inline]
pub fn utc() -> SystemTime {
    current().map_or_else(SystemTime::now, Simulation::utc)
}
