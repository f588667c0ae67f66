//! The driver: moves bytes between a transport and the protocol machine, and requests between the machine and a service.
//!
//! A connection is a future with one [`State`]. While it waits for a request it is small and has no buffer. Most requests are
//! read, answered and written in one poll of it ([`head`]); what has to wait for a service, a file or a slow client goes on in a
//! boxed [`Exchange`], whose [`pump`] does not know the protocol.

mod exchange;
mod framing;
mod head;
mod input;
mod linger;
mod machine;
mod output;
mod poll_context;
mod proxy_header;
mod pump;
mod record;
#[cfg(test)]
mod tests;
mod upgrade;
mod upload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::StatusCode;
use rudy_http::h1::SuspendedConnection;

pub use self::upgrade::{Upgrade, Upgraded, UpgradedIo};

use self::exchange::{Exchange, Handler};
use self::linger::Linger;
use self::machine::Machine;
use self::poll_context::PollContext;
pub(crate) use self::proxy_header::Count;
use self::proxy_header::ProxyHeader;
use self::upgrade::Tunnel;
use crate::close::{CloseMode, close_at_once};
use crate::engine::{AddressKey, ServiceSource};
use crate::local_address::{LocalAddress, LocalAddressCache};
use crate::scratch::Scratch;
use crate::timers::Timer;
use crate::transport::Stream;
use crate::{Client, Limits, Peer, Response, Service, Worker};

/// Serves one connection from its first byte to its close, given its peer and its number. Dropped before it ends, it closes without
/// waiting.
pub(crate) fn serve<S: ServiceSource>(
    io: Stream,
    (peer, number): (Peer, u64),
    context: Arc<ConnectionContext<S>>,
) -> Serve<S> {
    let service = context.source.current();
    let (limits, is_trusted) = (service.limits().clone(), service.is_trusted_proxy(&peer));
    drop(service);
    // The connections of a proxy are those of many clients.
    let is_counted = !is_trusted && !context.proxy_protocol;
    let group = if is_counted { AddressKey::from(&peer) } else { AddressKey::unique(number) };
    let timer = context.worker.timers.timer(Some(group));
    let header = context.proxy_protocol.then(|| Box::new(ProxyHeader::new(is_trusted)));
    let state = header.map_or(State::Handshake, State::ProxyHeader);
    let suspended = SuspendedConnection::new(Instant::now());
    let info =
        Box::new(ConnectionInfo { peer, local_address: LocalAddressCache::new(), number, limits, suspended });
    let connection = Connection { io, machine: Machine::default(), context, timer, info };
    Serve { connection: Some(connection), state }
}

/// What the connections that one worker has from one listener share.
pub(crate) struct ConnectionContext<S> {
    /// Whose counters and timers are theirs.
    pub(crate) worker: Arc<Worker>,
    /// What answers them.
    pub(crate) source: Arc<S>,
    /// What has become of the listener.
    pub(crate) listener: Arc<ListenerState>,
    /// Whether each begins with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
}

/// What has become of a listener, for its connections. Each is set once.
#[derive(Debug, Default)]
pub(crate) struct ListenerState {
    /// Another process accepts from it: each connection ends with its next response. An idle one stays, because its next request
    /// may be on its way.
    pub(crate) is_handed_over: AtomicBool,
    /// It is closed: each connection ends with its next response, an idle one at once.
    pub(crate) is_closed: AtomicBool,
}

impl<S> ConnectionContext<S> {
    /// Whether a connection ends with the response in progress.
    fn ends_connections(&self) -> bool {
        self.ends_idle_connections() || self.listener.is_handed_over.load(Ordering::Acquire)
    }

    /// Whether a connection that has had a response ends when it is idle.
    fn ends_idle_connections(&self) -> bool {
        self.worker.is_stopping() || self.listener.is_closed.load(Ordering::Acquire)
    }
}

/// A connection being served. Not an `async fn`: its future would keep room for its arguments beside what they have
/// become, 144 bytes more, and idle connections are what memory goes to.
pub(crate) struct Serve<S: ServiceSource> {
    /// Taken when the connection comes to its end.
    connection: Option<Connection<S>>,
    state: State,
}

/// What a connection is at. What it needs for longer than the wait for a request is boxed: 16 bytes for the enum.
enum State {
    /// What a proxy says of the connection, where it has to.
    ProxyHeader(Box<ProxyHeader>),
    /// What comes before the first byte of the protocol.
    Handshake,
    /// Waits for the head of a request, and answers what needs no waiting.
    Head,
    /// The service is at work.
    Handler(Box<Handler>),
    /// The response is on its way.
    Body(Box<Exchange>),
    /// To be closed in this way.
    Close(CloseMode),
    /// Being closed.
    Linger(Box<Linger>),
    /// To go on in another protocol.
    Upgrade(Box<Upgrade>),
    /// In another protocol.
    Tunnel(Box<Tunnel>),
}

impl<S: ServiceSource> Future for Serve<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_counted(cx, &mut |_, _| true)
    }
}

