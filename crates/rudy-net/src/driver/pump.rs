//! The pump: from a body to the socket, whatever the protocol. What is framed goes through the thread's scratch buffer, large
//! pieces and files past it, and only what the socket does not take is kept: a stream that waits for its next piece has a
//! pump of 40 bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use rudy_http::Limits;
use rudy_http::h1::{LengthError, Pace};

use super::framing::Framing;
use super::record::Record;
use super::turn::Turn;
use crate::file::{is_cached, read_into_cache};
use crate::transport::Stream;
use crate::{Body, BodyPiece, BodyStream, Ended, FileRange};

/// Pieces are gathered up to this before they are written, and copied if they are no larger: 16 KiB cost less to copy than a
/// second segment of a gathered write costs the kernel to look at, and several small ones leave in one write.
pub(super) const GATHERED_BYTES: usize = 16 * 1024;

/// What is still to be sent of a response.
#[derive(Default)]
pub(crate) struct Pump {
    /// What yields the rest of the body.
    stream: Option<Box<dyn BodyStream>>,
    backlog: Option<Box<Backlog>>,
    /// The end of the body has been framed.
    ended: bool,
    /// Bytes handed to the transport.
    pub(crate) sent_bytes: u64,
    /// Bytes of the body among what was framed.
    pub(crate) body_bytes: u64,
}

/// What waits for room in the socket, and for how long.
#[derive(Default)]
struct Backlog {
    /// Framed.
    out: BytesMut,
    /// Goes behind it as it is.
    raw: Option<Raw>,
    /// How many bytes of `raw` are framed.
    framed: u64,
    /// Brings what comes next of a file into memory.
    reading: Option<Reading>,
    pace: Pace,
    /// What the peer had not acknowledged when we last looked, while we wait for it.
    unacknowledged: Option<u64>,
    /// Of the responses in `out` that are before this one in a pipeline.
    earlier: Vec<Record>,
}

/// A piece of a file that the pool for blocking work reads.
type Reading = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A piece of the body that is too large to be copied.
enum Raw {
    Bytes(Bytes),
    File(FileRange),
}

/// What there is to write.
enum Filled {
    /// Something, or the end.
    Some,
    /// All that there is for now.
    All,
    /// The peer takes no more of the body now.
    Blocked,
}

impl Pump {
    /// Nothing but what is framed already, and the responses that it holds.
    pub(super) fn framed(out: &BytesMut, earlier: Vec<Record>) -> Self {
        let mut pump = Self { ended: true, ..Self::default() };
        pump.push(out, earlier);
        pump
    }

    /// Queues what was framed before the body.
    pub(super) fn push(&mut self, out: &[u8], earlier: Vec<Record>) {
        if !out.is_empty() || !earlier.is_empty() {
            let backlog = self.backlog.get_or_insert_default();
            backlog.out.extend_from_slice(out);
            backlog.earlier.extend(earlier);
        }
    }

