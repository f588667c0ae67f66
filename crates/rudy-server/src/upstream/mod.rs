//! Connections to upstreams, whatever protocol is spoken on them.
//!
//! 1. [`UpstreamAddress`]: where an upstream listens.
//! 2. [`Upstream`]: its pool. `rudy-upstream` decides which connection a request gets; here connections are opened, wait for
//!    their turn, move between the workers' runtimes and expire.
//! 3. [`Socket`]: a connection, watched by the runtime of the worker that uses it.

mod address;
mod socket;
mod worker;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rudy_net::{Deadline, poll_time};
use rudy_upstream::{Grant, Member, OnEnd, Options, Permit, Pool, Waiting};
use tokio::time::timeout;

pub use self::address::UpstreamAddress;
pub(crate) use self::socket::Socket;

/// How long other members are preferred to one that could not be connected to.
const BACK_OFF: Duration = Duration::from_secs(1);

/// How long a new connection may be without a byte of a response before the upstream counts as not accepting it. A shorter time
/// would close kept connections behind slow responses, a longer one keep requests in the accept backlog.
const STARVED: Duration = Duration::from_millis(20);

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
    pub(crate) keep_timeout: Duration,
    /// Requests after which a member gets no more.
    pub(crate) requests_per_member: Option<u64>,
}

/// Which connection a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any: the request is repeated on a new one if it turns out to be dead.
    Any,
    /// One that the upstream has not closed, as far as the kernel knows: the request cannot be repeated.
    Alive,
    /// A new one.
    New,
}

/// Why a request got no connection.
#[derive(Debug)]
pub(crate) enum CheckoutError {
    /// As many requests wait as [`UpstreamOptions::queue`] allows.
    QueueFull(usize),
    /// No connection became free within [`UpstreamOptions::queue_timeout`].
    QueueTimeout(Duration),
    /// Waiting requests were sent away.
    Rejected,
    /// The upstream accepts no connection.
    Connect(UpstreamAddress, io::Error),
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull(queue) => write!(f, "{queue} requests wait for a connection already (`queue`)"),
            Self::QueueTimeout(time) => write!(f, "no connection became free within {time:?} (`queue_time`)"),
            Self::Rejected => f.write_str("there is no process, and none can be started"),
            Self::Connect(address, error) => {
                write!(f, "cannot connect to {address}: {error}; does the app run?")
            }
        }
    }
}

/// An upstream: its members and the connections to them.
pub(crate) struct Upstream<C> {
    pool: Arc<Pool<UpstreamAddress, C>>,
    options: UpstreamOptions,
    /// A task closes connections that were kept for too long.
    has_sweeper: AtomicBool,
}

/// A connection for one request. Dropped, it is closed.
pub(crate) struct Checkout<C> {
    // Before the permit: the room of a connection is free when it is closed.
    connection: C,
    permit: Permit<UpstreamAddress, C>,
    state: State,
}

/// What is known of a connection.
#[derive(Debug)]
enum State {
    /// It has been used before.
    Kept,
    /// It is new, and nothing has come on it.
    New {
        /// When the upstream counts as not accepting it.
        starved: Deadline,
    },
    /// The upstream has accepted it.
    Accepted,
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

    /// A connection, kept or new, as soon as there is one. `on_wait` is called before the request waits in the queue.
    ///
    /// # Errors
    ///
    /// There is none in time, or what `on_wait` returns.
    pub(crate) async fn checkout<E: From<CheckoutError>>(
        self: &Arc<Self>,
        wanted: Wanted,
        on_wait: impl Fn() -> Result<(), E>,
    ) -> Result<Checkout<C>, E> {
        let mut attempts = 0;
        loop {
            let Grant { connection, permit } = self.grant(wanted, &on_wait).await?;
            if let Some(mut connection) = connection {
                if connection.socket().is_usable(wanted == Wanted::Alive) {
                    return Ok(Checkout { connection, permit, state: State::Kept });
                }
                // The upstream has closed it meanwhile; dropped, it makes room for another.
                continue;
            }
            match Box::pin(self.connect(permit.member())).await {
                Ok(socket) => return Ok(self.connected(socket, permit)),
                Err(error) => {
                    permit.member().back_off(Instant::now() + BACK_OFF);
                    attempts += 1;
                    // One member after the other.
                    if attempts >= self.pool.members() {
                        let address = permit.member().address().clone();
                        return Err(CheckoutError::Connect(address, error).into());
                    }
                }
            }
        }
    }

