//! The driver: moves bytes between a transport and the protocol state machine, and requests between the
//! machine and a service.
//!
//! A connection is a future with a [`State`]. While it waits for a request it is small and has no buffer. What a service sees of it is a
//! [`Connection`]. [`http1`] has one exchange at a time, [`http2`] many ([`streams`]). The [`pump`] of a body is independent of the
//! protocol.

mod connection;
mod frames;
mod framing;
mod http1;
mod http2;
mod http3;
mod linger;
mod output;
mod poll_context;
mod proxy_header;
mod pump;
mod quic;
mod record;
mod streams;
#[cfg(test)]
mod tests;
mod upgrade;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use rudy_runtime::clock;
use rudy_service::listen_address::Address;
use rudy_service::{Client, Peer, Response, Service, ServiceSource, Takeover, Upgrade};
use rudy_tls::{ClientHello, Protocol};

use self::connection::Connection;

use self::http1::{Exchange, Handler, Http1, Machine};
use self::http2::Http2;
use self::linger::Linger;
use self::poll_context::Budget;
pub(crate) use self::proxy_header::CountForAddress;
use self::proxy_header::ProxyHeader;
pub(crate) use self::quic::ServeQuic;
use self::record::{Record, report_answered};
pub use self::streams::http2_stored_bytes;
use self::upgrade::Tunnel;
use crate::Worker;
use crate::active::ActiveEntry;
use crate::close::CloseMode;
use crate::tls::{PlainHttp, TlsStream, Unfinished};
use crate::transport::Stream;
use crate::wire::{Wire, close_at_once};

/// Serves a connection with this peer and number from its first byte to its close. If the future is
/// dropped earlier, it closes the connection without waiting.
pub(crate) fn serve<S: ServiceSource>(
    io: Stream,
    (peer, number): (Peer, u64),
    context: Arc<ConnectionContext<S>>,
) -> Serve<S> {
    let io = if context.address.tls { TlsStream::new(io).into() } else { io };
    let is_trusted = context.source.current().is_trusted_proxy(&peer);
    let header = context.address.proxy_protocol.then(|| Box::new(ProxyHeader::new(is_trusted)));
    let state = header.map_or(State::Handshake(None), State::ProxyHeader);
    // The connections of a proxy belong to many clients.
    let is_of_many = is_trusted || context.address.proxy_protocol;
    let connection = Connection::new(io, (peer, number), is_of_many, context);
    Serve { http1: Some(Http1 { connection, machine: Machine::default() }), state }
}

/// The shared context of all connections of a worker from one listener.
pub(crate) struct ConnectionContext<S> {
    /// The worker, with counters and timers.
    pub(crate) worker: Arc<Worker>,
    /// The source of the service.
    pub(crate) source: Arc<S>,
    /// The state of the listener.
    pub(crate) listener: Arc<ListenerState>,
    /// The configured address of the listener, with its options.
    pub(crate) address: Arc<Address>,
}

/// The state of a listener, for its connections. Each flag is set once.
#[derive(Debug, Default)]
pub(crate) struct ListenerState {
    /// Another process accepts from the listener. Each connection closes after its next response. Idle ones
    /// stay open, because a request may be in transit.
    pub(crate) is_handed_over: AtomicBool,
    /// The listener is closed: each connection closes with its next response, idle ones at once.
    pub(crate) is_closed: AtomicBool,
}

/// A connection being served. Not an `async fn`: its future would also store its arguments, 144 bytes more,
/// and idle connections dominate the memory use.
pub(crate) struct Serve<S: ServiceSource> {
    /// `None` once the connection is closing.
    http1: Option<Http1<S>>,
    state: State,
}

/// The state of a connection. Large states are boxed, so that the enum has 16 bytes.
enum State {
    /// Waits for a PROXY protocol header, if the listener requires one.
    ProxyHeader(Box<ProxyHeader>),
    /// Waits for the handshake of a session such as TLS; a plain socket has none.
    Handshake(Option<Arc<Unfinished>>),
    /// Waits for a request head, and sends responses that need no waiting.
    Head,
    /// Waits for the service.
    Handler(Box<Handler>),
    /// Sends the response.
    Body(Box<Exchange>),
    /// Starts to close.
    Close(CloseMode),
    /// Waits for the close to finish.
    Linger(Box<Linger>),
    /// Switches to another protocol.
    Upgrade(Box<(Upgrade, Option<Arc<ActiveEntry>>)>),
    /// Speaks another protocol.
    Tunnel(Box<Tunnel>),
    /// Speaks HTTP/2.
    Http2(Box<Http2>),
}

impl<S: ServiceSource> Future for Serve<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_with_count(cx, &mut |_, _| true)
    }
}

impl<S: ServiceSource> Serve<S> {
    /// Polls the connection. Calls `count` with the address from a PROXY protocol header. All states of this poll share a budget.
    pub(crate) fn poll_with_count(
        &mut self,
        cx: &mut Context<'_>,
        count: &mut CountForAddress<'_>,
    ) -> Poll<()> {
        let budget = Budget::new(clock::now());
        loop {
            self.state = match (&mut self.state, &mut self.http1) {
                (State::Linger(linger), _) => return linger.poll(cx),
                (State::Tunnel(tunnel), _) => ready!(tunnel.poll(cx, &budget)),
                (_, None) => return Poll::Ready(()),
                (State::ProxyHeader(header), Some(http1)) => {
                    ready!(http1.connection.poll_proxy_header(header, cx, count))
                }
                (State::Handshake(handshake), Some(http1)) => {
                    ready!(http1.connection.poll_handshake(handshake, cx))
                }
                (State::Head, Some(http1)) => ready!(http1.poll_head(cx, &budget)),
                (State::Handler(handler), Some(http1)) => ready!(handler.poll(http1, cx, &budget)),
                (State::Body(exchange), Some(http1)) => ready!(exchange.poll(http1, cx, &budget)),
                (State::Http2(http2), Some(http1)) => {
                    ready!(http2.poll(&mut http1.connection, cx, &budget))
                }
                (state @ (State::Close(_) | State::Upgrade(_)), http1) => {
                    let state = std::mem::replace(state, State::Head);
                    let Some(http1) = http1.take() else { return Poll::Ready(()) };
                    http1.into_final_state(state)
                }
            };
        }
    }
}

