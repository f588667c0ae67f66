//! Reads a response ahead while its client is slow, so that the client does not occupy the upstream's connection.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rudy_service::Piped;

use crate::buffer::{Buffer, BufferError};

/// A response that is being received.
pub(crate) trait PieceSource {
    /// Why the response is incomplete.
    type Failure: From<io::Error>;

    /// Returns the next piece; `None` at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Failure>>>;

    /// Returns the next piece in a pipe: see [`BodyStream::take_piped`](rudy_service::BodyStream::take_piped).
    fn take_piped(&mut self, _max: u64) -> Option<Piped> {
        None
    }

    /// Returns whether the whole response was received and passed on.
    fn is_done(&self) -> bool;

    /// Called when a piece cannot be written to the file of the buffer. The response then arrives as fast as the client reads.
    fn buffer_failed(&mut self, error: BufferError);
}

/// The body of a response: passed on as it is received, and stored while the client does not read.
pub(crate) struct ReadAhead<S: PieceSource> {
    /// The part that was received with the head.
    first: Bytes,
    /// The part that was read ahead.
    buffer: Buffer,
    source: S,
    state: State<S::Failure>,
}

/// Whether the upstream sends more of the body.
enum State<F> {
    Open,
    /// The upstream has failed after the bytes in the buffer.
    Failed(F),
    /// The whole body was received.
    Over,
}

impl<S: PieceSource> ReadAhead<S> {
    pub(crate) fn new(first: Bytes, buffer: Buffer, source: S) -> Self {
        Self { first, buffer, source, state: State::Open }
    }

    /// Returns the source.
    pub(crate) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the next piece; `None` at the end. An error of the stored part is converted from [`io::Error`].
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, S::Failure>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.first))));
        }
        if let Some(piece) = ready!(self.buffer.poll_piece(cx)) {
            return Poll::Ready(Some(piece.map_err(Into::into)));
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Open => self.poll_source(cx),
            State::Failed(failure) => Poll::Ready(Some(Err(failure))),
            State::Over => Poll::Ready(None),
        }
    }

    /// Returns the next piece in a pipe, if nothing was read ahead.
    pub(crate) fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let is_next = self.first.is_empty() && self.buffer.is_empty() && matches!(self.state, State::Open);
        if is_next { self.source.take_piped(max) } else { None }
    }

    /// Reads from the upstream while the buffer has room. A failure is reported after the bytes before it.
    pub(crate) fn poll_blocked(&mut self, cx: &mut Context<'_>) {
        while matches!(self.state, State::Open) {
            match self.buffer.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                // Over the limit, the upstream waits for the client.
                Poll::Pending | Poll::Ready(Err(BufferError::Limit(_))) => return,
                Poll::Ready(Err(error)) => return self.source.buffer_failed(error),
            }
            match self.poll_source(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(piece))) => self.buffer.push(piece),
                Poll::Ready(Some(Err(failure))) => self.state = State::Failed(failure),
                Poll::Ready(None) => {}
            }
        }
        // Move bytes over the memory limit to the file, even if no more are received.
        let _ = self.buffer.poll_room(cx);
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, S::Failure>>> {
        let piece = self.source.poll_piece(cx);
        let may_continue = matches!(piece, Poll::Pending | Poll::Ready(Some(Ok(_))));
        self.state = if may_continue && !self.source.is_done() { State::Open } else { State::Over };
        piece
    }
}
