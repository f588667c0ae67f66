//! Objects in transfer: one writer receives the body, and any number of readers stream it meanwhile.
//!
//! A small body is in memory until it is complete. A larger one is in its file: readers get pieces of the file. If the body cannot
//! be stored, because it is too long, another process stores, or the disk is full, then what follows passes through a window in
//! memory, and the writer waits for the slowest reader, but not for one that stalls while others wait. What is in the file already
//! remains readable there.

#[cfg(test)]
mod races;
mod reader;
mod shared;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use rudy_cache::index::ObjectId;
use rudy_cache::{Key, Stored};
use twox_hash::XxHash3_64;

pub use reader::{FillAborted, FillReader, Piece};
use shared::{End, State, WINDOW_BYTES};

use crate::change::{New, NewBody, NotKept, Temporary};
use crate::failure::DiskFailure;
use crate::head::{HEAD_BYTES, checksum_of_pieces};
use crate::inner::Inner;
use crate::object::Object;
use crate::options::SMALL_BYTES_MAX;
use crate::record::Epoch;
use crate::sync::Mutex;

/// Receives the body of an object. Dropping it aborts the transfer: readers get [`FillAborted::Incomplete`], and nothing is stored.
pub struct Fill {
    inner: Arc<Inner>,
    shared: Arc<Mutex<State>>,
    id: ObjectId,
    key: Key,
    stored: Option<Stored>,
    epoch: Epoch,
    declared: Option<u64>,
    /// The maximum length of a body that is stored.
    bytes_max: u64,
    received: u64,
    checksum: XxHash3_64,
    /// The file of a body that is not small.
    temporary: Option<Temporary>,
    /// Why the body will not be stored.
    not_kept: Option<NotKept>,
}

/// What became of a complete transfer.
#[derive(Debug)]
pub enum Finished {
    /// The object.
    Stored(Arc<Object>),
    /// Readers got the whole body, but it is not stored.
    NotStored(NotKept),
}

/// The body was shorter or longer than declared. It is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response has {received} bytes, and its Content-Length is {expected}")]
pub struct WrongLength {
    /// The declared length in bytes.
    pub expected: u64,
    /// The bytes that came.
    pub received: u64,
}

impl Fill {
    pub(crate) fn new(
        inner: Arc<Inner>,
        key: &Key,
        stored: Stored,
        declared: Option<u64>,
        epoch: Epoch,
        bytes_max: u64,
    ) -> Self {
        let id = inner.ids.variant(key, stored.variant());
        // What the response declares is what makes it complete, whatever its transfer declares.
        let declared = stored.declared_length().or(declared);
        let mut fill = Self {
            shared: Arc::default(),
            id,
            key: key.clone(),
            stored: Some(stored),
            epoch,
            declared,
            bytes_max,
            received: 0,
            checksum: checksum_of_pieces(id),
            temporary: None,
            not_kept: None,
            inner,
        };
        if !fill.inner.is_writer() {
            fill.pass_through(NotKept::ReadOnly);
        } else if declared.is_some_and(|declared| declared > bytes_max) {
            fill.pass_through(NotKept::TooLong);
        }
        fill
    }

    /// Returns a reader from the first byte. `None` if the body is not stored, and its beginning is gone.
    #[must_use]
    pub fn reader(&self) -> Option<FillReader> {
        FillReader::new(Arc::clone(&self.shared))
    }

    /// Returns what makes readers elsewhere. It does not count as a reader.
    #[must_use]
    pub fn source(&self) -> FillSource {
        FillSource(Arc::clone(&self.shared))
    }

