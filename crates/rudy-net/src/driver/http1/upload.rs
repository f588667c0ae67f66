//! Transfers a request body from the socket to the service, one piece each time that the service requests one.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::Pace;
use rudy_http::h1::Event;
use rudy_message::Rejection;
use rudy_service::{BodySender, RequestBody, RequestBodyError, ServiceSource};
use tokio::io::ReadBuf;

use super::Http1;
use crate::driver::poll_context::PollContext;
use crate::scratch::Scratch;

/// A request body in transfer.
pub(super) struct Upload {
    sender: BodySender,
    pace: Pace,
    /// Whether the body is complete, or the service has dropped it.
    is_finished: bool,
    /// Whether the upload waits for the service to request the next piece.
    is_paused: bool,
    /// The number of received bytes that are not of the body itself.
    framing_bytes: u64,
}

/// The reason why a body stays incomplete.
#[derive(Debug)]
pub(super) enum UploadFault {
    Rejected(Rejection),
    PeerGone,
}

impl Upload {
    /// Creates a body and its upload. `length` is the value of `Content-Length`.
    pub(super) fn new(length: Option<u64>) -> (RequestBody, Option<Self>) {
        let (body, sender) = RequestBody::pair(length);
        let (pace, is_finished, is_paused, framing_bytes) = (Pace::default(), false, false, 0);
        (body, Some(Self { sender, pace, is_finished, is_paused, framing_bytes }))
    }

    /// Whether the service has dropped the body.
    pub(super) fn is_body_dropped(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether the body is complete, or the service has dropped it.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether the upload waits for the service to request the next piece.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns the number of received bytes that are not of the body itself.
    pub(super) fn framing_bytes(&self) -> u64 {
        self.framing_bytes
    }

    /// Returns when the peer is too slow in sending the body.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        if self.is_finished { None } else { self.pace.rate_deadline(limits.rate_grace, limits.body_rate_min) }
    }

    /// Fails the body because the peer is too slow.
    pub(super) fn fail_too_slow(&mut self) {
        self.is_finished = true;
        self.sender.finish(Err(RequestBodyError::TooSlow));
    }

    /// Transfers pieces as long as the service requests them and the socket supplies them. Ready when the
    /// body has ended.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), UploadFault>> {
        while !self.is_finished {
            let readiness = self.sender.poll_ready(poll_cx.cx);
            self.is_paused = readiness.is_pending();
            match readiness {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => http1.machine.encode_continue(out),
                Poll::Ready(false) => {
                    self.is_finished = true;
                    return Poll::Ready(Ok(()));
                }
            }
            if poll_cx.budget.is_spent() {
                return poll_cx.yield_now();
            }
            match http1.poll_body_event(poll_cx, &mut self.framing_bytes) {
                Poll::Pending => {
                    self.pace.start_waiting(poll_cx.now);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(event)) => self.handle_event(event, poll_cx.now),
                Poll::Ready(Err(fault)) => {
                    self.is_finished = true;
                    self.sender.finish(Err(fault.body_error()));
                    return Poll::Ready(Err(fault));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        match event {
            Event::Body(piece) => {
                self.pace.record_bytes(piece.len() as u64, now);
                self.sender.send(piece);
            }
            Event::BodyEnd(trailers) => {
                self.is_finished = true;
                self.pace.record_bytes(0, now);
                self.sender.finish(Ok(trailers));
            }
            // The machine returns the next request only after the response to this one.
            Event::Request(_) => {}
        }
    }
}

impl UploadFault {
    fn body_error(&self) -> RequestBodyError {
        match self {
            Self::PeerGone => RequestBodyError::PeerGone,
            Self::Rejected(Rejection::BodyTooLarge) => RequestBodyError::TooLarge,
            Self::Rejected(rejection) => RequestBodyError::Malformed(rejection.to_string()),
        }
    }
}

impl<S: ServiceSource> Http1<S> {
    /// Returns the next piece of the body, from the machine's buffer or the socket. Counts the bytes around it.
    fn poll_body_event(
        &mut self,
        poll_cx: &mut PollContext<'_, '_>,
        framing_bytes: &mut u64,
    ) -> Poll<Result<Event<'static>, UploadFault>> {
        let (limits, now) = (&self.connection.info.limits.http, poll_cx.now);
        let mut available = self.machine.buffered_bytes();
        if let Some(event) = self.machine.receive(&[], now, limits).map_err(UploadFault::Rejected)? {
            *framing_bytes += framing_of(&event, available - self.machine.buffered_bytes());
            return Poll::Ready(Ok(event));
        }
        let mut scratch = Scratch::borrow();
        loop {
            let room = self.machine.input_room(limits).min(scratch.input.len());
            let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
            match self.connection.io.poll_read(poll_cx.cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                // An error, or the end of the input within the body.
                Poll::Ready(_) => return Poll::Ready(Err(UploadFault::PeerGone)),
            }
            poll_cx.received(buffer.filled().len() as u64);
            available += buffer.filled().len();
            let event = self.machine.receive(buffer.filled(), now, limits);
            if let Some(event) = event.map_err(UploadFault::Rejected)? {
                *framing_bytes += framing_of(&event, available - self.machine.buffered_bytes());
                return Poll::Ready(Ok(event.into_owned()));
            }
        }
    }
}

/// Returns how many of the bytes that were used up for an event are not of the body itself.
fn framing_of(event: &Event<'_>, used: usize) -> u64 {
    let body_bytes = if let Event::Body(piece) = event { piece.len() } else { 0 };
    used.saturating_sub(body_bytes) as u64
}
