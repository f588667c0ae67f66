//! A whole message.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::buffers::Share;
use super::file::Section;

/// A whole message, of known length. It is read piece by piece, and from its beginning as often as needed: where a kept
/// connection turns out closed, the request is repeated on another one.
#[derive(Debug)]
pub struct Stored {
    section: Option<Section>,
    /// Where the section begins.
    start: u64,
    memory: Vec<Bytes>,
    /// How many pieces of the memory were read.
    read: usize,
    length: u64,
    /// What is counted of the memory.
    _counted: Share,
}

impl Stored {
    pub(super) fn new(section: Option<Section>, memory: Vec<Bytes>, counted: Share) -> Self {
        let in_file = section.as_ref().map_or(0, Section::left);
        let length = in_file + memory.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let start = section.as_ref().map_or(0, |section| section.read);
        Self { section, start, memory, read: 0, length, _counted: counted }
    }

    /// The length of the whole message in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end.
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

    /// Reads from the beginning again.
    pub fn rewind(&mut self) {
        self.read = 0;
        if let Some(section) = &mut self.section {
            section.seek(self.start);
        }
    }
}
