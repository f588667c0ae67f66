//! A server that stands still for a while.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::family;
use crate::plan::Stall;

/// Stops what is beside a subject when it is time, and lets it go on after that: at the latest when this is dropped, whatever has
/// happened meanwhile. A stopped process does not even end.
#[derive(Debug)]
pub(crate) struct Stalling {
    stall: Option<Stall>,
    roots: Vec<u32>,
    begun: Instant,
    stopped: Option<(Instant, Vec<family::Member>)>,
    lasted: Option<Duration>,
}

impl Stalling {
    /// From now on, the processes below `roots` and those themselves.
    pub(crate) fn new(stall: Option<Stall>, roots: Vec<u32>) -> Self {
        Self { stall, roots, begun: Instant::now(), stopped: None, lasted: None }
    }

    /// Does what is due.
    pub(crate) fn look(&mut self) {
        let Some(stall) = self.stall.filter(|_| self.lasted.is_none()) else { return };
        match &self.stopped {
            None if self.begun.elapsed() >= stall.after.0 => {
                let members = family::below(&self.roots);
                family::signal(&members, Signal::STOP);
                self.stopped = Some((Instant::now(), members));
            }
            Some((since, _)) if since.elapsed() >= stall.time.0 => self.go_on(),
            _ => {}
        }
    }

    /// How long it stood still; an error where it did not do so as long as it was to.
    pub(crate) fn lasted(mut self) -> Result<Option<Duration>, String> {
        self.go_on();
        match (self.stall, self.lasted) {
            (Some(stall), Some(lasted)) if lasted < stall.time.0 => Err(format!(
                "it was over {} ms after the stall began, which was to last {}",
                lasted.as_millis(),
                stall.time
            )),
            (Some(stall), None) => {
                Err(format!("it was over before the stall, which was to begin after {}", stall.after))
            }
            (_, lasted) => Ok(lasted),
        }
    }

    fn go_on(&mut self) {
        if let Some((since, members)) = self.stopped.take() {
            self.lasted = Some(since.elapsed());
            family::signal(&members, Signal::CONT);
        }
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.go_on();
    }
}
