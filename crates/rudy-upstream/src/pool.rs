//! The pool: its members, its workers and its queue.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

use crate::choice::Choice;
use crate::member::{Member, MemberOptions};
use crate::options::Options;
use crate::queue::{Assignment, Queue};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};
use crate::worker::Worker;

/// A callback that gets a member whenever a request to that member ends.
pub type OnEnd<A> = Box<dyn Fn(&Member<A>) + Send + Sync>;

/// A change of a member.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// It is ejected: it gets no requests, as long as others are up.
    Ejected {
        /// The last failure.
        why: &'a dyn fmt::Display,
    },
    /// A request has succeeded, so it gets requests again.
    Returned,
    /// It gets no requests, as long as others are up: see [`Pool::set_health`].
    Unhealthy {
        /// What the caller has found.
        why: &'a dyn fmt::Display,
    },
    /// It is healthy again.
    Healthy,
}

/// A callback that gets each change of a member.
pub type OnChange<A> = Box<dyn Fn(&Member<A>, Change<'_>) + Send + Sync>;

/// A pool of connections `C` to addresses `A`. See the [crate].
pub struct Pool<A, C> {
    options: Options,
    on_end: Option<OnEnd<A>>,
    on_change: OnceLock<OnChange<A>>,
    pub(crate) workers: Box<[Worker<A, C>]>,
    /// The lock of the slow path. Lock order: this one before a worker's.
    queue: Mutex<Queue<A, C>>,
    /// Number of waiters, plus the checkout that is searching for a connection. A release takes the slow path while it is
    /// not 0. Changes only under the queue's lock.
    pub(crate) queued: AtomicUsize,
    /// Changes only under the queue's lock.
    member_count: AtomicUsize,
    /// The number of [renewals](Self::renew). Connections of earlier generations are not used again.
    generation: AtomicU32,
    /// The virtual time of the last turn in a round robin.
    pub(crate) last_turn: AtomicU64,
}

impl<A, C> Pool<A, C> {
    /// Returns a pool without members. It calls `on_end` without holding locks whenever a request ends, so that the caller
    /// can replace a process that [reached its request limit](Member::reached_request_limit), or stop one that
    /// [is drained](Member::is_drained).
    #[must_use]
    pub fn new(options: Options, on_end: Option<OnEnd<A>>) -> Arc<Self> {
        let workers = options.workers.max(1);
        Arc::new(Self {
            options,
            on_end,
            on_change: OnceLock::new(),
            workers: (0..workers).map(Worker::new).collect(),
            queue: Mutex::new(Queue::new(workers)),
            queued: AtomicUsize::new(0),
            member_count: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
            last_turn: AtomicU64::new(0),
        })
    }

    /// Removes a waiter from the queue. Returns the connection if one was already assigned.
    pub(crate) fn leave_queue(&self, worker: usize, key: u64) -> Option<Assignment<A, C>> {
        let mut queue = self.queue();
        let waiter = queue.remove(worker, key);
        if waiter.is_some() {
            self.queued.fetch_sub(1, SeqCst);
        }
        let assignment = queue.take_assignment(key);
        drop(queue);
        assignment
    }

    /// Rejects all waiters, for instance when no process can be started. Their polls return [`Rejected`](crate::Rejected).
    pub fn reject_all(&self) {
        let mut queue = self.queue();
        let waiters = queue.remove_all();
        self.queued.fetch_sub(waiters.len(), SeqCst);
        drop(queue);
        for waiter in waiters {
            waiter.waker.wake();
        }
    }

    /// Adds a member, and serves the waiters first.
    pub fn add(&self, id: u64, address: A, options: impl Into<MemberOptions>, now: Instant) {
        let member = Member::new(id, address, options.into(), &self.options, now);
        self.change_members(|members| members.push(Arc::new(member)));
        self.serve_waiters();
    }

    /// Stops sending requests to a member and closes its idle connections. The pool calls `on_end` when a request in
    /// progress ends; a member without any is [drained](Member::is_drained) at once.
    pub fn retire(&self, id: u64) {
        if let Some(member) = self.queue().member(id) {
            member.retire();
        }
        self.close_idle_of(id);
    }

    /// Sends requests to a retired member again.
    pub fn restore(&self, id: u64, now: Instant) {
        if let Some(member) = self.member(id) {
            member.restore(now);
        }
        self.serve_waiters();
    }

    /// Whether there are members, and all are [retired](Self::retire), so that none serves a request that waits.
    pub fn is_retired(&self) -> bool {
        let members = &self.queue().members;
        !members.is_empty() && members.iter().all(|member| member.is_retired())
    }

    /// [Retires](Self::retire) a member and removes it from the pool.
    pub fn remove(&self, id: u64) {
        self.change_members(|members| {
            members.extract_if(.., |member| member.id() == id).for_each(|member| member.retire());
        });
        self.close_idle_of(id);
    }

    /// Closes all connections, because the settings for new ones have changed: idle ones at once, and those in use when they are
    /// released.
    pub fn renew(&self) {
        // Before the idle ones are closed: see `push_idle`.
        self.generation.fetch_add(1, SeqCst);
        self.close_idle_where(|_, _| true);
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(SeqCst)
    }

    fn change_members(&self, change: impl FnOnce(&mut Vec<Arc<Member<A>>>)) {
        let mut queue = self.queue();
        change(&mut queue.members);
        self.member_count.store(queue.members.len(), SeqCst);
        if self.options.choice != Choice::IdleFirst {
            let members: Arc<[_]> = queue.members.clone().into();
            self.workers.iter().for_each(|worker| worker.chooser().set_members(members.clone()));
        }
    }

    /// Sets the connection limit of a member. Connections over a lower limit are closed when they are released.
    pub fn set_limit(&self, id: u64, limit: usize) {
        if let Some(member) = self.queue().member(id) {
            member.set_limit(limit);
        }
        self.serve_waiters();
    }

    /// Sets the connection limit of all current members.
    pub fn set_limits(&self, limit: usize) {
        self.queue().members.iter().for_each(|member| member.set_limit(limit));
        self.serve_waiters();
    }

    /// Returns a member by id, until it is removed.
    pub fn member(&self, id: u64) -> Option<Arc<Member<A>>> {
        self.queue().member(id).cloned()
    }

    /// Number of members. Takes no lock.
    pub fn member_count(&self) -> usize {
        self.member_count.load(SeqCst)
    }

    pub(crate) fn has_one_member(&self) -> bool {
        self.member_count() == 1
    }

    /// Returns the members in the order in which they were added.
    pub fn members(&self) -> Vec<Arc<Member<A>>> {
        self.queue().members.clone()
    }

    /// Whether a member that is not one of these can serve a request at once.
    pub fn has_other(&self, tried: &[u64], now: Instant) -> bool {
        let is_other = |member: &Arc<Member<A>>| !tried.contains(&member.id());
        let can_serve = |member: &Arc<Member<A>>| member.has_capacity() && member.is_up(now);
        self.queue().members.iter().any(|member| is_other(member) && can_serve(member))
    }

    /// Number of connections: idle, in use, or being opened.
    pub fn open(&self) -> usize {
        self.workers.iter().map(Worker::connections).sum()
    }

    /// Number of idle connections.
    pub fn idle(&self) -> usize {
        self.workers.iter().map(|worker| worker.idle().len()).sum()
    }

    /// Number of requests that wait for a connection.
    pub fn queued(&self) -> usize {
        self.queued.load(SeqCst)
    }

    /// Records what the caller has found to be wrong with a member, or that it is healthy. One that is not gets no requests, as
    /// long as others are up.
    pub fn set_health(&self, id: u64, problem: Option<&dyn fmt::Display>, now: Instant) {
        let changes = |member: &Arc<Member<A>>| member.set_healthy(problem.is_none(), now);
        let Some(member) = self.member(id).filter(changes) else { return };
        self.serve_waiters();
        self.report(&member, problem.map_or(Change::Healthy, |why| Change::Unhealthy { why }));
    }

    /// Calls `on_change` without holding locks whenever a member changes. The first callback stays.
    pub fn on_change(&self, on_change: OnChange<A>) {
        self.on_change.get_or_init(|| on_change);
    }

    pub(crate) fn report(&self, member: &Member<A>, change: Change<'_>) {
        if let Some(on_change) = self.on_change.get() {
            on_change(member, change);
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn on_end(&self) -> Option<&OnEnd<A>> {
        self.on_end.as_ref()
    }

    /// Ignores poisoning: each change is one step, so a panic leaves the queue consistent.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<A, C>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A, C> fmt::Debug for Pool<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut output = f.debug_struct("Pool");
        output.field("options", &self.options).field("open", &self.open()).field("queued", &self.queued());
        output.finish_non_exhaustive()
    }
}
