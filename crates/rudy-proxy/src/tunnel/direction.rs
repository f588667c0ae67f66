//! One direction of a tunnel: what one end sends, the other receives.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use rudy_service::Piped;

use super::end::End;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// After a move of this many bytes, the next ones stay in the kernel: they pass through a pipe. Fewer bytes are copied, because that costs
/// less than the two additional calls that a pipe needs.
const PIPED_FROM_BYTES: usize = 32 * 1024;

thread_local! {
    /// The buffer of all tunnels of this thread.
    pub(super) static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// The end that is lost.
#[derive(Debug)]
pub(super) enum Lost {
    /// The one that sends.
    From(io::Error),
    /// The one that receives.
    To(io::Error),
}

/// One direction of a tunnel.
#[derive(Default)]
pub(super) struct Direction {
    /// Bytes that were read and not written yet.
    pending: BytesMut,
    /// Bytes in a pipe that were not written yet. They follow the pending ones.
    piped: Option<Piped>,
    /// Whether bytes can pass through a pipe.
    can_pipe: bool,
    /// Whether the last move was large.
    is_busy: bool,
    /// Bytes that the writing end has accepted.
    pub(super) sent_bytes: u64,
    /// Whether the reading end has ended.
    has_ended: bool,
    /// Whether the writing end was notified of it.
    pub(super) is_over: bool,
}

impl Direction {
    /// A direction that begins with these bytes.
    pub(super) fn new(bytes: impl AsRef<[u8]>, can_pipe: bool) -> Self {
        Self { pending: bytes.as_ref().into(), can_pipe, ..Self::default() }
    }

    /// The direction with an end behind its first bytes, or without.
    pub(super) fn that_has_ended(self, has_ended: bool) -> Self {
        Self { has_ended, ..self }
    }

    /// Moves bytes until one end has to wait, or `budget` is used up. Ready when the direction has ended.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl End,
        to: &mut impl End,
        budget: &mut usize,
    ) -> Poll<Result<(), Lost>> {
        loop {
            ready!(self.poll_send(cx, to, budget)).map_err(Lost::To)?;
            if self.is_over {
                return Poll::Ready(Ok(()));
            }
            if self.has_ended {
                ready!(to.poll_finish(cx)).map_err(Lost::To)?;
                self.is_over = true;
                continue;
            }
            if *budget == 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.is_busy && self.can_pipe {
                self.piped = from.take_piped(*budget as u64).map_err(Lost::From)?;
            }
            match &self.piped {
                Some(piped) => self.is_busy = piped.length() >= PIPED_FROM_BYTES as u64,
                None => ready!(self.poll_move(cx, from, to, budget))?,
            }
        }
    }

    /// Sends what was received before.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut impl End,
        budget: &mut usize,
    ) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let sent = ready!(to.poll_send(cx, &self.pending))?;
            self.pending.advance(sent);
            self.count(sent, budget);
        }
        while let Some(piped) = &mut self.piped {
            let sent = ready!(to.poll_send_piped(cx, piped))?;
            self.piped.take_if(|piped| piped.length() == 0);
            self.count(sent, budget);
        }
        to.poll_flush(cx)
    }

    fn count(&mut self, sent: usize, budget: &mut usize) {
        *budget = budget.saturating_sub(sent);
        self.sent_bytes += sent as u64;
    }

    /// Reads once, and writes what the other end accepts at once.
    fn poll_move(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl End,
        to: &mut impl End,
        budget: &mut usize,
    ) -> Poll<Result<(), Lost>> {
        READ.with_borrow_mut(|buffer| {
            let received = ready!(from.poll_receive(cx, buffer)).map_err(Lost::From)?;
            (self.has_ended, self.is_busy) = (received == 0, received >= PIPED_FROM_BYTES);
            if self.has_ended {
                return Poll::Ready(Ok(()));
            }
            let sent = match to.poll_send(cx, &buffer[..received]) {
                Poll::Ready(sent) => sent.map_err(Lost::To)?,
                Poll::Pending => 0,
            };
            self.count(sent, budget);
            self.pending.extend_from_slice(&buffer[sent..received]);
            if self.pending.is_empty() {
                // A large buffer of a busy time is not kept.
                self.pending = BytesMut::new();
            }
            Poll::Ready(Ok(()))
        })
    }
}
