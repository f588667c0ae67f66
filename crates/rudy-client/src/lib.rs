//! Connections to upstreams, for any protocol.
//!
//! 1. [`UpstreamAddress`] is an address in the configuration; [`Endpoint`] is the address of a member.
//! 2. [`name`] resolves host names with a [`Resolver`]. The addresses of a name are alternatives of one member.
//! 3. [`Upstream`] has the pool. `rudy-upstream` decides which connection a request gets; this crate closes
//!    connections that were idle too long.
//! 4. [`checkout`] waits for a connection, has one opened ([`dial`]), or moves one to the runtime of the request's worker.
//! 5. [`Socket`] is a connection that the runtime of the current worker polls.
//! 6. An [`Exchange`] sends a request with its [`Upload`] and receives the response, of which a [`body`] is read ahead. Its [`Protocol`]
//!    reads and writes. [`RequestInfo`] describes both in the log. [`attempts`] sends a request again if that may help.
//! 7. If there is no response, [`Failure`] determines the status and the log line.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod address;
mod attempts;
pub mod buffer;
mod checkout;
mod dial;
mod endpoint;
pub mod error;
mod exchange;
mod failure;
mod instructions;
mod kernel_socket;
mod name;
#[cfg(test)]
mod plain;
mod read;
mod read_ahead;
mod request_info;
mod resolver;
mod response;
pub mod retries;
mod sending;
mod socket;
mod tls;
mod upload;
mod worker;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use rudy_log::ErrorLog;
use rudy_runtime::clock;
use rudy_service::Piped;
use rudy_tls::ClientTls;
use rudy_upstream::{Choice, CircuitOptions, OnEnd, Options, Pool};
use tokio::task::JoinSet;

pub use self::address::UpstreamAddress;
pub use self::attempts::{Outgoing, Start};
pub use self::checkout::{Checkout, Selection, Wanted};
pub use self::dial::Dial;
pub use self::endpoint::Endpoint;
pub use self::error::{CheckoutError, Description};
pub use self::exchange::{Exchange, Protocol, Received, Timeouts};
pub use self::failure::{Attempt, Cause, Failure, Phase, ProtocolCause, with_proxy_status};
pub use self::instructions::follow;
pub use self::name::Name;
pub use self::name::{background_runtime, list_addresses, look_up_all, unresolved_line};
pub use self::read::{READ_BYTES, poll_decode, with_buffer};
pub use self::request_info::RequestInfo;
pub use self::resolver::NameServer;
pub use self::resolver::{Answer, Resolver, Target};
pub use self::response::{HeadOnlyBody, body, has_no_body, is_of_events};
use self::retries::RetryBudget;
pub use self::sending::{BodyCoding, SendError, Sending};
pub use self::socket::{Socket, register};
pub use self::upload::{Upload, UploadError, is_incremental, may_be_endless};
pub use self::worker::here;

/// What the pool has for each request: a connection, or a part of one.
pub trait Connection: Send + Sized + 'static {
    /// What the connections of an upstream share.
    type Shared: Send + Sync + 'static;

    /// Opens a connection for a request that got none from the pool.
    fn open<'a>(
        shared: &'a Self::Shared,
        dial: Dial<'a>,
    ) -> impl Future<Output = io::Result<Self>> + Send + 'a;

    /// Returns whether an idle connection can be used for another request of the current worker. With `check_kernel`, as far as the kernel
    /// knows.
    fn is_usable(&mut self, check_kernel: bool) -> bool;

    /// Returns the address of the other end, unless that is a Unix socket.
    fn address(&mut self) -> Option<SocketAddr>;

    /// Removes the waker of the last request.
    fn clear_waker(&mut self);

    /// Sends as many bytes as it accepts.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends what was written and is not sent yet.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends a body that is sent in [frames](BodyCoding::Frames).
    fn finish(&mut self, _trailers: Option<&HeaderMap>) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether a body can be sent. If not, what is received shows why.
    fn is_open(&self) -> bool {
        true
    }

    /// Returns whether it has served other requests, although it was opened for this one: it is a part of a connection that others share.
    fn has_served(&self) -> bool {
        false
    }

    /// Returns whether other requests use it at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the next piece of a body in a pipe: see [`BodyStream::take_piped`](rudy_service::BodyStream::take_piped).
    fn take_piped(&mut self, _max: u64) -> Option<Piped> {
        None
    }
}

/// A protocol that uses a socket for one request at a time.
pub trait SocketConnection: Send + Sized + 'static {
    /// Creates a connection on a socket that was just opened.
    fn new(socket: Socket) -> Self;

    /// Returns the socket.
    fn socket(&mut self) -> &mut Socket;
}

/// The bits of an id of a member that are its entry.
const ENTRY_BITS: u32 = 32;

/// Returns the entry of the configuration to which a member belongs: its index in the list of addresses. An entry with SRV records has
/// several members.
#[must_use]
pub fn entry_of(member: u64) -> usize {
    usize::try_from(member & ((1 << ENTRY_BITS) - 1)).unwrap_or(usize::MAX)
}

