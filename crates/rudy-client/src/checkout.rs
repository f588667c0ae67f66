//! Checks out a connection for a request, and tracks its state during the request.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rudy_pipeline::exchange::note;
use rudy_runtime::{clock, is_planted, lose};
use rudy_service::{Deadline, Observer, poll_time};
use rudy_upstream::{
    Checkout as Requested, CheckoutOptions, Permit, PooledConnection, Preference, QueuedCheckout,
};

use super::error::CheckoutError;
use super::{Connection, Dial, Endpoint, Upstream, sweep, worker};

/// How long a new connection may be silent before the upstream counts as not accepting it. A shorter time
/// would close idle connections while responses are slow; a longer one would leave requests in the accept
/// backlog.
const UNACCEPTED_AFTER: Duration = Duration::from_millis(20);

/// The connection that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Any connection: the request is repeated on a new one if this one is closed.
    Any,
    /// A connection that is open as far as the kernel knows: the request cannot be repeated.
    Alive,
    /// A new connection.
    New,
}

/// What a request needs: which connection, and of which member.
#[derive(Debug)]
pub struct Selection {
    /// Which connection the request may have.
    pub wanted: Wanted,
    /// The hash that determines the member, if members are chosen by hash.
    pub key: Option<u64>,
    /// The id of the member that gets the request if it is up.
    pub preferred: Option<u64>,
    /// The members that have failed to serve the request. A checkout appends those that accept no connection.
    pub tried: Vec<u64>,
    /// Whether the connection must be a new one that requests do not share at the same time.
    pub is_exclusive: bool,
    /// What is sent first on a new connection, which then serves this request only.
    pub preamble: Option<Arc<[u8]>>,
}

/// A connection to any member.
impl From<Wanted> for Selection {
    fn from(wanted: Wanted) -> Self {
        let (key, preferred, tried) = (None, None, Vec::new());
        Self { wanted, key, preferred, tried, is_exclusive: false, preamble: None }
    }
}

impl Selection {
    /// Returns whether no connection of other requests can be used.
    fn needs_own(&self) -> bool {
        self.is_exclusive || self.preamble.is_some()
    }
}

/// A connection for one request. Dropping this closes it.
pub struct Checkout<C> {
    // Dropped before the permit: the connection is closed before its place is free.
    connection: C,
    permit: Permit<Endpoint, C>,
    state: State,
    /// Whether the connection serves this request only.
    is_private: bool,
}

/// The state of a connection.
#[derive(Debug)]
enum State {
    /// It was used before.
    Reused,
    /// It is new, and nothing was received on it.
    New {
        /// When the upstream counts as not accepting this connection.
        unaccepted_after: Deadline,
    },
    /// The upstream has accepted it.
    Accepted,
}

/// The progress of a checkout.
enum Step<C> {
    Begin,
    /// In the queue.
    Waiting {
        queued: QueuedCheckout<Endpoint, C>,
        deadline: Deadline,
        timeout: Duration,
    },
    /// A new connection to the member with this id is being opened.
    Connecting(u64, Pin<Box<dyn Future<Output = Result<Checkout<C>, CheckoutError>> + Send>>),
}

impl<C> Step<C> {
    fn wait(queued: QueuedCheckout<Endpoint, C>, timeout: Duration) -> Self {
        Self::Waiting { queued, deadline: Deadline::at(poll_time() + timeout), timeout }
    }
}

