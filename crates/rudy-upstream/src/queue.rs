//! The state behind the slow path's lock: the waiters, the connections assigned to them, and the list of members.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;
use std::{iter, mem};

use crate::decide;
use crate::member::Member;
use crate::options::{CheckoutOptions, Preference};

#[derive(Debug)]
pub(crate) struct Queue<A, C> {
    pub(crate) members: Vec<Arc<Member<A>>>,
    /// By worker and then by key. Keys increase, so the oldest is first.
    waiters: Vec<BTreeMap<u64, Waiter>>,
    /// The keys and workers of all waiters, by the members that they have tried: these decide which members suit a waiter, so
    /// the first one of a group speaks for the others.
    groups: BTreeMap<Box<[u64]>, BTreeSet<(u64, usize)>>,
    /// By the waiter's key.
    assignments: HashMap<u64, Assignment<A, C>>,
    next_key: u64,
}

/// A request that waits for a connection.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) since: Instant,
    /// The options of its checkout: the connection that it gets is one that it would get now.
    hash_key: Option<u64>,
    preferred: Option<u64>,
    /// Sorted, so that equal sets are one group.
    tried: Box<[u64]>,
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
        let waiters = (0..workers).map(|_| BTreeMap::new()).collect();
        Self {
            members: Vec::new(),
            waiters,
            groups: BTreeMap::new(),
            assignments: HashMap::new(),
            next_key: 0,
        }
    }

    pub(crate) fn member(&self, id: u64) -> Option<&Arc<Member<A>>> {
        self.members.iter().find(|member| member.id() == id)
    }

    /// Reserves capacity for a new connection on the least busy member that was not tried, and counts the request.
    pub(crate) fn reserve(&self, tried: &[u64], now: Instant) -> Option<Arc<Member<A>>> {
        let state = |member: &Arc<Member<A>>| member.state(tried, now);
        // A member that has just reached its request limit is not chosen again.
        while let Some(index) = decide::least_busy(self.members.iter().map(state)) {
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
        let (mut tried, waker) = (Box::<[u64]>::from(tried), Waker::noop().clone());
        tried.sort_unstable();
        match self.groups.get_mut(&tried) {
            Some(group) => _ = group.insert((key, worker)),
            None => _ = self.groups.insert(tried.clone(), BTreeSet::from([(key, worker)])),
        }
        self.waiters[worker].insert(key, Waiter { since, hash_key, preferred, tried, waker });
        key
    }

    /// When the oldest waiter of each worker joined the queue.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = Option<Instant>> + Clone {
        self.waiters.iter().map(|waiters| waiters.values().next().map(|waiter| waiter.since))
    }

    /// Returns the oldest waiter of a worker, and then the oldest one of each other group, oldest first, with worker and key.
    pub(crate) fn beginning_with(&self, worker: usize) -> impl Iterator<Item = (usize, u64, &Waiter)> {
        let first = self.waiters[worker].iter().next().map(|(key, waiter)| (worker, *key, waiter));
        // Collected only if the first one is not served, which is rare.
        let others = iter::once_with(move || {
            let is_other = |tried: &[u64]| first.is_none_or(|(.., first)| *first.tried != *tried);
            let others = self.groups.iter().filter(|(tried, _)| is_other(tried));
            others.filter_map(|(_, group)| group.first()).copied().collect::<BTreeSet<_>>()
        });
        let others = others.flatten();
        let others = others.filter_map(|(key, worker)| Some((worker, key, self.waiters[worker].get(&key)?)));
        first.into_iter().chain(others)
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
        self.waiters[worker].get_mut(&key)
    }

    /// Removes a waiter that is still in the queue. Drop it without the lock.
    pub(crate) fn remove(&mut self, worker: usize, key: u64) -> Option<Waiter> {
        let waiter = self.waiters[worker].remove(&key)?;
        if let Some(group) = self.groups.get_mut(&waiter.tried) {
            group.remove(&(key, worker));
            if group.is_empty() {
                self.groups.remove(&waiter.tried);
            }
        }
        Some(waiter)
    }

    /// Removes all waiters.
    pub(crate) fn remove_all(&mut self) -> Vec<Waiter> {
        self.groups.clear();
        self.waiters.iter_mut().flat_map(|waiters| mem::take(waiters).into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::mix;

    /// All waiters in the order in which they were searched before there were groups: the oldest one of the worker, then all
    /// by age, without those that have tried the same members as one before.
    fn linear(waiters: &[(usize, u64, Vec<u64>)], worker: usize) -> Vec<(usize, u64)> {
        let first = waiters.iter().find(|waiter| waiter.0 == worker);
        let mut found: Vec<&(usize, u64, Vec<u64>)> = Vec::new();
        for waiter in first.into_iter().chain(waiters) {
            if found.iter().all(|found| found.2 != waiter.2) {
                found.push(waiter);
            }
        }
        found.into_iter().map(|(worker, key, _)| (*worker, *key)).collect()
    }

    #[test]
    fn the_waiters_are_found_as_by_a_linear_search() {
        let mut queue = Queue::<(), ()>::new(3);
        let (mut model, since) = (Vec::<(usize, u64, Vec<u64>)>::new(), Instant::now());
        for number in 0..2_000 {
            let random = usize::try_from(mix(number) >> 32).unwrap();
            let worker = random % 3;
            // Each half of the numbers adds more than it removes, or fewer.
            if random / 3 % 5 < if number % 400 < 200 { 3 } else { 2 } {
                let tried: Vec<u64> = (0..3).filter(|bit| random >> (10 + bit) & 1 == 1).collect();
                let reversed: Vec<u64> = tried.iter().copied().rev().collect();
                let options = CheckoutOptions { tried: &reversed, ..Preference::Any.into() };
                model.push((worker, queue.push(worker, &options, since), tried));
            } else if !model.is_empty() {
                let (worker, key, tried) = model.remove(random / 15 % model.len());
                assert_eq!(queue.remove(worker, key).map(|waiter| waiter.tried.into_vec()), Some(tried));
            }
            for worker in 0..3 {
                let found = queue.beginning_with(worker).map(|(worker, key, _)| (worker, key));
                assert_eq!(found.collect::<Vec<_>>(), linear(&model, worker), "after step {number}");
            }
        }
        assert_eq!(queue.remove_all().len(), model.len());
        assert_eq!(queue.beginning_with(0).count(), 0);
    }
}
