//! The state behind the slow path's lock: the waiters, the connections assigned to them, and the list of members.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::decide;
use crate::member::Member;

#[derive(Debug)]
pub(crate) struct Queue<A, C> {
    pub(crate) members: Vec<Arc<Member<A>>>,
    /// By worker, oldest first, so that keys increase.
    waiters: Vec<VecDeque<Waiter>>,
    /// By the waiter's key.
    assignments: HashMap<u64, Assignment<A, C>>,
    next_key: u64,
}

/// A request that waits for a connection.
#[derive(Debug)]
pub(crate) struct Waiter {
    key: u64,
    since: Instant,
    pub(crate) waker: Waker,
}

/// A connection, or capacity for one, that is assigned to a waiter and counts as in use. It does not refer to the pool,
/// because the pool owns it.
#[derive(Debug)]
pub(crate) struct Assignment<A, C> {
    pub(crate) member: Arc<Member<A>>,
    pub(crate) connection: Option<C>,
    /// When it was assigned.
    pub(crate) since: Instant,
    /// The generation of the pool in which the connection was or will be opened.
    pub(crate) generation: u32,
}

impl<A, C> Queue<A, C> {
    pub(crate) fn new(workers: usize) -> Self {
        let waiters = (0..workers).map(|_| VecDeque::new()).collect();
        Self { members: Vec::new(), waiters, assignments: HashMap::new(), next_key: 0 }
    }

    pub(crate) fn member(&self, id: u64) -> Option<&Arc<Member<A>>> {
        self.members.iter().find(|member| member.id() == id)
    }

    /// Reserves capacity for a new connection on the least busy member, and counts the request.
    pub(crate) fn reserve(&self, now: Instant) -> Option<Arc<Member<A>>> {
        // A member that has just reached its request limit is not chosen again.
        while let Some(index) = decide::least_busy(self.members.iter().map(|member| member.load(now))) {
            let member = &self.members[index];
            if member.reserve() {
                member.begin_trial(now);
                return Some(member.clone());
            }
        }
        None
    }

    /// Adds a waiter and returns its key.
    pub(crate) fn push(&mut self, worker: usize, since: Instant) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        self.waiters[worker].push_back(Waiter { key, since, waker: Waker::noop().clone() });
        key
    }

    /// When the oldest waiter of each worker joined the queue.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = Option<Instant>> + Clone {
        self.waiters.iter().map(|waiters| waiters.front().map(|waiter| waiter.since))
    }

    /// Assigns a connection or capacity to the oldest waiter of a worker. Returns the waker, to wake without the lock.
    pub(crate) fn assign(&mut self, worker: usize, assignment: Assignment<A, C>) -> Option<Waker> {
        let waiter = self.waiters[worker].pop_front()?;
        self.assignments.insert(waiter.key, assignment);
        Some(waiter.waker)
    }

    /// Removes and returns what was assigned to a waiter.
    pub(crate) fn take_assignment(&mut self, key: u64) -> Option<Assignment<A, C>> {
        self.assignments.remove(&key)
    }

    /// Returns a waiter that is still in the queue.
    pub(crate) fn waiter(&mut self, worker: usize, key: u64) -> Option<&mut Waiter> {
        let index = self.position(worker, key)?;
        self.waiters[worker].get_mut(index)
    }

    /// Removes a waiter that is still in the queue. Drop it without the lock.
    pub(crate) fn remove(&mut self, worker: usize, key: u64) -> Option<Waiter> {
        let index = self.position(worker, key)?;
        self.waiters[worker].remove(index)
    }

    /// Removes all waiters.
    pub(crate) fn remove_all(&mut self) -> Vec<Waiter> {
        self.waiters.iter_mut().flat_map(mem::take).collect()
    }

    fn position(&self, worker: usize, key: u64) -> Option<usize> {
        self.waiters[worker].binary_search_by_key(&key, |waiter| waiter.key).ok()
    }
}