impl<C: Connection> Upstream<C> {
    /// Waits for a connection, idle or new, and notes the attempt. Calls `on_wait` before the request enters the queue.
    ///
    /// # Errors
    ///
    /// There is no connection in time, or `on_wait` returns an error.
    // Not an `async fn`: its future would be 350 bytes larger, and a thousand requests may wait here.
    pub fn checkout<'a, E: From<CheckoutError>>(
        self: &'a Arc<Self>,
        selection: &'a mut Selection,
        observer: Option<&'a Arc<dyn Observer>>,
        on_wait: impl Fn() -> Result<(), E> + 'a,
    ) -> impl Future<Output = Result<Checkout<C>, E>> + 'a {
        let mut step = Step::Begin;
        let mut failed_connects = 0;
        // The observer is an argument, so that the future stores it once.
        let mut poll = move |cx: &mut Context<'_>,
                             observer: Option<&Arc<dyn Observer>>|
              -> Poll<Result<Checkout<C>, E>> {
            loop {
                let pooled = match &mut step {
                    Step::Begin => match self.request(selection)? {
                        Requested::Ready(pooled) => pooled,
                        Requested::Queued(queued) => {
                            on_wait()?;
                            step = Step::wait(queued, self.options.queue_timeout);
                            continue;
                        }
                    },
                    Step::Waiting { queued, deadline, timeout } => match queued.poll(cx) {
                        Poll::Ready(pooled) => pooled.map_err(|_| CheckoutError::Rejected)?,
                        Poll::Pending => {
                            ready!(deadline.poll_passed(cx));
                            return Poll::Ready(Err(CheckoutError::QueueTimeout(*timeout).into()));
                        }
                    },
                    Step::Connecting(member, connect) => match ready!(connect.as_mut().poll(cx))
                        .inspect_err(|error| note_failure(observer, error))
                    {
                        // Try another member.
                        Err(_) if failed_connects + 1 < self.pool.member_count() => {
                            failed_connects += 1;
                            selection.tried.push(*member);
                            step = Step::Begin;
                            continue;
                        }
                        connected => return Poll::Ready(connected.map_err(Into::into)),
                    },
                };
                // If the upstream has closed the idle connection, a new one takes its place.
                step = match use_idle(pooled, selection) {
                    Ok(checkout) => return Poll::Ready(Ok(checkout)),
                    Err(permit) => {
                        let member = permit.member().id();
                        let (is_exclusive, preamble) = (selection.needs_own(), selection.preamble.clone());
                        Step::Connecting(
                            member,
                            Box::pin(self.clone().connect(permit, is_exclusive, preamble)),
                        )
                    }
                };
            }
        };
        let mut is_noted = false;
        poll_fn(move |cx| {
            let mut polled = poll(cx, observer);
            note_attempt(observer, &mut is_noted, &mut polled);
            polled
        })
    }

    fn request(&self, selection: &Selection) -> Result<Requested<Endpoint, C>, CheckoutError> {
        let is_new = selection.wanted == Wanted::New || selection.needs_own();
        let preference = if is_new { Preference::New } else { Preference::Any };
        let Selection { key, preferred, tried, .. } = selection;
        let options = CheckoutOptions { preference, key: *key, preferred: *preferred, tried };
        let checkout = self.pool.checkout(worker::here(), options, poll_time());
        checkout.map_err(|_| CheckoutError::QueueFull(self.options.queue))
    }

    /// Returns a permit to check a member: see [`Pool::permit_for_check`](rudy_upstream::Pool::permit_for_check).
    pub fn permit_for_check(&self, member: u64) -> Option<Permit<Endpoint, C>> {
        self.pool.permit_for_check(worker::here(), member)
    }

    /// Opens a connection, on which `preamble` is sent first.
    ///
    /// # Errors
    ///
    /// The member accepts none in time.
    pub async fn open(
        self: &Arc<Self>,
        permit: Permit<Endpoint, C>,
        preamble: Option<Arc<[u8]>>,
    ) -> Result<Checkout<C>, CheckoutError> {
        self.clone().connect(permit, preamble.is_some(), preamble).await
    }

    /// Replaces the connection of a checkout by a new one that serves this request alone.
    ///
    /// # Errors
    ///
    /// No connection can be opened.
    pub async fn reopen(
        self: &Arc<Self>,
        Checkout { connection, permit, .. }: Checkout<C>,
    ) -> Result<Checkout<C>, CheckoutError> {
        drop(connection);
        self.clone().connect(permit, true, None).await
    }

    async fn connect(
        self: Arc<Self>,
        permit: Permit<Endpoint, C>,
        is_exclusive: bool,
        preamble: Option<Arc<[u8]>>,
    ) -> Result<Checkout<C>, CheckoutError> {
        let (member, endpoint) = (permit.member().id(), permit.member().address());
        let (tls, preamble) = (self.tls(member), preamble.as_deref());
        let dial = Dial { member, endpoint, tls, options: &self.options, is_exclusive, preamble };
        let connection = C::open(&self.shared, dial).await.map_err(|error| {
            let failure = CheckoutError::Connect(endpoint.clone(), error);
            permit.record_failure(clock::now(), &failure);
            failure
        })?;
        if !self.has_sweeper.swap(true, Ordering::SeqCst) {
            rudy_runtime::spawn(sweep(Arc::downgrade(&self), self.options.idle_timeout));
        }
        let state = if connection.has_served() {
            State::Reused
        } else {
            State::New { unaccepted_after: Deadline::at(clock::now() + UNACCEPTED_AFTER) }
        };
        Ok(Checkout { connection, permit, state, is_private: preamble.is_some() })
    }
}

