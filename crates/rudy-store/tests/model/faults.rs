//! A disk that is full at times, and a process that ends between two changes of the folder, or in the middle of one.

use std::io;
use std::sync::{Mutex, PoisonError};

use rudy_store::{Change, Fault, Faults};

use super::random::Random;

/// Faults by chance.
#[derive(Debug)]
pub(crate) struct Disk(Mutex<State>);

#[derive(Debug)]
struct State {
    random: Random,
    /// How many of 1000 changes fail.
    failures: u64,
    /// The number of changes until the process ends.
    changes_left: u64,
    has_failed: bool,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self(Mutex::new(State { random, failures: 0, changes_left: u64::MAX, has_failed: false }))
    }

    /// From now on, `failures` of 1000 changes fail.
    pub(crate) fn fill(&self, failures: u64) {
        self.state().failures = failures;
    }

    /// Ends the process after a number of changes: all later ones have no effect.
    pub(crate) fn end_after(&self, changes: u64) {
        self.state().changes_left = changes;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state().changes_left == 0
    }

    /// Whether a change has failed since the last call.
    pub(crate) fn has_failed(&self) -> bool {
        std::mem::take(&mut self.state().has_failed)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults for Disk {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        let mut state = self.state();
        let has_ended = state.changes_left == 0;
        state.changes_left = state.changes_left.saturating_sub(u64::from(state.changes_left < u64::MAX));
        let ends_now = !has_ended && state.changes_left == 0;
        if !has_ended && !ends_now && state.random.below(1000) >= state.failures {
            return Ok(());
        }
        state.has_failed = true;
        let written = match change {
            Change::Write { data, .. } if !has_ended => state.random.index(data.len() + 1),
            _ => 0,
        };
        Err(Fault { written, error: io::ErrorKind::StorageFull.into() })
    }
}
