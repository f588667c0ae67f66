//! One request to an upstream and its response. The body is sent while it comes in; the response is read as it arrives.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT};
use rudy_http::h1::client::RequestHead;
use rudy_net::{Deadline, Piped, poll_time};

use super::connection::Connection;
use super::ejection::FailureStatuses;
use super::failure::{Attempt, Cause, Failure, Phase};
use super::received::{Head, Received};
use super::sending::{self, Sending};
use super::upgrade::Offer;
use crate::upstream::{Checkout, Endpoint, Upload};

/// How much of an unwanted response body is read so that the connection can be reused: reading more would cost more than a new
/// connection.
const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for the rest of an unwanted body. A stream has no end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The start of a request, for the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// The time of the first attempt.
    pub(super) at: Instant,
    /// The number of this attempt, from 1.
    pub(super) attempt: u32,
}

/// The timeouts of an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// From the request to the first byte of the response.
    pub(super) response: Duration,
    /// Between two parts of the response.
    pub(super) stall: Duration,
}

/// A request in progress. Dropping it early closes its connection, which cancels the request.
pub(super) struct Exchange {
    /// `None` once the response is complete and the connection released.
    checkout: Option<Checkout<Connection>>,
    endpoint: Endpoint,
    /// The id of the upstream.
    member: u64,
    /// Whether the connection has served other requests, and may have been closed before this one.
    may_have_been_dead: bool,
    start: Start,
    /// When the request was begun on this connection.
    begun: Instant,
    sending: Sending,
    /// The tunnel that a successful response opens.
    tunnel: Option<Box<Tunnel>>,
    received: Received,
    timeouts: Timeouts,
    failure_statuses: FailureStatuses,
    /// When the upstream times out; set while the exchange waits for it.
    deadline: Option<Deadline>,
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

impl Exchange {
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
    ) -> Result<Box<Self>, Cause> {
        let (endpoint, member) = (checkout.endpoint(), checkout.member());
        let may_have_been_dead = checkout.is_reused() || checkout.connection().has_served();
        let sending = match sending::begin(checkout.connection(), head, upload, offer) {
            Ok(sending) => sending,
            Err(cause) => {
                release_unused(checkout);
                return Err(cause);
            }
        };
        let is_http2 = matches!(checkout.connection(), Connection::Http2(_));
        let tunnel = offer.filter(|_| is_http2).map(|offer| Box::new(Tunnel::new(offer)));
        Ok(Box::new(Self {
            checkout: Some(checkout),
            endpoint,
            member,
            may_have_been_dead,
            start,
            begun: poll_time(),
            sending,
            tunnel,
            received: Received::default(),
            timeouts,
            failure_statuses,
            deadline: None,
        }))
    }

    /// Waits for the head of the response.
    pub(super) async fn head(&mut self) -> Result<Head, Cause> {
        poll_fn(|cx| {
            loop {
                if let Some(head) = self.received.head.take() {
                    return Poll::Ready(Ok(match &self.tunnel {
                        Some(tunnel) => tunnel.translate(head),
                        None => head,
                    }));
                }
                ready!(self.poll_progress(cx))?;
            }
        })
        .await
    }

