//! Stalls a server for a while.

use std::time::{Duration, Instant};

use rudy_experiment::plan::Stall;
use rustix::process::Signal;

use super::process_tree;

/// Stops the companion processes at the planned time, and continues them afterwards, at the latest on drop. A
/// stopped process cannot even exit.
#[derive(Debug)]
pub(crate) struct Stalling {
    stall: Option<Stall>,
    roots: Vec<u32>,
    begun: Instant,
    stopped: Option<(Instant, Vec<rudy_observe::ProcessEntry>)>,
    lasted: Option<Duration>,
}

impl Stalling {
    /// Plans the stall from now, for the processes in `roots` and their descendants.
    pub(crate) fn new(stall: Option<Stall>, roots: Vec<u32>) -> Self {
        Self { stall, roots, begun: Instant::now(), stopped: None, lasted: None }
    }

    /// Stops or continues the processes if due.
    pub(crate) fn poll(&mut self) {
        let Some(stall) = self.stall.filter(|_| self.lasted.is_none()) else { return };
        match &self.stopped {
            None if self.begun.elapsed() >= stall.after.0 => {
                let members = process_tree::below(&self.roots);
                process_tree::signal(&members, Signal::STOP);
                self.stopped = Some((Instant::now(), members));
            }
            Some((since, _)) if since.elapsed() >= stall.time.0 => self.go_on(),
            _ => {}
        }
    }

    /// The duration of the stall; an error if it was not as long as planned.
    pub(crate) fn lasted(mut self) -> Result<Option<Duration>, String> {
        self.go_on();
        match (self.stall, self.lasted) {
            (Some(stall), Some(lasted)) if lasted < stall.time.0 => Err(format!(
                "the workload ended {} ms after the start of the stall, which should last {}",
                lasted.as_millis(),
                stall.time
            )),
            (Some(stall), None) => {
                Err(format!("the workload ended before the stall, which should start after {}", stall.after))
            }
            (_, lasted) => Ok(lasted),
        }
    }

    fn go_on(&mut self) {
        if let Some((since, members)) = self.stopped.take() {
            self.lasted = Some(since.elapsed());
            process_tree::signal(&members, Signal::CONT);
        }
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.go_on();
    }
}
