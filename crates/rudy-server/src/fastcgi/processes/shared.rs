//! What the thread that looks after the processes shares with those who use them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use super::{MemberId, lock};

/// What is asked of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Grow,
    Replace(MemberId),
    Drained(MemberId),
    Stop,
    Kill,
}

/// What the thread and those who ask it share.
#[derive(Debug)]
pub(super) struct Shared {
    asked: Mutex<Vec<Asked>>,
    /// Readable when something was asked.
    bell: OwnedFd,
    failure: Mutex<Option<Failure>>,
    /// Whether the thread has ended all processes.
    is_over: Mutex<bool>,
    over: Condvar,
}

/// Why no process runs.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) why: String,
    /// When it is tried again.
    pub(super) next_start: Instant,
}

impl Shared {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            asked: Mutex::default(),
            bell,
            failure: Mutex::default(),
            is_over: Mutex::default(),
            over: Condvar::new(),
        })
    }

    /// Asks for something, once until it is looked at.
    pub(super) fn ask(&self, what: Asked) {
        let mut asked = lock(&self.asked);
        if !asked.contains(&what) {
            asked.push(what);
            // It can only fail because it has been rung very often, and then it is heard.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn failure(&self, now: Instant) -> Option<String> {
        let failure = lock(&self.failure);
        let Failure { why, next_start } = failure.as_ref().filter(|failure| now < failure.next_start)?;
        Some(format!("{why}; next try in {:.1} s", (*next_start - now).as_secs_f32()))
    }

    pub(super) fn has_failed(&self, failure: Failure) {
        *lock(&self.failure) = Some(failure);
    }

    /// A process runs; who wanted one has it.
    pub(super) fn has_started(&self) {
        *lock(&self.failure) = None;
        lock(&self.asked).retain(|asked| *asked != Asked::Grow);
    }

    /// All processes have ended, and no other is started.
    pub(super) fn is_over(&self) {
        *lock(&self.is_over) = true;
        self.over.notify_all();
    }

    /// Waits until all processes have ended, but not beyond this time.
    pub(super) fn wait_until_over(&self, time: Instant) {
        let left = time.saturating_duration_since(Instant::now());
        // A thread that panicked with the lock has left a valid bool.
        drop(self.over.wait_timeout_while(lock(&self.is_over), left, |is_over| !*is_over));
    }

    /// What is readable when something was asked.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn take_asked(&self) -> Vec<Asked> {
        // Nothing there to read is as good.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.asked))
    }
}