    /// The body of the response whose head was framed last.
    pub(crate) fn set_body(&mut self, body: Body) {
        self.ended = false;
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.set_raw(Raw::Bytes(bytes)),
            Body::File(range) => self.set_raw(Raw::File(range)),
            Body::Stream(stream) => self.stream = Some(stream),
        }
    }

    fn set_raw(&mut self, raw: Raw) {
        if raw.length() > 0 {
            self.backlog.get_or_insert_default().raw = Some(raw);
        }
    }

    /// The end of the body has been framed together with its head.
    pub(super) fn set_ended(&mut self) {
        self.ended = true;
    }

    /// Whether the body is live, and would not end by itself.
    pub(super) fn is_live(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_live())
    }

    /// Drops what is to come of the body: it ends here.
    pub(super) fn end_body(&mut self) {
        self.stream = None;
    }

    /// Sends `out` and what is queued, and then as much as the body has and the socket takes. Ready when the whole response has
    /// been handed to the kernel, or when it stays incomplete.
    pub(crate) fn poll(
        &mut self,
        io: &mut Stream,
        framing: &mut impl Framing,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), Ended>> {
        loop {
            if self.poll_queued(io, turn, out)?.is_pending() {
                return self.poll_blocked(turn);
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if turn.left_bytes == 0 {
                return turn.give_way();
            }
            match self.fill(framing, turn, out) {
                Ok(Filled::Some) => {}
                Ok(Filled::All) => {
                    if self.poll_queued(io, turn, out)?.is_pending() {
                        return self.poll_blocked(turn);
                    }
                    self.backlog = self.backlog.take().filter(|backlog| backlog.raw.is_some());
                    return Poll::Pending;
                }
                Ok(Filled::Blocked) => {
                    if self.poll_queued(io, turn, out)?.is_ready() {
                        self.wait(io, turn.now);
                    }
                    return self.poll_blocked(turn);
                }
                Err(ended) => {
                    // What there was before belongs to the client, the head first of all: it tells a cut response from none.
                    let _ = self.poll_queued(io, turn, out);
                    return Poll::Ready(Err(ended));
                }
            }
        }
    }

    /// Sends `out` behind what is queued, and nothing else. Ready when all of it has been handed to the kernel.
    pub(super) fn poll_queued(
        &mut self,
        io: &mut Stream,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), Ended>> {
        if let Some(backlog) = &mut self.backlog
            && !backlog.out.is_empty()
        {
            backlog.out.extend_from_slice(out);
            out.clear();
        }
        loop {
            let sent = match self.poll_send(io, turn, out) {
                Some(Poll::Ready(sent)) => sent?,
                Some(Poll::Pending) => {
                    let backlog = self.wait(io, turn.now);
                    backlog.out.extend_from_slice(out);
                    out.clear();
                    return Poll::Pending;
                }
                None => break,
            };
            self.sent_bytes += sent;
            turn.counters.sent_bytes.add(sent);
            self.progress(sent, turn.now);
        }
        self.settle_earlier(Ended::Complete);
        match io.poll_flush(turn.cx) {
            Poll::Ready(flushed) => {
                self.progress(0, turn.now);
                Poll::Ready(flushed.map_err(|_| Ended::PeerGone))
            }
            Poll::Pending => {
                self.wait(io, turn.now);
                Poll::Pending
            }
        }
    }

    /// Sends something of what is queued, and takes it away. `None`: nothing is.
    fn poll_send(
        &mut self,
        io: &mut Stream,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Option<Poll<Result<u64, Ended>>> {
        let Some(backlog) = &mut self.backlog else {
            return (!out.is_empty()).then(|| poll_write(io, turn, out, false));
        };
        let Backlog { out: queued, raw, framed, .. } = &mut **backlog;
        let out = if queued.is_empty() { out } else { queued };
        let sent = match raw {
            Some(Raw::Bytes(bytes)) if *framed > 0 => poll_write_with(io, turn, out, bytes, framed),
            Some(Raw::File(range)) if *framed > 0 && out.is_empty() => poll_file(io, turn, range, framed),
            _ if out.is_empty() => return None,
            _ => poll_write(io, turn, out, *framed > 0),
        };
        if raw.as_ref().is_some_and(|raw| raw.length() == 0) {
            *raw = None;
        }
        Some(sent)
    }

    /// Frames what the body has by now: up to [`GATHERED_BYTES`], or up to a piece that goes past the buffer.
    fn fill(
        &mut self,
        framing: &mut impl Framing,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, Ended> {
        while out.len() < GATHERED_BYTES && turn.left_bytes > 0 {
            let max = framing.window().min(turn.left_bytes);
            if let Some(backlog) = self.backlog.as_mut()
                && let Some(raw) = &backlog.raw
            {
                if max == 0 {
                    return Ok(Filled::Blocked);
                }
                let length = raw.length().min(max);
                if poll_cached(raw, length, &mut backlog.reading, turn)?.is_pending() {
                    return Ok(Filled::All);
                }
                backlog.framed = framing.begin_raw(length, out).map_err(too_long)?;
                self.body_bytes += backlog.framed;
                turn.left_bytes -= backlog.framed;
                return Ok(Filled::Some);
            }
            let Some(stream) = &mut self.stream else {
                framing.finish(None, turn.now, out).map_err(too_long)?;
                self.ended = true;
                return Ok(Filled::Some);
            };
            if max == 0 {
                return Ok(Filled::Blocked);
            }
            match turn.poll(|cx, now| stream.poll_piece(cx, now, max))?.0 {
                Poll::Pending => {
                    turn.wake_at(stream.due());
                    framing.piece(&[], out).map_err(too_long)?;
                    return Ok(Filled::All);
                }
                Poll::Ready(None) => self.stream = None,
                Poll::Ready(Some(Err(_))) => return Err(Ended::Cut),
                Poll::Ready(Some(Ok(piece))) => self.take(piece, max, framing, turn, out)?,
            }
        }
        Ok(Filled::Some)
    }

    /// Frames a piece if it is small, and keeps it otherwise.
    fn take(
        &mut self,
        piece: BodyPiece,
        max: u64,
        framing: &mut impl Framing,
        turn: &mut Turn<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<(), Ended> {
        match piece {
            BodyPiece::Data(data) if data.len() <= GATHERED_BYTES && data.len() as u64 <= max => {
                self.body_bytes += data.len() as u64;
                turn.left_bytes -= data.len() as u64;
                framing.piece(&data, out).map_err(too_long)?;
            }
            BodyPiece::Data(data) => self.set_raw(Raw::Bytes(data)),
            BodyPiece::File(range) => self.set_raw(Raw::File(range)),
            BodyPiece::Trailers(trailers) => {
                self.stream = None;
                framing.finish(Some(&trailers), turn.now, out).map_err(too_long)?;
                self.ended = true;
            }
        }
        Ok(())
    }

    /// The client takes nothing: the body may read ahead from its source meanwhile, or give the client up.
    fn poll_blocked(&mut self, turn: &mut Turn<'_, '_>) -> Poll<Result<(), Ended>> {
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        match turn.poll(|cx, now| stream.poll_blocked(cx, now)) {
            Ok((Poll::Pending, _)) => {
                turn.wake_at(stream.due());
                Poll::Pending
            }
            Ok((Poll::Ready(()), _)) => {
                turn.counters.dropped.add(1);
                Poll::Ready(Err(Ended::PeerStalled))
            }
            Err(ended) => Poll::Ready(Err(ended)),
        }
    }

    /// The peer has taken so many bytes: we no longer wait for it.
    fn progress(&mut self, sent: u64, now: Instant) {
        if let Some(backlog) = &mut self.backlog {
            backlog.unacknowledged = None;
            backlog.pace.moved(sent, now);
        }
    }

    /// From here on we wait for the peer, if we did not yet.
    fn wait(&mut self, io: &Stream, now: Instant) -> &mut Backlog {
        let backlog = self.backlog.get_or_insert_default();
        if backlog.unacknowledged.is_none() {
            backlog.unacknowledged = io.unacknowledged().ok();
        }
        backlog.pace.wait(now);
        backlog
    }

    /// When a peer that does not read, or hardly, has had its time.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let pace = &self.backlog.as_ref()?.pace;
        let rate = pace.rate_deadline(limits.rate_grace, limits.send_rate_min);
        let stall = pace.stall_deadline(limits.send_stall_time);
        rate.into_iter().chain(stall).min()
    }

    /// Whether the peer has had its time, and has not read after all meanwhile.
    pub(super) fn has_stalled(&mut self, io: &Stream, limits: &Limits, now: Instant) -> bool {
        let is_over = |pump: &Self| pump.deadline(limits).is_some_and(|deadline| deadline <= now);
        is_over(self) && (!self.has_progressed(io, now) || is_over(self))
    }

    /// At a deadline: whether the peer has read after all. The socket had no room for us, and yet it may have taken what the
    /// kernel still held.
    pub(super) fn has_progressed(&mut self, io: &Stream, now: Instant) -> bool {
        let Some(backlog) = &mut self.backlog else { return false };
        let (Some(before), Ok(left)) = (backlog.unacknowledged, io.unacknowledged()) else { return false };
        backlog.unacknowledged = Some(left);
        if left >= before {
            return false;
        }
        backlog.pace.progressed(now);
        true
    }

    /// Tells how the responses before this one have ended.
    pub(super) fn settle_earlier(&mut self, ended: Ended) {
        if let Some(backlog) = &mut self.backlog {
            backlog.earlier.drain(..).for_each(|mut record| record.finish(ended));
        }
    }
}

impl Raw {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }
}

/// Ready when what comes next of a file can be sent without waiting for a disk, which would stop every connection of the core.
fn poll_cached(
    raw: &Raw,
    length: u64,
    reading: &mut Option<Reading>,
    turn: &mut Turn<'_, '_>,
) -> Poll<Result<(), Ended>> {
    let Raw::File(range) = raw else { return Poll::Ready(Ok(())) };
    if reading.is_none() {
        if is_cached(&range.file, range.start, length) {
            return Poll::Ready(Ok(()));
        }
        *reading = Some(Box::pin(read_into_cache(range.file.clone(), range.start, length)));
    }
    let Some(future) = reading else { return Poll::Ready(Ok(())) };
    let read = ready!(future.as_mut().poll(turn.cx));
    *reading = None;
    Poll::Ready(read.map_err(|_| Ended::Cut))
}

fn too_long(_: LengthError) -> Ended {
    Ended::Cut
}

/// Writes what is framed; `more` follows at once.
fn poll_write(
    io: &mut Stream,
    turn: &mut Turn<'_, '_>,
    out: &mut BytesMut,
    more: bool,
) -> Poll<Result<u64, Ended>> {
    let written = io.poll_write(turn.cx, &[IoSlice::new(out)], more);
    written.map_err(|_| Ended::PeerGone).map_ok(|written| {
        out.advance(written);
        written as u64
    })
}

/// Writes what is framed, and of `bytes` behind it as many as are.
fn poll_write_with(
    io: &mut Stream,
    turn: &mut Turn<'_, '_>,
    out: &mut BytesMut,
    bytes: &mut Bytes,
    framed: &mut u64,
) -> Poll<Result<u64, Ended>> {
    let first = usize::try_from(*framed).unwrap_or(usize::MAX).min(bytes.len());
    let slices = [IoSlice::new(out), IoSlice::new(&bytes[..first])];
    let slices = if out.is_empty() { &slices[1..] } else { &slices[..] };
    let written = ready!(io.poll_write(turn.cx, slices, false)).map_err(|_| Ended::PeerGone)?;
    let of_out = written.min(out.len());
    out.advance(of_out);
    bytes.advance(written - of_out);
    *framed -= (written - of_out) as u64;
    Poll::Ready(Ok(written as u64))
}

/// Has the transport send a piece of a file. A file that shrank, or is seen to have changed in place, cuts the response: what was
/// promised can no longer be kept. (What changes between our look and the kernel's read cannot be seen from here.)
fn poll_file(
    io: &mut Stream,
    turn: &mut Turn<'_, '_>,
    range: &mut FileRange,
    framed: &mut u64,
) -> Poll<Result<u64, Ended>> {
    let length = usize::try_from(*framed).unwrap_or(usize::MAX);
    let sent = ready!(io.poll_send_file(turn.cx, &range.file, range.start, length));
    let sent = sent.map_err(|error| fault_of_file(&error))? as u64;
    if sent == 0 || range.has_changed() {
        return Poll::Ready(Err(Ended::Cut));
    }
    range.start += sent;
    range.length -= sent;
    *framed -= sent;
    Poll::Ready(Ok(sent))
}

/// `sendfile` tells the faults of the file and those of the socket in the same way.
fn fault_of_file(error: &io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected
        | io::ErrorKind::TimedOut => Ended::PeerGone,
        _ => Ended::Cut,
    }
}
