//! A request in the queue.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::permit::PooledConnection;
use crate::pool::Pool;

/// A place in the queue for a connection. Dropping it gives the place up, and a connection that was granted meanwhile goes
/// to the next waiter.
pub struct QueuedCheckout<A, C> {
    pool: Arc<Pool<A, C>>,
    worker: usize,
    key: u64,
    is_over: bool,
}

/// The pool sent all waiters away, by [`Pool::reject_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected;

impl<A, C> QueuedCheckout<A, C> {
    pub(crate) fn new(pool: Arc<Pool<A, C>>, worker: usize, key: u64) -> Self {
        Self { pool, worker, key, is_over: false }
    }

    /// The connection, once it is granted. Until then the waker is kept, and woken when that changes.
    ///
    /// # Errors
    ///
    /// [`Rejected`] after [`Pool::reject_all`], and after a poll that was ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<PooledConnection<A, C>, Rejected>> {
        let mut queue = self.pool.queue();
        if let Some(waiter) = queue.waiter(self.worker, self.key) {
            if waiter.waker.will_wake(cx.waker()) {
                return Poll::Pending;
            }
            let previous = mem::replace(&mut waiter.waker, cx.waker().clone());
            drop(queue);
            // Without the lock: a waker may own the task, and with it a place in this queue.
            drop(previous);
            return Poll::Pending;
        }
        let assignment = queue.take_assignment(self.key);
        drop(queue);
        self.is_over = true;
        Poll::Ready(assignment.map(|assignment| self.pool.assign(self.worker, assignment)).ok_or(Rejected))
    }
}

impl<A, C> Drop for QueuedCheckout<A, C> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Some(assignment) = self.pool.leave_queue(self.worker, self.key) else { return };
        // Others get what was granted, as if a request had used it and ended at once.
        let since = assignment.since;
        let PooledConnection { connection, permit } = self.pool.assign(self.worker, assignment);
        if let Some(connection) = connection {
            permit.release(connection, since);
        }
    }
}

impl<A, C> fmt::Debug for QueuedCheckout<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedCheckout")
            .field("worker", &self.worker)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the upstream has no process, and none can be started")
    }
}

impl Error for Rejected {}
