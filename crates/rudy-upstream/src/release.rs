//! Returning connections to the pool, and assigning connections or capacity to waiters.

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::checkout::Found;
use crate::decide::{self, WorkerQueue};
use crate::member::Member;
use crate::pool::Pool;
use crate::queue::{Assignment, Queue};
use crate::sync::atomic::Ordering::SeqCst;
use crate::worker::{IdleConnection, Worker};

impl<A, C> Pool<A, C> {
    /// Ends a request whose connection can serve another one.
    pub(crate) fn release(&self, worker: usize, idle: IdleConnection<A, C>) {
        let ended = self.on_end().map(|on_end| (on_end, idle.member.clone()));
        let released = (worker, idle.since);
        match self.push_idle(worker, idle) {
            // After the connection was pushed: see `checkout_slow`.
            None => {
                // A waiter may have got a connection to another member.
                while self.queued.load(SeqCst) > 0 && self.serve_waiter(Some(released)) && self.chooses() {}
            }
            Some(idle) => self.close_released(worker, idle),
        }
        if let Some((on_end, member)) = ended {
            on_end(&member);
        }
    }

    /// Ends a request without a reusable connection, and frees its capacity.
    pub(crate) fn end_without_connection(&self, worker: usize, member: &Member<A>) {
        member.end_request(None);
        self.remove_connection(worker, member);
        self.serve_waiters();
        if let Some(on_end) = self.on_end() {
            on_end(member);
        }
    }

    /// Pushes a connection onto its worker's stack, or returns it if its member accepts no idle connections or its generation is
    /// over. Checks both under the stack's lock: `close_idle` takes that lock after they have changed, so one of the two closes
    /// the connection.
    fn push_idle(&self, worker: usize, idle: IdleConnection<A, C>) -> Option<IdleConnection<A, C>> {
        let mut stack = self.workers[worker].idle();
        if !idle.member.retains_connections() || idle.generation != self.generation() {
            return Some(idle);
        }
        idle.member.end_request(Some(idle.since));
        stack.push(idle);
        None
    }

    fn close_released(
        &self,
        worker: usize,
        IdleConnection { member, connection, since, .. }: IdleConnection<A, C>,
    ) {
        drop(connection);
        member.end_request(Some(since));
        self.remove_connection(worker, &member);
        self.serve_waiters();
    }

    /// Closes connections that have been idle for `keep`. Returns when the next one expires.
    pub fn expire(&self, keep: Duration, now: Instant) -> Option<Instant> {
        self.close_idle(|idle| now.saturating_duration_since(idle.since) >= keep);
        let oldest = |worker: &Worker<A, C>| worker.idle().iter().map(|idle| idle.since).min();
        self.workers.iter().filter_map(oldest).min()?.checked_add(keep)
    }

    /// Closes the idle connections for which `is_closed` returns true. The pool holds a worker's lock during the call, so
    /// the function must not use the pool.
    pub fn close_idle_where(&self, is_closed: impl Fn(&Member<A>, &mut C) -> bool) {
        self.close_idle(|idle| is_closed(&idle.member, &mut idle.connection));
    }

    pub(crate) fn close_idle_of(&self, id: u64) {
        self.close_idle(|idle| idle.member.id() == id);
    }

    fn close_idle(&self, is_closed: impl Fn(&mut IdleConnection<A, C>) -> bool) {
        for (index, worker) in self.workers.iter().enumerate() {
            let closed: Vec<_> = worker.idle().extract_if(.., |idle| is_closed(idle)).collect();
            for IdleConnection { member, connection, .. } in closed {
                drop(connection);
                self.remove_connection(index, &member);
            }
        }
        self.serve_waiters();
    }

    /// Subtracts a closed connection. Call [`Self::serve_waiters`] next, which reads `queued` after the capacity is free.
    /// A checkout increments `queued` before it looks for capacity, so one of the two sees the other.
    fn remove_connection(&self, worker: usize, member: &Member<A>) {
        self.workers[worker].remove_connection();
        member.close_one();
    }

    /// Assigns connections to the waiters, oldest first, until no capacity is left.
    pub(crate) fn serve_waiters(&self) {
        while self.queued.load(SeqCst) > 0 && self.serve_waiter(None) {}
    }

    /// Assigns a connection or capacity to a waiter, and wakes it without the lock. `released` is the worker that has released a
    /// connection, and the time. Returns whether there was something for a waiter.
    fn serve_waiter(&self, released: Option<(usize, Instant)>) -> bool {
        let mut queue = self.queue();
        let Some((worker, key, found)) = self.find_for_waiter(&queue, released) else { return false };
        let assignment = match found {
            Found::Idle(idle) | Found::Replace(idle) => {
                let IdleConnection { member, connection, since, generation } = idle;
                Assignment { member, connection: Some((connection, since)), generation }
            }
            Found::New(member) => Assignment { member, connection: None, generation: self.generation() },
        };
        let waker = queue.assign(worker, key, assignment);
        self.queued.fetch_sub(1, SeqCst);
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Returns the first waiter for which there is a connection or capacity, with what a checkout with its options finds now.
    fn find_for_waiter(
        &self,
        queue: &Queue<A, C>,
        released: Option<(usize, Instant)>,
    ) -> Option<(usize, u64, Found<A, C>)> {
        if !queue.members.iter().any(|member| member.has_capacity()) {
            return None;
        }
        let first = match released {
            Some((own, _)) => decide::next_worker(own, self.queues(queue)),
            None => decide::oldest(self.queues(queue)).map(|(worker, _)| worker),
        };
        queue.beginning_with(first?).find_map(|(worker, key, waiter)| {
            // Without a release, the time when the waiter joined decides whether a member is backed off: the pool has no clock.
            let (options, now) = (waiter.options(), released.map_or(waiter.since, |(_, now)| now));
            let member = self.choose(worker, &options, now);
            self.find(queue, worker, member, &options, now).map(|found| (worker, key, found))
        })
    }

    fn queues(&self, queue: &Queue<A, C>) -> impl Iterator<Item = WorkerQueue> + Clone {
        let workers = self.workers.iter().zip(queue.oldest());
        workers.map(|(worker, oldest)| WorkerQueue { oldest, has_connections: worker.connections() > 0 })
    }
}
