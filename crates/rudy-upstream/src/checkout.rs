//! How a request checks out a connection.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::choice::Choice;
use crate::member::Member;
use crate::options::{CheckoutOptions, Preference};
use crate::permit::{Permit, PooledConnection};
use crate::pool::Pool;
use crate::queue::{Assignment, Queue};
use crate::queued::QueuedCheckout;
use crate::sync::atomic::Ordering::SeqCst;
use crate::worker::IdleConnection;

/// The result of a checkout.
#[derive(Debug)]
pub enum Checkout<A, C> {
    /// A connection, or a permit to open one.
    Ready(PooledConnection<A, C>),
    /// The request waits in the queue.
    Queued(QueuedCheckout<A, C>),
}

/// The queue already holds [`Options::queue`](crate::Options::queue) requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFull;

/// What a slow checkout found.
pub(crate) enum Found<A, C> {
    Idle(IdleConnection<A, C>),
    /// Capacity for a new connection.
    New(Arc<Member<A>>),
    /// An idle connection to close, whose capacity a new one takes.
    Replace(IdleConnection<A, C>),
}

impl<A, C> Pool<A, C> {
    /// Returns a connection for a request of `worker`, or queues the request.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if the queue is full.
    pub fn checkout<'a>(
        self: &Arc<Self>,
        worker: usize,
        options: impl Into<CheckoutOptions<'a>>,
        now: Instant,
    ) -> Result<Checkout<A, C>, QueueFull> {
        let (worker, options) = (self.worker_index(worker), options.into());
        let member = self.choose(worker, &options, now);
        if options.preference == Preference::Any
            && self.queued.load(SeqCst) == 0
            && let Some(idle) = self.take_own(worker, member.as_deref())
        {
            return Ok(Checkout::Ready(self.use_idle(worker, idle)));
        }
        self.checkout_slow(worker, member, &options, now)
    }

    /// Returns a permit for a connection that checks a member, beyond its limit if necessary: that a member does not respond
    /// must be noticed. Success and failure of the connection count for nothing. `None` if the member is retired or unknown.
    pub fn permit_for_check(self: &Arc<Self>, worker: usize, id: u64) -> Option<Permit<A, C>> {
        let (worker, queue) = (self.worker_index(worker), self.queue());
        let member = queue.member(id).filter(|member| member.begin_request())?.clone();
        member.open_one();
        self.workers[worker].add_connection();
        drop(queue);
        Some(Permit::for_check(self.clone(), member, worker))
    }

    fn worker_index(&self, worker: usize) -> usize {
        worker.min(self.workers.len() - 1)
    }

    /// Whether requests are for a certain member, and not for any connection.
    pub(crate) fn chooses(&self) -> bool {
        self.options().choice != Choice::IdleFirst && !self.has_one_member()
    }

    /// Chooses the member for a request. `None` if any idle connection will do, or if no member has capacity.
    pub(crate) fn choose(
        &self,
        worker: usize,
        options: &CheckoutOptions<'_>,
        now: Instant,
    ) -> Option<Arc<Member<A>>> {
        if !self.chooses() {
            return None;
        }
        self.workers[worker].chooser().choose(self.options().choice, options, &self.last_turn, now)
    }

    fn checkout_slow(
        self: &Arc<Self>,
        worker: usize,
        member: Option<Arc<Member<A>>>,
        options: &CheckoutOptions<'_>,
        now: Instant,
    ) -> Result<Checkout<A, C>, QueueFull> {
        let mut queue = self.queue();
        // Increment before the search. A release that read 0 has pushed its connection before the search; a later one
        // reads more than 0, waits for the queue's lock and serves the waiters. The same holds for a close, which frees
        // its capacity.
        let waiters = self.queued.fetch_add(1, SeqCst);
        let found = if waiters == 0 { self.find(&queue, worker, member, options, now) } else { None };
        if found.is_none() && waiters < self.options().queue {
            let key = queue.push(worker, options, now);
            drop(queue);
            if waiters > 0 && self.chooses() {
                // The others may wait for a member that this request does not need.
                self.serve_waiters();
            }
            return Ok(Checkout::Queued(QueuedCheckout::new(self.clone(), worker, key)));
        }
        self.queued.fetch_sub(1, SeqCst);
        drop(queue);
        found.map(|found| Checkout::Ready(self.use_found(worker, found))).ok_or(QueueFull)
    }

    /// Finds a connection or capacity for one, and counts it for the worker. The caller holds the queue's lock.
    pub(crate) fn find(
        &self,
        queue: &Queue<A, C>,
        worker: usize,
        member: Option<Arc<Member<A>>>,
        options: &CheckoutOptions<'_>,
        now: Instant,
    ) -> Option<Found<A, C>> {
        if !self.chooses() {
            return self.find_of(queue, worker, None, options, now);
        }
        // Other workers may have taken the last connection of the chosen member: choose again, once. They release what they
        // have taken, which ends the wait in the queue.
        let found = member.and_then(|member| self.find_of(queue, worker, Some(&member), options, now));
        found.or_else(|| {
            let member = self.choose(worker, options, now)?;
            self.find_of(queue, worker, Some(&member), options, now)
        })
    }

    /// As [`Self::find`], of the member or of any.
    fn find_of(
        &self,
        queue: &Queue<A, C>,
        worker: usize,
        member: Option<&Arc<Member<A>>>,
        options: &CheckoutOptions<'_>,
        now: Instant,
    ) -> Option<Found<A, C>> {
        let (accepts_idle, of) = (options.preference == Preference::Any, member.map(Arc::as_ref));
        if accepts_idle
            && let Some(idle) = self.take_own(worker, of).or_else(|| self.take_least_recent(worker, of))
        {
            return Some(Found::Idle(idle));
        }
        let reserved = match member {
            Some(member) => member.reserve().then(|| member.clone()),
            None => queue.reserve(options.tried, now),
        };
        if let Some(reserved) = reserved {
            self.workers[worker].add_connection();
            return Some(Found::New(reserved));
        }
        if accepts_idle { None } else { self.take_least_recent(worker, of).map(Found::Replace) }
    }

    fn take_own(&self, worker: usize, member: Option<&Member<A>>) -> Option<IdleConnection<A, C>> {
        match member {
            Some(member) => self.workers[worker].take_most_recent(member),
            None if self.chooses() => None,
            None => self.workers[worker].take_best(self.has_one_member()),
        }
    }

    /// Takes the least recently used connection of any worker, to the member or to any. The caller holds the queue's lock and
    /// is counted in `queued`, so no stack grows during the search.
    fn take_least_recent(&self, worker: usize, member: Option<&Member<A>>) -> Option<IdleConnection<A, C>> {
        loop {
            let idle = self.workers.iter().filter_map(|worker| Some((worker, worker.least_recent(member)?)));
            let (owner, _) = idle.min_by_key(|(_, since)| *since)?;
            // The owner may have taken the connection in the meantime.
            if let Some(idle) = owner.take_least_recent(member) {
                owner.remove_connection();
                self.workers[worker].add_connection();
                return Some(idle);
            }
        }
    }

    fn use_found(self: &Arc<Self>, worker: usize, found: Found<A, C>) -> PooledConnection<A, C> {
        let member = match found {
            Found::Idle(idle) => return self.use_idle(worker, idle),
            Found::New(member) => member,
            Found::Replace(IdleConnection { member, connection, .. }) => {
                drop(connection);
                member
            }
        };
        let permit = Permit::new(self.clone(), member, worker, self.generation());
        PooledConnection { connection: None, permit }
    }

    fn use_idle(self: &Arc<Self>, worker: usize, idle: IdleConnection<A, C>) -> PooledConnection<A, C> {
        let permit = Permit::new(self.clone(), idle.member, worker, idle.generation);
        PooledConnection { connection: Some(idle.connection), permit }
    }

    pub(crate) fn assign(
        self: &Arc<Self>,
        worker: usize,
        assignment: Assignment<A, C>,
    ) -> PooledConnection<A, C> {
        let permit = Permit::new(self.clone(), assignment.member, worker, assignment.generation);
        PooledConnection { connection: assignment.connection.map(|(connection, _)| connection), permit }
    }
}

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue for a connection to the upstream is full")
    }
}

impl Error for QueueFull {}