    /// Returns the next piece of the response's body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cause>>> {
        loop {
            let body = &mut self.received.body;
            if !body.is_empty() {
                // The last piece needs no buffer that another one shares.
                let piece = if self.checkout.is_none() { std::mem::take(body) } else { body.split() };
                return Poll::Ready(Some(Ok(piece.freeze())));
            }
            if self.checkout.is_none() {
                return Poll::Ready(None);
            }
            if let Err(cause) = ready!(self.poll_progress(cx)) {
                return Poll::Ready(Some(Err(cause)));
            }
        }
    }

    /// Returns the next piece of a long body in a pipe, if the connection has received one and the request was sent.
    pub(super) fn take_piped(&mut self, max: u64) -> Option<Piped> {
        if !self.received.body.is_empty() || !self.sending.is_done() {
            return None;
        }
        let Connection::Http1(connection) = self.checkout.as_mut()?.connection() else { return None };
        let piped = connection.take_piped(max)?;
        self.deadline = None;
        Some(piped)
    }

    /// Returns whether the whole body was received and passed on.
    pub(super) fn is_done(&self) -> bool {
        self.checkout.is_none() && self.received.body.is_empty()
    }

    /// Takes the trailers, after the last piece.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.received.trailers.take()
    }

    /// Returns whether the response has trailers that were not taken.
    pub(super) fn has_trailers(&self) -> bool {
        self.received.trailers.is_some()
    }

    /// Returns the id of the upstream.
    pub(super) fn member(&self) -> u64 {
        self.member
    }

    /// Returns whether the connection may have been closed before the request.
    pub(super) fn may_have_been_dead(&self) -> bool {
        self.may_have_been_dead
    }

    /// Returns the request's body for another attempt, if it can be read again.
    pub(super) fn take_upload(&mut self) -> Option<Upload> {
        self.sending.take_upload()
    }

    /// Returns the connection after the head of a 101.
    pub(super) fn into_switched(mut self: Box<Self>) -> Option<Switched> {
        let mut checkout = self.checkout.take()?;
        let (received, has_ended) = match checkout.connection() {
            Connection::Http1(connection) => (Bytes::from(connection.take_unused()), false),
            Connection::Http2(_) => (self.received.body.split().freeze(), self.received.is_complete),
        };
        Some(Switched { checkout, received, has_ended })
    }

    /// Adds to a cause where and when the exchange has failed.
    pub(super) fn failure(&self, cause: Cause) -> Failure {
        let phase = match (self.received.has_begun, self.sending.is_done()) {
            (true, _) => Phase::Receiving,
            (false, true) => Phase::Waiting,
            (false, false) => Phase::Sending,
        };
        let attempt = Attempt {
            number: self.start.attempt,
            endpoint: Some(self.endpoint.clone()),
            phase,
            elapsed: self.start.at.elapsed(),
        };
        Failure { cause, attempt: Some(Box::new(attempt)) }
    }

    /// Discards the rest of the response if it is short and comes soon; otherwise closes the connection. Does not wait.
    pub(super) fn discard(mut self: Box<Self>) {
        let mut discarded = 0;
        if let Some(checkout) = &mut self.checkout
            && let Connection::Http2(stream) = checkout.connection()
        {
            // Others share the connection.
            stream.end();
            return self.finish();
        }
        // Usually all of it has been received.
        if self.poll_discard(&mut Context::from_waker(Waker::noop()), &mut discarded).is_pending() {
            let rest = async move { poll_fn(|cx| self.poll_discard(cx, &mut discarded)).await };
            tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, rest));
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>, discarded: &mut usize) -> Poll<()> {
        while let Some(Ok(piece)) = ready!(self.poll_piece(cx)) {
            *discarded += piece.len();
            if *discarded > DISCARD_BYTES_MAX {
                self.checkout = None;
            }
        }
        Poll::Ready(())
    }

    /// Sends and receives. Ready when something was received or the response is complete.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let progress = self.poll_send_and_receive(cx);
        if progress.is_ready() || self.sending.waits_for_client() {
            self.deadline = None;
            return progress;
        }
        let Timeouts { response, stall } = self.timeouts;
        let (time, cause) = if self.received.has_begun {
            (stall, Cause::StallTimeout(stall))
        } else {
            (response, Cause::ResponseTimeout(response))
        };
        let deadline = self.deadline.get_or_insert_with(|| Deadline::at(poll_time() + time));
        ready!(deadline.poll_passed(cx));
        if let Some(checkout) = self.checkout.take() {
            checkout.record_failure(&cause);
        }
        Poll::Ready(Err(cause))
    }

    fn poll_send_and_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        let Some(checkout) = &mut self.checkout else { return Poll::Ready(Ok(())) };
        let sent = self.sending.sent();
        let sending = self.sending.poll(cx, checkout.connection());
        if self.sending.sent() > sent {
            // The upstream reads the request, so it is not stuck.
            self.deadline = None;
        }
        // An upstream may respond, and close the connection, before it has read the body. An unread body must not delay the response.
        if let Poll::Ready(Err(error)) = sending
            && let cause = Cause::from(error)
            && !matches!(cause, Cause::ConnectionLost(_))
        {
            self.checkout = None;
            return Poll::Ready(Err(cause));
        }
        let received = ready!(self.received.poll(cx, checkout.connection()));
        if let Err(cause) = &received {
            // An idle connection that turns out to be closed tells nothing about its upstream.
            let was_dead = self.may_have_been_dead && !self.received.has_begun && cause.ends_connection();
            if cause.is_upstream_failure() && !was_dead {
                checkout.record_failure(cause);
            }
            self.checkout = None;
            return Poll::Ready(received);
        }
        let mut opens_tunnel = has_switched(checkout.connection());
        if let Some(status) = self.received.head.as_ref().map(Head::status) {
            opens_tunnel |= self.tunnel.is_some() && status.is_success();
            checkout.record_latency(poll_time().saturating_duration_since(self.begun));
            if self.failure_statuses.contains(status) {
                checkout.record_failure(&format_args!("the status of its response is {status}"));
            } else {
                checkout.record_success();
            }
        }
        // The upstream may end its direction of a tunnel at once.
        if self.received.is_complete && !opens_tunnel {
            self.finish();
        }
        Poll::Ready(received)
    }

    /// Handles the end of the response. The connection is reused unless the upstream may still wait for unread input.
    fn finish(&mut self) {
        let Some(mut checkout) = self.checkout.take() else { return };
        let can_be_reused = match checkout.connection() {
            Connection::Http1(connection) => {
                connection.keep_for(self.received.kept_for);
                self.sending.is_done() && connection.can_be_reused()
            }
            Connection::Http2(stream) => {
                stream.end();
                true
            }
        };
        if can_be_reused {
            checkout.release();
        }
    }
}

/// Returns a connection on which nothing was sent to the pool.
fn release_unused(mut checkout: Checkout<Connection>) {
    if let Connection::Http2(stream) = checkout.connection() {
        stream.end();
    }
    checkout.release();
}

/// Returns whether the connection has changed to another protocol.
fn has_switched(connection: &Connection) -> bool {
    matches!(connection, Connection::Http1(connection) if connection.has_switched())
}

impl Tunnel {
    fn new(offer: &Offer) -> Self {
        let protocol = HeaderValue::from_str(offer.protocol());
        Self { protocol: protocol.unwrap_or(HeaderValue::from_static("")), accept: offer.accept() }
    }

    /// Turns the head that opens a tunnel (RFC 8441 §5) into the one that an upgrade would have.
    fn translate(&self, mut head: Head) -> Head {
        if !head.status().is_success() {
            return head;
        }
        if let Some(accept) = &self.accept {
            head.fields.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept.clone());
        }
        head.fields.set_status(StatusCode::SWITCHING_PROTOCOLS);
        Head { length: None, upgrade: Some(self.protocol.clone()), ..head }
    }
}
