//! One request to an upstream and its response, over any protocol. The body is sent while it comes in; the response is read as it arrives.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, StatusCode};
use rudy_pipeline::exchange::note;
use rudy_runtime::{is_planted, lose};
use rudy_service::{Deadline, Observer, Piped, poll_time};

use super::failure::{Attempt, Cause, Failure, Phase, ProtocolCause};
use super::{Checkout, Connection, SendError, Sending, Upload};

/// How much of an unwanted response body is read so that the connection can be reused: reading more would cost more than a new
/// connection.
const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for the rest of an unwanted body. Most of it has usually arrived, and a stream has no end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The timeouts of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From the request to the first byte of the response.
    pub response: Duration,
    /// Between two parts of the response; `None` if that is the same.
    pub stall: Option<Duration>,
}

/// How a protocol reads the response of an exchange.
pub trait Protocol: Send + Sized + 'static {
    /// The connection that carries a request.
    type Connection: Connection;
    /// The head of a response.
    type Head: Send;
    /// What can go wrong in this protocol.
    type Cause: ProtocolCause;
    /// What the protocol needs to log the failure of a body that is passed on as it is received.
    type Info: Send;

    /// Whether a response may be longer or shorter than its declared length, because the protocol does not check it.
    const MAY_DIFFER_IN_LENGTH: bool;

    /// Receives once.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        checkout: &mut Checkout<Self::Connection>,
        received: &mut Received<Self::Head>,
    ) -> Poll<Result<(), Cause<Self::Cause>>>;

    /// Returns the status in a head. `None` for a redirect within the server.
    fn status(head: &Self::Head) -> Option<StatusCode>;

    /// Returns the first line of a field in a head.
    fn field<'a>(head: &'a Self::Head, name: &HeaderName) -> Option<&'a [u8]>;

    /// Returns why there is no head although the response has ended.
    fn missing_head(&mut self) -> Self::Cause;

    /// Returns whether the connection can serve another request after the response. The upstream may still wait for the rest of a
    /// request that was not sent.
    fn can_be_reused(&mut self, connection: &mut Self::Connection, is_sent: bool) -> bool;

    /// Called at the end of the exchange, before its connection is released or closed.
    fn end(&mut self) {}

    /// Records a failure before the connection is closed.
    fn record_failure(
        &self,
        _checkout: &Checkout<Self::Connection>,
        _received: &Received<Self::Head>,
        _cause: &Cause<Self::Cause>,
    ) {
    }

    /// Logs a failure that the client does not notice.
    fn log_late_failure(&self, _cause: Cause<Self::Cause>) {}

    /// Logs why the response is incomplete.
    fn log_failure(&self, info: &Self::Info, failure: &Failure<Self::Cause>);

    /// Describes a failure in this phase, if the log shows attempts.
    fn attempt(&self, _phase: Phase) -> Option<Box<Attempt>> {
        None
    }
}

/// Parts of the response that were received and not passed on yet.
#[derive(Debug)]
pub struct Received<H> {
    /// The head, once it is complete.
    pub head: Option<H>,
    /// The bytes of the body that were not taken yet.
    pub body: BytesMut,
    /// In a box, because most responses have none.
    pub trailers: Option<Box<HeaderMap>>,
    /// Whether the head was received.
    pub has_begun: bool,
    /// Whether the whole response was received.
    pub is_complete: bool,
    /// Whether the connection has nothing more for the request.
    pub has_ended: bool,
}

impl<H> Default for Received<H> {
    fn default() -> Self {
        let (has_begun, is_complete, has_ended) = (false, false, false);
        Self { head: None, body: BytesMut::new(), trailers: None, has_begun, is_complete, has_ended }
    }
}

impl<H> Received<H> {
    /// Adds bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.body.capacity() == 0 {
            // Usually all of it, in a block of its size.
            self.body = BytesMut::from(bytes);
        } else {
            self.body.extend_from_slice(bytes);
        }
    }

    /// Adds the head.
    pub fn begin(&mut self, head: H) {
        (self.head, self.has_begun) = (Some(head), true);
    }
}