    /// Returns the number of readers.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.shared.lock().readers()
    }

    /// Returns the number of bytes that were written.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether the body will be stored, as far as it is known now.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.not_kept.is_none()
    }

    /// Is ready when [`Fill::write`] should be called: always, while the body is stored. Otherwise, while less than 1 MiB is unread
    /// by the slowest reader.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_stored() { Poll::Ready(()) } else { self.shared.lock().poll_window(cx) }
    }

    /// Whether [`Fill::poll_ready`] may wait for readers, as far as it is known now: the body is not stored, and may have more than
    /// 1 MiB. Then a slow reader delays the others.
    #[must_use]
    pub fn waits_for_readers(&self) -> bool {
        !self.is_stored() && self.declared.is_none_or(|declared| declared > WINDOW_BYTES)
    }

    /// Aborts the readers that have read nothing since the last call, if others wait for what follows. Call it periodically while
    /// [`Fill::poll_ready`] is not ready.
    pub fn abort_stalled(&self) {
        self.shared.lock().abort_stalled();
    }

    /// Appends to the body, and wakes the readers. It writes to a file if the body is not small: the kernel usually only copies to
    /// its cache, but it can wait for a slow disk.
    pub fn write(&mut self, data: Bytes) {
        let before = self.received;
        self.received += data.len() as u64;
        // More than declared is an error; readers have announced the declared length.
        let data = match self.declared {
            Some(declared) if self.received > declared => {
                data.slice(..usize::try_from(declared.saturating_sub(before)).unwrap_or(0).min(data.len()))
            }
            _ => data,
        };
        if data.is_empty() {
            return;
        }
        if self.is_stored() && self.received > self.bytes_max {
            self.pass_through(NotKept::TooLong);
        }
        let is_in_file = self.is_stored() && self.write_to_file(before, &data);
        let wakers = self.shared.lock().publish(data, is_in_file);
        wakers.wake();
    }

    /// Stores a complete body. It waits for the disk. The readers get the end of the body in any case, unless its length is not the
    /// declared one.
    pub fn finish(mut self) -> Result<Finished, WrongLength> {
        if let Some(expected) = self.declared.filter(|declared| *declared != self.received) {
            return Err(WrongLength { expected, received: self.received });
        }
        let wakers = self.shared.lock().end(End::Complete);
        wakers.wake();
        Ok(match self.store(self.received) {
            Ok(object) => Finished::Stored(object),
            Err(not_kept) => Finished::NotStored(not_kept),
        })
    }

    /// Ends a transfer that broke. Readers get [`FillAborted::Incomplete`]. The part that was received is stored if it can be completed
    /// later ([`Stored::truncate`]). It waits for the disk.
    #[must_use]
    pub fn interrupt(mut self) -> Option<Arc<Object>> {
        let wakers = self.shared.lock().end(End::Aborted);
        wakers.wake();
        let length = self.received.min(self.declared.unwrap_or(u64::MAX));
        let is_useful = self.stored.as_mut().is_some_and(|stored| stored.truncate(length));
        if is_useful { self.store(length).ok() } else { None }
    }

    fn store(&mut self, length: u64) -> Result<Arc<Object>, NotKept> {
        if let Some(not_kept) = self.not_kept.take() {
            return Err(not_kept);
        }
        let Some(stored) = self.stored.take() else { return Err(NotKept::ReadOnly) };
        let body = match self.temporary.take() {
            Some(temporary) => NewBody::File { temporary, length, checksum: self.checksum.finish() },
            // Readers may not be done with the pieces: they are copied.
            None => NewBody::Small(self.shared.lock().copy()),
        };
        self.inner.store(New { id: self.id, key: self.key.clone(), stored, epoch: self.epoch, body })
    }

    /// Writes to the file if the body is not small. Returns whether the data is in the file.
    fn write_to_file(&mut self, offset: u64, data: &Bytes) -> bool {
        self.checksum.write(data);
        let result = match &self.temporary {
            None if offset + data.len() as u64 <= SMALL_BYTES_MAX => return false,
            None => self.create_file(),
            Some(_) => Ok(()),
        };
        let result = result.and_then(|()| {
            let temporary = self.temporary.as_ref().expect("it was created before");
            Ok(self.inner.disk.write(&temporary.file, data, HEAD_BYTES + offset)?)
        });
        match result {
            Ok(()) => true,
            Err(not_kept) => {
                if let NotKept::System(error) = &not_kept {
                    self.inner.failed(DiskFailure::Write, error);
                }
                self.pass_through(not_kept);
                false
            }
        }
    }

    /// Creates the file, and writes what is in memory.
    fn create_file(&mut self) -> Result<(), NotKept> {
        let Some(writing) = self.inner.writing() else { return Err(NotKept::ReadOnly) };
        let temporary = Temporary::create(&self.inner, writing.run)?;
        let start = self.shared.lock().copy();
        self.inner.disk.write(&temporary.file, &start, HEAD_BYTES)?;
        self.shared.lock().use_file(Arc::clone(&temporary.file), start.len() as u64);
        self.temporary = Some(temporary);
        Ok(())
    }

    /// Does not store the body. Readers have the file that they read from open.
    fn pass_through(&mut self, not_kept: NotKept) {
        self.temporary = None;
        self.not_kept = Some(not_kept);
        self.shared.lock().use_window();
    }
}

/// Makes readers of a body in transfer, also for other threads than that of its [`Fill`].
#[derive(Debug, Clone)]
pub struct FillSource(Arc<Mutex<State>>);

impl FillSource {
    /// Returns a reader as [`Fill::reader`] does.
    #[must_use]
    pub fn reader(&self) -> Option<FillReader> {
        FillReader::new(Arc::clone(&self.0))
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        // After `finish`, this changes nothing.
        let wakers = self.shared.lock().end(End::Aborted);
        wakers.wake();
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fill")
            .field("key", &self.key)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}
