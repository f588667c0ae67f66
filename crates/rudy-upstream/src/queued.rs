//! A request in the queue.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::permit::PooledConnection;
use crate::pool::Pool;

/// A request that waits in the queue. Dropping it leaves the queue; the next waiter gets a connection that was already
/// assigned to it.
pub struct QueuedCheckout<A, C> {
    pool: Arc<Pool<A, C>>,
    worker: usize,
    key: u64,
    is_over: bool,
}

/// The pool rejected all waiters: see [`Pool::reject_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected;

impl<A, C> QueuedCheckout<A, C> {
    pub(crate) fn new(pool: Arc<Pool<A, C>>, worker: usize, key: u64) -> Self {
        Self { pool, worker, key, is_over: false }
    }

    /// Polls for a connection, and registers the waker until there is one.
    ///
    /// # Errors
    ///
    /// [`Rejected`] after [`Pool::reject_all`], or if a previous poll was ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<PooledConnection<A, C>, Rejected>> {
        let mut queue = self.pool.queue();
        if let Some(waiter) = queue.waiter(self.worker, self.key) {
            if waiter.waker.will_wake(cx.waker()) {
                return Poll::Pending;
            }
            let previous = mem::replace(&mut waiter.waker, cx.waker().clone());
            drop(queue);
            // Drop it without the lock: a waker may own the task, and with it a queued checkout of this pool.
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
        // Release the connection for another waiter, as if a request had used it.
        let since = assignment.connection.as_ref().map(|(_, since)| *since);
        let PooledConnection { connection, permit } = self.pool.assign(self.worker, assignment);
        if let Some((connection, since)) = connection.zip(since) {
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
        f.write_str("the upstream has no running process, and starting one failed")
    }
}

impl Error for Rejected {}
