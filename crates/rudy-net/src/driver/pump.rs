//! The pump: moves a body to the [`Output`] of its connection, for any protocol. Small pieces are framed in
//! the thread's scratch buffer; large pieces and files bypass it. Only unframed data is stored, so a stream
//! that waits for its next piece has a pump of 24 bytes.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use rudy_message::LengthError;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, EndReason, GATHERED_BYTES};

use super::frames::{Frames, has_shrunk};
use super::framing::{Framing, Layout};
use super::output::{Output, RawPiece, Reading, poll_cached, shrunk};
use super::poll_context::PollContext;
use crate::transport::Stream;

/// The unframed part of a response.
#[derive(Default)]
pub(crate) struct Pump {
    /// The rest of the body; `None` at its end.
    stream: Option<Box<dyn BodyStream>>,
    /// The unframed rest of a large piece, which precedes the stream's next piece.
    rest: Option<Box<Unframed>>,
}

/// A piece that is not framed yet.
struct Unframed {
    raw: RawPiece,
    /// Reads the next part of a file into the page cache.
    reading: Option<Reading>,
    /// Whether a part was sent.
    has_begun: bool,
}

impl Unframed {
    /// Copies the start of the piece into frames, at most `bytes`, and removes it. Returns its size; `None` if it is read from a disk.
    fn copy(
        &mut self,
        bytes: usize,
        frames: &mut Frames,
        poll_cx: &mut PollContext<'_, '_>,
    ) -> Result<Option<usize>, EndReason> {
        let RawPiece::File(range) = &mut self.raw else {
            if let RawPiece::Bytes(data) = &mut self.raw {
                frames.copy(&data.split_to(bytes));
            }
            return Ok(Some(bytes));
        };
        let is_first = !self.has_begun;
        let mut read = None;
        if self.reading.is_none() {
            read = frames.read(range, bytes, (false, is_first))?;
        }
        if read.is_none()
            && let Poll::Ready(cached) = poll_cached(range, bytes as u64, &mut self.reading, false, poll_cx)?
        {
            let cached = usize::try_from(cached).unwrap_or(bytes).min(bytes);
            read = frames.read(range, cached, (true, is_first))?;
        }
        if let Some(read) = read {
            self.has_begun = true;
            range.start += read as u64;
            range.length -= read as u64;
        }
        Ok(read)
    }
}

/// A body that has failed, while the data before the failure is sent.
struct Failed;

impl BodyStream for Failed {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(Some(Err("the body has failed".into())))
    }
}

/// What [`Pump::fill`] has produced.
pub(crate) enum Filled {
    /// Framed bytes, and a piece to send after them; or nothing, if the body [has ended](Framing::has_ended).
    Ready(Option<RawPiece>),
    /// Framed bytes; the body has no more data now.
    Idle,
    /// Framed bytes; the peer's window is full.
    Blocked,
}

impl Pump {
    /// Sets the body of the response whose head was framed last.
    pub(crate) fn set_body(&mut self, body: Body) {
        match body {
            Body::Empty | Body::Silence => {}
            Body::Bytes(bytes) => self.set_rest(RawPiece::Bytes(bytes)),
            Body::File(range) => self.set_rest(RawPiece::File(range)),
            Body::Stream(stream) => self.stream = Some(stream),
        }
    }

    fn set_rest(&mut self, raw: RawPiece) {
        if raw.length() > 0 {
            self.rest = Some(Box::new(Unframed { raw, reading: None, has_begun: false }));
        }
    }