    async fn grant<E: From<CheckoutError>>(
        &self,
        wanted: Wanted,
        on_wait: impl Fn() -> Result<(), E>,
    ) -> Result<Grant<UpstreamAddress, C>, E> {
        let wanted =
            if wanted == Wanted::New { rudy_upstream::Wanted::New } else { rudy_upstream::Wanted::Any };
        let checkout = self.pool.checkout(worker::here(), wanted, poll_time());
        match checkout.map_err(|_| CheckoutError::QueueFull(self.options.queue))? {
            rudy_upstream::Checkout::Granted(grant) => Ok(grant),
            rudy_upstream::Checkout::Waiting(waiting) => {
                on_wait()?;
                Ok(self.wait(waiting).await?)
            }
        }
    }

    async fn wait(
        &self,
        mut waiting: Waiting<UpstreamAddress, C>,
    ) -> Result<Grant<UpstreamAddress, C>, CheckoutError> {
        let time = self.options.queue_timeout;
        let mut deadline = Deadline::at(poll_time() + time);
        poll_fn(|cx| match waiting.poll(cx) {
            Poll::Ready(grant) => Poll::Ready(grant.map_err(|_| CheckoutError::Rejected)),
            Poll::Pending => deadline.poll_passed(cx).map(|()| Err(CheckoutError::QueueTimeout(time))),
        })
        .await
    }

    async fn connect(&self, member: &Member<UpstreamAddress>) -> io::Result<Socket> {
        let time = self.options.connect_timeout;
        timeout(time, Socket::connect(member.address())).await.unwrap_or_else(|_| {
            let why = format!("it accepts no connection within {time:?} (`connect_time`)");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    fn connected(self: &Arc<Self>, socket: Socket, permit: Permit<UpstreamAddress, C>) -> Checkout<C> {
        if !self.has_sweeper.swap(true, Ordering::SeqCst) {
            tokio::spawn(sweep(Arc::downgrade(self), self.options.keep_timeout));
        }
        let starved = Deadline::at(Instant::now() + STARVED);
        Checkout { connection: C::new(socket), permit, state: State::New { starved } }
    }
}

/// Closes connections that were kept without a request for `keep`, as long as there are any.
async fn sweep<C: Connection>(upstream: Weak<Upstream<C>>, keep: Duration) {
    loop {
        let Some(held) = upstream.upgrade() else { return };
        let now = Instant::now();
        let next = held.pool.expire(keep, now);
        if next.is_none() && held.pool.open() == 0 {
            held.has_sweeper.store(false, Ordering::SeqCst);
            // One that was opened meanwhile has found a sweeper.
            if held.pool.open() == 0 || held.has_sweeper.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        drop(held);
        tokio::time::sleep_until(next.unwrap_or(now + keep).into()).await;
    }
}

impl<C: Connection> Checkout<C> {
    /// The connection.
    pub(crate) fn connection(&mut self) -> &mut C {
        &mut self.connection
    }

    /// The member that it leads to.
    pub(crate) fn member(&self) -> &Member<UpstreamAddress> {
        self.permit.member()
    }

    /// Whether it has been used before.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.state, State::Kept)
    }

    /// Something has come: the upstream has accepted it.
    pub(crate) fn mark_accepted(&mut self) {
        if matches!(self.state, State::New { .. }) {
            self.state = State::Accepted;
            self.permit.mark_accepted();
        }
    }

    /// A request was sent and nothing has come: closes kept connections that may keep the upstream from accepting this one.
    pub(crate) fn poll_starved(&mut self, cx: &mut Context<'_>) {
        if let State::New { starved } = &mut self.state
            && starved.poll_passed(cx).is_ready()
        {
            // It stays in this state, and asks for no further poll.
            starved.set(Instant::now() + Duration::from_hours(24));
            self.permit.mark_starved();
        }
    }

    /// The request is over, and the connection takes the next one.
    pub(crate) fn release(self) {
        let Self { mut connection, permit, .. } = self;
        connection.socket().rest();
        permit.release(connection, poll_time());
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
