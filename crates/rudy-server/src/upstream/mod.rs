//! Connections to upstreams, whatever protocol is spoken on them.
//!
//! 1. [`UpstreamAddress`]: where an upstream listens, as the configuration has it. [`Endpoint`]: where a member listens.
//! 2. [`name`]: the addresses of a name, which are alternatives of one member.
//! 3. [`Upstream`]: its pool. `rudy-upstream` decides which connection a request gets; here they expire.
//! 4. [`checkout`]: a request waits for its turn, a connection is opened, or moves to the runtime of the request's worker.
//! 5. [`Socket`]: a connection, watched by the runtime of the worker that uses it.

mod address;
mod checkout;
mod endpoint;
mod error;
mod name;
mod socket;
mod worker;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rudy_upstream::{OnEnd, Options, Pool};
use tokio::task::JoinSet;

use crate::error_log::ErrorLog;

pub use self::address::UpstreamAddress;
pub(crate) use self::checkout::{Checkout, Wanted};
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::error::CheckoutError;
use self::name::Name;
pub(crate) use self::name::unresolved;
pub(crate) use self::socket::{Socket, watched};

/// What is spoken on a connection.
pub(crate) trait Connection: Send + Sized + 'static {
    /// A connection that was just opened.
    fn new(socket: Socket) -> Self;

    /// Its socket.
    fn socket(&mut self) -> &mut Socket;
}

/// The bounds of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamOptions {
    /// Requests that wait for a connection.
    pub(crate) queue: usize,
    /// How long a request waits for a connection.
    pub(crate) queue_timeout: Duration,
    /// How long opening a connection may take.
    pub(crate) connect_timeout: Duration,
    /// How long a connection is kept without a request.
    pub(crate) idle_timeout: Duration,
    /// Requests after which a member gets no more.
    pub(crate) requests_per_member: Option<u64>,
}

/// An upstream: its members and the connections to them.
pub(crate) struct Upstream<C> {
    pool: Arc<Pool<Endpoint, C>>,
    options: UpstreamOptions,
    /// A task closes connections that were kept for too long.
    has_sweeper: AtomicBool,
    /// A task for each name. They end with the upstream.
    lookups: OnceLock<JoinSet<()>>,
}

impl<C: Connection> Upstream<C> {
    /// An upstream without members. `on_end` is called when a request at a member is over.
    pub(crate) fn new(options: UpstreamOptions, on_end: Option<OnEnd<Endpoint>>) -> Self {
        let pool = Options {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue: options.queue,
            requests_per_member: options.requests_per_member,
        };
        let (pool, has_sweeper) = (Pool::new(pool, on_end), AtomicBool::new(false));
        Self { pool, options, has_sweeper, lookups: OnceLock::new() }
    }

    /// The pool, to change its members.
    pub(crate) fn pool(&self) -> &Arc<Pool<Endpoint, C>> {
        &self.pool
    }

    /// Looks up the names among its members, from now on and as long as it is there. A name that does not resolve is logged to `log`.
    ///
    /// # Errors
    ///
    /// The system has no room for the threads.
    pub(crate) fn look_up_names(self: &Arc<Self>, log: &ErrorLog) -> io::Result<()> {
        let mut lookups = JoinSet::new();
        for member in self.pool.members() {
            if let Endpoint::Name(name) = member.address() {
                let task = keep_looked_up(Arc::downgrade(self), name.clone(), log.clone());
                lookups.spawn_on(task, &name::runtime()?);
            }
        }
        self.lookups.get_or_init(|| lookups);
        Ok(())
    }
}

/// Closes connections that were kept without a request for `keep`, as long as there are any.
async fn sweep<C: Connection>(weak: Weak<Upstream<C>>, keep: Duration) {
    loop {
        let Some(upstream) = weak.upgrade() else { return };
        let now = Instant::now();
        let next = upstream.pool.expire(keep, now);
        if next.is_none() && upstream.pool.open() == 0 {
            upstream.has_sweeper.store(false, Ordering::SeqCst);
            // One that was opened meanwhile has found a sweeper.
            if upstream.pool.open() == 0 || upstream.has_sweeper.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        drop(upstream);
        tokio::time::sleep_until(next.unwrap_or(now + keep).into()).await;
    }
}

/// Looks a name up again and again, and closes the idle connections to addresses that it no longer has. One that was released
/// at the same time may stay until the next answer.
async fn keep_looked_up<C: Connection>(weak: Weak<Upstream<C>>, name: Arc<Name>, log: ErrorLog) {
    loop {
        name.look_up(&log).await;
        let Some(upstream) = weak.upgrade() else { return };
        upstream
            .pool
            .close_idle_where(|member, connection| !member.address().keeps(connection.socket().address()));
        drop(upstream);
        name.next_lookup().await;
    }
}

impl<C> fmt::Debug for Upstream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("pool", &self.pool)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