/// Notes at the first poll that a request wants a connection, and the address of the one that it gets. Usually it gets one at the first poll,
/// so the notes are locked once.
fn note_attempt<C: Connection, E>(
    observer: Option<&Arc<dyn Observer>>,
    is_noted: &mut bool,
    polled: &mut Poll<Result<Checkout<C>, E>>,
) {
    if *is_noted && polled.is_pending() {
        return;
    }
    note(observer, |notes| {
        if !*is_noted {
            notes.upstream_requested(poll_time());
        }
        if let Poll::Ready(Ok(checkout)) = polled {
            notes.upstream_connected(checkout.endpoint().into(), poll_time());
        }
    });
    *is_noted = true;
}

/// Notes the address that accepts no connection.
fn note_failure(observer: Option<&Arc<dyn Observer>>, error: &CheckoutError) {
    if let CheckoutError::Connect(endpoint, _) = error {
        note(observer, |notes| notes.upstream_failed(&endpoint.clone().into(), poll_time()));
    }
}

/// Uses the pooled connection if there is one and it is open; otherwise returns its permit.
fn use_idle<C: Connection>(
    pooled: PooledConnection<Endpoint, C>,
    selection: &Selection,
) -> Result<Checkout<C>, Permit<Endpoint, C>> {
    let PooledConnection { connection, permit } = pooled;
    let check_kernel = selection.wanted != Wanted::Any;
    let usable = connection
        .filter(|_| !selection.needs_own())
        .and_then(|mut connection| connection.is_usable(check_kernel).then_some(connection));
    match usable {
        Some(connection) => Ok(Checkout { connection, permit, state: State::Reused, is_private: false }),
        None => Err(permit),
    }
}

impl<C: Connection> Checkout<C> {
    /// Returns the connection.
    pub fn connection(&mut self) -> &mut C {
        &mut self.connection
    }

    /// Returns the address of the other end; of a name, that is one of several.
    pub fn endpoint(&mut self) -> Endpoint {
        let address = self.connection.address();
        address.map_or_else(|| self.permit.member().address().clone(), Endpoint::Ip)
    }

    /// Returns whether the connection was used before, and may have been closed since.
    pub fn is_reused(&self) -> bool {
        matches!(self.state, State::Reused)
    }

    /// Returns the id of the member.
    pub fn member(&self) -> u64 {
        self.permit.member().id()
    }

    /// Records that the upstream has accepted the connection.
    pub fn mark_accepted(&mut self) {
        if matches!(self.state, State::New { .. }) {
            self.state = State::Accepted;
            self.permit.mark_accepted();
        }
    }

    /// Records the time from the request to its response.
    pub fn record_latency(&self, latency: Duration) {
        self.permit.record_latency(latency, poll_time());
    }

    /// Records that the member serves the request.
    pub fn record_success(&self) {
        self.permit.record_success(poll_time());
    }

    /// Records that the member has failed to serve the request: see [`CircuitOptions`](rudy_upstream::CircuitOptions).
    pub fn record_failure(&self, why: &dyn Display) {
        self.permit.record_failure(clock::now(), why);
    }

    /// Closes idle connections if this new one is silent for too long after the request was sent: they may
    /// keep the upstream from accepting it.
    pub fn poll_unaccepted(&mut self, cx: &mut Context<'_>) {
        if let State::New { unaccepted_after } = &mut self.state
            && unaccepted_after.poll_passed(cx).is_ready()
        {
            // The state stays; no further poll is needed.
            unaccepted_after.set(clock::now() + Duration::from_hours(24));
            self.permit.mark_unaccepted();
        }
    }

    /// Counts the connection as a tunnel until it is dropped.
    pub fn begin_tunnel(&mut self) {
        self.permit.begin_tunnel();
    }

    /// Returns the connection to the pool for the next request, unless it is for this one only, or its address is no
    /// longer one of the name's.
    pub fn release(self) {
        let Self { mut connection, permit, is_private, .. } = self;
        if is_planted("a permit that is not given back") {
            return lose(permit);
        }
        if is_private || !permit.member().address().still_has(connection.address()) {
            drop(connection);
            return;
        }
        connection.clear_waker();
        permit.release(connection, poll_time());
    }
}
