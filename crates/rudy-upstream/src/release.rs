//! How a connection comes back, or ends, and to which waiter it or its room goes.

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::decide::{self, Front};
use crate::member::Member;
use crate::pool::Pool;
use crate::queue::{Assignment, Queue};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering::SeqCst;
use crate::worker::{Idle, Worker};

/// Why a released connection was not pushed onto its worker's stack.
enum NotKept<A, C> {
    /// Its member keeps none.
    Closed(Idle<A, C>),
    /// Requests wait.
    Wanted(Idle<A, C>),
}

impl<A, C> Pool<A, C> {
    /// A request has ended, and its connection takes another one.
    pub(crate) fn release(&self, worker: usize, idle: Idle<A, C>) {
        let ended = self.on_end().map(|on_end| (on_end, idle.member.clone()));
        match self.keep(worker, idle) {
            Ok(()) => {}
            Err(NotKept::Closed(idle)) => self.close_released(worker, idle),
            Err(NotKept::Wanted(idle)) => self.hand_over(worker, idle),
        }
        if let Some((on_end, member)) = ended {
            on_end(&member);
        }
    }

    /// A request has ended without a connection for the next: its room is free.
    pub(crate) fn end_without_connection(&self, worker: usize, member: &Member<A>) {
        member.end_request(None);
        self.free_room(worker, member);
        self.serve();
        if let Some(on_end) = self.on_end() {
            on_end(member);
        }
    }

    /// Pushes a connection onto its worker's stack. The member is checked under that lock: `close_idle` takes it after the
    /// member has changed, so that one of both closes the connection.
    fn keep(&self, worker: usize, idle: Idle<A, C>) -> Result<(), NotKept<A, C>> {
        let mut stack = self.workers[worker].idle();
        if !idle.member.keeps_connections() {
            return Err(NotKept::Closed(idle));
        }
        if self.queued.load(SeqCst) > 0 {
            return Err(NotKept::Wanted(idle));
        }
        idle.member.end_request(Some(idle.since));
        stack.push(idle);
        Ok(())
    }

    /// Grants a connection to a waiter.
    fn hand_over(&self, worker: usize, idle: Idle<A, C>) {
        let queue = self.queue();
        let Some(next) = decide::next_worker(worker, self.fronts(&queue)) else {
            // All have been served since, and none can come as long as the queue is locked.
            let kept = self.keep(worker, idle);
            drop(queue);
            if let Err(NotKept::Closed(idle) | NotKept::Wanted(idle)) = kept {
                self.close_released(worker, idle);
            }
            return;
        };
        if !(idle.member.keeps_connections() && idle.member.count_request()) {
            drop(queue);
            return self.close_released(worker, idle);
        }
        if next != worker {
            self.workers[worker].lose();
            self.workers[next].gain();
        }
        let Idle { member, connection, since } = idle;
        self.assign_oldest(queue, next, Assignment { member, connection: Some(connection), since });
    }

    fn close_released(&self, worker: usize, Idle { member, connection, since }: Idle<A, C>) {
        drop(connection);
        member.end_request(Some(since));
        self.free_room(worker, &member);
        self.serve();
    }

    /// Closes the connections that have been idle for this time. Returns when the next is due.
    pub fn expire(&self, keep: Duration, now: Instant) -> Option<Instant> {
        self.close_idle(|idle| now.saturating_duration_since(idle.since) >= keep);
        let oldest = |worker: &Worker<A, C>| worker.idle().iter().map(|idle| idle.since).min();
        self.workers.iter().filter_map(oldest).min()?.checked_add(keep)
    }

    /// Closes the idle connections for which this is true. It is called under the lock of a worker, so it takes no lock itself.
    pub fn close_idle_where(&self, is_closed: impl Fn(&Member<A>, &mut C) -> bool) {
        self.close_idle(|idle| is_closed(&idle.member, &mut idle.connection));
    }

    pub(crate) fn close_idle_of(&self, id: u64) {
        self.close_idle(|idle| idle.member.id() == id);
    }

    fn close_idle(&self, is_closed: impl Fn(&mut Idle<A, C>) -> bool) {
        for (index, worker) in self.workers.iter().enumerate() {
            let closed: Vec<_> = worker.idle().extract_if(.., |idle| is_closed(idle)).collect();
            for Idle { member, connection, .. } in closed {
                drop(connection);
                self.free_room(index, &member);
            }
        }
        self.serve();
    }

    /// A connection was closed. [`Self::serve`] has to follow, which reads `queued` after the room is counted as free: a
    /// checkout is counted in `queued` before it looks for room, so that one of both sees the other.
    fn free_room(&self, worker: usize, member: &Member<A>) {
        self.workers[worker].lose();
        member.close_one();
    }

    /// Grants waiters, the oldest of all first, new connections as long as there is room.
    pub(crate) fn serve(&self) {
        while self.queued.load(SeqCst) > 0 && self.serve_one() {}
    }

    fn serve_one(&self) -> bool {
        let queue = self.queue();
        let Some((worker, since)) = decide::oldest(self.fronts(&queue)) else { return false };
        // Without a clock, the time at which the waiter came decides whether a member is backed off.
        let Some(member) = queue.reserve(since) else { return false };
        self.workers[worker].gain();
        self.assign_oldest(queue, worker, Assignment { member, connection: None, since });
        true
    }

    fn fronts(&self, queue: &Queue<A, C>) -> impl Iterator<Item = Front> + Clone {
        let workers = self.workers.iter().zip(queue.oldest());
        workers.map(|(worker, oldest)| Front { oldest, has_connections: worker.held() > 0 })
    }

    /// Grants the oldest waiter of a worker a connection, and wakes it without the lock.
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