impl<S: ServiceSource> Serve<S> {
    /// Polls it; `count` is called when a PROXY protocol header has named the peer.
    pub(crate) fn poll_counted(&mut self, cx: &mut Context<'_>, count: &mut Count<'_>) -> Poll<()> {
        loop {
            self.state = match (&mut self.state, &mut self.connection) {
                (State::Linger(linger), _) => return linger.poll(cx),
                (State::Tunnel(tunnel), _) => ready!(tunnel.poll(cx)),
                (_, None) => return Poll::Ready(()),
                (State::ProxyHeader(header), Some(connection)) => {
                    ready!(connection.poll_proxy_header(header, cx, count))
                }
                (State::Handshake, Some(connection)) => ready!(connection.poll_handshake(cx)),
                (State::Head, Some(connection)) => ready!(connection.poll_head(cx)),
                (State::Handler(handler), Some(connection)) => ready!(handler.poll(connection, cx)),
                (State::Body(exchange), Some(connection)) => ready!(exchange.poll(connection, cx)),
                (state @ (State::Close(_) | State::Upgrade(_)), connection) => {
                    let state = std::mem::replace(state, State::Head);
                    let Some(connection) = connection.take() else { return Poll::Ready(()) };
                    connection.into_final_state(state)
                }
            };
        }
    }
}

impl<S: ServiceSource> Drop for Serve<S> {
    /// Dropped in the middle: the server is being stopped, or there is a bug in us. A close in progress sees to itself.
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let in_exchange = matches!(self.state, State::Handler(_) | State::Body(_));
            close_at_once(connection.io, if in_exchange { CloseMode::Reset } else { CloseMode::NoLinger });
        }
    }
}

struct Connection<S> {
    io: Stream,
    machine: Machine,
    context: Arc<ConnectionContext<S>>,
    timer: Timer,
    info: Box<ConnectionInfo>,
}

/// What is known of a connection. Boxed, so that the connection's task fits two of its 128-byte cache lines: the box fits what
/// the allocator leaves behind the task.
struct ConnectionInfo {
    peer: Peer,
    local_address: LocalAddressCache,
    number: u64,
    /// Those of the service that was looked up last. The service itself is not held: it would be kept as long as a stream lasts,
    /// with its file caches and descriptors.
    limits: Arc<Limits>,
    /// Where the machine goes on.
    suspended: SuspendedConnection,
}

impl<S: ServiceSource> Connection<S> {
    /// Ready when the transport may carry the protocol, or cannot in time: as long as for the first request.
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<State> {
        match self.io.poll_handshake(cx) {
            Poll::Ready(Ok(())) => return Poll::Ready(State::Head),
            // What it has sent to say why arrives before the end.
            Poll::Ready(Err(_)) => return Poll::Ready(State::Close(CloseMode::Linger)),
            Poll::Pending => {}
        }
        let now = Instant::now();
        let deadline = self.info.suspended.deadline(&self.info.limits.http);
        if self.context.worker.is_stopping() || deadline.is_some_and(|deadline| deadline <= now) {
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        if self.timer.set_idle(deadline, cx.waker()) {
            // Another connection has its place.
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        }
        Poll::Pending
    }

    /// Restores the machine.
    fn resume(&mut self, scratch: &mut Scratch) {
        self.machine.resume(self.info.suspended, scratch);
    }

    /// Gives the machine's memory back while the connection waits, if its state is small.
    fn suspend(&mut self, scratch: &mut Scratch) {
        if let Some(suspended) = self.machine.suspend(scratch) {
            self.info.suspended = suspended;
        }
    }

    /// The last state, which consumes the connection.
    fn into_final_state(self, state: State) -> State {
        let Self { io, machine, context, timer, info } = self;
        let limits = info.limits;
        match state {
            State::Upgrade(upgrade) => {
                let unread = machine.into_inner().map(|machine| machine.into_unread()).unwrap_or_default();
                State::Tunnel(Box::new(Tunnel::new(
                    *upgrade,
                    (io, unread),
                    context.worker.clone(),
                    limits,
                    timer,
                )))
            }
            // What the machine still held of the peer's bytes is not kept while the close waits for its last ones.
            State::Close(mode) => State::Linger(Box::new(Linger::new(io, mode, &limits, timer))),
            other => other,
        }
    }

    /// Waits until something wakes the connection, or its turn is due.
    fn wait<R>(&self, poll_cx: &PollContext<'_, '_>) -> Poll<R> {
        self.timer.set(poll_cx.due, poll_cx.cx.waker());
        Poll::Pending
    }

    /// The client, for the service. It is made when it is needed, so the machine's count is not kept twice.
    fn client(&self) -> Client<'_> {
        let ConnectionInfo { peer, local_address, number, .. } = &*self.info;
        let local_address = match peer {
            Peer::Ip(_) | Peer::Unnamed(_) => LocalAddress::of_socket(self.io.as_fd(), local_address),
            Peer::Unix => LocalAddress::known(None),
        };
        let (tls, request_number) = (self.io.tls().cloned(), self.machine.requests());
        Client {
            peer: *peer,
            forwarded: None,
            local_address,
            tls,
            connection_number: *number,
            request_number,
        }
    }

    /// The service of now. Its limits hold from here on.
    fn load_service(&mut self) -> S::Current {
        let service = self.context.source.current();
        if !Arc::ptr_eq(&self.info.limits, service.limits()) {
            self.info.limits = service.limits().clone();
        }
        service
    }

    /// Calls the service. `None` if it panics, which ends only this connection.
    fn call<T>(&self, service: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(service));
        result.map_err(|_| self.context.worker.counters.panics.add(1)).ok()
    }

    /// The response in place of one that cannot be given. What led to it is not trusted any further.
    fn internal_error(&mut self) -> Response {
        self.machine.close_after_response();
        Response::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "500 Internal Server Error: a bug in the server; it has been logged\n",
        )
    }
}
