//! The idle connections of one worker.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::decide;
use crate::member::Member;
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};

/// A connection without a request.
#[derive(Debug)]
pub(crate) struct Idle<A, C> {
    pub(crate) member: Arc<Member<A>>,
    pub(crate) connection: C,
    pub(crate) since: Instant,
}

/// What the pool has for each worker, on cache lines of its own (two: processors fetch them in pairs), because other
/// workers write theirs with each request.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Worker<A, C> {
    /// The most recently used at the end.
    idle: Mutex<Vec<Idle<A, C>>>,
    /// Its connections, idle, in use or being opened. Only grows under the queue's lock.
    held: AtomicUsize,
}

impl<A, C> Worker<A, C> {
    pub(crate) fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()), held: AtomicUsize::new(0) }
    }

    /// A panic while it was held has left a whole stack: each change is one step.
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<Idle<A, C>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    pub(crate) fn gain(&self) {
        self.held.fetch_add(1, SeqCst);
    }

    pub(crate) fn lose(&self) {
        self.held.fetch_sub(1, SeqCst);
    }

    /// Takes the best connection for a request of this worker, and counts the request.
    pub(crate) fn take_best(&self, has_one_member: bool) -> Option<Idle<A, C>> {
        self.take(|idle| {
            if has_one_member {
                return idle.len().checked_sub(1).filter(|last| is_usable(&idle[*last]));
            }
            decide::best_idle(idle.iter().map(|idle| is_usable(idle).then(|| idle.member.in_flight())))
        })
    }

    /// Takes the least recently used connection, and counts the request.
    pub(crate) fn take_least_recent(&self) -> Option<Idle<A, C>> {
        self.take(|idle| idle.iter().position(is_usable))
    }

    /// Since when its least recently used connection is idle.
    pub(crate) fn least_recent(&self) -> Option<Instant> {
        self.idle().iter().find(|idle| is_usable(idle)).map(|idle| idle.since)
    }

    fn take(&self, choose: impl Fn(&[Idle<A, C>]) -> Option<usize>) -> Option<Idle<A, C>> {
        let mut idle = self.idle();
        // A member that has just had its last request on another worker is not chosen again.
        while let Some(index) = choose(&idle) {
            if idle[index].member.begin_request() {
                return Some(idle.remove(index));
            }
        }
        None
    }
}

fn is_usable<A, C>(idle: &Idle<A, C>) -> bool {
    idle.member.takes_requests()
}
