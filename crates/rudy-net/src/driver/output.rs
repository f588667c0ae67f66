//! The output queue of a connection, which all of its bodies share. It stores only what the socket does not
//! accept. A connection that waits for the next piece of a body stores nothing.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use rudy_http::Limits;
use rudy_http::Pace;
use rudy_runtime::is_planted;
use rudy_service::file::{is_cached, read_into_cache};
use rudy_service::{EndReason, FileRange, Piped};

use super::frames::Frames;
use super::poll_context::PollContext;
use super::record::Record;
use crate::transport::Stream;

/// The framed output of a connection. While it is not empty no further body is framed: a frame that has begun
/// is always completed, even if its body is dropped.
#[derive(Default)]
pub(crate) struct Output {
    backlog: Option<Box<Backlog>>,
}

/// Output that waits for room in the socket.
#[derive(Default)]
struct Backlog {
    queue: VecDeque<Segment>,
    pace: Pace,
    /// Bytes that the peer had not acknowledged at the last check, while waiting for it.
    unacknowledged: Option<u64>,
    /// Bytes that it has acknowledged since the wait began. The kernel will accept as many.
    acknowledged: u64,
    /// The records of earlier pipelined responses in the queue.
    earlier: Vec<Record>,
    /// A read of the file at the front of the queue, which was evicted from the page cache.
    reading: Option<Reading>,
}

/// A blocking read of a piece of a file on the thread pool, and the length of the piece.
pub(super) type Reading = (Pin<Box<dyn Future<Output = io::Result<()>> + Send>>, u64);

/// Framed bytes, and unframed data to send after them.
struct Segment {
    framed: BytesMut,
    raw: Option<RawPiece>,
}

/// A piece of a body that is too large to copy.
pub(crate) enum RawPiece {
    Bytes(Bytes),
    File(FileRange),
    /// It is never split.
    Pipe(Piped),
    /// Frames that are complete. They are never split.
    Frames(Frames),
}

impl Output {
    /// Queues framed bytes, with the records of the responses they contain.
    pub(super) fn push(&mut self, framed: &mut BytesMut, earlier: Vec<Record>) {
        if !framed.is_empty() {
            self.backlog.get_or_insert_default().push(framed, None);
        }
        self.add_earlier(earlier);
    }

    /// Adds records of responses, to be finished when the output has been sent.
    pub(super) fn add_earlier(&mut self, earlier: Vec<Record>) {
        if !earlier.is_empty() {
            self.backlog.get_or_insert_default().earlier.extend(earlier);
        }
    }

    /// Sends the queue, then `out`, then `raw`. Queues what the socket does not accept. Ready when the kernel
    /// has everything.
    ///
    /// # Errors
    ///
    /// The connection is broken, or a frame that has begun cannot be completed.
    pub(crate) fn poll(
        &mut self,
        io: &mut Stream,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
        mut raw: Option<RawPiece>,
    ) -> Poll<Result<(), EndReason>> {
        let before = poll_cx.sent_bytes;
        let sent = match &mut self.backlog {
            Some(backlog) if !backlog.queue.is_empty() => {
                backlog.push(out, raw.take());
                backlog.poll_queue(io, poll_cx)
            }
            _ => poll_segment(io, poll_cx, out, &mut raw),
        }?;
        let is_flushed =
            sent.is_ready() && io.poll_flush(poll_cx.cx).map_err(|_| EndReason::PeerGone)?.is_ready();
        let sent_bytes = poll_cx.sent_bytes - before;
        if let Some(backlog) = &mut self.backlog
            && (sent_bytes > 0 || is_flushed)
        {
            backlog.unacknowledged = None;
            // In a full socket, there is room for what the peer has read, some of which is counted already.
            let counted = sent_bytes.min(backlog.acknowledged);
            backlog.acknowledged -= counted;
            backlog.pace.record_bytes(sent_bytes - counted, poll_cx.now);
        }
        if !is_flushed {
            self.wait(io, poll_cx.now).push(out, raw);
            return Poll::Pending;
        }
        self.finish_earlier(EndReason::Completed);
        Poll::Ready(Ok(()))
    }

    /// Whether the queue has data or records.
    pub(super) fn has_queued(&self) -> bool {
        self.backlog.is_some()
    }

    /// Returns the size of the framed bytes in the queue.
    pub(super) fn queued_bytes(&self) -> usize {
        let queue = self.backlog.as_ref().map(|backlog| backlog.queue.iter());
        queue.into_iter().flatten().map(|segment| segment.framed.len()).sum()
    }

