//! The bytes of a message on its way: in memory as long as it is small, beyond that in a file without a name.
//!
//! 1. [`Buffers`]: the bounds and counts of all messages of the process.
//! 2. [`Buffer`]: one message, first in, first out. It reads a response ahead while the client is slower than the application.
//! 3. [`Buffers::gather`]: a whole request body, as [`Stored`], which can be read more than once.
//!
//! Nothing here blocks the thread that polls it: files are opened, written and closed on the blocking pool, and read there where
//! the page cache does not have the bytes. So it needs a tokio runtime around it, as handlers have.

mod buffers;
mod error;
mod file;
mod gather;
mod memory;
mod options;
mod stored;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;

pub use self::buffers::Buffers;
use self::buffers::Share;
pub use self::error::{BufferError, GatherError};
use self::file::{BufferFile, Section};
use self::memory::Memory;
pub use self::options::Options;
pub use self::stored::Stored;

/// Bytes of a message that may be in memory. Most forms, API responses and pages have no more than that.
pub const MESSAGE_BYTES: u64 = 64 * 1024;

/// The bytes of one message, first in, first out.
///
/// [`Self::push`] takes whatever it is given; before the next push, [`Self::poll_room`] makes room for it. Bytes are read in
/// their order by [`Self::poll_piece`] at any time: before, during and after a write.
#[derive(Debug)]
pub struct Buffer {
    /// What is counted of the memory, except for what a write in flight has.
    counted: Share,
    limit: Option<u64>,
    memory: Memory,
    overflow: Option<Overflow>,
    /// Storing has failed: what is pushed now stays in memory.
    failed: bool,
}

/// What comes before the memory: a file, which becomes longer.
#[derive(Debug)]
struct Overflow {
    section: Section,
    writing: Option<Write>,
}

/// A write in flight, of the first pieces in memory. They stay there until it is over.
#[derive(Debug)]
struct Write {
    task: JoinHandle<Result<(), BufferError>>,
    bytes: u64,
}

impl Overflow {
    /// Bytes in memory that a write in flight counts.
    fn in_flight(&self) -> u64 {
        let Some(write) = &self.writing else { return 0 };
        let Section { read, written, .. } = self.section;
        (written + write.bytes).saturating_sub(written.max(read))
    }
}

impl Buffer {
    /// Nothing. `limit` is the largest file that the message may have, in bytes; [`BufferError::Limit`] beyond it. With
    /// `Some(0)`, it never has one: beyond [`MESSAGE_BYTES`] there is no room until bytes are read, and that is no error.
    #[must_use]
    pub fn new(buffers: &Buffers, limit: Option<u64>) -> Self {
        let counted = Share::of_memory(buffers);
        Self { counted, limit, memory: Memory::default(), overflow: None, failed: false }
    }

    /// Adds bytes. A piece is kept without a copy where it is the first one in memory, or has 4 KiB.
    pub fn push(&mut self, piece: Bytes) {
        self.memory.push(piece);
    }

    /// Adds a copy of bytes.
    pub fn push_slice(&mut self, bytes: &[u8]) {
        self.memory.push_slice(bytes);
    }

