//! Returning connections to the pool, and assigning them or their capacity to waiters.

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::decide::{self, WorkerQueue};
use crate::member::Member;
use crate::pool::Pool;
use crate::queue::{Assignment, Queue};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering::SeqCst;
use crate::worker::{IdleConnection, Worker};

/// Why a released connection was not pushed onto its worker's stack.
enum NotPushed<A, C> {
    /// Its member accepts no idle connections, or its generation is over.
    MustClose(IdleConnection<A, C>),
    /// Requests wait in the queue.
    RequestsWait(IdleConnection<A, C>),
}

impl<A, C> Pool<A, C> {
    /// Ends a request whose connection can serve another one.
    pub(crate) fn release(&self, worker: usize, idle: IdleConnection<A, C>) {
        let ended = self.on_end().map(|on_end| (on_end, idle.member.clone()));
        match self.push_idle(worker, idle) {
            Ok(()) => {}
            Err(NotPushed::MustClose(idle)) => self.close_released(worker, idle),
            Err(NotPushed::RequestsWait(idle)) => self.assign_to_waiter(worker, idle),
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

    /// Pushes a connection onto its worker's stack. Checks the member and the generation under the stack's lock: `close_idle`
    /// takes that lock after they have changed, so one of the two closes the connection.
    fn push_idle(&self, worker: usize, idle: IdleConnection<A, C>) -> Result<(), NotPushed<A, C>> {
        let mut stack = self.workers[worker].idle();
        if !self.retains(&idle) {
            return Err(NotPushed::MustClose(idle));
        }
        if self.queued.load(SeqCst) > 0 {
            return Err(NotPushed::RequestsWait(idle));
        }
        idle.member.end_request(Some(idle.since));
        stack.push(idle);
        Ok(())
    }

    /// Assigns a connection to a waiter.
    fn assign_to_waiter(&self, worker: usize, idle: IdleConnection<A, C>) {
        let queue = self.queue();
        let Some(next) = decide::next_worker(worker, self.queues(&queue)) else {
            // All waiters have been served, and none can join while the queue is locked.
            let pushed = self.push_idle(worker, idle);
            drop(queue);
            if let Err(NotPushed::MustClose(idle) | NotPushed::RequestsWait(idle)) = pushed {
                self.close_released(worker, idle);
            }
            return;
        };
        if !(self.retains(&idle) && idle.member.count_request()) {
            drop(queue);
            return self.close_released(worker, idle);
        }
        if next != worker {
            self.workers[worker].remove_connection();
            self.workers[next].add_connection();
        }
        let IdleConnection { member, connection, since, generation } = idle;
        let assignment = Assignment { member, connection: Some(connection), since, generation };
        self.assign_oldest(queue, next, assignment);
    }

    /// Returns whether a connection can serve another request.
    fn retains(&self, idle: &IdleConnection<A, C>) -> bool {
        idle.member.retains_connections() && idle.generation == self.generation()
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

    /// Assigns new connections to the waiters, oldest first, until no capacity is left.
    pub(crate) fn serve_waiters(&self) {
        while self.queued.load(SeqCst) > 0 && self.serve_waiter() {}
    }

    fn serve_waiter(&self) -> bool {
        let queue = self.queue();
        let Some((worker, since)) = decide::oldest(self.queues(&queue)) else { return false };
        // The pool has no clock: the time when the waiter joined decides whether a member is backed off.
        let Some(member) = queue.reserve(since) else { return false };
        self.workers[worker].add_connection();
        let generation = self.generation();
        self.assign_oldest(queue, worker, Assignment { member, connection: None, since, generation });
        true
    }

    fn queues(&self, queue: &Queue<A, C>) -> impl Iterator<Item = WorkerQueue> + Clone {
        let workers = self.workers.iter().zip(queue.oldest());
        workers.map(|(worker, oldest)| WorkerQueue { oldest, has_connections: worker.connections() > 0 })
    }

    /// Assigns a connection to the oldest waiter of a worker, and wakes that waiter without the lock.
    fn assign_oldest(
        &self,
        mut queue: MutexGuard<'_, Queue<A, C>>,
        worker: usize,
        assignment: Assignment<A, C>,
    ) {
        let waker = queue.assign(worker, assignment);
        self.queued.fetch_sub(1, SeqCst);
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
    }
}
