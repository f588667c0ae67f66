//! The state behind the slow path's lock: the waiters, the connections assigned to them, and the list of members.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;
use std::{iter, mem};

use crate::decide;
use crate::member::Member;
use crate::pool::{CheckoutOptions, Preference};

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
    pub(crate) key: u64,
    pub(crate) since: Instant,
    /// The options of its checkout: the connection that it gets is one that it would get now.
    hash_key: Option<u64>,
    preferred: Option<u64>,
    pub(crate) tried: Box<[u64]>,
    pub(crate) waker: Waker,
}

impl Waiter {
    /// Returns the options of its checkout. A request that has waited accepts a reused connection.
    pub(crate) fn options(&self) -> CheckoutOptions<'_> {
        let Self { hash_key: key, preferred, tried, .. } = self;
        CheckoutOptions { preference: Preference::Any, key: *key, preferred: *preferred, tried }
    }
}

/// A connection, or capacity for one, that is assigned to a waiter and counts as in use. It does not refer to the pool,
/// because the pool owns it.
#[derive(Debug)]
pub(crate) struct Assignment<A, C> {
    pub(crate) member: Arc<Member<A>>,
    /// With the time since which it was idle.
    pub(crate) connection: Option<(C, Instant)>,
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
    pub(crate) fn push(&mut self, worker: usize, options: &CheckoutOptions<'_>, since: Instant) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        let CheckoutOptions { key: hash_key, preferred, tried, .. } = *options;
        let (tried, waker) = (tried.into(), Waker::noop().clone());
        self.waiters[worker].push_back(Waiter { key, since, hash_key, preferred, tried, waker });
        key
    }

    /// When the oldest waiter of each worker joined the queue.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = Option<Instant>> + Clone {
        self.waiters.iter().map(|waiters| waiters.front().map(|waiter| waiter.since))
    }

    /// Returns the oldest waiter of a worker, and then all waiters of all workers, oldest first.
    pub(crate) fn beginning_with(&self, worker: usize) -> impl Iterator<Item = (usize, &Waiter)> {
        let first = self.waiters[worker].front().map(|waiter| (worker, waiter));
        // Allocated only if the first one is not served, which is rare.
        let mut next = Vec::new();
        let by_age = iter::from_fn(move || {
            next.resize(self.waiters.len(), 0);
            let heads = self.waiters.iter().zip(&next).map(|(waiters, next)| waiters.get(*next)).enumerate();
            let heads = heads.filter_map(|(worker, waiter)| Some((worker, waiter?)));
            let (worker, waiter) = heads.min_by_key(|(_, waiter)| waiter.key)?;
            next[worker] += 1;
            Some((worker, waiter))
        });
        first.into_iter().chain(by_age)
    }

    /// Assigns a connection or capacity to a waiter. Returns the waker, to wake without the lock.
    pub(crate) fn assign(&mut self, worker: usize, key: u64, assignment: Assignment<A, C>) -> Option<Waker> {
        let waiter = self.remove(worker, key)?;
        self.assignments.insert(key, assignment);
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
