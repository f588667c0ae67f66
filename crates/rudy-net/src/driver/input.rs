//! What a client sends while its request is answered: the request's body, further requests, its end.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rudy_http::Limits;
use rudy_http::h1::{Phase, Rejection};
use tokio::io::ReadBuf;

use super::Connection;
use super::poll_context::PollContext;
use super::upload::{Upload, UploadFault};
use crate::engine::ServiceSource;
use crate::scratch::Scratch;
use crate::transport::{PeerShutdown, peer_shutdown};

/// How often the kernel is asked whether a client has gone, while nothing is read from its connection.
const PEER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The client's side of an exchange.
#[derive(Default)]
pub(super) struct Input {
    /// The request's body on its way; `None` where it was there with the head, or there is none.
    pub(super) upload: Option<Box<Upload>>,
    /// Where the client has closed its sending side, and may have closed its connection: when it was last known to be there,
    /// because it closed that side or took bytes.
    half_closed: Option<Instant>,
    /// All that the client has sent was read.
    pub(super) ended: bool,
}

/// Why the exchange ends early.
pub(super) enum InputFault {
    /// The rest of the request breaks the protocol or a limit.
    Rejected(Rejection),
    /// The client has closed in the middle of its request.
    Incomplete,
    /// The client is gone.
    PeerGone,
}

impl Input {
    /// Of an exchange of which nothing has to be kept.
    pub(super) const EMPTY: Self = Self { upload: None, half_closed: None, ended: false };

    pub(super) fn new(upload: Option<Upload>) -> Self {
        Self { upload: upload.map(Box::new), ..Self::default() }
    }

    /// Moves the request's body, or notices that the client has gone. Ready when the exchange ends for it. What the client is to
    /// be sent first is put into `out`.
    pub(super) fn poll<S: ServiceSource>(
        &mut self,
        connection: &mut Connection<S>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<InputFault> {
        // Once the response is encoded whole, what comes belongs to the next request, or is discarded.
        if connection.machine.phase() != Phase::Exchange {
            self.upload = None;
            return Poll::Pending;
        }
        if let Some(upload) = &mut self.upload {
            match upload.poll(connection, poll_cx, out) {
                Poll::Ready(Err(UploadFault::Rejected(rejection))) => {
                    return Poll::Ready(InputFault::Rejected(rejection));
                }
                Poll::Ready(Err(UploadFault::PeerGone)) => return Poll::Ready(InputFault::Incomplete),
                Poll::Pending if !upload.is_paused() => return Poll::Pending,
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if self.reads_nothing(connection) {
            return self.poll_peer_shutdown(connection, poll_cx.now);
        }
        if connection.machine.awaits_response_only() {
            match connection.poll_read_ahead(poll_cx.cx, poll_cx.now) {
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

    /// Whether nothing is read that would show that the client has gone: behind a body that the service does not take yet,
    /// behind as many requests as are read ahead, or behind the end of its input.
    fn reads_nothing<S: ServiceSource>(&self, connection: &Connection<S>) -> bool {
        match &self.upload {
            _ if self.ended => true,
            Some(upload) if !upload.is_finished() => upload.is_paused(),
            _ => connection.machine.phase() == Phase::Exchange && !connection.reads_ahead(),
        }
    }

    /// Notices that the client has gone. Nothing wakes the task then, so this looks once a second ([`Self::due`]).
    fn poll_peer_shutdown<S: ServiceSource>(
        &mut self,
        connection: &Connection<S>,
        now: Instant,
    ) -> Poll<InputFault> {
        match peer_shutdown(&connection.io) {
            PeerShutdown::None => {}
            PeerShutdown::WriteSide => {
                self.half_closed.get_or_insert(now);
            }
            PeerShutdown::Both => return Poll::Ready(InputFault::PeerGone),
        }
        Poll::Pending
    }

    /// When the connection is polled again although nothing wakes it.
    pub(super) fn due<S: ServiceSource>(&self, connection: &Connection<S>, now: Instant) -> Option<Instant> {
        let limits = &connection.info.limits.http;
        let peer_shutdown = self.reads_nothing(connection).then(|| now + PEER_CHECK_INTERVAL);
        [self.upload_deadline(limits), self.half_close_deadline(limits), peer_shutdown]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the client has closed its sending side.
    pub(super) fn is_half_closed(&self) -> bool {
        self.half_closed.is_some()
    }

    /// Bytes were written: the client is there.
    pub(super) fn record_write(&mut self, now: Instant) {
        if let Some(last_sign) = &mut self.half_closed {
            *last_sign = now;
        }
    }

    /// When the request of a client that has closed its sending side is cancelled, because nothing could be written since.
    pub(super) fn half_close_deadline(&self, limits: &Limits) -> Option<Instant> {
        Some(self.half_closed? + limits.half_close_timeout)
    }

    /// When the client is too slow with its body.
    pub(super) fn upload_deadline(&self, limits: &Limits) -> Option<Instant> {
        self.upload.as_ref()?.deadline(limits)
    }
}

impl<S: ServiceSource> Connection<S> {
    /// Whether there is room for what a client sends ahead of its response.
    fn reads_ahead(&self) -> bool {
        self.machine.awaits_response_only() && self.machine.wants_input(&self.info.limits.http)
    }

    /// Reads what a client sends ahead of its response, as far as there is room, to notice when it goes away. Ready when it
    /// will send nothing more: `Ok` if that may mean that it waits for its response, `Err` if it is gone.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        let limits = &self.info.limits.http;
        let mut scratch = Scratch::borrow();
        loop {
            let room = self.machine.input_room(limits).min(scratch.input.len());
            if room == 0 {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut scratch.input[..room]);
            match self.io.poll_read(cx, &mut buffer)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if buffer.filled().is_empty() => {
                    self.machine.end_of_input();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(()) => {}
            }
            self.context.worker.counters.received_bytes.add(buffer.filled().len() as u64);
            // Waiting for a response and nothing else, the machine only keeps what came.
            let _ = self.machine.receive(buffer.filled(), now, limits);
        }
    }
}
