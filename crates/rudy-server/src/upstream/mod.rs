//! Connections to upstreams, whatever protocol is spoken on them.
//!
//! 1. [`UpstreamAddress`]: where an upstream listens.
//! 2. [`Upstream`]: its pool. `rudy-upstream` decides which connection a request gets; here they expire.
//! 3. [`checkout`]: a request waits for its turn, a connection is opened, or moves to the runtime of the request's worker.
//! 4. [`Socket`]: a connection, watched by the runtime of the worker that uses it.

mod address;
mod checkout;
mod error;
mod socket;
mod worker;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rudy_upstream::{OnEnd, Options, Pool};

pub use self::address::UpstreamAddress;
pub(crate) use self::checkout::{Checkout, Wanted};
pub(crate) use self::error::CheckoutError;
pub(crate) use self::socket::Socket;

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
    pool: Arc<Pool<UpstreamAddress, C>>,
    options: UpstreamOptions,
    /// A task closes connections that were kept for too long.
    has_sweeper: AtomicBool,
}

impl<C: Connection> Upstream<C> {
    /// An upstream without members. `on_end` is called when a request at a member is over.
    pub(crate) fn new(options: UpstreamOptions, on_end: Option<OnEnd<UpstreamAddress>>) -> Self {
        let pool = Options {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            queue: options.queue,
            requests_per_member: options.requests_per_member,
        };
        Self { pool: Pool::new(pool, on_end), options, has_sweeper: AtomicBool::new(false) }
    }

    /// The pool, to change its members.
    pub(crate) fn pool(&self) -> &Arc<Pool<UpstreamAddress, C>> {
        &self.pool
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

impl<C> fmt::Debug for Upstream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("pool", &self.pool)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
