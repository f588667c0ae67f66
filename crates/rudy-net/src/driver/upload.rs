//! The way of a request's body from the socket to the service: a piece when the service asks for one.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::h1::{Event, Pace, Rejection};
use tokio::io::ReadBuf;

use super::Connection;
use super::turn::Turn;
use crate::engine::ServiceSource;
use crate::request_body::BodySender;
use crate::scratch::Scratch;
use crate::{RequestBody, RequestBodyError};

/// A request's body on its way.
pub(super) struct Upload {
    sender: BodySender,
    pace: Pace,
    /// All of it is there, or nobody wants the rest.
    over: bool,
    /// The service has not asked for the next piece.
    on_hold: bool,
}

/// Why the rest of a body will not come.
#[derive(Debug)]
pub(super) enum UploadFault {
    Refused(Rejection),
    PeerGone,
}

impl Upload {
    /// A body, and its way to the service. `length` is what `Content-Length` promised.
    pub(super) fn new(length: Option<u64>) -> (RequestBody, Option<Self>) {
        let (body, sender) = RequestBody::pair(length);
        (body, Some(Self { sender, pace: Pace::default(), over: false, on_hold: false }))
    }

    /// Whether the service will not read the rest.
    pub(super) fn is_unwanted(&self) -> bool {
        self.sender.is_unwanted()
    }

    /// Whether all of it is there, or nobody wants the rest.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the service has not asked for the next piece, so that nothing is read.
    pub(super) fn is_on_hold(&self) -> bool {
        self.on_hold
    }

    /// When the peer is too slow with it.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        if self.over { None } else { self.pace.rate_deadline(limits.rate_grace, limits.body_rate_min) }
    }

    /// The peer was too slow.
    pub(super) fn too_slow(&mut self) {
        self.over = true;
        self.sender.finish(Err(RequestBodyError::TooSlow));
    }

    /// Moves pieces for as long as the service wants them and the socket has them. Ready when the body is over.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), UploadFault>> {
        while !self.over {
            let wanted = self.sender.poll_wanted(turn.cx);
            self.on_hold = wanted.is_pending();
            match wanted {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => connection.machine.encode_continue(out),
                Poll::Ready(false) => {
                    self.over = true;
                    return Poll::Ready(Ok(()));
                }
            }
            match connection.poll_body_event(turn.cx, turn.now) {
                Poll::Pending => {
                    self.pace.wait(turn.now);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(event)) => self.take(event, turn.now),
                Poll::Ready(Err(fault)) => {
                    self.over = true;
                    self.sender.finish(Err(fault.for_service()));
                    return Poll::Ready(Err(fault));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, event: Event<'_>, now: Instant) {
        match event {
            Event::Body(piece) => {
                self.pace.moved(piece.len() as u64, now);
                self.sender.push(piece);
            }
            Event::BodyEnd(trailers) => {
                self.over = true;
                self.pace.moved(0, now);
                self.sender.finish(Ok(trailers));
            }
            // The machine hands out the next request only after this one's answer.
            Event::Request(_) => {}
        }
    }
}

impl UploadFault {
    fn for_service(&self) -> RequestBodyError {
        match self {
            Self::PeerGone => RequestBodyError::PeerGone,
            Self::Refused(Rejection::BodyTooLarge) => RequestBodyError::TooLarge,
            Self::Refused(rejection) => RequestBodyError::Malformed(rejection.to_string()),
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
        let limits = &self.facts.limits.http;
        if let Some(event) = self.machine.receive(&[], now, limits).map_err(UploadFault::Refused)? {
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
            if let Some(event) = event.map_err(UploadFault::Refused)? {
                return Poll::Ready(Ok(event.into_owned()));
            }
        }
    }
}
