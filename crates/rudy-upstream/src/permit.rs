//! A request's permit to use a connection.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::member::Member;
use crate::pool::{Change, Pool};
use crate::slowness;
use crate::worker::IdleConnection;

/// An idle connection for a request, or a permit to open one.
#[derive(Debug)]
pub struct PooledConnection<A, C> {
    // Before the permit, so that it is closed first when both are dropped.
    /// The reused connection. It may belong to the runtime of another worker, from which the caller has to move it. If
    /// `None`, the caller opens a connection to the [member's address](Member::address).
    pub connection: Option<C>,
    /// The permit that counts the connection.
    pub permit: Permit<A, C>,
}

/// A permit for one connection, until it is [released](Self::release). Drop it after the connection: dropping it frees
/// capacity for another connection, which the upstream may not accept before this one is closed.
pub struct Permit<A, C> {
    pool: Arc<Pool<A, C>>,
    /// `None` once the permit is released.
    member: Option<Arc<Member<A>>>,
    worker: usize,
    /// The generation of the pool in which the connection is opened.
    generation: u32,
    is_unaccepted: bool,
    is_tunnel: bool,
    purpose: Purpose,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A request.
    Request,
    /// A request to a member that is ejected, whose success ends the ejection.
    Trial,
    /// A check by the caller.
    Check,
}

impl<A, C> Permit<A, C> {
    pub(crate) fn new(pool: Arc<Pool<A, C>>, member: Arc<Member<A>>, worker: usize, generation: u32) -> Self {
        let purpose = if member.is_ejected() { Purpose::Trial } else { Purpose::Request };
        let (is_unaccepted, is_tunnel) = (false, false);
        Self { pool, member: Some(member), worker, generation, is_unaccepted, is_tunnel, purpose }
    }

    pub(crate) fn for_check(pool: Arc<Pool<A, C>>, member: Arc<Member<A>>, worker: usize) -> Self {
        let generation = pool.generation();
        let mut permit = Self::new(pool, member, worker, generation);
        permit.purpose = Purpose::Check;
        permit
    }

    /// The member to which the connection leads.
    #[must_use]
    pub fn member(&self) -> &Member<A> {
        self.member.as_deref().expect("only `release` takes the member, and it consumes the permit")
    }

    /// Marks the new connection as not accepted by the upstream. Call it 20 ms after a request was sent, if no byte has
    /// been received. Closes the member's idle connections, and each one that is released until [`Self::mark_accepted`] or
    /// the end of the permit.
    ///
    /// An application that serves one connection per child (php-fpm) accepts no others while idle connections occupy its
    /// children. Each connection that is closed frees a child for the next one in the accept backlog. Without the 20 ms,
    /// the rule would never converge: while all connections are new, each would be closed after its request.
    pub fn mark_unaccepted(&mut self) {
        if !self.is_unaccepted {
            self.is_unaccepted = true;
            self.member().add_unaccepted();
            self.pool.close_idle_of(self.member().id());
        }
    }

    /// Marks the connection as accepted by the upstream. Reverts [`Self::mark_unaccepted`].
    pub fn mark_accepted(&mut self) {
        if self.is_unaccepted {
            self.is_unaccepted = false;
            self.member().remove_unaccepted();
        }
    }

    /// Counts the connection as a tunnel: it carries another protocol, and stays open until the permit is dropped.
    pub fn begin_tunnel(&mut self) {
        if !std::mem::replace(&mut self.is_tunnel, true) {
            self.member().add_tunnel();
        }
    }

    /// Records that the member has failed: it did not accept a connection, or has lost one. Too many consecutive failures
    /// eject it ([`CircuitOptions`](crate::CircuitOptions)), unless it is the only one; `why` is for [`Pool::on_change`].
    pub fn record_failure(&self, now: Instant, why: &dyn fmt::Display) {
        if self.purpose == Purpose::Check {
            return;
        }
        self.member().count_failure();
        if !self.pool.has_one_member() && self.member().record_failure(now) {
            self.pool.report(self.member(), Change::Ejected { why });
        }
    }

    /// Records the time from the request to its response. A member that is much slower than the others is ejected
    /// ([`CircuitOptions::latency_ratio`](crate::CircuitOptions::latency_ratio)).
    pub fn record_latency(&self, latency: Duration, now: Instant) {
        if self.purpose == Purpose::Check {
            return;
        }
        self.member().record_latency(latency);
        if let Some(ratio) = self.pool.options().circuit.latency_ratio
            && self.member().count_latency()
        {
            self.eject_if_slow(ratio, now);
        }
    }

    /// Compares the member with the others that are up: so the last one is never ejected.
    fn eject_if_slow(&self, ratio: u32, now: Instant) {
        let member = self.member();
        let Some(latency) = member.known_latency() else { return };
        let members = self.pool.workers[self.worker].chooser().members();
        let is_other = |other: &&Arc<Member<A>>| {
            other.id() != member.id() && other.accepts_requests() && !other.is_ejected() && other.is_up(now)
        };
        let others = members.iter().filter(is_other).filter_map(|other| other.known_latency());
        if let Some(median) = slowness::too_slow(latency, ratio, &mut others.collect::<Vec<_>>())
            && member.eject_slow(now)
        {
            let why =
                format_args!("its responses take {latency:?} on average, and those of the others {median:?}");
            self.pool.report(member, Change::Ejected { why: &why });
        }
    }

    /// Records that the member has served the request. This ends an ejection if the request began during it.
    pub fn record_success(&self, now: Instant) {
        let is_trial = self.purpose == Purpose::Trial;
        if self.purpose != Purpose::Check && self.member().record_success(is_trial, now) {
            self.pool.serve_waiters();
            self.pool.report(self.member(), Change::Returned);
        }
    }

    /// Ends the request and returns the connection to the pool. The oldest waiter that it suits gets it. Without one it becomes idle,
    /// or is closed if its member accepts no more requests, or the pool was [renewed](Pool::renew) after it was opened.
    pub fn release(mut self, connection: C, now: Instant) {
        self.mark_accepted();
        if let Some(member) = self.member.take() {
            let generation = self.generation;
            self.pool.release(self.worker, IdleConnection { member, connection, since: now, generation });
        }
    }
}

impl<A, C> Drop for Permit<A, C> {
    fn drop(&mut self) {
        if self.member.is_some() {
            self.mark_accepted();
        }
        if let Some(member) = self.member.take() {
            if self.is_tunnel {
                member.remove_tunnel();
            }
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
