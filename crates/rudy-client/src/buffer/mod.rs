//! Buffers request and response bodies: small ones in memory, larger ones in an unlinked file.
//!
//! 1. [`Buffers`] has the limits and counts of all bodies of the process.
//! 2. [`Buffer`] is a queue for one body. It reads a response ahead while the client is slower than the app.
//! 3. [`Buffers::store`] stores a whole request body as [`StoredBody`], which can be read more than once.
//!
//! Nothing here blocks the thread that polls it: files are opened, written and closed on the blocking pool,
//! and read there if their bytes are not in the page cache. So the caller must run in a tokio runtime, as
//! handlers do.

mod buffers;
mod error;
mod file;
mod memory;
mod options;
mod store;
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
use self::buffers::Reservation;
pub use self::error::{BufferError, StoreError};
use self::file::{BufferFile, Section};
use self::memory::Memory;
pub use self::options::Options;
pub use self::stored::StoredBody;

/// The number of bytes of a body that may be in memory. Most forms, API responses and pages are smaller.
pub const MEMORY_BYTES_MAX: u64 = 64 * 1024;

/// A first-in, first-out buffer for one body.
///
/// [`Self::push`] accepts any number of bytes; before the next push, [`Self::poll_room`] makes room for them.
/// [`Self::poll_piece`] reads the bytes in order, at any time: before, during and after a write.
#[derive(Debug)]
pub struct Buffer {
    /// The reservation of memory, without that of a write in flight.
    counted: Reservation,
    limit: Option<u64>,
    memory: Memory,
    overflow: Option<Overflow>,
    /// A write has failed, so new bytes stay in memory.
    has_failed: bool,
}

/// The file, whose bytes come before those in memory.
#[derive(Debug)]
struct Overflow {
    section: Section,
    writing: Option<Write>,
}

/// A write in flight of the first pieces in memory. They stay there until it has ended.
#[derive(Debug)]
struct Write {
    task: JoinHandle<Result<(), BufferError>>,
    bytes: u64,
}

impl Overflow {
    /// Returns the bytes in memory that a write in flight counts.
    fn in_flight(&self) -> u64 {
        let Some(write) = &self.writing else { return 0 };
        let Section { read, written, .. } = self.section;
        (written + write.bytes).saturating_sub(written.max(read))
    }
}

impl Buffer {
    /// Creates an empty buffer. `limit` is the maximum size of the file in bytes; beyond it, there is
    /// [`BufferError::Limit`]. With `Some(0)` there is never a file: beyond [`MEMORY_BYTES_MAX`] there is no
    /// room until bytes are read, which is no error.
    #[must_use]
    pub fn new(buffers: &Buffers, limit: Option<u64>) -> Self {
        let counted = Reservation::of_memory(buffers);
        Self { counted, limit, memory: Memory::default(), overflow: None, has_failed: false }
    }

    /// Adds bytes. A piece is not copied if it is the first one in memory, or has 4 KiB.
    pub fn push(&mut self, piece: Bytes) {
        self.memory.push(piece);
    }

    /// Adds a copy of bytes.
    pub fn push_slice(&mut self, bytes: &[u8]) {
        self.memory.push_slice(bytes);
    }

    /// Returns the number of bytes that were pushed and not read yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.overflow.as_ref().map_or(0, |overflow| overflow.section.left()) + self.memory.len() as u64
    }

    /// Returns whether all bytes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ready when there is room for more bytes. Bytes over the limits are written to the file first.
    ///
    /// `Pending` while a write is in flight, which wakes the task. Also `Pending` if only memory can be used
    /// and it is full. Nothing wakes the task for that: call this again after [`Self::poll_piece`] has
    /// returned a piece.
    ///
    /// # Errors
    ///
    /// The bytes cannot be stored. Nothing is lost: all of them can still be read. Each failure is reported
    /// once; after it, the buffer uses only memory until its file was read completely.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BufferError>> {
        ready!(self.poll_write(cx))?;
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        if self.has_failed || self.limit == Some(0) {
            return Poll::Pending;
        }
        self.start_write().inspect_err(|_| self.has_failed = true)?;
        self.poll_write(cx)
    }

    /// Returns the next bytes; `None` if there are none now.
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
        // A body that is always read before a check for room is never counted.
        if self.counted.bytes() > 0 {
            self.count();
        }
        Poll::Ready(piece.map(Ok))
    }

    /// Returns whether the memory is within the limits. An empty memory always has room, or the body could
    /// not continue.
    fn has_room(&mut self) -> bool {
        self.count();
        let bytes = self.memory.len() as u64;
        bytes == 0 || bytes <= MEMORY_BYTES_MAX && !self.counted.buffers().memory_is_full()
    }

    fn count(&mut self) {
        let in_flight = self.overflow.as_ref().map_or(0, Overflow::in_flight);
        self.counted.set(self.memory.len() as u64 - in_flight);
    }

    /// Starts to write all bytes in memory to the file.
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
        // A request has no limit of its own: it is stored as a whole.
        let is_response = self.limit.is_some();
        let task = rudy_runtime::blocking(move || {
            let result = file.write(&buffers, &pieces, at, is_response);
            // Counted until the write has ended, even if the buffer was dropped.
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
        // The runtime is shutting down, or the task has panicked.
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
        self.has_failed |= result.is_err();
        self.count();
        Poll::Ready(result)
    }

    /// Drops the file when all of it was read, so that it does not grow with a long body.
    fn drop_read_file(&mut self) {
        if let Some(Overflow { section, writing: None }) = &self.overflow
            && section.left() == 0
        {
            self.overflow = None;
            self.has_failed = false;
        }
    }

    /// Returns the rest of the bytes as a body that can be read more than once.
    #[must_use]
    pub fn finish(mut self) -> StoredBody {
        self.counted.set(self.memory.len() as u64);
        let section = self.overflow.map(|overflow| overflow.section).filter(|section| section.left() > 0);
        StoredBody::new(section, self.memory.pieces(), self.counted)
    }
}
