//! An answer whose body is live: its pieces come at their own time, and the peer keeps up or is dropped.
//!
//! There may be ten thousand of them at once, so that this is what a stream costs beyond an idle connection: 40 bytes and
//! the body itself. A piece is framed in the thread's scratch buffer and handed to the kernel from there; only what the
//! kernel does not take is kept.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::io::ReadBuf;

use super::exchange::{Finish, HalfClose};
use super::record::Record;
use super::sending::{SendFault, Sending, TURN_BYTES};
use super::{Connection, give_turn};
use crate::close::Ending;
use crate::engine::Source;
use crate::scratch::with_scratch;
use crate::transport::Transport;
use crate::{Ended, Live};

/// Pieces that are ready at the same time are gathered up to this before they are written.
const GATHERED_BYTES: usize = 16 * 1024;

/// A live answer on its way; its head has been encoded.
pub(super) struct LiveAnswer {
    /// `None` once it has come to its end.
    body: Option<Box<dyn Live>>,
    /// What the peer has not taken yet.
    unsent: Option<Box<Sending>>,
    /// Somebody wants to know how it went.
    record: Option<Box<Record>>,
    /// What was seen of the client beside its request; `None`: nothing.
    input: Option<Box<Input>>,
}

/// What a client has sent behind its request.
#[derive(Default)]
struct Input {
    /// Bytes that were read and thrown away, to see whether the client is still there.
    discarded_bytes: u64,
    /// The client has closed its sending side.
    half_closed: Option<HalfClose>,
}

/// What the body has to say.
enum Said {
    Piece(Bytes),
    End,
    NothingYet,
}

impl LiveAnswer {
    /// `sending` holds the head, and what was encoded before it.
    pub(super) fn new(
        body: Box<dyn Live>,
        sending: Sending,
        record: Option<Record>,
        half_closed: Option<HalfClose>,
    ) -> Self {
        let record = record.filter(|record| record.observer.is_some()).map(Box::new);
        let input = half_closed
            .map(|half_closed| Box::new(Input { discarded_bytes: 0, half_closed: Some(half_closed) }));
        Self { body: Some(body), unsent: Some(Box::new(sending)), record, input }
    }

    fn half_closed(&mut self) -> Option<&mut HalfClose> {
        self.input.as_mut().and_then(|input| input.half_closed.as_mut())
    }

