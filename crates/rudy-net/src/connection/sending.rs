//! The way of an answer to the socket: what is encoded, then the pieces of its body as they become ready.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::{Pace, ServerConnection};

use super::give_turn;
use crate::deadline;
use crate::transport::Transport;
use crate::{Body, BodyPiece, BodyStream, FileRange, Part};

/// Pieces of a stream are gathered up to this before they are written, and no more are asked for until they are.
const GATHERED_BYTES: usize = 16 * 1024;
/// How much of a body is sent before the other connections of the core have their turn: a tenth of a millisecond's work where
/// it is a file. A fast reader would otherwise take a large file whole while they wait, and a stream that always has more
/// would have them wait for ever.
pub(super) const TURN_BYTES: u64 = 512 * 1024;

/// What is still to be sent of an answer.
#[derive(Default)]
pub(super) struct Sending {
    /// Encoded, goes first.
    pub(super) out: BytesMut,
    parts: VecDeque<Part>,
    stream: Option<Box<dyn BodyStream>>,
    /// When the body is polled again although nothing wakes it.
    pub(super) due: Option<Instant>,
    trailers: Option<HeaderMap>,
    /// The end of the body has been encoded.
    ended: bool,
    pace: Pace,
    /// What the peer had not acknowledged when we last looked, while we wait for it.
    unacknowledged: Option<u64>,
    /// Bytes handed to the kernel, and bytes of the body among what was encoded.
    pub(super) sent_bytes: u64,
    pub(super) body_bytes: u64,
}

/// Why an answer stays incomplete.
#[derive(Debug)]
pub(super) enum SendFault {
    /// The socket is broken.
    PeerGone,
    /// The body failed, or is not what its head promised.
    Cut,
    /// The body panicked.
    Panicked,
}

impl From<io::Error> for SendFault {
    fn from(_: io::Error) -> Self {
        Self::PeerGone
    }
}

impl Sending {
    /// Nothing but what is encoded already.
    pub(super) fn encoded(out: &[u8]) -> Self {
        Self { out: BytesMut::from(out), ended: true, ..Self::default() }
    }

    /// What is encoded already, with a body to follow once [`Self::set_body`] names it.
    pub(super) fn open(out: &BytesMut) -> Self {
        Self { out: BytesMut::from(&out[..]), ..Self::default() }
    }

    /// The body of the answer whose head is in `out`.
    pub(super) fn set_body(&mut self, body: Body) {
        match body {
            Body::Bytes(bytes) => self.parts.push_back(Part::Bytes(bytes)),
            Body::File(range) => self.parts.push_back(Part::File(range)),
            Body::Parts(parts) => self.parts = parts,
            Body::Stream(stream) => self.stream = Some(stream),
            // The latter has a way of its own.
            Body::Empty | Body::Live(_) => {}
        }
    }

    /// Sends a whole response behind what is encoded already. What the socket does not take now is kept.
    pub(super) fn send_whole<T: Transport>(
        &mut self,
        response: &[u8],
        io: &mut T,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<(), SendFault> {
        self.ended = true;
        let mut sent = 0;
        if self.out.is_empty()
            && let Poll::Ready(bytes) = self.paced(io.poll_send(cx, response), io, now)?
        {
            sent = bytes;
        }
        self.out.extend_from_slice(&response[sent..]);
        Ok(())
    }

    /// Drops what is to come: an answer to HEAD, or one that may have no body.
    fn drop_body(&mut self) {
        self.parts.clear();
        self.stream = None;
    }

    /// Replaces whatever was to come by what is encoded in `out`.
    pub(super) fn replace(&mut self, out: &BytesMut) {
        self.out.extend_from_slice(out);
        self.drop_body();
        self.ended = true;
    }

    /// When a peer that does not read, or hardly, has had its time.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let rate = self.pace.rate_deadline(limits.rate_grace, limits.send_rate_min);
        let stall = self.pace.stall_deadline(limits.send_stall_time);
        [rate, stall].into_iter().flatten().min()
    }

