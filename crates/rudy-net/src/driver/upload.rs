//! The way of a request's body from the socket to the service: a piece when the service asks for one.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::h1::{Event, Pace, Rejection};
use tokio::io::ReadBuf;

use super::Connection;
use super::poll_context::PollContext;
use crate::engine::ServiceSource;
use crate::request_body::BodySender;
use crate::scratch::Scratch;
use crate::{RequestBody, RequestBodyError};

/// A request's body on its way.
pub(super) struct Upload {
    sender: BodySender,
    pace: Pace,
    /// All of it is there, or nobody wants the rest.
    is_finished: bool,
    /// The service has not asked for the next piece.
    is_paused: bool,
}

/// Why the rest of a body will not come.
#[derive(Debug)]
pub(super) enum UploadFault {
    Rejected(Rejection),
    PeerGone,
}

impl Upload {
    /// A body, and its way to the service. `length` is what `Content-Length` promised.
    pub(super) fn new(length: Option<u64>) -> (RequestBody, Option<Self>) {
        let (body, sender) = RequestBody::pair(length);
        (body, Some(Self { sender, pace: Pace::default(), is_finished: false, is_paused: false }))
    }

    /// Whether the service will not read the rest.
    pub(super) fn is_body_dropped(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether all of it is there, or nobody wants the rest.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether the service has not asked for the next piece, so that nothing is read.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// When the peer is too slow with it.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        if self.is_finished { None } else { self.pace.rate_deadline(limits.rate_grace, limits.body_rate_min) }
    }

    /// The peer was too slow.
    pub(super) fn fail_too_slow(&mut self) {
        self.is_finished = true;
        self.sender.finish(Err(RequestBodyError::TooSlow));
    }

    /// Moves pieces for as long as the service wants them and the socket has them. Ready when the body is over.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), UploadFault>> {
        while !self.is_finished {
            let wanted = self.sender.poll_ready(poll_cx.cx);
            self.is_paused = wanted.is_pending();
            match wanted {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => connection.machine.encode_continue(out),
                Poll::Ready(false) => {
                    self.is_finished = true;
                    return Poll::Ready(Ok(()));
                }
            }
            match connection.poll_body_event(poll_cx.cx, poll_cx.now) {
                Poll::Pending => {
                    self.pace.wait(poll_cx.now);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(event)) => self.handle_event(event, poll_cx.now),
                Poll::Ready(Err(fault)) => {
                    self.is_finished = true;
                    self.sender.finish(Err(fault.into_body_error()));
                    return Poll::Ready(Err(fault));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn handle_event(&mut self, event: Event<'_>, now: Instant) {
        match event {
            Event::Body(piece) => {
                self.pace.moved(piece.len() as u64, now);
                self.sender.send(piece);
            }
            Event::BodyEnd(trailers) => {
                self.is_finished = true;
                self.pace.moved(0, now);
                self.sender.finish(Ok(trailers));
            }
            // The machine hands out the next request only after this one's answer.
            Event::Request(_) => {}
        }
    }
}

impl UploadFault {
    fn into_body_error(&self) -> RequestBodyError {
        match self {
            Self::PeerGone => RequestBodyError::PeerGone,
            Self::Rejected(Rejection::BodyTooLarge) => RequestBodyError::TooLarge,
            Self::Rejected(rejection) => RequestBodyError::Malformed(rejection.to_string()),
        }
    }
}

impl<S: ServiceSource> Connection<S> {
    /// The next piece of the body: out of what is left over, or out of the socket.
    fn poll_body_event(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<Event<'static>, UploadFault>> {
        let limits = &self.info.limits.http;
        if let Some(event) = self.machine.receive(&[], now, limits).map_err(UploadFault::Rejected)? {
            return Poll::Ready(Ok(event));
        }
        let mut scratch = Scratch::borrow();
        loop {
            let room = self.machine.input_room(limits).min(scratch.input.len());
            let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
            match self.io.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                // An error, or an end where the body has none.
                Poll::Ready(_) => return Poll::Ready(Err(UploadFault::PeerGone)),
            }
            self.context.worker.counters.received_bytes.add(buffer.filled().len() as u64);
            let event = self.machine.receive(buffer.filled(), now, limits);
            if let Some(event) = event.map_err(UploadFault::Rejected)? {
                return Poll::Ready(Ok(event.into_owned()));
            }
        }
    }
}