/// Returns the id of a member of an entry. The id of the only one is that of its entry: it has number 0.
#[must_use]
pub fn member_id(entry: u64, number: u64) -> u64 {
    number << ENTRY_BITS | entry
}

/// The limits and timeouts of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamOptions {
    /// The number of workers of the engine.
    pub workers: usize,
    /// The maximum number of requests that wait for a connection.
    pub queue: usize,
    /// How long a request waits for a connection.
    pub queue_timeout: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long an idle connection stays open.
    pub idle_timeout: Duration,
    /// The number of requests after which a member gets no more.
    pub requests_per_member: Option<u64>,
    /// How a member is chosen.
    pub choice: Choice,
    /// When a member is ejected.
    pub circuit: CircuitOptions,
}

/// An upstream: its members and the connections to them.
pub struct Upstream<C: Connection> {
    pool: Arc<Pool<Endpoint, C>>,
    options: UpstreamOptions,
    shared: C::Shared,
    retries: RetryBudget,
    /// What is needed for TLS with the members of each [entry](entry_of); nothing without TLS.
    tls: Vec<Option<ClientTls>>,
    /// Whether a task closes connections that were idle too long.
    has_sweeper: AtomicBool,
    /// The lookup tasks of the names. They end with the upstream.
    lookups: OnceLock<JoinSet<()>>,
}

impl<C: Connection> Upstream<C> {
    /// Creates an upstream without members. `on_end` is called at the end of each request to a member.
    pub fn new(options: UpstreamOptions, on_end: Option<OnEnd<Endpoint>>, shared: C::Shared) -> Self {
        let pool = Options {
            // The last one is for all threads that are no workers.
            workers: options.workers + 1,
            queue: options.queue,
            requests_per_member: options.requests_per_member,
            choice: options.choice,
            circuit: options.circuit,
        };
        Self {
            pool: Pool::new(pool, on_end),
            options,
            shared,
            retries: RetryBudget::default(),
            tls: Vec::new(),
            has_sweeper: AtomicBool::new(false),
            lookups: OnceLock::new(),
        }
    }

    /// Encrypts the connections to the members of each [entry](entry_of), from 0.
    #[must_use]
    pub fn with_tls(self, tls: Vec<Option<ClientTls>>) -> Self {
        Self { tls, ..self }
    }

    fn tls(&self, member: u64) -> Option<&ClientTls> {
        self.tls.get(entry_of(member))?.as_ref()
    }

    /// Returns what its connections share.
    pub fn shared(&self) -> &C::Shared {
        &self.shared
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool<Endpoint, C>> {
        &self.pool
    }

    /// Resolves the names of its members periodically, as long as the upstream exists. Names that do not
    /// resolve are logged to `log`.
    ///
    /// # Errors
    ///
    /// The system cannot create the threads.
    pub fn look_up_names(self: &Arc<Self>, log: &ErrorLog) -> io::Result<()> {
        let mut lookups = JoinSet::new();
        for member in self.pool.members() {
            if let Endpoint::Name(name) = member.address() {
                lookups.spawn_on(rudy_runtime::inside(self.follow(name, log)), &background_runtime()?);
            }
        }
        self.lookups.get_or_init(|| lookups);
        Ok(())
    }

    /// Returns the task that resolves a name of a member periodically.
    pub fn follow(
        self: &Arc<Self>,
        name: &Arc<Name>,
        log: &ErrorLog,
    ) -> impl Future<Output = ()> + Send + use<C> {
        look_up_periodically(Arc::downgrade(self), name.clone(), log.clone())
    }
}

/// Closes connections that were idle for `idle_timeout`, as long as there are connections.
async fn sweep<C: Connection>(weak: Weak<Upstream<C>>, idle_timeout: Duration) {
    loop {
        let Some(upstream) = weak.upgrade() else { return };
        let now = clock::now();
        let next = upstream.pool.expire(idle_timeout, now);
        if next.is_none() && upstream.pool.open() == 0 {
            upstream.has_sweeper.store(false, Ordering::SeqCst);
            // A connection may have been opened while the flag was still set.
            if upstream.pool.open() == 0 || upstream.has_sweeper.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        drop(upstream);
        tokio::time::sleep_until(next.unwrap_or(now + idle_timeout).into()).await;
    }
}

/// Resolves a name periodically, and closes the idle connections to addresses that it no longer has. A
/// connection that is released at the same time may stay until the next lookup.
async fn look_up_periodically<C: Connection>(weak: Weak<Upstream<C>>, name: Arc<Name>, log: ErrorLog) {
    loop {
        name.look_up(&log).await;
        let Some(upstream) = weak.upgrade() else { return };
        upstream
            .pool
            .close_idle_where(|member, connection| !member.address().still_has(connection.address()));
        drop(upstream);
        name.next_lookup().await;
    }
}

impl<C: Connection> fmt::Debug for Upstream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("pool", &self.pool)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