    /// Whether the peer has had its time, and has not read after all meanwhile.
    pub(super) fn has_stalled<T: Transport>(&mut self, io: &T, limits: &Limits, now: Instant) -> bool {
        let is_over = |sending: &Self| sending.deadline(limits).is_some_and(|deadline| deadline <= now);
        is_over(self) && (!self.has_progressed(io, now) || is_over(self))
    }

    /// At a deadline: whether the peer has read after all. The socket had no room for us, and yet it may have taken what the
    /// kernel still held.
    pub(super) fn has_progressed<T: Transport>(&mut self, io: &T, now: Instant) -> bool {
        let (Some(before), Ok(left)) = (self.unacknowledged, io.unacknowledged()) else { return false };
        self.unacknowledged = Some(left);
        if left >= before {
            return false;
        }
        self.pace.progressed(now);
        true
    }

    /// Writes what is encoded and nothing else. Ready when all of it is written.
    pub(super) fn poll_flush<T: Transport>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), SendFault>> {
        while !self.out.is_empty() {
            let written = io.poll_send(cx, &self.out);
            let written = ready!(self.paced(written, io, now))?;
            self.out.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends as much as the body has and the socket takes. Ready when the whole answer has been handed to the kernel.
    pub(super) fn poll<T: Transport>(
        &mut self,
        io: &mut T,
        machine: &mut ServerConnection,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), SendFault>> {
        if !machine.sends_body() {
            self.drop_body();
        }
        loop {
            match self.parts.pop_front() {
                Some(Part::Bytes(bytes)) => ready!(self.poll_bytes(bytes, io, machine, cx, now))?,
                Some(Part::File(range)) => ready!(self.poll_file(range, io, machine, cx, now))?,
                None if self.ended => return self.poll_flush(io, cx, now),
                None if self.stream.is_some() => ready!(self.poll_stream(io, machine, cx, now))?,
                None => {
                    let trailers = self.trailers.take();
                    machine.finish(trailers.as_ref(), now, &mut self.out).map_err(|_| SendFault::Cut)?;
                    self.ended = true;
                }
            }
        }
    }

    /// Writes `out` and a piece behind it, together. What is not written goes back to the front.
    fn poll_bytes<T: Transport>(
        &mut self,
        mut bytes: Bytes,
        io: &mut T,
        machine: &mut ServerConnection,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), SendFault>> {
        while !bytes.is_empty() {
            let slices = [io::IoSlice::new(&self.out), io::IoSlice::new(&bytes)];
            let written = Pin::new(&mut *io).poll_write_vectored(cx, &slices);
            let Poll::Ready(written) = self.paced(written, io, now)? else {
                self.parts.push_front(Part::Bytes(bytes));
                return Poll::Pending;
            };
            let of_out = written.min(self.out.len());
            self.out.advance(of_out);
            bytes.advance(written - of_out);
            self.count_bare((written - of_out) as u64, machine)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes `out`, then has the kernel send a piece of a file. A file that shrank, or is seen to have changed in place,
    /// cuts the answer: what was promised can no longer be kept. (What changes between our look and the kernel's read
    /// cannot be seen from here.)
    fn poll_file<T: Transport>(
        &mut self,
        mut range: FileRange,
        io: &mut T,
        machine: &mut ServerConnection,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), SendFault>> {
        let mut turn_bytes = TURN_BYTES;
        while range.length > 0 {
            if !self.out.is_empty() {
                let written = io.poll_write_more(cx, &self.out);
                let Poll::Ready(written) = self.paced(written, io, now)? else {
                    self.parts.push_front(Part::File(range));
                    return Poll::Pending;
                };
                self.out.advance(written);
                continue;
            }
            if turn_bytes == 0 {
                self.parts.push_front(Part::File(range));
                return give_turn(cx);
            }
            let length = usize::try_from(range.length.min(turn_bytes)).unwrap_or(usize::MAX);
            let sent = io
                .poll_send_file(cx, &range.file, range.start, length)
                .map_err(|error| fault_of_file(&error));
            let Poll::Ready(sent) = self.paced(sent, io, now)? else {
                self.parts.push_front(Part::File(range));
                return Poll::Pending;
            };
            if sent == 0 || has_changed(&range) {
                return Poll::Ready(Err(SendFault::Cut));
            }
            let sent = sent as u64;
            range.start += sent;
            range.length -= sent;
            turn_bytes = turn_bytes.saturating_sub(sent);
            self.count_bare(sent, machine)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes pieces of a stream as they are ready, and writes when there are enough or no more for now.
    fn poll_stream<T: Transport>(
        &mut self,
        io: &mut T,
        machine: &mut ServerConnection,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), SendFault>> {
        let mut turn_bytes = TURN_BYTES;
        while let Some(stream) = &mut self.stream {
            if self.out.len() >= GATHERED_BYTES {
                turn_bytes = turn_bytes.saturating_sub(self.out.len() as u64);
                if self.poll_flush(io, cx, now)?.is_pending() {
                    return self.read_ahead(cx, now);
                }
                continue;
            }
            if turn_bytes == 0 {
                return give_turn(cx);
            }
            // A panic in a body is a fault of that body: the answer is cut, and the connection closed as it should be.
            let poll = || catch_unwind(AssertUnwindSafe(|| stream.poll_piece(cx, now)));
            let (piece, due) = deadline::collect(now, poll);
            self.due = due;
            match piece.map_err(|_| SendFault::Panicked)? {
                Poll::Pending => {
                    ready!(self.poll_flush(io, cx, now))?;
                    return Poll::Pending;
                }
                Poll::Ready(None) => self.stream = None,
                Poll::Ready(Some(Err(_))) => {
                    // What there was before belongs to the client, the head first of all: it tells a cut answer from none.
                    let _ = self.poll_flush(io, cx, now);
                    return Poll::Ready(Err(SendFault::Cut));
                }
                Poll::Ready(Some(Ok(BodyPiece::Data(data)))) => {
                    self.body_bytes += data.len() as u64;
                    machine.piece(&data, &mut self.out).map_err(|_| SendFault::Cut)?;
                }
                Poll::Ready(Some(Ok(BodyPiece::Trailers(fields)))) => self.trailers = Some(fields),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The client takes nothing: the body may read ahead from its source meanwhile.
    pub(super) fn read_ahead<R>(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<R, SendFault>> {
        if let Some(stream) = &mut self.stream {
            let poll = || catch_unwind(AssertUnwindSafe(|| stream.poll_ahead(cx, now)));
            let (ahead, due) = deadline::collect(now, poll);
            self.due = due;
            ahead.map_err(|_| SendFault::Panicked)?;
        }
        Poll::Pending
    }

    /// Counts bytes of the body that went past the machine.
    fn count_bare(&mut self, bytes: u64, machine: &mut ServerConnection) -> Result<(), SendFault> {
        self.body_bytes += bytes;
        machine.raw_piece(bytes, &mut self.out).map_err(|_| SendFault::Cut)
    }

    /// Keeps the pace of the peer: it is waited for while the socket takes nothing.
    fn paced<T: Transport, E: Into<SendFault>>(
        &mut self,
        moved: Poll<Result<usize, E>>,
        io: &T,
        now: Instant,
    ) -> Poll<Result<usize, SendFault>> {
        match moved {
            Poll::Pending => {
                if self.unacknowledged.is_none() {
                    self.unacknowledged = io.unacknowledged().ok();
                }
                self.pace.wait(now);
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(bytes)) => {
                self.unacknowledged = None;
                self.pace.moved(bytes as u64, now);
                self.sent_bytes += bytes as u64;
                Poll::Ready(Ok(bytes))
            }
        }
    }
}

/// `sendfile` tells the faults of the file and those of the socket in the same way.
fn fault_of_file(error: &io::Error) -> SendFault {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected
        | io::ErrorKind::TimedOut => SendFault::PeerGone,
        _ => SendFault::Cut,
    }
}

/// Whether the open file is no longer what the answer's head described.
fn has_changed(range: &FileRange) -> bool {
    rustix::fs::fstat(range.file.as_fd()).map_or(true, |stat| {
        let modified_ns = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        u64::try_from(stat.st_size) != Ok(range.size) || modified_ns != range.modified_ns
    })
}
