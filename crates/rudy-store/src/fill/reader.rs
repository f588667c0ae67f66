//! A reader of a body in transfer.

use std::fs::File;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::shared::{End, State};
use crate::sync::Mutex;

/// Reads a body while it is received. Dropping it ends its interest.
#[derive(Debug)]
pub struct FillReader {
    shared: Arc<Mutex<State>>,
    number: usize,
    position: u64,
}

/// A piece of a body.
#[derive(Debug, Clone)]
pub enum Piece {
    /// In memory.
    Bytes(Bytes),
    /// In a file.
    File {
        /// The file, open for reading at any offset.
        file: Arc<File>,
        /// Where the piece begins.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
}

impl Piece {
    /// Returns the length in bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }
}

/// Why a reader does not get the whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FillAborted {
    /// The transfer broke: the body is incomplete.
    #[error("the upstream ended the response before it was complete")]
    Incomplete,
    /// The reader has read nothing for too long, while others waited ([`Fill::abort_stalled`](super::Fill::abort_stalled)).
    #[error("the client did not read, while other clients waited for the same response")]
    Stalled,
}

impl FillReader {
    pub(super) fn new(shared: Arc<Mutex<State>>) -> Option<Self> {
        let number = shared.lock().add_reader()?;
        Some(Self { shared, number, position: 0 })
    }

    /// Returns the next piece, of at most `max` bytes (at least 1), or `None` at the end. What was received before a transfer broke
    /// is read before the error.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>, max: u64) -> Poll<Option<Result<Piece, FillAborted>>> {
        let (result, waker) = {
            let mut state = self.shared.lock();
            match (state.read(self.position, max), state.ended()) {
                _ if state.is_aborted(self.number) => (Poll::Ready(Some(Err(FillAborted::Stalled))), None),
                (Some(piece), _) => {
                    self.position += piece.length();
                    (Poll::Ready(Some(Ok(piece))), state.advance(self.number, self.position))
                }
                (None, Some(End::Complete)) => (Poll::Ready(None), None),
                (None, Some(End::Aborted)) => (Poll::Ready(Some(Err(FillAborted::Incomplete))), None),
                (None, None) => {
                    state.wait(self.number, cx);
                    (Poll::Pending, None)
                }
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    /// Returns the position of the next piece in the body.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        let waker = self.shared.lock().remove_reader(self.number);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