/// A request in progress. Dropping it early closes its connection, which cancels the request.
pub struct Exchange<P: Protocol> {
    /// `None` once the response is complete and the connection released.
    pub checkout: Option<Checkout<P::Connection>>,
    /// The id of the member.
    member: u64,
    /// Whether the connection has served other requests, and may have been closed before this one.
    may_have_been_dead: bool,
    sending: Sending,
    /// What was received.
    pub received: Received<P::Head>,
    /// The state of the protocol.
    pub protocol: P,
    timeouts: Timeouts,
    /// When the upstream times out; set while the exchange waits for it.
    deadline: Option<Deadline>,
    /// The observer of the exchange with the client, if logs show when this one ends.
    observer: Option<Arc<dyn Observer>>,
}

impl<P: Protocol> Exchange<P> {
    /// Creates the exchange of a request whose sending has begun.
    pub fn new(
        checkout: Checkout<P::Connection>,
        sending: Sending,
        protocol: P,
        timeouts: Timeouts,
    ) -> Box<Self> {
        Box::new(Self {
            member: checkout.member(),
            may_have_been_dead: checkout.is_reused(),
            checkout: Some(checkout),
            sending,
            received: Received::default(),
            protocol,
            timeouts,
            deadline: None,
            observer: None,
        })
    }

