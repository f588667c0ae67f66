//! The idle connections of one worker.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::choose::Chooser;
use crate::decide;
use crate::member::Member;
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};

/// An idle connection.
#[derive(Debug)]
pub(crate) struct IdleConnection<A, C> {
    pub(crate) member: Arc<Member<A>>,
    pub(crate) connection: C,
    pub(crate) since: Instant,
    /// The generation of the pool in which it was opened.
    pub(crate) generation: u32,
}

/// The state of one worker. Aligned to two cache lines, because processors fetch them in pairs and other workers write
/// their own state with each request.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Worker<A, C> {
    /// The most recently used one is last.
    idle: Mutex<Vec<IdleConnection<A, C>>>,
    /// Number of connections: idle, in use or being opened. Grows only under the queue's lock.
    connections: AtomicUsize,
    chooser: Mutex<Chooser<A>>,
}

impl<A, C> Worker<A, C> {
    pub(crate) fn new(number: usize) -> Self {
        let chooser = Mutex::new(Chooser::new(number));
        Self { idle: Mutex::new(Vec::new()), connections: AtomicUsize::new(0), chooser }
    }

    /// Ignores poisoning: a choice that was interrupted leaves only candidates, which the next one replaces.
    pub(crate) fn chooser(&self) -> MutexGuard<'_, Chooser<A>> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ignores poisoning: each change is one step, so a panic leaves the stack consistent.
    pub(crate) fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection<A, C>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    pub(crate) fn add_connection(&self) {
        self.connections.fetch_add(1, SeqCst);
    }

    pub(crate) fn remove_connection(&self) {
        self.connections.fetch_sub(1, SeqCst);
    }

    /// Takes the best connection for a request of this worker, and counts the request.
    pub(crate) fn take_best(&self, has_one_member: bool) -> Option<IdleConnection<A, C>> {
        self.take(|idle| {
            if has_one_member {
                return idle.len().checked_sub(1).filter(|last| is_usable(&idle[*last]));
            }
            decide::best_idle(idle.iter().map(|idle| is_usable(idle).then(|| idle.member.in_flight())))
        })
    }

    /// Takes the most recently used connection to a member, and counts the request.
    pub(crate) fn take_most_recent(&self, member: &Member<A>) -> Option<IdleConnection<A, C>> {
        self.take(|idle| idle.iter().rposition(|idle| is_usable_for(idle, Some(member))))
    }

    /// Takes the least recently used connection to the member, or to any, and counts the request.
    pub(crate) fn take_least_recent(&self, member: Option<&Member<A>>) -> Option<IdleConnection<A, C>> {
        self.take(|idle| idle.iter().position(|idle| is_usable_for(idle, member)))
    }

    /// Since when the least recently used connection to the member, or to any, is idle.
    pub(crate) fn least_recent(&self, member: Option<&Member<A>>) -> Option<Instant> {
        self.idle().iter().find(|idle| is_usable_for(idle, member)).map(|idle| idle.since)
    }

    fn take(
        &self,
        choose: impl Fn(&[IdleConnection<A, C>]) -> Option<usize>,
    ) -> Option<IdleConnection<A, C>> {
        let mut idle = self.idle();
        // A member that has just reached its request limit on another worker is not chosen again.
        while let Some(index) = choose(&idle) {
            if idle[index].member.begin_request() {
                return Some(idle.remove(index));
            }
        }
        None
    }
}

fn is_usable<A, C>(idle: &IdleConnection<A, C>) -> bool {
    idle.member.accepts_requests()
}

fn is_usable_for<A, C>(idle: &IdleConnection<A, C>, member: Option<&Member<A>>) -> bool {
    is_usable(idle) && member.is_none_or(|member| idle.member.id() == member.id())
}
