//! The right of a request to a connection.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::member::Member;
use crate::pool::Pool;
use crate::worker::Idle;

/// A connection for one request, or room for one.
#[derive(Debug)]
pub struct PooledConnection<A, C> {
    // Before the permit, so that it is closed first when both are dropped.
    /// A kept connection. It may belong to the runtime of another worker, from which the caller moves it. `None`: the caller
    /// opens a new one to the [member's address](Member::address).
    pub connection: Option<C>,
    /// What counts the connection.
    pub permit: Permit<A, C>,
}

/// The right to one connection, until it is [released](Self::release). Drop it after the connection: that makes room for
/// another connection, which the upstream may not accept before this one is closed.
pub struct Permit<A, C> {
    pool: Arc<Pool<A, C>>,
    /// Until it is released.
    member: Option<Arc<Member<A>>>,
    worker: usize,
    is_unaccepted: bool,
}

impl<A, C> Permit<A, C> {
    pub(crate) fn new(pool: Arc<Pool<A, C>>, member: Arc<Member<A>>, worker: usize) -> Self {
        Self { pool, member: Some(member), worker, is_unaccepted: false }
    }

    /// The member that the connection leads to.
    #[must_use]
    pub fn member(&self) -> &Member<A> {
        self.member.as_deref().expect("only `release` takes the member, and it consumes the permit")
    }

    /// The upstream has not accepted the new connection, as far as that can be known: the caller has sent a request, and has
    /// received no byte for 20 ms. Closes the member's idle connections, and from now on those that are released, until
    /// [`Self::mark_accepted`] or the end of the permit.
    ///
    /// An application that serves one connection per child (php-fpm) accepts none while its children hold kept connections.
    /// Its backlog is first in, first out, so each connection that is closed lets one of the backlog in. Without the 20 ms
    /// the rule would never converge: while all connections are new, each would be closed when it has finished.
    pub fn mark_unaccepted(&mut self) {
        if !self.is_unaccepted {
            self.is_unaccepted = true;
            self.member().add_unaccepted();
            self.pool.close_idle_of(self.member().id());
        }
    }

    /// The upstream has accepted the connection: it has sent a byte. Takes [`Self::mark_unaccepted`] back, and ends the
    /// [back-off](Member::back_off) of the member.
    pub fn mark_accepted(&mut self) {
        self.member().clear_back_off();
        self.remove_unaccepted();
    }

    /// The request is over, and the connection takes another one. The oldest waiter gets it; without waiters it is kept, or
    /// closed where its member takes no more requests.
    pub fn release(mut self, connection: C, now: Instant) {
        self.mark_accepted();
        if let Some(member) = self.member.take() {
            self.pool.release(self.worker, Idle { member, connection, since: now });
        }
    }

    fn remove_unaccepted(&mut self) {
        if self.is_unaccepted {
            self.is_unaccepted = false;
            self.member().remove_unaccepted();
        }
    }
}

impl<A, C> Drop for Permit<A, C> {
    fn drop(&mut self) {
        if self.member.is_some() {
            self.remove_unaccepted();
        }
        if let Some(member) = self.member.take() {
            self.pool.end_without_connection(self.worker, &member);
        }
    }
}

impl<A, C> fmt::Debug for Permit<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let member = self.member.as_ref().map(|member| member.id());
        f.debug_struct("Permit")
            .field("member", &member)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}