    /// Whether the output waits for the peer.
    pub(super) fn is_blocked(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.pace.is_waiting())
    }

    /// Frees the empty queue, because the next piece of the body may not come for a long time.
    pub(super) fn release(&mut self) {
        self.backlog = None;
    }

    /// Starts to wait for the peer, unless the output is already waiting.
    fn wait(&mut self, io: &Stream, now: Instant) -> &mut Backlog {
        let backlog = self.backlog.get_or_insert_default();
        if backlog.unacknowledged.is_none() {
            backlog.unacknowledged = io.unacknowledged().ok();
        }
        backlog.pace.start_waiting(now);
        backlog
    }

    /// Returns when a peer that reads too slowly must be dropped.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let pace = &self.backlog.as_ref()?.pace;
        let rate = pace.rate_deadline(limits.rate_grace, limits.send_rate_min);
        let stall = pace.stall_deadline(limits.send_stall_timeout);
        rate.into_iter().chain(stall).min()
    }

    /// Whether the peer has read too slowly by its deadline.
    pub(super) fn has_stalled(&mut self, io: &Stream, limits: &Limits, now: Instant) -> bool {
        let is_past_deadline =
            |output: &Self| output.deadline(limits).is_some_and(|deadline| deadline <= now);
        is_past_deadline(self) && (!self.has_progressed(io, now) || is_past_deadline(self))
    }

    /// Checks at a deadline whether the peer has read, and counts the bytes. The kernel reports room in the socket only when a
    /// third of its buffer is free, which can be a megabyte.
    pub(super) fn has_progressed(&mut self, io: &Stream, now: Instant) -> bool {
        let Some(backlog) = &mut self.backlog else { return false };
        let (Some(before), Ok(remaining)) = (backlog.unacknowledged, io.unacknowledged()) else {
            return false;
        };
        backlog.unacknowledged = Some(remaining);
        let Some(acknowledged @ 1..) = before.checked_sub(remaining) else { return false };
        backlog.acknowledged += acknowledged;
        backlog.pace.record_acknowledged(acknowledged, now);
        true
    }

    /// Finishes the records of earlier responses.
    pub(super) fn finish_earlier(&mut self, end_reason: EndReason) {
        if let Some(backlog) = &mut self.backlog {
            backlog.earlier.drain(..).for_each(|mut record| record.finish(end_reason));
        }
    }
}

impl Backlog {
    /// Adds framed bytes, and a piece to send after them.
    fn push(&mut self, framed: &mut BytesMut, raw: Option<RawPiece>) {
        let raw = raw.map(RawPiece::store);
        match self.queue.back_mut() {
            _ if framed.is_empty() && raw.is_none() => return,
            Some(last) if last.raw.is_none() => {
                last.framed.extend_from_slice(framed);
                last.raw = raw;
            }
            // Copies the bytes, because the connections of a thread share the buffer.
            _ => self.queue.push_back(Segment { framed: BytesMut::from(&framed[..]), raw }),
        }
        framed.clear();
    }

