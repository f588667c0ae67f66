//! The streams of requests.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::BytesMut;

use super::Priority;
use super::reader::FrameReader;
use crate::progress::{Progress, Receiving};

/// A stream that is not closed.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) reader: FrameReader,
    pub(super) progress: Progress,
    /// The priority of a PRIORITY_UPDATE frame that has arrived before the head.
    pub(super) priority: Option<Priority>,
    /// When the stream was opened, at a server.
    pub(super) since: Option<Instant>,
    /// Whether the peer has ended its side of the stream, which no frame does.
    pub(super) has_ended: bool,
    /// What waits for entries of the dynamic table.
    pub(super) blocked: Option<Box<BlockedInput>>,
    /// Whether the head of a DATA frame was sent that contains all of the body.
    pub(super) is_framed: bool,
}

/// The input of a stream from a section on that cannot be decoded yet.
#[derive(Debug)]
pub(super) struct BlockedInput {
    /// How many entries must have been inserted.
    pub(super) required: u64,
    pub(super) input: BytesMut,
    /// Whether the stream ends behind it.
    pub(super) ends: bool,
}

impl Stream {
    pub(super) fn new(id: u64, progress: Progress, since: Option<Instant>) -> Self {
        let reader = FrameReader::default();
        Self {
            id,
            reader,
            progress,
            priority: None,
            since,
            has_ended: false,
            blocked: None,
            is_framed: false,
        }
    }

    /// Returns how much of the input is stored.
    pub(super) fn stored_bytes(&self) -> usize {
        self.reader.stored_bytes() + self.blocked.as_ref().map_or(0, |blocked| blocked.input.len())
    }
}

/// The open streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order of their numbers.
    all: VecDeque<Stream>,
    /// The number of those whose head is due.
    waiting: usize,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a stream whose head is due, and whose number is larger than those of the others.
    pub(super) fn push(&mut self, stream: Stream) {
        self.waiting += 1;
        self.all.push_back(stream);
    }

    fn position(&self, id: u64) -> Option<usize> {
        // Mostly, it is the newest.
        let last = self.all.len().checked_sub(1)?;
        if self.all[last].id == id {
            return Some(last);
        }
        self.all.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Stream> {
        self.position(id).map(|at| &self.all[at])
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.all[at])
    }

    /// Notes the progress of a stream, whose head may have arrived.
    pub(super) fn advance<T>(&mut self, id: u64, advance: impl FnOnce(&mut Progress) -> T) -> Option<T> {
        let at = self.position(id)?;
        let progress = &mut self.all[at].progress;
        let was_waiting = progress.receiving == Receiving::Head;
        let result = advance(progress);
        self.waiting -= usize::from(was_waiting && progress.receiving != Receiving::Head);
        Some(result)
    }

    /// Returns the newest stream if its number is not smaller than `first`.
    pub(super) fn last_from(&self, first: u64) -> Option<u64> {
        self.all.back().map(|stream| stream.id).filter(|id| *id >= first)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Stream> {
        let removed = self.position(id).and_then(|at| self.all.remove(at))?;
        self.waiting -= usize::from(removed.progress.receiving == Receiving::Head);
        Some(removed)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    /// Returns the streams whose head is due.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Stream> {
        let all = if self.waiting > 0 { Some(self.all.iter()) } else { None };
        all.into_iter().flatten().filter(|stream| stream.progress.receiving == Receiving::Head)
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let of_blocked = |blocked: &BlockedInput| blocked.input.capacity() + size_of::<BlockedInput>();
        let of_stream =
            |stream: &Stream| stream.reader.heap_bytes() + stream.blocked.as_deref().map_or(0, of_blocked);
        self.all.capacity() * size_of::<Stream>() + self.all.iter().map(of_stream).sum::<usize>()
    }

    /// Checks the number of streams whose head is due.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let is_waiting = |stream: &&Stream| stream.progress.receiving == Receiving::Head;
        assert_eq!(self.waiting, self.all.iter().filter(is_waiting).count());
    }

    /// Frees the memory of an idle connection.
    pub(super) fn free(&mut self) {
        if self.all.is_empty() {
            self.all = VecDeque::new();
        }
    }
}
