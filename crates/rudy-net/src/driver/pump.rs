//! The pump: from a body to the [`Output`] of its connection, whatever the protocol. What is framed goes through the thread's
//! scratch buffer, large pieces and files past it, and only what is not framed yet is kept: a stream that waits for its next
//! piece has a pump of 24 bytes.

use std::task::Poll;

use bytes::BytesMut;
use rudy_http::h1::LengthError;

use super::framing::Framing;
use super::output::{Output, RawPiece, Reading, poll_cached};
use super::poll_context::PollContext;
use crate::transport::Stream;
use crate::{Body, BodyPiece, BodyStream, EndReason};

/// Pieces are gathered up to this before they are written, and copied if they are no larger: 16 KiB cost less to copy than a
/// second segment of a gathered write costs the kernel to look at, and several small ones leave in one write.
pub(super) const GATHERED_BYTES: usize = 16 * 1024;

/// What is still to be framed of a response.
#[derive(Default)]
pub(crate) struct Pump {
    /// What yields the rest of the body; `None` where nothing more comes.
    stream: Option<Box<dyn BodyStream>>,
    /// The rest of a piece that goes past the buffer; it comes before what the stream yields.
    rest: Option<Box<Unframed>>,
}

/// A piece that is not framed yet.
struct Unframed {
    raw: RawPiece,
    /// Brings what comes next of a file into memory.
    reading: Option<Reading>,
}

/// What there is to send.
pub(crate) enum Filled {
    /// What was framed, and this behind it; or nothing more, if the body [has ended](Framing::has_ended).
    Ready(Option<RawPiece>),
    /// What was framed, and that is all for now.
    Idle,
    /// What was framed, and the peer takes no more of the body now.
    Blocked,
}

impl Pump {
    /// The body of the response whose head was framed last.
    pub(crate) fn set_body(&mut self, body: Body) {
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.set_rest(RawPiece::Bytes(bytes)),
            Body::File(range) => self.set_rest(RawPiece::File(range)),
            Body::Stream(stream) => self.stream = Some(stream),
        }
    }

    fn set_rest(&mut self, raw: RawPiece) {
        if raw.length() > 0 {
            self.rest = Some(Box::new(Unframed { raw, reading: None }));
        }
    }

    /// Whether the body is live, and would not end by itself.
    pub(super) fn is_live(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_live())
    }

    /// Drops what is to come of the body: it ends here.
    pub(super) fn end_body(&mut self) {
        self.stream = None;
    }

    /// Sends `out` and what is queued, and then as much as the body has and the socket takes, for a body that has the connection
    /// for itself. Ready when the whole response has been handed to the kernel, or when it stays incomplete.
    pub(super) fn poll(
        &mut self,
        io: &mut Stream,
        output: &mut Output,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Poll<Result<(), EndReason>> {
        let mut raw = None;
        // A head that nothing is queued before leaves with the beginning of its body.
        let mut sends = output.has_queued() || framing.has_ended();
        loop {
            if sends && output.poll(io, poll_cx, out, raw.take())?.is_pending() {
                return self.poll_blocked(poll_cx);
            }
            if framing.has_ended() && sends {
                return Poll::Ready(Ok(()));
            }
            sends = true;
            if poll_cx.budget_bytes == 0 {
                return poll_cx.yield_now();
            }
            match self.fill(framing, poll_cx, out) {
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
                    // What there was before belongs to the client, the head first of all: it tells a cut response from none.
                    let _ = output.poll(io, poll_cx, out, None);
                    return Poll::Ready(Err(end_reason));
                }
            }
        }
    }

    /// Frames what the body has by now behind `out`: up to [`GATHERED_BYTES`], or up to a piece that goes past the buffer. To be
    /// called when everything before has been sent.
    ///
    /// # Errors
    ///
    /// The body fails, or its length is wrong: it stays incomplete. What is in `out` is whole.
    pub(crate) fn fill(
        &mut self,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        while out.len() < GATHERED_BYTES && poll_cx.budget_bytes > 0 && !framing.has_ended() {
            let max = framing.window().min(poll_cx.budget_bytes);
            if self.rest.is_none() && self.stream.is_none() {
                framing.finish(None, poll_cx.now, out).map_err(too_long)?;
                break;
            }
            if max == 0 {
                return Ok(Filled::Blocked);
            }
            if let Some(rest) = &mut self.rest {
                let mut length = rest.raw.length().min(max);
                if let RawPiece::File(range) = &rest.raw {
                    match poll_cached(range, length, &mut rest.reading, poll_cx)? {
                        Poll::Ready(cached) => length = cached.min(max),
                        Poll::Pending => return Ok(Filled::Idle),
                    }
                }
                return self.frame_rest(length, framing, poll_cx, out);
            }
            let Some(stream) = &mut self.stream else { break };
            match poll_cx.poll(|cx, now| stream.poll_piece(cx, now, max))? {
                Poll::Pending => {
                    poll_cx.wake_at(stream.due());
                    framing.piece(&[], out).map_err(too_long)?;
                    return Ok(Filled::Idle);
                }
                Poll::Ready(None) => self.stream = None,
                Poll::Ready(Some(Err(_))) => return Err(EndReason::Aborted),
                Poll::Ready(Some(Ok(piece))) => self.take(piece, max, framing, poll_cx, out)?,
            }
        }
        Ok(Filled::Ready(None))
    }

    /// Frames as much of a large piece as goes into one frame, and keeps the rest.
    fn frame_rest(
        &mut self,
        length: u64,
        framing: &mut impl Framing,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<Filled, EndReason> {
        let Some(rest) = self.rest.take() else { return Ok(Filled::Ready(None)) };
        let mut raw = rest.raw;
        let framed = framing.begin_raw(length, out).map_err(too_long)?;
        poll_cx.framed(framed);
        if framed == raw.length() {
            return Ok(Filled::Ready(Some(raw)));
        }
        let first = raw.split_to(framed);
        self.set_rest(raw);
        Ok(Filled::Ready(Some(first)))
    }

    /// Frames a piece if it is small, and keeps it otherwise.
    fn take(
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
                framing.piece(&data, out).map_err(too_long)?;
            }
            BodyPiece::Data(data) => self.set_rest(RawPiece::Bytes(data)),
            BodyPiece::File(range) => self.set_rest(RawPiece::File(range)),
            BodyPiece::Trailers(trailers) => {
                framing.finish(Some(&trailers), poll_cx.now, out).map_err(too_long)?;
                self.stream = None;
            }
        }
        Ok(())
    }

    /// The client takes nothing: the body may read ahead from its source meanwhile, or give the client up.
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

fn too_long(_: LengthError) -> EndReason {
    EndReason::Aborted
}