    /// Whether the body is live, so that it would not end by itself.
    pub(super) fn is_live(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_live())
    }

    /// Ends the body here, dropping the rest, except for what completes it.
    pub(super) fn end_body(&mut self) {
        self.stream.take_if(|stream| !stream.end());
    }

    /// Sends `out`, the queue, and as much of the body as is available and the socket accepts, for a body
    /// that has the connection to itself. Ready when the kernel has the whole response, or when the response
    /// fails.
    pub(super) fn poll(
        &mut self,
        io: &mut Stream,
        output: &mut Output,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), EndReason>> {
        let mut raw = None;
        // If the queue is empty, the head is sent together with the start of the body, unless that has to wait: `out` is not kept.
        let mut sends = output.has_queued() || framing.has_ended() || poll_cx.budget.is_spent();
        loop {
            if sends && output.poll(io, poll_cx, out, raw.take())?.is_pending() {
                return self.poll_blocked(poll_cx);
            }
            if framing.has_ended() && sends {
                return Poll::Ready(Ok(()));
            }
            sends = true;
            if poll_cx.budget.is_spent() {
                return poll_cx.yield_now();
            }
            raw = self.take_piped(io, framing, poll_cx, out)?;
            if raw.is_some() {
                continue;
            }
            let piece = io.piece_bytes();
            let layout = piece.map(|data_bytes| Layout { head_bytes: 0, data_bytes, frames: 1 });
            match self.fill(framing, layout, poll_cx, out) {
                Ok(Filled::Ready(behind)) => raw = behind,
                Ok(filled) => {
                    if output.poll(io, poll_cx, out, None)?.is_pending() || matches!(filled, Filled::Blocked)
                    {
                        return self.poll_blocked(poll_cx);
                    }
                    output.release();
                    return Poll::Pending;
                }
                Err(end_reason) => {
                    // Sends the preceding data in any case: the client may use it, and the head distinguishes an
                    // aborted response from no response.
                    let sent = output.poll(io, poll_cx, out, None);
                    if end_reason != EndReason::Aborted || sent.is_ready() {
                        return Poll::Ready(Err(end_reason));
                    }
                    self.rest = None;
                    self.stream = Some(Box::new(Failed));
                    return Poll::Pending;
                }
            }
        }
    }

    /// Frames bytes that the kernel moves from the source of the body to the client.
    fn take_piped(
        &mut self,
        io: &Stream,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Option<RawPiece>, EndReason> {
        let Some(stream) = self.stream.as_mut().filter(|_| self.rest.is_none()) else { return Ok(None) };
        if io.plain_socket().is_none() || framing.has_ended() {
            return Ok(None);
        }
        let max = framing.window().min(poll_cx.budget.bytes());
        let Some(piped) = stream.take_piped(max) else { return Ok(None) };
        poll_cx.framed(framing.begin_raw(piped.length(), out).map_err(length_error)?);
        Ok(Some(RawPiece::Pipe(piped)))
    }

    /// Frames available data of the body in `out`: up to [`GATHERED_BYTES`], or up to a piece that bypasses
    /// the buffer. With `layout`, files are copied, and other large pieces if there are frames. Call this after everything before has been sent.
    ///
    /// # Errors
    ///
    /// The body fails, or its length is wrong: the response stays incomplete. `out` contains whole frames.
    pub(crate) fn fill(
        &mut self,
        framing: &mut impl Framing,
        layout: Option<Layout>,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        while out.len() < GATHERED_BYTES && !poll_cx.budget.is_spent() && !framing.has_ended() {
            let max = framing.window().min(poll_cx.budget.bytes());
            if self.rest.is_none() && self.stream.is_none() {
                framing.finish(None, poll_cx.now, out).map_err(length_error)?;
                break;
            }
            if max == 0 {
                return Ok(Filled::Blocked);
            }
            if let Some(rest) = &mut self.rest {
                let is_file = matches!(rest.raw, RawPiece::File(_));
                if let Some(layout) = layout.filter(|layout| is_file || layout.head_bytes > 0) {
                    return self.frame_piece(layout, framing, poll_cx, out);
                }
                let mut length = rest.raw.length().min(max);
                if let RawPiece::File(range) = &rest.raw {
                    match poll_cached(range, length, &mut rest.reading, rest.has_begun, poll_cx)? {
                        Poll::Ready(cached) => length = cached.min(max),
                        Poll::Pending => return Ok(Filled::Idle),
                    }
                    if has_shrunk(range, length, !rest.has_begun) {
                        return Err(shrunk(range));
                    }
                }
                return self.frame_rest(length, framing, poll_cx, out);
            }
            let Some(stream) = &mut self.stream else { break };
            match poll_cx.poll(|cx, now| stream.poll_piece(cx, now, max))? {
                Poll::Pending => {
                    poll_cx.wake_at(stream.due());
                    framing.encode_piece(&[], out).map_err(length_error)?;
                    return Ok(Filled::Idle);
                }
                Poll::Ready(None) => self.stream = None,
                Poll::Ready(Some(Err(_))) => return Err(EndReason::Aborted),
                Poll::Ready(Some(Ok(piece))) => self.frame_or_store(piece, max, framing, poll_cx, out)?,
            }
        }
        Ok(Filled::Ready(None))
    }

    /// Frames as much of a large piece as one frame holds, and stores the rest.
    fn frame_rest(
        &mut self,
        length: u64,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let Some(rest) = &mut self.rest else { return Ok(Filled::Ready(None)) };
        let framed = framing.begin_raw(length, out).map_err(length_error)?;
        poll_cx.framed(framed);
        rest.has_begun = true;
        if framed == rest.raw.length() {
            return Ok(Filled::Ready(self.rest.take().map(|rest| rest.raw)));
        }
        Ok(Filled::Ready(Some(rest.raw.split_to(framed))))
    }

    /// Copies the next bytes of a large piece or of a file into frames.
    fn frame_piece(
        &mut self,
        layout: Layout,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let Some(rest) = self.rest.as_deref_mut() else { return Ok(Filled::Ready(None)) };
        let (mut length, frame) = (rest.raw.length().min(framing.window()), layout.data_bytes as u64);
        if length > poll_cx.budget.bytes() {
            // Whole frames: smaller ones are not worth their cost.
            length = length.min(poll_cx.budget.bytes() / frame * frame);
        }
        if length == 0 {
            poll_cx.budget.spend(u64::MAX);
            return Ok(Filled::Ready(None));
        }
        let mut frames = Frames::new(layout);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(frames.data_bytes_max());
        let Some(copied) = rest.copy(length, &mut frames, poll_cx)? else { return Ok(Filled::Idle) };
        frames.begin(copied, out, |bytes, out| framing.begin_raw(bytes, out)).map_err(length_error)?;
        poll_cx.framed(copied as u64);
        self.rest.take_if(|rest| rest.raw.length() == 0);
        Ok(Filled::Ready(Some(RawPiece::Frames(frames))))
    }

    /// Frames a small piece, and stores a large one.
    fn frame_or_store(
        &mut self,
        piece: BodyPiece,
        max: u64,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<(), EndReason> {
        match piece {
            BodyPiece::Data(data) if data.len() <= GATHERED_BYTES && data.len() as u64 <= max => {
                poll_cx.framed(data.len() as u64);
                framing.encode_piece(&data, out).map_err(length_error)?;
            }
            BodyPiece::Data(data) => self.set_rest(RawPiece::Bytes(data)),
            BodyPiece::File(range) => self.set_rest(RawPiece::File(range)),
            BodyPiece::Trailers(trailers) => {
                framing.finish(Some(&trailers), poll_cx.now, out).map_err(length_error)?;
                self.stream = None;
            }
        }
        Ok(())
    }

    /// Called while the client does not read: the body may read ahead from its source, or give up the client.
    pub(crate) fn poll_blocked(&mut self, poll_cx: &mut PollContext<'_, '_>) -> Poll<Result<(), EndReason>> {
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        match poll_cx.poll(|cx, now| stream.poll_blocked(cx, now)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => {
                poll_cx.counters.dropped.add(1);
                Poll::Ready(Err(EndReason::PeerStalled))
            }
            Err(end_reason) => Poll::Ready(Err(end_reason)),
        }
    }
}

fn length_error(_: LengthError) -> EndReason {
    EndReason::Aborted
}
