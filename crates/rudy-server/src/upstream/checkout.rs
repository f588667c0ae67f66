//! How a request gets a connection, and what is known of that while the request has it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use super::error::CheckoutError;
use super::{Connection, Endpoint, Upstream, sweep, worker};
use rudy_net::{Deadline, poll_time};
use rudy_upstream::{Checkout as Requested, Permit, PooledConnection, QueuedCheckout};

/// How long other members are preferred to one that could not be connected to.
const BACK_OFF: Duration = Duration::from_secs(1);

/// How long a new connection may be without a byte of a response before the upstream counts as not accepting it. A shorter time
/// would close kept connections behind slow responses, a longer one keep requests in the accept backlog.
const UNACCEPTED_AFTER: Duration = Duration::from_millis(20);

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

/// A connection for one request. Dropped, it is closed.
pub(crate) struct Checkout<C> {
    // Before the permit: the room of a connection is free when it is closed.
    connection: C,
    permit: Permit<Endpoint, C>,
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
        unaccepted_after: Deadline,
    },
    /// The upstream has accepted it.
    Accepted,
}

/// How far a request has come on its way to a connection.
enum Step<C> {
    Begin,
    /// In the queue.
    Waiting {
        queued: QueuedCheckout<Endpoint, C>,
        deadline: Deadline,
        timeout: Duration,
    },
    /// A new connection is being opened.
    Connecting(Pin<Box<dyn Future<Output = Result<Checkout<C>, CheckoutError>> + Send>>),
}

impl<C> Step<C> {
    fn wait(queued: QueuedCheckout<Endpoint, C>, timeout: Duration) -> Self {
        Self::Waiting { queued, deadline: Deadline::at(poll_time() + timeout), timeout }
    }
}

impl<C: Connection> Upstream<C> {
    /// A connection, kept or new, as soon as there is one. `on_wait` is called before the request waits in the queue.
    ///
    /// # Errors
    ///
    /// There is none in time, or what `on_wait` returns.
    //
    // Not an `async fn`: its future has room for each value beside what the value becomes, 350 bytes more, and what waits
    // here may be a thousand requests.
    pub(crate) fn checkout<'a, E: From<CheckoutError>>(
        self: &'a Arc<Self>,
        wanted: Wanted,
        on_wait: impl Fn() -> Result<(), E> + 'a,
    ) -> impl Future<Output = Result<Checkout<C>, E>> + 'a {
        let mut step = Step::Begin;
        let mut failed_connects = 0;
        poll_fn(move |cx| {
            loop {
                let pooled = match &mut step {
                    Step::Begin => match self.request(wanted)? {
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
                    Step::Connecting(connect) => match ready!(connect.as_mut().poll(cx)) {
                        // One member after the other.
                        Err(_) if failed_connects + 1 < self.pool.member_count() => {
                            failed_connects += 1;
                            step = Step::Begin;
                            continue;
                        }
                        connected => return Poll::Ready(connected.map_err(Into::into)),
                    },
                };
                // One that the upstream has closed meanwhile leaves its room to a new one.
                step = match use_kept(pooled, wanted != Wanted::Any) {
                    Ok(checkout) => return Poll::Ready(Ok(checkout)),
                    Err(permit) => Step::Connecting(Box::pin(self.clone().connect(permit))),
                };
            }
        })
    }

    fn request(&self, wanted: Wanted) -> Result<Requested<Endpoint, C>, CheckoutError> {
        let wanted = if wanted == Wanted::New {
            rudy_upstream::Preference::New
        } else {
            rudy_upstream::Preference::Any
        };
        let checkout = self.pool.checkout(worker::here(), wanted, poll_time());
        checkout.map_err(|_| CheckoutError::QueueFull(self.options.queue))
    }

    async fn connect(self: Arc<Self>, permit: Permit<Endpoint, C>) -> Result<Checkout<C>, CheckoutError> {
        let endpoint = permit.member().address();
        let connected = endpoint.connect(self.options.connect_timeout).await;
        let socket = connected.map_err(|error| {
            permit.member().back_off(Instant::now() + BACK_OFF);
            CheckoutError::Connect(endpoint.clone(), error)
        })?;
        if !self.has_sweeper.swap(true, Ordering::SeqCst) {
            tokio::spawn(sweep(Arc::downgrade(&self), self.options.idle_timeout));
        }
        let unaccepted_after = Deadline::at(Instant::now() + UNACCEPTED_AFTER);
        Ok(Checkout { connection: C::new(socket), permit, state: State::New { unaccepted_after } })
    }
}

/// The reused connection of a checkout, or its permit, if there is none or the upstream has closed it.
fn use_kept<C: Connection>(
    pooled: PooledConnection<Endpoint, C>,
    sure: bool,
) -> Result<Checkout<C>, Permit<Endpoint, C>> {
    let PooledConnection { connection, permit } = pooled;
    let usable =
        connection.and_then(|mut connection| connection.socket().is_usable(sure).then_some(connection));
    match usable {
        Some(connection) => Ok(Checkout { connection, permit, state: State::Kept }),
        None => Err(permit),
    }
}

impl<C: Connection> Checkout<C> {
    /// The connection.
    pub(crate) fn connection(&mut self) -> &mut C {
        &mut self.connection
    }

    /// The address that it leads to: of a name, one of several.
    pub(crate) fn endpoint(&mut self) -> Endpoint {
        let address = self.connection.socket().address();
        address.map_or_else(|| self.permit.member().address().clone(), Endpoint::Ip)
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

    /// A request was sent, as far as there is room, and nothing has come: closes kept connections that may keep the upstream from
    /// accepting this one.
    pub(crate) fn poll_unaccepted(&mut self, cx: &mut Context<'_>) {
        if let State::New { unaccepted_after } = &mut self.state
            && unaccepted_after.poll_passed(cx).is_ready()
        {
            // It stays in this state, and asks for no further poll.
            unaccepted_after.set(Instant::now() + Duration::from_hours(24));
            self.permit.mark_unaccepted();
        }
    }

    /// The request is over, and the connection takes the next one, unless its address is no longer one of the name's.
    pub(crate) fn release(self) {
        let Self { mut connection, permit, .. } = self;
        if !permit.member().address().keeps(connection.socket().address()) {
            drop(connection);
            return;
        }
        connection.socket().rest();
        permit.release(connection, poll_time());
    }
}
