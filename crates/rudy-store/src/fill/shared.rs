//! What the writer and the readers of a body share.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};

use super::reader::Piece;
use crate::head::HEAD_BYTES;

/// The data in memory that is unread by the slowest reader, if the body is not stored. Several times what a connection sends in a
/// poll, so that the writer seldom waits for readers that keep pace.
pub(super) const WINDOW_BYTES: u64 = 1024 * 1024;

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Aborted,
}

/// A body in transfer.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The beginning of the body, and its length.
    file: Option<(Arc<File>, u64)>,
    /// What follows it. `start` is the position of the first piece.
    pieces: VecDeque<Bytes>,
    start: u64,
    in_memory: u64,
    /// Whether pieces leave when all readers have read them.
    is_window: bool,
    end: Option<End>,
    readers: Vec<Option<Reader>>,
    writer: Option<Waker>,
}

#[derive(Debug, Default)]
struct Reader {
    position: u64,
    /// Set while it waits for what follows.
    waker: Option<Waker>,
    /// Whether it has not moved since the last call of [`State::abort_stalled`].
    is_still: bool,
    is_aborted: bool,
}

/// Tasks to wake, after the lock is released.
#[must_use]
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(super) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Adds data. If it was written to the file, it is not kept in memory.
    pub(super) fn publish(&mut self, data: Bytes, is_in_file: bool) -> Wakers {
        let length = data.len() as u64;
        match &mut self.file {
            Some((_, file_length)) if is_in_file => {
                *file_length += length;
                self.start = *file_length;
            }
            _ => {
                self.in_memory += length;
                self.pieces.push_back(data);
                self.trim();
            }
        }
        self.wake_readers()
    }

    /// Ends the transfer, unless it has ended.
    pub(super) fn end(&mut self, end: End) -> Wakers {
        self.end.get_or_insert(end);
        self.wake_readers()
    }

    fn wake_readers(&mut self) -> Wakers {
        Wakers(self.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take()).collect())
    }

    /// Returns a copy of what is in memory.
    pub(super) fn copy(&self) -> Bytes {
        let mut copy = BytesMut::with_capacity(usize::try_from(self.in_memory).unwrap_or(0));
        self.pieces.iter().for_each(|piece| copy.extend_from_slice(piece));
        copy.freeze()
    }

    /// Replaces what is in memory by a file that has the same bytes.
    pub(super) fn use_file(&mut self, file: Arc<File>, length: u64) {
        self.file = Some((file, length));
        self.pieces.clear();
        (self.start, self.in_memory) = (length, 0);
    }

    /// From now on, keeps only what is unread.
    pub(super) fn use_window(&mut self) {
        self.is_window = true;
    }

    pub(super) fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.in_memory < WINDOW_BYTES {
            return Poll::Ready(());
        }
        self.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn readers(&self) -> usize {
        self.readers.iter().flatten().count()
    }

    /// Adds a reader, and returns its number. `None` if the beginning of the body is gone.
    pub(super) fn add_reader(&mut self) -> Option<usize> {
        if self.start > 0 && self.file.is_none()
            || self.file.as_ref().is_some_and(|(_, length)| self.start > *length)
        {
            return None;
        }
        let free = self.readers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.readers.push(None);
            self.readers.len() - 1
        });
        self.readers[number] = Some(Reader::default());
        Some(number)
    }

    /// Removes a reader, and returns the waker of the writer.
    pub(super) fn remove_reader(&mut self, number: usize) -> Option<Waker> {
        self.readers[number] = None;
        self.trim();
        self.writer.take()
    }

    /// Aborts the readers that have not moved since the last call, if others have read everything and wait.
    pub(super) fn abort_stalled(&mut self) {
        let others_wait = self.readers.iter().flatten().any(|reader| reader.waker.is_some());
        for reader in self.readers.iter_mut().flatten().filter(|reader| reader.waker.is_none()) {
            reader.is_aborted |= others_wait && reader.is_still;
            reader.is_still = true;
        }
        self.trim();
    }

    pub(super) fn is_aborted(&self, number: usize) -> bool {
        self.readers[number].as_ref().is_some_and(|reader| reader.is_aborted)
    }

    /// Moves a reader, and returns the waker of the writer if it has to know.
    pub(super) fn advance(&mut self, number: usize, position: u64) -> Option<Waker> {
        if let Some(reader) = &mut self.readers[number] {
            reader.position = position;
            reader.is_still = false;
        }
        if !self.is_window {
            return None;
        }
        self.trim();
        if self.in_memory < WINDOW_BYTES { self.writer.take() } else { None }
    }

    /// Returns what a reader reads next, at most `max` bytes.
    pub(super) fn read(&self, position: u64, max: u64) -> Option<Piece> {
        if let Some((file, length)) = self.file.as_ref().filter(|(_, length)| position < *length) {
            let (offset, length) = (HEAD_BYTES + position, max.min(length - position));
            return Some(Piece::File { file: Arc::clone(file), offset, length });
        }
        let mut at = self.start;
        for piece in &self.pieces {
            let end = at + piece.len() as u64;
            if (at..end).contains(&position) {
                let rest = piece.slice(usize::try_from(position - at).unwrap_or(0)..);
                let length = rest.len().min(usize::try_from(max).unwrap_or(usize::MAX));
                return Some(Piece::Bytes(rest.slice(..length)));
            }
            at = end;
        }
        None
    }

    pub(super) fn ended(&self) -> Option<End> {
        self.end
    }

    pub(super) fn wait(&mut self, number: usize, cx: &mut Context<'_>) {
        if let Some(reader) = &mut self.readers[number] {
            reader.waker = Some(cx.waker().clone());
            reader.is_still = false;
        }
    }

    /// Drops the pieces that all readers have read but those that are aborted, if the body is not stored.
    fn trim(&mut self) {
        if !self.is_window {
            return;
        }
        let readers = self.readers.iter().flatten().filter(|reader| !reader.is_aborted);
        let slowest = readers.map(|reader| reader.position).min().unwrap_or(u64::MAX);
        while let Some(first) = self.pieces.front().map(|piece| piece.len() as u64)
            && self.start + first <= slowest
        {
            self.pieces.pop_front();
            self.start += first;
            self.in_memory -= first;
        }
    }
}
