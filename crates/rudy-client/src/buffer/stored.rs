//! A stored body.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::buffers::Reservation;
use super::file::Section;

/// A whole body of known length. It can be read from its start repeatedly: if an idle connection turns out to
/// be closed, the request is repeated on another one.
#[derive(Debug)]
pub struct StoredBody {
    section: Option<Section>,
    /// The start of the section.
    start: u64,
    memory: Vec<Bytes>,
    /// The number of pieces in memory that were read.
    read: usize,
    length: u64,
    /// The reservation of memory.
    _counted: Reservation,
}

impl StoredBody {
    pub(super) fn new(section: Option<Section>, memory: Vec<Bytes>, counted: Reservation) -> Self {
        let in_file = section.as_ref().map_or(0, Section::left);
        let length = in_file + memory.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let start = section.as_ref().map_or(0, |section| section.read);
        Self { section, start, memory, read: 0, length, _counted: counted }
    }

    /// Returns the length of the whole body in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the next bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(section) = &mut self.section
            && section.left() > 0
        {
            return Poll::Ready(Some(ready!(section.poll_piece(cx))));
        }
        let piece = self.memory.get(self.read).cloned();
        self.read += usize::from(piece.is_some());
        Poll::Ready(piece.map(Ok))
    }

    /// Continues to read at the start.
    pub fn rewind(&mut self) {
        self.read = 0;
        if let Some(section) = &mut self.section {
            section.seek(self.start);
        }
    }
}