    /// Sends what there is by now. Ready when the answer is over.
    pub(super) fn poll<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
    ) -> Poll<Finish> {
        let now = Instant::now();
        let polled = self.poll_input(connection, cx, now).map(Err);
        let polled = if polled.is_ready() { polled } else { self.poll_output(connection, cx, now) };
        let limits = &connection.limits.http;
        // While the client does not take what it was sent, that has a deadline of its own.
        let half_close = self.half_closed().map(|half_closed| half_closed.deadline(limits));
        let half_close = half_close.filter(|_| self.unsent.is_none());
        let is_gone = polled.is_pending() && half_close.is_some_and(|deadline| deadline <= now);
        let polled = if is_gone { Poll::Ready(Err((Ended::PeerGone, Ending::Cut))) } else { polled };
        match polled {
            Poll::Ready(Ok(())) => {
                self.tell(Ended::Complete);
                Poll::Ready(connection.after_answer(self.half_closed().is_some()))
            }
            Poll::Ready(Err((ended, ending))) => {
                self.tell(ended);
                Poll::Ready(Finish::End(ending))
            }
            Poll::Pending => {
                let due = self.body.as_ref().and_then(|body| body.due());
                let stalls = self.unsent.as_ref().and_then(|unsent| unsent.deadline(limits));
                connection.timer.set([due, stalls, half_close].into_iter().flatten().min(), cx.waker());
                Poll::Pending
            }
        }
    }

    /// Notices that the peer has gone.
    fn poll_input<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<(Ended, Ending)> {
        if self.half_closed().is_some() {
            return Poll::Pending;
        }
        let is_silent = self.body.as_ref().is_some_and(|body| body.due().is_none());
        let mut polled = Poll::Pending;
        if connection.machine.awaits_answer_only() {
            polled = connection.poll_read_ahead(cx, now);
        }
        if polled.is_pending() && is_silent && !connection.reads_ahead() {
            polled = self.poll_discard(connection, cx, now);
        }
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                self.input.get_or_insert_default().half_closed = Some(HalfClose::new(now));
                Poll::Pending
            }
            Poll::Ready(Err(_)) => Poll::Ready((Ended::PeerGone, Ending::Cut)),
        }
    }

    /// Throws away what comes where it is not kept: a body that nobody reads, or more requests than there is room for. The end
    /// of a peer that has gone is behind it. What was thrown away would be missed, so the connection ends with the answer. An
    /// error is also a peer that sends more than [`drain_bytes`](rudy_http::Limits::drain_bytes).
    fn poll_discard<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<io::Result<()>> {
        connection.machine.close_after_answer();
        let drain_bytes = connection.limits.http.drain_bytes;
        let input = self.input.get_or_insert_default();
        with_scratch(now, |scratch| {
            while input.discarded_bytes < drain_bytes {
                let mut buffer = ReadBuf::new(&mut scratch.input);
                ready!(Pin::new(&mut connection.io).poll_read(cx, &mut buffer))?;
                let read = buffer.filled().len();
                if read == 0 {
                    return Poll::Ready(Ok(()));
                }
                connection.context.worker.counters.received_bytes.add(read as u64);
                input.discarded_bytes += read as u64;
            }
            Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()))
        })
    }

    fn poll_output<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), (Ended, Ending)>> {
        let mut turn_bytes = TURN_BYTES;
        loop {
            if self.poll_unsent(connection, cx, now)?.is_pending() {
                return self.poll_overrun(connection, cx, now).map(Err);
            }
            if self.body.is_none() {
                return Poll::Ready(Ok(()));
            }
            if turn_bytes == 0 {
                return give_turn(cx);
            }
            let is_pending = with_scratch(now, |scratch| {
                let is_pending = self.gather(connection, cx, now, &mut scratch.out)?;
                turn_bytes = turn_bytes.saturating_sub(scratch.out.len() as u64);
                self.write(connection, cx, now, &scratch.out)?;
                Ok(is_pending)
            })?;
            if is_pending && self.unsent.is_none() {
                return Poll::Pending;
            }
        }
    }

    /// Frames what the body has by now in `out`, and the end after it. `true`: there is nothing more for the time being.
    fn gather<T, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<bool, (Ended, Ending)> {
        let cut = |_| (Ended::Cut, Ending::Cut);
        while out.len() < GATHERED_BYTES {
            match self.ask(connection, cx, now)? {
                Said::NothingYet => return Ok(true),
                Said::Piece(piece) => {
                    if let Some(record) = &mut self.record {
                        record.body_bytes += piece.len() as u64;
                    }
                    connection.machine.piece(&piece, out).map_err(cut)?;
                }
                Said::End => {
                    self.body = None;
                    connection.machine.finish(None, now, out).map_err(cut)?;
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// Asks the body for a piece. A server that stops ends it, since it would not end by itself.
    fn ask<T, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<Said, (Ended, Ending)> {
        let Some(body) = &mut self.body else { return Ok(Said::End) };
        if connection.context.worker.is_stopping() {
            connection.machine.close_after_answer();
            return Ok(Said::End);
        }
        match catch_unwind(AssertUnwindSafe(|| body.poll_piece(cx, now))) {
            Ok(Poll::Pending) => Ok(Said::NothingYet),
            Ok(Poll::Ready(None)) => Ok(Said::End),
            Ok(Poll::Ready(Some(piece))) => Ok(Said::Piece(piece)),
            Err(_) => {
                connection.context.worker.counters.panics.add(1);
                Err((Ended::Cut, Ending::Cut))
            }
        }
    }

    /// Hands `out` to the kernel; what it does not take is kept.
    fn write<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
        out: &BytesMut,
    ) -> Result<(), (Ended, Ending)> {
        if out.is_empty() {
            return Ok(());
        }
        let written = match Pin::new(&mut connection.io).poll_write(cx, out) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(_)) => return Err((Ended::PeerGone, Ending::Cut)),
            Poll::Pending => 0,
        };
        connection.context.worker.counters.sent_bytes.add(written as u64);
        if let Some(half_closed) = self.half_closed().filter(|_| written > 0) {
            half_closed.written(now);
        }
        if written < out.len() {
            self.unsent = Some(Box::new(Sending::encoded(&out[written..])));
            // Waits for room, and keeps the time.
            let _looked_at_again = self.poll_unsent(connection, cx, now)?;
        }
        Ok(())
    }

    /// Writes what was kept. Ready when nothing of it is left.
    fn poll_unsent<T: Transport, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), (Ended, Ending)>> {
        let Some(unsent) = &mut self.unsent else { return Poll::Ready(Ok(())) };
        let before = unsent.sent_bytes;
        let flushed = unsent.poll_flush(&mut connection.io, cx, now);
        let written = unsent.sent_bytes - before;
        connection.context.worker.counters.sent_bytes.add(written);
        if let Some(half_closed) =
            self.input.as_mut().and_then(|input| input.half_closed.as_mut()).filter(|_| written > 0)
        {
            half_closed.written(now);
        }
        match flushed {
            Poll::Ready(Ok(())) => {
                self.unsent = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(SendFault::PeerGone)) => Poll::Ready(Err((Ended::PeerGone, Ending::Cut))),
            Poll::Ready(Err(_)) => Poll::Ready(Err((Ended::Cut, Ending::Cut))),
            Poll::Pending if unsent.has_stalled(&connection.io, &connection.limits.http, now) => {
                Poll::Ready(Err((Ended::PeerStalled, Ending::Cut)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// While the peer takes nothing: ready when it has fallen too far behind.
    fn poll_overrun<T, S: Source>(
        &mut self,
        connection: &mut Connection<T, S>,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<(Ended, Ending)> {
        let Some(body) = &mut self.body else { return Poll::Pending };
        let counters = &connection.context.worker.counters;
        match catch_unwind(AssertUnwindSafe(|| body.poll_overrun(cx, now))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => counters.dropped.add(1),
            Err(_) => {
                counters.panics.add(1);
                return Poll::Ready((Ended::Cut, Ending::Cut));
            }
        }
        Poll::Ready((Ended::PeerStalled, Ending::Cut))
    }

    fn tell(&mut self, ended: Ended) {
        if let Some(mut record) = self.record.take() {
            record.finish(ended);
        }
    }
}

impl Drop for LiveAnswer {
    /// Dropped in the middle: the server is being stopped.
    fn drop(&mut self) {
        self.tell(Ended::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_answer_has_40_bytes_beside_its_body() {
        assert!(size_of::<LiveAnswer>() <= 40);
    }
}
