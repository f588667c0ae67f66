//! Reads from the client during an exchange: the request body, further requests, the end of the input.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::h1::Phase;
use rudy_message::Rejection;
use rudy_service::ServiceSource;
use tokio::io::ReadBuf;

use super::Http1;
use super::upload::{Upload, UploadFault};
use crate::driver::poll_context::PollContext;
use crate::scratch::Scratch;
use crate::wire::{PeerClose, Wire as _};

/// How often to query the kernel for a disconnect while nothing is read from the connection.
pub(in crate::driver) const PEER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The client's side of an exchange.
#[derive(Default)]
pub(super) struct Input {
    /// The request body in transfer; `None` without a body, or if it arrived with the head.
    pub(super) upload: Option<Box<Upload>>,
    /// If the client has closed its write side, and may have disconnected: when it was last known to be
    /// connected, by that close or by accepting bytes.
    half_closed: Option<Instant>,
    /// Whether the end of the input has been read.
    pub(super) ended: bool,
}

/// Why input ends an exchange.
pub(super) enum InputFault {
    /// The rest of the request violates the protocol or a limit.
    Rejected(Rejection),
    /// The client closed during its request.
    Incomplete,
    /// The client has disconnected.
    PeerGone,
}

impl Input {
    /// The input state of most exchanges.
    pub(super) const EMPTY: Self = Self { upload: None, half_closed: None, ended: false };

    pub(super) fn new(upload: Option<Upload>) -> Self {
        Self { upload: upload.map(Box::new), ..Self::default() }
    }

    /// Transfers the request body, and detects a disconnect. Ready when the input ends the exchange.
    /// Responses to send to the client first are added to `out`.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        http1: &mut Http1<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<InputFault> {
        // After the whole response is encoded, input belongs to the next request, or is discarded.
        if http1.machine.phase() != Phase::Exchange {
            self.upload = None;
            return Poll::Pending;
        }
        if let Some(upload) = &mut self.upload {
            match upload.poll(http1, poll_cx, out) {
                Poll::Ready(Err(UploadFault::Rejected(rejection))) => {
                    return Poll::Ready(InputFault::Rejected(rejection));
                }
                Poll::Ready(Err(UploadFault::PeerGone)) => return Poll::Ready(InputFault::Incomplete),
                Poll::Pending if !upload.is_paused() => return Poll::Pending,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if self.reads_nothing(http1) {
            return self.poll_peer_close(http1, poll_cx.now);
        }
        if http1.machine.awaits_response_only() {
            match http1.poll_read_ahead(poll_cx.cx, poll_cx.now) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    self.ended = true;
                    self.half_closed.get_or_insert(poll_cx.now);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(InputFault::PeerGone),
            }
        }
        Poll::Pending
    }

    /// Whether a disconnect would go unnoticed because nothing is read: the service does not read the body,
    /// the read-ahead buffer is full, or the end of the input has been read.
    fn reads_nothing<S: ServiceSource>(&self, http1: &Http1<S>) -> bool {
        match &self.upload {
            _ if self.ended => true,
            Some(upload) if !upload.is_finished() => upload.is_paused(),
            _ => http1.machine.phase() == Phase::Exchange && !http1.reads_ahead(),
        }
    }

    /// Detects a disconnect. No event wakes the task for it, so it polls once a second ([`Self::due`]).
    fn poll_peer_close<S: ServiceSource>(&mut self, http1: &Http1<S>, now: Instant) -> Poll<InputFault> {
        match http1.connection.io.peer_close() {
            PeerClose::None => {}
            PeerClose::WriteSide => {
                self.half_closed.get_or_insert(now);
            }
            PeerClose::Both => return Poll::Ready(InputFault::PeerGone),
        }
        Poll::Pending
    }

    /// Returns when the connection must be polled again without a wake-up.
    pub(super) fn due<S: ServiceSource>(&self, http1: &Http1<S>, now: Instant) -> Option<Instant> {
        let limits = &http1.connection.info.limits.http;
        let peer_close = self.reads_nothing(http1).then(|| now + PEER_CHECK_INTERVAL);
        [self.upload_deadline(limits), self.half_close_deadline(limits), peer_close]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the client has closed its write side.
    pub(super) fn is_half_closed(&self) -> bool {
        self.half_closed.is_some()
    }

    /// Records a successful write, which shows that the client is connected.
    pub(super) fn record_write(&mut self, now: Instant) {
        if let Some(last_sign) = &mut self.half_closed {
            *last_sign = now;
        }
    }

    /// Returns when to cancel the exchange of a half-closed client to which nothing could be written.
    pub(super) fn half_close_deadline(&self, limits: &Limits) -> Option<Instant> {
        Some(self.half_closed? + limits.half_close_timeout)
    }

    /// Returns when the client is too slow in sending its body.
    pub(super) fn upload_deadline(&self, limits: &Limits) -> Option<Instant> {
        self.upload.as_ref()?.deadline(limits)
    }
}

impl<S: ServiceSource> Http1<S> {
    /// Whether the read-ahead buffer has room.
    fn reads_ahead(&self) -> bool {
        self.machine.awaits_response_only() && self.machine.wants_input(&self.connection.info.limits.http)
    }

    /// Reads further requests while there is room, to detect a disconnect. Ready at the end of the input:
    /// `Ok` if the client may still wait for its response, `Err` if it has disconnected.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        let limits = &self.connection.info.limits.http;
        let mut scratch = Scratch::borrow();
        loop {
            let room = self.machine.input_room(limits).min(scratch.input.len());
            if room == 0 {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
            match self.connection.io.poll_read(cx, &mut buffer)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if buffer.filled().is_empty() => {
                    self.machine.end_of_input();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(()) => {}
            }
            self.connection.context.worker.counters.received_bytes.add(buffer.filled().len() as u64);
            // While it waits only for the response, the machine just buffers the input.
            let _ = self.machine.receive(buffer.filled(), now, limits);
        }
    }
}
