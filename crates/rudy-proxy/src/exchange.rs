//! Requests to an upstream over HTTP, and their responses.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderValue, SEC_WEBSOCKET_ACCEPT};
use http::{HeaderName, StatusCode};
use rudy_client::{self, Checkout, Endpoint, Protocol, Received, RequestInfo, Start, Upload};
use rudy_http::h1::client::{Fault, ResponseEvent};
use rudy_message::client::RequestHead;
use rudy_runtime::clock;
use rudy_service::poll_time;

use super::connection::Connection;
use super::ejection::FailureStatuses;
use super::failure::{Attempt, Cause, Failure, HttpCause, Phase, is_upstream_failure};
use super::fields::ResponseFields;
use super::http1::Http1Connection;
use super::http2::Parts;
use super::received::{Head, pass_interim};
use super::sending;
use super::upgrade::Offer;
pub(super) use rudy_client::Timeouts;

/// A request in progress: see [`rudy_client::Exchange`].
pub(super) type Exchange = rudy_client::Exchange<Http>;

/// The state of an exchange over HTTP.
pub(super) struct Http {
    endpoint: Endpoint,
    start: Start,
    /// When the request was begun on this connection.
    begun: Instant,
    /// The tunnel that a successful response opens.
    tunnel: Option<Box<Tunnel>>,
    failure_statuses: FailureStatuses,
    /// The fields of a head whose end was not received yet.
    fields: ResponseFields,
    /// How long the upstream keeps the connection open without a request, if it says so.
    kept_for: Option<Duration>,
    interim: u32,
}

/// A connection that has changed to another protocol.
pub(super) struct Switched {
    pub(super) checkout: Checkout<Connection>,
    /// The bytes that follow the head of the response.
    pub(super) received: Bytes,
    /// Whether the upstream sends nothing more.
    pub(super) has_ended: bool,
}

/// A tunnel that was requested over HTTP/2, in words of HTTP/1.1.
struct Tunnel {
    protocol: HeaderValue,
    /// `Sec-WebSocket-Accept` for the client.
    accept: Option<HeaderValue>,
}

impl Http {
    /// Starts a request on a connection. What the socket does not accept at once is sent by later polls.
    ///
    /// # Errors
    ///
    /// The head cannot be encoded. Nothing was sent.
    pub(super) fn begin(
        mut checkout: Checkout<Connection>,
        head: &RequestHead<'_>,
        upload: Upload,
        offer: Option<&Offer>,
        timeouts: Timeouts,
        failure_statuses: FailureStatuses,
        start: Start,
    ) -> Result<Box<Exchange>, Cause> {
        // Servers of HTTP accept connections while they serve others.
        checkout.mark_accepted();
        let sending = match sending::begin(checkout.connection(), head, upload, offer) {
            Ok(sending) => sending,
            Err(cause) => {
                release_unused(checkout);
                return Err(cause);
            }
        };
        let is_http2 = matches!(checkout.connection(), Connection::Http2(_));
        let protocol = Self {
            endpoint: checkout.endpoint(),
            start,
            begun: poll_time(),
            tunnel: offer.filter(|_| is_http2).map(|offer| Box::new(Tunnel::new(offer))),
            failure_statuses,
            fields: ResponseFields::default(),
            kept_for: None,
            interim: 0,
        };
        Ok(Exchange::new(checkout, sending, protocol, timeouts))
    }

    /// Receives once.
    fn poll_http1(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Http1Connection,
        received: &mut Received<Head>,
    ) -> Poll<Result<(), Cause>> {
        let Self { fields, interim, kept_for, .. } = self;
        connection.poll_receive(cx, fields, |event, fields| {
            match event {
                ResponseEvent::Informational(head) => pass_interim(fields.finish(&head).head, interim)?,
                ResponseEvent::Head(head) => {
                    let head = Head::new(&head, fields.finish(&head));
                    *kept_for = head.kept_for;
                    received.begin(head);
                }
                ResponseEvent::Data(data) => received.push(data),
                ResponseEvent::End(trailers) => {
                    (received.trailers, received.is_complete) = (trailers.map(Box::new), true);
                }
                ResponseEvent::NeedData => {}
            }
            Ok(())
        })
    }

    /// Adds the parts that a stream has received.
    fn take(&mut self, parts: Parts, received: &mut Received<Head>) -> Result<(), Cause> {
        let Parts { interim, head, body, trailers, is_complete } = parts;
        for head in interim {
            pass_interim(head, &mut self.interim)?;
        }
        if let Some(head) = head {
            self.kept_for = head.kept_for;
            received.begin(head);
        }
        // A caller takes a piece before it polls for the next one.
        received.body.unsplit(body);
        (received.trailers, received.is_complete) = (trailers.map(Box::new), is_complete);
        Ok(())
    }
}

