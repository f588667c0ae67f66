//! The pool: its members, and how a request gets a connection.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::member::Member;
use crate::permit::{Permit, PooledConnection};
use crate::queue::{Assignment, Queue};
use crate::queued::QueuedCheckout;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};
use crate::worker::{Idle, Worker};

/// The bounds of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Workers that share the pool, at least 1.
    pub workers: usize,
    /// Requests that wait at once, of all workers.
    pub queue: usize,
    /// Requests that a member gets before it is worn out.
    pub requests_per_member: Option<u64>,
}

/// Which connection a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// A kept one, or else a new one.
    Any,
    /// A new one, in place of a kept one if the limit is reached: for the retry after a kept connection turned out to be
    /// dead. Where it has to wait, a kept connection may be granted.
    New,
}

/// What a checkout results in.
#[derive(Debug)]
pub enum Checkout<A, C> {
    /// A connection.
    Ready(PooledConnection<A, C>),
    /// A place in the queue.
    Queued(QueuedCheckout<A, C>),
}

/// As many requests wait as [`Options::queue`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// What is called with a member when a request at it is over.
pub type OnEnd<A> = Box<dyn Fn(&Member<A>) + Send + Sync>;

/// The connections to an upstream: `A` is an address, `C` a connection. See the [crate].
pub struct Pool<A, C> {
    options: Options,
    on_end: Option<OnEnd<A>>,
    pub(crate) workers: Box<[Worker<A, C>]>,
    /// The slow path. A worker's lock is taken under this one, never the other way round.
    queue: Mutex<Queue<A, C>>,
    /// Waiters, and the checkout that is looking for a connection: releases that find any take the slow path. Changes under
    /// the queue's lock only.
    pub(crate) queued: AtomicUsize,
    has_one_member: AtomicBool,
}

/// What a slow checkout finds.
enum Found<A, C> {
    Kept(Idle<A, C>),
    /// Room for a new connection.
    Room(Arc<Member<A>>),
    /// The room of an idle connection, which has to be closed first.
    RoomOf(Idle<A, C>),
}

impl<A, C> Pool<A, C> {
    /// A pool without members. `on_end` is called without locks whenever a request at a member is over, so that the caller
    /// can replace a process that [is worn out](Member::reached_request_limit), or end one that [is drained](Member::is_drained).
    #[must_use]
    pub fn new(options: Options, on_end: Option<OnEnd<A>>) -> Arc<Self> {
        let workers = options.workers.max(1);
        Arc::new(Self {
            options,
            on_end,
            workers: (0..workers).map(|_| Worker::new()).collect(),
            queue: Mutex::new(Queue::new(workers)),
            queued: AtomicUsize::new(0),
            has_one_member: AtomicBool::new(false),
        })
    }

    /// A connection for a request of `worker` (modulo their number), or a place in the queue.
    ///
    /// # Errors
    ///
    /// The queue is full.
    pub fn checkout(
        self: &Arc<Self>,
        worker: usize,
        preference: Preference,
        now: Instant,
    ) -> Result<Checkout<A, C>, QueueFull> {
        let worker = worker % self.workers.len();
        if preference == Preference::Any
            && self.queued.load(SeqCst) == 0
            && let Some(idle) = self.take_own(worker)
        {
            return Ok(Checkout::Ready(self.use_kept(worker, idle)));
        }
        self.checkout_slowly(worker, preference, now)
    }

    fn checkout_slowly(
        self: &Arc<Self>,
        worker: usize,
        preference: Preference,
        now: Instant,
    ) -> Result<Checkout<A, C>, QueueFull> {
        let mut queue = self.queue();
        // Before the search: a release that has read 0 under its worker's lock has pushed before the search takes that lock,
        // and one that takes it later reads more and waits for the queue's lock. The same holds for one that closes: it
        // either makes its room before the search, or reads more and serves.
        let waiters = self.queued.fetch_add(1, SeqCst);
        let found = if waiters == 0 { self.find(&queue, worker, preference, now) } else { None };
        if found.is_none() && waiters < self.options.queue {
            let key = queue.push(worker, now);
            return Ok(Checkout::Queued(QueuedCheckout::new(self.clone(), worker, key)));
        }
        self.queued.fetch_sub(1, SeqCst);
        drop(queue);
        found.map(|found| Checkout::Ready(self.use_found(worker, found))).ok_or(QueueFull)
    }

    /// Finds a connection or room for one, and counts it for the worker. The caller holds the queue's lock.
    fn find(
        &self,
        queue: &Queue<A, C>,
        worker: usize,
        preference: Preference,
        now: Instant,
    ) -> Option<Found<A, C>> {
        let wants_kept = preference == Preference::Any;
        if wants_kept && let Some(idle) = self.take_own(worker).or_else(|| self.take_least_recent(worker)) {
            return Some(Found::Kept(idle));
        }
        if let Some(member) = queue.reserve(now) {
            self.workers[worker].gain();
            return Some(Found::Room(member));
        }
        if wants_kept { None } else { self.take_least_recent(worker).map(Found::RoomOf) }
    }

