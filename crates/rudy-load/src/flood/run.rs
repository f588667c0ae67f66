//! Carries a flood out: the ramp, the time that all are kept, the end.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::plan::Plan;
use super::seen::Seen;
use crate::link::Remote;

/// How often a watcher is told how it stands.
const MOMENT: Duration = Duration::from_secs(1);

/// How long it sleeps at most, so that a watcher can end it.
const NAP: Duration = Duration::from_millis(50);

/// How many connections are tried before it is said that none can be had.
const TRIED: u32 = 16;

/// Whoever looks on.
pub trait Watch {
    /// Asked every so often: false ends the flood.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// Told once a second how it stands.
    fn moment(&mut self, _moment: &Moment, _seen: &Seen) {}
}

/// Nobody.
impl Watch for () {}

/// How a flood stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// From the start.
    pub at: Duration,
    /// Connections that should have been begun.
    pub planned: u32,
    /// Connections that stand.
    pub open: u32,
    /// Streams whose next chunk has been due for more than two intervals.
    pub stalled: u32,
}

/// What a flood has shown.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All of it.
    pub seen: Seen,
    /// How it stood at its end, before the connections were closed.
    pub last: Moment,
    /// The most connections that stood at once.
    pub most_open: u32,
    /// It was ended before its time.
    pub is_interrupted: bool,
}

/// Why a flood could not take place.
#[derive(Debug)]
pub enum FloodError {
    /// None of the first connections came to stand.
    Connect(Remote, String),
    /// The system refuses what it needs.
    System(io::Error),
}

impl fmt::Display for FloodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(remote, reason) => write!(f, "no connection to {remote}: {reason}"),
            Self::System(error) => write!(f, "the flood cannot run: {error}"),
        }
    }
}

impl std::error::Error for FloodError {}

/// Carries out a flood, on this thread.
///
/// # Errors
///
/// No connection came to stand, or the system refuses what is needed.
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

/// That nobody listens is said at once, and not after ten thousand tries.
fn refused_by_all(plan: &Plan, seen: &Seen) -> Result<(), FloodError> {
    if seen.opened > 0 || seen.refused < u64::from(TRIED.min(plan.connections.get())) {
        return Ok(());
    }
    let reason = seen.examples.iter().flatten().next().cloned().unwrap_or_default();
    Err(FloodError::Connect(plan.remote.clone(), reason))
}