impl Switched {
    /// Returns the connection of an exchange after the head of a 101.
    pub(super) fn of(mut exchange: Box<Exchange>) -> Option<Self> {
        let mut checkout = exchange.checkout.take()?;
        let (received, has_ended) = match checkout.connection() {
            Connection::Http1(connection) => (Bytes::from(connection.take_unused()), false),
            Connection::Http2(_) => (exchange.received.body.split().freeze(), exchange.received.is_complete),
        };
        Some(Self { checkout, received, has_ended })
    }
}

impl Protocol for Http {
    type Connection = Connection;
    type Head = Head;
    type Cause = HttpCause;
    type Info = RequestInfo;

    const MAY_DIFFER_IN_LENGTH: bool = false;

    fn status(head: &Head) -> Option<StatusCode> {
        Some(head.status())
    }

    fn field<'a>(head: &'a Head, name: &HeaderName) -> Option<&'a [u8]> {
        head.fields.get(name)
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        checkout: &mut Checkout<Connection>,
        received: &mut Received<Head>,
    ) -> Poll<Result<(), Cause>> {
        ready!(match checkout.connection() {
            Connection::Http1(connection) => self.poll_http1(cx, connection, received),
            Connection::Http2(stream) => Poll::Ready(self.take(ready!(stream.poll_receive(cx))?, received)),
        })?;
        let mut opens_tunnel =
            matches!(checkout.connection(), Connection::Http1(connection) if connection.has_switched());
        if let Some(head) = &mut received.head {
            let status = head.status();
            checkout.record_latency(poll_time().saturating_duration_since(self.begun));
            if self.failure_statuses.contains(status) {
                checkout.record_failure(&format_args!("the status of its response is {status}"));
            } else {
                checkout.record_success();
            }
            if let Some(tunnel) = self.tunnel.as_ref().filter(|_| status.is_success()) {
                tunnel.translate(head);
                opens_tunnel = true;
            }
        }
        // The upstream may end its direction of a tunnel at once.
        received.has_ended = received.is_complete && !opens_tunnel;
        Poll::Ready(Ok(()))
    }

    fn missing_head(&mut self) -> HttpCause {
        HttpCause::Fault(Fault::ClosedBeforeResponse)
    }

    fn can_be_reused(&mut self, connection: &mut Connection, is_sent: bool) -> bool {
        match connection {
            Connection::Http1(connection) => {
                connection.keep_for(self.kept_for);
                is_sent && connection.can_be_reused()
            }
            Connection::Http2(stream) => {
                stream.end();
                true
            }
        }
    }

    fn record_failure(&self, checkout: &Checkout<Connection>, received: &Received<Head>, cause: &Cause) {
        // An idle connection that turns out to be closed tells nothing about its upstream.
        let was_dead = checkout.is_reused() && !received.has_begun && cause.ends_connection();
        if is_upstream_failure(cause) && !was_dead {
            checkout.record_failure(cause);
        }
    }

    fn log_failure(&self, info: &RequestInfo, failure: &Failure) {
        info.log_failure(failure);
    }

    fn attempt(&self, phase: Phase) -> Option<Box<Attempt>> {
        let Start { at, attempt: number } = self.start;
        let endpoint = Some(self.endpoint.clone());
        Some(Box::new(Attempt { number, endpoint, phase, elapsed: clock::since(at) }))
    }
}

/// Returns a connection on which nothing was sent to the pool.
fn release_unused(mut checkout: Checkout<Connection>) {
    if let Connection::Http2(stream) = checkout.connection() {
        stream.end();
    }
    checkout.release();
}

impl Tunnel {
    fn new(offer: &Offer) -> Self {
        let protocol = HeaderValue::from_str(offer.protocol());
        Self { protocol: protocol.unwrap_or(HeaderValue::from_static("")), accept: offer.accept() }
    }

    /// Turns the head that opens a tunnel (RFC 8441 §5) into the one that an upgrade would have.
    fn translate(&self, head: &mut Head) {
        if let Some(accept) = &self.accept {
            head.fields.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept.clone());
        }
        head.fields.set_status(StatusCode::SWITCHING_PROTOCOLS);
        (head.length, head.upgrade) = (None, Some(self.protocol.clone()));
    }
}
