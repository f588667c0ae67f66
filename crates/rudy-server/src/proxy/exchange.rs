//! One request to an upstream and its response. The body is sent while it comes in; the response is read as it arrives.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::h1::client::{RequestHead, ResponseEvent, ResponseHead, encode_chunk, encode_last_chunk};
use rudy_http::h1::{BodyLength, Framing};
use rudy_net::{Deadline, poll_time, send_interim};

use super::connection::Connection;
use super::ejection::FailureStatuses;
use super::failure::{Attempt, Cause, Failure, Phase};
use super::fields::response_fields;
use crate::upstream::{Checkout, Connection as _, EncodeBody, Endpoint, Sending, Upload};

/// How much of an unwanted response body is read so that the connection can be reused: reading more would cost more than a new
/// connection.
const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// How long to wait for the rest of an unwanted body. A stream has no end.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of interim responses. 102 Processing may come every few seconds while a request takes minutes; more than this
/// is a flood.
const INTERIM_MAX: u32 = 100;

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
    start: Start,
    sending: Sending<BodyEncoder>,
    received: Received,
    timeouts: Timeouts,
    failure_statuses: FailureStatuses,
    /// When the upstream times out; set while the exchange waits for it.
    deadline: Option<Deadline>,
}

/// Encodes the body of a request.
enum BodyEncoder {
    /// The head has its length.
    Plain,
    Chunked,
}

impl EncodeBody for BodyEncoder {
    fn encode_piece(&self, piece: &[u8], out: &mut BytesMut) {
        match self {
            Self::Plain => out.extend_from_slice(piece),
            Self::Chunked => encode_chunk(piece, out),
        }
    }

    fn encode_end(&self, trailers: Option<&HeaderMap>, out: &mut BytesMut) {
        if let Self::Chunked = self {
            encode_last_chunk(trailers, out);
        }
    }
}

/// The head of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// The fields without those of the connection.
    pub(super) fields: HeaderMap,
    /// The length of the body, if known.
    pub(super) length: Option<u64>,
    /// The protocol that the connection changes to, with status 101.
    pub(super) upgrade: Option<HeaderValue>,
}

/// Parts of the response that were received and not passed on yet.
#[derive(Default)]
struct Received {
    head: Option<Head>,
    has_begun: bool,
    body: BytesMut,
    trailers: Option<HeaderMap>,
    interim: u32,
    is_complete: bool,
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
        timeouts: Timeouts,
        failure_statuses: FailureStatuses,
        start: Start,
    ) -> Result<Box<Self>, Cause> {
        let endpoint = checkout.endpoint();
        let mut encoded = Ok(());
        let sending = Sending::begin(upload, checkout.connection(), |connection, out| {
            connection.begin(head.info());
            encoded = head.encode(out);
            if head.body == BodyLength::Chunked { BodyEncoder::Chunked } else { BodyEncoder::Plain }
        });
        encoded.map_err(Cause::Request)?;
        let received = Received::default();
        Ok(Box::new(Self {
            checkout: Some(checkout),
            endpoint,
            start,
            sending,
            received,
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
                    return Poll::Ready(Ok(head));
                }
                ready!(self.poll_progress(cx))?;
            }
        })
        .await
    }

    /// Returns the next piece of the response's body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cause>>> {
        loop {
            if !self.received.body.is_empty() {
                return Poll::Ready(Some(Ok(self.received.body.split().freeze())));
            }
            if self.checkout.is_none() {
                return Poll::Ready(None);
            }
            if let Err(cause) = ready!(self.poll_progress(cx)) {
                return Poll::Ready(Some(Err(cause)));
            }
        }
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

    /// Returns the request's body for another attempt, if it can be read again.
    pub(super) fn take_upload(&mut self) -> Option<Upload> {
        self.sending.take_upload()
    }

    /// Returns the connection after the head of a 101, and the bytes that follow it.
    pub(super) fn into_switched(mut self: Box<Self>) -> Option<(Checkout<Connection>, Vec<u8>)> {
        let mut checkout = self.checkout.take()?;
        let received = checkout.connection().take_unused();
        Some((checkout, received))
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
        Failure { cause, attempt: Some(attempt) }
    }

    /// Discards the rest of the response if it is short and comes soon; otherwise closes the connection. Does not wait.
    pub(super) fn discard(mut self: Box<Self>) {
        let mut discarded = 0;
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
        let sending = self.sending.poll(cx, checkout.connection().socket());
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
            let was_dead = checkout.is_reused() && !self.received.has_begun && cause.is_connection_failure();
            if cause.is_upstream_failure() && !was_dead {
                checkout.record_failure(cause);
            }
            self.checkout = None;
            return Poll::Ready(received);
        }
        if let Some(Head { status, .. }) = &self.received.head {
            if self.failure_statuses.contains(*status) {
                checkout.record_failure(&format_args!("the status of its response is {status}"));
            } else {
                checkout.record_success();
            }
        }
        if self.received.is_complete && !checkout.connection().has_switched() {
            self.finish();
        }
        Poll::Ready(received)
    }

    /// Handles the end of the response. The connection is reused unless the upstream may still wait for unread input.
    fn finish(&mut self) {
        if let Some(mut checkout) = self.checkout.take()
            && self.sending.is_done()
            && checkout.connection().can_be_reused()
        {
            checkout.release();
        }
    }
}

impl Received {
    /// Reads once.
    fn poll(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<Result<(), Cause>> {
        connection.poll_receive(cx, |event| {
            match event {
                ResponseEvent::Informational(head) => self.pass_interim(&head)?,
                ResponseEvent::Head(head) => self.begin(&head),
                ResponseEvent::Data(data) => self.body.extend_from_slice(data),
                ResponseEvent::End(trailers) => (self.trailers, self.is_complete) = (trailers, true),
                ResponseEvent::NeedData => {}
            }
            Ok(())
        })
    }

    fn begin(&mut self, head: &ResponseHead<'_>) {
        let length = match head.framing() {
            Framing::Length(length) => Some(length),
            // The response to HEAD has the length of that to GET.
            Framing::None => head.get("content-length").and_then(rudy_http::syntax::parse_digits),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let upgrade = || head.get("upgrade").and_then(|value| HeaderValue::from_bytes(value).ok());
        let upgrade = if head.status() == 101 { upgrade() } else { None };
        self.has_begun = true;
        self.head = Some(Head { status: status(head), fields: response_fields(head), length, upgrade });
    }

    /// Passes an interim response on. It gets lost if the client does not read, or uses HTTP/1.0.
    fn pass_interim(&mut self, head: &ResponseHead<'_>) -> Result<(), Cause> {
        self.interim += 1;
        if self.interim > INTERIM_MAX {
            return Err(Cause::TooManyInterim(INTERIM_MAX));
        }
        let _is_sent = send_interim(status(head), response_fields(head));
        Ok(())
    }
}

/// Returns the status. All values that the decoder accepts are valid: 100 to 999.
fn status(head: &ResponseHead<'_>) -> StatusCode {
    StatusCode::from_u16(head.status()).unwrap_or(StatusCode::BAD_GATEWAY)
}
