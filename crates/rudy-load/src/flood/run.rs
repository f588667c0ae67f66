//! Runs a flood: the ramp, the hold time, the end.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::plan::Plan;
use super::seen::Seen;
use crate::link::Remote;

/// Time between progress updates.
const MOMENT: Duration = Duration::from_secs(1);

/// Maximum sleep, so that a watcher can stop the flood.
const NAP: Duration = Duration::from_millis(50);

/// If none of the first connections succeeds, the flood fails after this number.
const TRIED: u32 = 16;

/// Observes a flood.
pub trait Watch {
    /// Called at intervals; `false` ends the flood.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// Called every second with the progress.
    fn moment(&mut self, _moment: &Moment, _seen: &Seen) {}
}

/// Ignores all events.
impl Watch for () {}

/// The progress of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since the start.
    pub at: Duration,
    /// Number of connections that should have been started.
    pub planned: u32,
    /// Number of open connections.
    pub open: u32,
    /// Number of streams whose next chunk has been due for more than two intervals.
    pub stalled: u32,
}

/// The result of a flood.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All counts.
    pub seen: Seen,
    /// The state at the end, before the connections were closed.
    pub last: Moment,
    /// The maximum number of open connections.
    pub most_open: u32,
    /// Whether the flood was interrupted.
    pub is_interrupted: bool,
}

/// Why a flood failed.
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
    let start = Instant::now();
    let mut crowd = Crowd::new(plan, start).map_err(FloodError::System)?;
    let all = plan.connections.get();
    let end = plan.ramp.at(all - 1) + plan.hold;
    let mut next_moment = Duration::ZERO;
    let mut most_open = 0;
    loop {
        let now = start.elapsed();
        let goes_on = watch.goes_on();
        let is_over = now >= end || !goes_on || (crowd.begun() == all && crowd.is_deserted());
        if now >= next_moment || is_over {
            next_moment = now + MOMENT;
            crowd.sweep();
            let moment = Moment {
                at: now,
                planned: plan.ramp.planned(now, all),
                open: crowd.open(),
                stalled: crowd.stalled(),
            };
            watch.moment(&moment, &crowd.seen);
            refused_by_all(plan, &crowd.seen)?;
            if is_over {
                return Ok(Outcome { seen: crowd.seen, last: moment, most_open, is_interrupted: !goes_on });
            }
        }
        while crowd.begun() < all && now >= plan.ramp.at(crowd.begun()) {
            crowd.begin();
        }
        let next = if crowd.begun() < all { plan.ramp.at(crowd.begun()).min(end) } else { end };
        crowd.turn(next.min(next_moment).saturating_sub(now).min(NAP)).map_err(FloodError::System)?;
        most_open = most_open.max(crowd.open());
    }
}

/// A server that does not listen is reported at once, not after ten thousand tries.
fn refused_by_all(plan: &Plan, seen: &Seen) -> Result<(), FloodError> {
    if seen.opened > 0 || seen.refused < u64::from(TRIED.min(plan.connections.get())) {
        return Ok(());
    }
    let reason = seen.examples.iter().flatten().next().cloned().unwrap_or_default();
    Err(FloodError::Connect(plan.remote.clone(), reason))
}
