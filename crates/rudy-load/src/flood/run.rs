//! Runs a flood: opens connections over the ramp and holds them.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use rudy_request::Remote;
use rustix::time::{ClockId, clock_gettime};

use super::connections::Connections;
use super::measurement::Measurement;
use super::plan::Plan;

/// Time between progress updates.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time to wait for events, so that the flood notices a stop.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// The number of failed connection attempts after which the flood fails, if none has succeeded.
const FAILED_ATTEMPTS_MAX: u32 = 16;

/// Observes a flood and can end it.
pub trait Watch {
    /// Called at intervals; `false` ends the flood.
    fn should_continue(&mut self) -> bool {
        true
    }

    /// Called every second with the progress.
    fn progress(&mut self, _progress: &Progress, _measurement: &Measurement) {}
}

/// Ignores all events.
impl Watch for () {}

/// The progress of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start.
    pub at: Duration,
    /// The number of connections that were due to be opened.
    pub planned: u32,
    /// The number of open connections.
    pub open: u32,
    /// Number of streams whose next chunk has been due for more than two intervals.
    pub stalled: u32,
}

/// The result of a flood.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All counts.
    pub measurement: Measurement,
    /// The state at the end, before the connections were closed.
    pub last: Progress,
    /// The maximum number of open connections.
    pub max_open: u32,
    /// Whether the flood was interrupted.
    pub is_interrupted: bool,
    /// The start on the monotonic clock, which all processes of a machine share: a lab compares it with its own samples.
    pub started: Duration,
}

/// An error because of which a flood has no result.
#[derive(Debug)]
pub enum FloodError {
    /// None of the first connections succeeded.
    Connect(Remote, String),
    /// The system lacks a resource that the flood needs.
    System(io::Error),
}

impl fmt::Display for FloodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(remote, reason) => write!(f, "no connection to {remote}: {reason}"),
            Self::System(error) => write!(f, "cannot run the flood: {error}"),
        }
    }
}

impl std::error::Error for FloodError {}

/// Runs a flood on this thread.
///
/// # Errors
///
/// No connection succeeded, or the system lacks a resource.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, FloodError> {
    let (start, started) = (Instant::now(), monotonic());
    let mut connections = Connections::new(plan, start).map_err(FloodError::System)?;
    let all = plan.total();
    let end = plan.ramp.at(all - 1) + plan.hold;
    let mut next_sample = Duration::ZERO;
    let mut base = Some(plan.memory_base());
    let mut max_open = 0;
    loop {
        let now = start.elapsed();
        let is_interrupted = !watch.should_continue();
        let is_over =
            now >= end || is_interrupted || (connections.started() == all && connections.is_empty());
        // An additional sample when the connections from which the memory per connection is measured are open.
        let is_at_base = base.take_if(|base| connections.open() >= *base).is_some();
        if now >= next_sample || is_at_base || is_over {
            next_sample = now + SAMPLE_INTERVAL;
            connections.close_overdue();
            let progress = Progress {
                at: now,
                planned: plan.ramp.planned(now, all),
                open: connections.open(),
                stalled: connections.stalled(),
            };
            watch.progress(&progress, &connections.measurement);
            check_first_connections(plan, &connections.measurement)?;
            if is_over {
                let measurement = connections.measurement;
                return Ok(Outcome { measurement, last: progress, max_open, is_interrupted, started });
            }
        }
        while connections.started() < all && now >= plan.ramp.at(connections.started()) {
            connections.start_next();
        }
        let next =
            if connections.started() < all { plan.ramp.at(connections.started()).min(end) } else { end };
        connections
            .poll(next.min(next_sample).saturating_sub(now).min(WAIT_MAX))
            .map_err(FloodError::System)?;
        max_open = max_open.max(connections.open());
    }
}

/// The time on the monotonic clock.
#[must_use]
pub fn monotonic() -> Duration {
    // It starts at 0, and never fails.
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Fails if none of the first connections succeeded, so that a server that does not listen is reported at once.
fn check_first_connections(plan: &Plan, measurement: &Measurement) -> Result<(), FloodError> {
    if measurement.opened > 0 || measurement.connect_failed < u64::from(FAILED_ATTEMPTS_MAX.min(plan.total()))
    {
        return Ok(());
    }
    let reason = measurement.examples.iter().flatten().next().cloned().unwrap_or_default();
    Err(FloodError::Connect(plan.remote.clone(), reason))
}