    fn poll_queue(
        &mut self,
        io: &mut Stream,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Poll<Result<(), EndReason>> {
        while let Some(Segment { framed, raw }) = self.queue.front_mut() {
            // The file may have left the page cache while it waited for the client.
            if let Some(RawPiece::File(range)) = raw {
                ready!(poll_cached(range, range.length, &mut self.reading, false, poll_cx))?;
            }
            ready!(poll_segment(io, poll_cx, framed, raw))?;
            self.queue.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

impl RawPiece {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
            Self::Pipe(piped) => piped.length(),
            Self::Frames(frames) => frames.remaining() as u64,
        }
    }

    /// Splits off the first `length` bytes. `length` must not exceed the piece.
    pub(super) fn split_to(&mut self, length: u64) -> Self {
        match self {
            Self::Bytes(bytes) => {
                Self::Bytes(bytes.split_to(usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len())))
            }
            Self::File(range) => {
                let first = FileRange { length, ..range.clone() };
                range.start += length;
                range.length -= length;
                Self::File(first)
            }
            Self::Pipe(_) | Self::Frames(_) => std::mem::replace(self, Self::Bytes(Bytes::new())),
        }
    }

    /// Frees the buffer of the thread.
    fn store(self) -> Self {
        match self {
            Self::Frames(frames) => Self::Bytes(frames.store()),
            other => other,
        }
    }
}

/// Waits until a piece of a file can be sent without waiting for a disk, which would block every connection
/// of the core. Ready with the number of bytes: `length`, or the length of the finished read. `follows` is whether the bytes before the piece
/// were cached, so that its first page is.
pub(super) fn poll_cached(
    range: &FileRange,
    length: u64,
    reading: &mut Option<Reading>,
    follows: bool,
    poll_cx: &mut PollContext<'_, '_>,
) -> Poll<Result<u64, EndReason>> {
    let start = if follows { range.start + length.saturating_sub(1) } else { range.start };
    if reading.is_none() && is_cached(&range.file, start, range.start + length - start) {
        return Poll::Ready(Ok(length));
    }
    let (future, length) = reading
        .get_or_insert_with(|| (Box::pin(read_into_cache(range.file.clone(), range.start, length)), length));
    let read = ready!(future.as_mut().poll(poll_cx.cx)).map(|()| *length);
    *reading = None;
    Poll::Ready(read.map_err(|_| EndReason::Aborted))
}

/// Sends framed bytes and then the piece after them. Ready when the transport has accepted everything.
fn poll_segment(
    io: &mut Stream,
    poll_cx: &mut PollContext<'_, '_>,
    framed: &mut BytesMut,
    raw: &mut Option<RawPiece>,
) -> Poll<Result<(), EndReason>> {
    loop {
        let sent = match raw {
            Some(RawPiece::Bytes(bytes)) => ready!(poll_write_with(io, poll_cx, framed, bytes))?,
            Some(RawPiece::Frames(frames)) => ready!(poll_write_with(io, poll_cx, framed, frames))?,
            Some(RawPiece::File(range)) if framed.is_empty() => ready!(poll_file(io, poll_cx, range))?,
            Some(RawPiece::Pipe(piped)) if framed.is_empty() => {
                ready!(io.poll_send_piped(poll_cx.cx, piped)).map_err(|_| EndReason::PeerGone)? as u64
            }
            _ if framed.is_empty() => return Poll::Ready(Ok(())),
            _ => ready!(poll_write(io, poll_cx, framed, raw.is_some()))?,
        };
        poll_cx.sent(sent);
        if raw.as_ref().is_some_and(|raw| raw.length() == 0) {
            *raw = None;
        }
    }
}

/// Writes framed bytes; `more` announces that a piece follows.
fn poll_write(
    io: &mut Stream,
    poll_cx: &mut PollContext<'_, '_>,
    framed: &mut BytesMut,
    more: bool,
) -> Poll<Result<u64, EndReason>> {
    let written = io.poll_write(poll_cx.cx, &[IoSlice::new(framed)], more);
    written.map_err(|_| EndReason::PeerGone).map_ok(|written| {
        framed.advance(written);
        written as u64
    })
}

/// Writes framed bytes together with those of a piece.
fn poll_write_with(
    io: &mut Stream,
    poll_cx: &mut PollContext<'_, '_>,
    framed: &mut BytesMut,
    piece: &mut impl Buf,
) -> Poll<Result<u64, EndReason>> {
    let slices = [IoSlice::new(framed), IoSlice::new(piece.chunk())];
    let slices = if framed.is_empty() { &slices[1..] } else { &slices[..] };
    let written = ready!(io.poll_write(poll_cx.cx, slices, false)).map_err(|_| EndReason::PeerGone)?;
    let written_framed = written.min(framed.len());
    framed.advance(written_framed);
    let is_split = written - written_framed < piece.remaining();
    let again = usize::from(is_split && written > written_framed && is_planted("a byte that is sent twice"));
    piece.advance(written - written_framed - again);
    Poll::Ready(Ok(written as u64))
}

/// Sends a piece of a file. Aborts the response if the file has become shorter than the piece.
fn poll_file(
    io: &mut Stream,
    poll_cx: &mut PollContext<'_, '_>,
    range: &mut FileRange,
) -> Poll<Result<u64, EndReason>> {
    let length = usize::try_from(range.length).unwrap_or(usize::MAX);
    let sent = ready!(io.poll_send_file(poll_cx.cx, &range.file, range.start, length));
    let sent = match sent.map_err(|error| (file_error_reason(&error), error)) {
        Ok(sent) if sent > 0 => sent as u64,
        Ok(_) => return Poll::Ready(Err(shrunk(range))),
        Err((EndReason::Aborted, error)) => {
            range.log_failure(&error);
            return Poll::Ready(Err(EndReason::Aborted));
        }
        Err((end_reason, _)) => return Poll::Ready(Err(end_reason)),
    };
    range.start += sent;
    range.length -= sent;
    Poll::Ready(Ok(sent))
}

/// Logs that a file has become shorter.
pub(super) fn shrunk(range: &FileRange) -> EndReason {
    range.log_failure(&"it became shorter while it was sent; replace a file by renaming a new one over it");
    EndReason::Aborted
}

/// Maps an error from `sendfile`, which may concern the file or the socket.
fn file_error_reason(error: &io::Error) -> EndReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected
        | io::ErrorKind::TimedOut => EndReason::PeerGone,
        _ => EndReason::Aborted,
    }
}