    /// Notes the end of the exchange for this observer.
    pub fn note_end(&mut self, observer: Arc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Returns the id of the member.
    pub fn member(&self) -> u64 {
        self.member
    }

    /// Returns whether the connection may have been closed before the request.
    pub fn may_have_been_dead(&self) -> bool {
        self.may_have_been_dead
    }

    /// Waits for the head of the response.
    pub async fn head(&mut self) -> Result<P::Head, Cause<P::Cause>> {
        poll_fn(|cx| {
            loop {
                if let Some(head) = self.received.head.take() {
                    return Poll::Ready(Ok(head));
                }
                if self.checkout.is_none() {
                    return Poll::Ready(Err(self.protocol.missing_head().into()));
                }
                ready!(self.poll_progress(cx))?;
            }
        })
        .await
    }

    /// Returns the next piece of the response's body; `None` at its end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cause<P::Cause>>>> {
        loop {
            let body = &mut self.received.body;
            if !body.is_empty() {
                // The last piece needs no buffer that another one shares.
                let piece = if self.checkout.is_none() { mem::take(body) } else { body.split() };
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
    pub fn take_piped(&mut self, max: u64) -> Option<Piped> {
        if !self.received.body.is_empty() || !self.sending.is_done() {
            return None;
        }
        let piped = self.checkout.as_mut()?.connection().take_piped(max)?;
        self.deadline = None;
        Some(piped)
    }

    /// Returns whether the whole body was received and passed on.
    pub fn is_done(&self) -> bool {
        self.checkout.is_none() && self.received.body.is_empty()
    }

    /// Returns whether the request's body can be sent again.
    pub fn can_repeat(&self) -> bool {
        self.sending.can_repeat()
    }

    /// Returns the request's body for another attempt, if it can be read again.
    pub fn take_upload(&mut self) -> Option<Upload> {
        self.sending.take_upload()
    }

    /// Adds to a cause where and when the exchange has failed.
    pub fn failure(&self, cause: Cause<P::Cause>) -> Failure<P::Cause> {
        let phase = match (self.received.has_begun, self.sending.is_done()) {
            (true, _) => Phase::Receiving,
            (false, true) => Phase::Waiting,
            (false, false) => Phase::Sending,
        };
        Failure { cause, attempt: self.protocol.attempt(phase) }
    }

    /// Discards the rest of the response if it is short and comes soon; otherwise closes the connection. Does not wait.
    pub fn discard(mut self: Box<Self>) {
        // Another attempt may follow, which the end of this one must not be noted for.
        self.note_ended();
        if self.checkout.as_mut().is_some_and(|checkout| checkout.connection().is_shared()) {
            return self.finish();
        }
        let mut discarded = 0;
        // Usually all of it has been received.
        if self.poll_discard(&mut Context::from_waker(Waker::noop()), &mut discarded).is_pending() {
            let rest = async move { poll_fn(|cx| self.poll_discard(cx, &mut discarded)).await };
            rudy_runtime::spawn(tokio::time::timeout(DISCARD_TIMEOUT, rest));
        }
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>, discarded: &mut usize) -> Poll<()> {
        while let Some(piece) = ready!(self.poll_piece(cx)) {
            match piece {
                Ok(piece) => *discarded += piece.len(),
                Err(cause) => self.protocol.log_late_failure(cause),
            }
            if *discarded > DISCARD_BYTES_MAX {
                self.close();
            }
        }
        Poll::Ready(())
    }

    /// Sends and receives. Ready when something was received or the response is complete.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause<P::Cause>>> {
        if let (Some(observer), Some(checkout)) = (rudy_service::asking(), &mut self.checkout) {
            note(Some(&observer), |notes| notes.upstream_is(checkout.endpoint().into(), poll_time()));
        }
        let progress = self.poll_send_and_receive(cx);
        if let (Poll::Pending, Some(checkout)) = (&progress, &mut self.checkout) {
            // Also while a large body fills the socket buffer: an upstream that has not accepted the connection reads nothing.
            checkout.poll_unaccepted(cx);
        }
        if progress.is_ready() || self.sending.waits_for_client() {
            self.deadline = None;
            return progress;
        }
        let Timeouts { response, stall } = self.timeouts;
        let stall = stall.filter(|_| self.received.has_begun);
        let deadline =
            self.deadline.get_or_insert_with(|| Deadline::at(poll_time() + stall.unwrap_or(response)));
        if is_planted("a timeout that does not end the request") {
            return Poll::Pending;
        }
        ready!(deadline.poll_passed(cx));
        let cause = stall.map_or(Cause::ResponseTimeout(response), Cause::StallTimeout);
        Poll::Ready(self.fail(cause))
    }

    fn poll_send_and_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cause<P::Cause>>> {
        let Self { checkout, sending, received, protocol, .. } = self;
        let Some(checkout) = checkout else { return Poll::Ready(Ok(())) };
        let sent = sending.sent();
        let sends = sending.poll(cx, checkout.connection());
        if sending.sent() > sent {
            // The upstream reads the request, so it is not stuck.
            self.deadline = None;
        }
        // An upstream may respond, and close the connection, before it has read the body. An unread body must not delay the response.
        if let Poll::Ready(Err(error)) = sends
            && !matches!(error, SendError::ConnectionLost(_))
        {
            self.close();
            return Poll::Ready(Err(error.into()));
        }
        if let Err(cause) = ready!(protocol.poll_receive(cx, checkout, received)) {
            return Poll::Ready(self.fail(cause));
        }
        if received.has_ended {
            self.finish();
        }
        Poll::Ready(Ok(()))
    }

    /// Handles a failure. A complete response stays valid, regardless of what the upstream does next.
    fn fail(&mut self, cause: Cause<P::Cause>) -> Result<(), Cause<P::Cause>> {
        if let Some(checkout) = &self.checkout {
            self.protocol.record_failure(checkout, &self.received, &cause);
        }
        self.close();
        if self.received.is_complete && (cause.is_connection_failure() || cause.is_late()) {
            self.protocol.log_late_failure(cause);
            return Ok(());
        }
        Err(cause)
    }

    /// Handles the end of the response, and releases the connection if it can be reused.
    fn finish(&mut self) {
        if let Some(mut checkout) = self.close()
            && self.protocol.can_be_reused(checkout.connection(), self.sending.is_done())
        {
            checkout.release();
        }
    }

    /// Ends the exchange. Dropping its connection closes it.
    fn close(&mut self) -> Option<Checkout<P::Connection>> {
        let checkout = self.checkout.take()?;
        self.protocol.end();
        self.note_ended();
        Some(checkout)
    }

    fn note_ended(&mut self) {
        if let Some(observer) = self.observer.take() {
            note(Some(&observer), |notes| notes.upstream_ended(poll_time()));
        }
    }
}

impl<P: Protocol> Drop for Exchange<P> {
    fn drop(&mut self) {
        if is_planted("a forgotten cancel") {
            lose(self.checkout.take());
        }
        if let Some(checkout) = self
            .checkout
            .take_if(|_| is_planted("a connection that is used again in the middle of a response"))
        {
            return checkout.release();
        }
        self.close();
    }
}