impl<S: ServiceSource> Drop for Serve<S> {
    /// A connection dropped before its end means that the server is stopping, or a bug. A close in progress
    /// handles its own drop.
    fn drop(&mut self) {
        if let Some(http1) = self.http1.take() {
            let is_in_exchange = match &self.state {
                State::Handler(_) | State::Body(_) => true,
                State::Http2(http2) => !http2.is_idle(),
                _ => false,
            };
            close_at_once(
                http1.connection.io,
                if is_in_exchange { CloseMode::Reset } else { CloseMode::NoLinger },
            );
        }
    }
}

impl<S: ServiceSource> Connection<S> {
    /// Waits for the handshake of the transport. The timeout of the first request includes it.
    fn poll_handshake(
        &mut self,
        unfinished: &mut Option<Arc<Unfinished>>,
        cx: &mut Context<'_>,
    ) -> Poll<State> {
        if let Stream::Tcp(_) | Stream::Unix(_) = self.io {
            return Poll::Ready(self.take_over().unwrap_or(State::Head));
        }
        let handshakes = &self.context.worker.handshakes;
        let unfinished = unfinished.get_or_insert_with(|| handshakes.begin(self.info.limits.handshakes));
        let (ConnectionContext { source, address, .. }, cache) = (&*self.context, &self.info.local_address);
        let mut choose = |hello: &ClientHello, wire: &dyn Wire| {
            source.current().tls_site(hello, address, &wire.local_address(cache))
        };
        match handshakes.poll_step(unfinished, cx, |cx| self.io.poll_handshake(cx, &mut choose)) {
            Poll::Ready(Ok(())) if self.io.passed().is_some() => {
                // After a reload in between, there may be no upstream to pass it to.
                return Poll::Ready(self.take_over().unwrap_or(State::Close(CloseMode::NoLinger)));
            }
            Poll::Ready(Ok(())) => {
                let counters = &self.context.worker.counters;
                counters.handshakes.add(1);
                counters.resumed_handshakes.add(self.io.tls().is_some_and(|tls| tls.is_resumed).into());
                if let Some(taken) = self.take_over() {
                    return Poll::Ready(taken);
                }
                let is_http2 = self.io.tls().is_some_and(|tls| tls.protocol == Protocol::Http2);
                return Poll::Ready(if is_http2 { self.start_http2(&[]) } else { State::Head });
            }
            Poll::Ready(Err(error)) => {
                self.report_failed_handshake(&error);
                // Lingers, so that the alert arrives.
                return Poll::Ready(State::Close(CloseMode::Linger));
            }
            Poll::Pending => {}
        }
        let unfinished = unfinished.clone();
        let now = clock::now();
        let deadline = self.info.suspended.deadline(&self.info.limits.http);
        let failure = if self.context.worker.is_stopping() {
            return Poll::Ready(State::Close(CloseMode::NoLinger));
        } else if deadline.is_some_and(|deadline| deadline <= now) {
            io::Error::new(io::ErrorKind::TimedOut, "it was not completed in time")
        } else if self.timer.set_idle(deadline, cx.waker()) || unfinished.is_evicted(cx) {
            io::Error::new(io::ErrorKind::QuotaExceeded, "too many handshakes were not completed")
        } else {
            return Poll::Pending;
        };
        self.report_failed_handshake(&failure);
        Poll::Ready(State::Close(CloseMode::NoLinger))
    }

    /// Returns the state of a connection that does not speak HTTP.
    fn take_over(&mut self) -> Option<State> {
        let service = self.load_service();
        let server_name = self.io.passed().and_then(|passed| passed.server_name.as_deref());
        let taken = self.call(|| service.take_over(&self.client(0), server_name)).flatten();
        let Takeover { upgrade, observer } = taken?;
        if self.timer.begin_request() {
            // The connection has been evicted.
            return Some(State::Close(CloseMode::NoLinger));
        }
        let mut record = Record::new(Some(observer), clock::now());
        Some(State::Upgrade(Box::new((upgrade, record.become_tunnel(&self.context.worker, &self.timer)))))
    }

    fn report_failed_handshake(&mut self, error: &io::Error) {
        let service = self.load_service();
        self.context.worker.counters.failed_handshakes.add(1);
        match error.get_ref() {
            Some(error) if error.is::<PlainHttp>() => {
                self.context.worker.counters.rejected.add(1);
                let client = Client::new(self.info.peer, self.info.number, 0);
                report_answered(&*service, &client, PlainHttp::STATUS, &error.to_string());
            }
            // Errors of the network have no text of their own: a client that has left is nothing to report.
            Some(error) => service.handshake_failed(&self.info.peer, &error.to_string()),
            None => {}
        }
    }
}

/// Returns the response for an internal error.
fn internal_error() -> Response {
    Response::text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "text/plain; charset=utf-8",
        "500 Internal Server Error: a bug in the server; it has been logged\n",
    )
}