    /// Bytes that were pushed and not read yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.section.left()) + self.memory.len() as u64
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ready when there is room for more. What is over the bounds goes to the file first.
    ///
    /// `Pending` while a write is in flight, which wakes the task. It is also `Pending` where only memory can be used and there
    /// is no room in it; nothing wakes the task then but what the caller waits for itself: ask again after
    /// [`Self::poll_piece`] has handed out a piece.
    ///
    /// # Errors
    ///
    /// The bytes cannot be stored. Nothing is lost: all of them can still be read. Each failure is reported once; after it the
    /// buffer uses only memory, until its file is read to the end.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BufferError>> {
        ready!(self.poll_write(cx))?;
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        if self.failed || self.limit == Some(0) {
            return Poll::Pending;
        }
        self.start_write().inspect_err(|_| self.failed = true)?;
        self.poll_write(cx)
    }

    /// The next bytes; `None` if there are none at present.
    ///
    /// # Errors
    ///
    /// The file cannot be read. The bytes are lost.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(Overflow { section, .. }) = &mut self.overflow
            && section.left() > 0
        {
            let piece = ready!(section.poll_piece(cx));
            self.drop_read_file();
            return Poll::Ready(Some(piece));
        }
        let piece = self.memory.pop();
        if let (Some(Overflow { section, .. }), Some(piece)) = (&mut self.overflow, &piece) {
            section.read += piece.len() as u64;
        }
        // Nothing is counted of a message that is always read before anyone asks for room.
        if self.counted.bytes() > 0 {
            self.count();
        }
        Poll::Ready(piece.map(Ok))
    }

    /// Whether no more is in memory than may be. What a message has alone there is never too much for all of them, or it
    /// could not go on.
    fn has_room(&mut self) -> bool {
        self.count();
        let bytes = self.memory.len() as u64;
        bytes == 0 || bytes <= MESSAGE_BYTES && !self.counted.buffers().memory_is_full()
    }

    fn count(&mut self) {
        let in_flight = self.overflow.as_ref().map_or(0, Overflow::in_flight);
        self.counted.set(self.memory.len() as u64 - in_flight);
    }

    /// Begins to move all that is in memory to the file.
    fn start_write(&mut self) -> Result<(), BufferError> {
        let bytes = self.memory.len() as u64;
        let at = self.overflow.as_ref().map_or(0, |overflow| overflow.section.written);
        if let Some(limit) = self.limit
            && at + bytes > limit
        {
            return Err(BufferError::Limit(limit));
        }
        let buffers = self.counted.buffers().clone();
        let overflow = self.overflow.get_or_insert_with(|| Overflow {
            section: Section::new(Arc::new(BufferFile::new(buffers.dir()))),
            writing: None,
        });
        let (file, pieces, counted) =
            (overflow.section.file.clone(), self.memory.pieces(), self.counted.take());
        let task = tokio::task::spawn_blocking(move || {
            let result = file.write(&buffers, &pieces, at);
            // Counted until the write is over, even if the message is gone.
            drop((pieces, counted));
            result
        });
        overflow.writing = Some(Write { task, bytes });
        Ok(())
    }

    /// Ready when no write is in flight.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BufferError>> {
        let Some(Overflow { section, writing }) = &mut self.overflow else { return Poll::Ready(Ok(())) };
        let Some(Write { task, bytes }) = writing else { return Poll::Ready(Ok(())) };
        let result = ready!(Pin::new(task).poll(cx));
        let bytes = *bytes;
        *writing = None;
        // The runtime ends, or the pool has panicked.
        let result = result.unwrap_or_else(|error| {
            let dir = self.counted.buffers().dir();
            Err(BufferError::Disk { dir, error: io::Error::other(error) })
        });
        if result.is_ok() {
            let before = section.written.max(section.read);
            section.written += bytes;
            self.memory.discard(section.written.saturating_sub(before));
        }
        self.drop_read_file();
        self.failed |= result.is_err();
        self.count();
        Poll::Ready(result)
    }

    /// Gives the file back where all of it was read, so that a long message does not make it longer and longer.
    fn drop_read_file(&mut self) {
        if let Some(Overflow { section, writing: None }) = &self.overflow
            && section.left() == 0
        {
            self.overflow = None;
            self.failed = false;
        }
    }

    /// What is left, as a whole that can be read more than once.
    #[must_use]
    pub fn finish(mut self) -> Stored {
        self.counted.set(self.memory.len() as u64);
        let section = self.overflow.map(|overflow| overflow.section).filter(|section| section.left() > 0);
        Stored::new(section, self.memory.pieces(), self.counted)
    }
}