    fn take_own(&self, worker: usize) -> Option<Idle<A, C>> {
        self.workers[worker].take_best(self.has_one_member.load(SeqCst))
    }

    /// Takes the least recently used connection of any worker. The caller holds the queue's lock and is counted in `queued`,
    /// so that no stack grows meanwhile.
    fn take_least_recent(&self, worker: usize) -> Option<Idle<A, C>> {
        loop {
            let idle = self.workers.iter().filter_map(|worker| Some((worker, worker.least_recent()?)));
            let (owner, _) = idle.min_by_key(|(_, since)| *since)?;
            // The owner may have taken it meanwhile.
            if let Some(idle) = owner.take_least_recent() {
                owner.lose();
                self.workers[worker].gain();
                return Some(idle);
            }
        }
    }

    fn use_found(self: &Arc<Self>, worker: usize, found: Found<A, C>) -> PooledConnection<A, C> {
        let member = match found {
            Found::Kept(idle) => return self.use_kept(worker, idle),
            Found::Room(member) => member,
            Found::RoomOf(Idle { member, connection, .. }) => {
                drop(connection);
                member
            }
        };
        PooledConnection { connection: None, permit: Permit::new(self.clone(), member, worker) }
    }

    fn use_kept(self: &Arc<Self>, worker: usize, idle: Idle<A, C>) -> PooledConnection<A, C> {
        let permit = Permit::new(self.clone(), idle.member, worker);
        PooledConnection { connection: Some(idle.connection), permit }
    }

    pub(crate) fn assign(
        self: &Arc<Self>,
        worker: usize,
        assignment: Assignment<A, C>,
    ) -> PooledConnection<A, C> {
        let permit = Permit::new(self.clone(), assignment.member, worker);
        PooledConnection { connection: assignment.connection, permit }
    }

    /// Gives up a place in the queue, and returns what was granted to it meanwhile.
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

    /// Sends all waiters away, for instance when no process can be started: their polls fail.
    pub fn reject_all(&self) {
        let mut queue = self.queue();
        let waiters = queue.remove_all();
        self.queued.fetch_sub(waiters.len(), SeqCst);
        drop(queue);
        for waiter in waiters {
            waiter.waker.wake();
        }
    }

    /// Adds a member, which takes `limit` connections at once. Waiters get them first.
    pub fn add(&self, id: u64, address: A, limit: usize, now: Instant) {
        let member = Member::new(id, address, limit, self.options.requests_per_member, now);
        self.change_members(|members| members.push(Arc::new(member)));
        self.serve();
    }

    /// Gives a member no more requests, and closes its idle connections. `on_end` is called when a request in progress ends;
    /// without any the member is [drained](Member::is_drained) at once.
    pub fn retire(&self, id: u64) {
        if let Some(member) = self.queue().member(id) {
            member.retire();
        }
        self.close_idle_of(id);
    }

    /// [Retires](Self::retire) a member and forgets it.
    pub fn remove(&self, id: u64) {
        self.change_members(|members| {
            members.extract_if(.., |member| member.id() == id).for_each(|member| member.retire());
        });
        self.close_idle_of(id);
    }

    fn change_members(&self, change: impl FnOnce(&mut Vec<Arc<Member<A>>>)) {
        let mut queue = self.queue();
        change(&mut queue.members);
        self.has_one_member.store(queue.members.len() == 1, SeqCst);
    }

    /// Sets how many connections a member takes at once. Beyond a lower limit connections are closed as they are released.
    pub fn set_limit(&self, id: u64, limit: usize) {
        if let Some(member) = self.queue().member(id) {
            member.set_limit(limit);
        }
        self.serve();
    }

    /// Sets how many connections each of the members takes at once. Members added later have their own.
    pub fn set_limits(&self, limit: usize) {
        self.queue().members.iter().for_each(|member| member.set_limit(limit));
        self.serve();
    }

    /// A member, until it is removed.
    pub fn member(&self, id: u64) -> Option<Arc<Member<A>>> {
        self.queue().member(id).cloned()
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        self.queue().members.len()
    }

    /// The members, in the order in which they were added.
    pub fn members(&self) -> Vec<Arc<Member<A>>> {
        self.queue().members.clone()
    }

    /// Connections: idle, in use, or being opened.
    pub fn open(&self) -> usize {
        self.workers.iter().map(Worker::held).sum()
    }

    /// Connections without a request.
    pub fn idle(&self) -> usize {
        self.workers.iter().map(|worker| worker.idle().len()).sum()
    }

    /// Requests that wait for a connection.
    pub fn queued(&self) -> usize {
        self.queued.load(SeqCst)
    }

    pub(crate) fn on_end(&self) -> Option<&OnEnd<A>> {
        self.on_end.as_ref()
    }

    /// A panic while it was held has left a whole queue: each change is one step.
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

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue for a connection to the upstream is full")
    }
}

impl Error for QueueFull {}
