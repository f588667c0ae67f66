//! A stored object: its metadata and its body.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rudy_cache::Stored;
use rudy_cache::index::ObjectId;

use crate::disk::{Access, read_at};
use crate::head::Slot;
use crate::index::Uses;
use crate::record::Record;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A stored response. It does not change: an update makes another object, and a body in use remains readable after its removal.
#[derive(Debug, Clone)]
pub struct Object {
    pub(crate) id: ObjectId,
    /// The version of the file.
    pub(crate) slot: Slot,
    pub(crate) record: Record,
    pub(crate) body: Body,
    pub(crate) uses: Uses,
    pub(crate) compared: Compared,
}

/// The number of the newest purge when an object was compared with all of them, and none concerned it.
#[derive(Debug, Default)]
pub(crate) struct Compared(AtomicU64);

impl Compared {
    /// Whether it was compared with all purges up to this number.
    pub(crate) fn has(&self, newest: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= newest
    }

    pub(crate) fn set(&self, newest: u64) {
        self.0.store(newest, Ordering::Relaxed);
    }
}

impl Clone for Compared {
    /// The clone is another object for purges: it may have other fields.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Object {
    /// Returns the URI.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.record.key
    }

    /// Returns the metadata.
    #[must_use]
    pub fn stored(&self) -> &Stored {
        self.record.stored.as_ref().expect("objects without a response do not leave this crate")
    }

    /// Returns the object with other metadata, which the store does not have: for a response after a validation that cannot be stored.
    #[must_use]
    pub fn with_stored(&self, stored: Stored) -> Self {
        let record = Record { stored: Some(stored), ..self.record.clone() };
        Self { record, ..self.clone() }
    }

    /// Identifies the body.
    #[must_use]
    pub fn content_id(&self) -> ContentId {
        ContentId(self.id, self.slot.body_bytes, self.slot.body_checksum)
    }

    /// Returns the body. Of incomplete content, it is the stored parts one after the other.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Returns the memory of the object, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let body = if let Body::Memory(bytes) = &self.body { bytes.len() as u64 } else { 0 };
        // A map of fields and the parsed validators take several times the bytes of the record.
        body + 4 * u64::from(self.slot.record_bytes) + 256
    }

    /// Returns the object as a soft purge leaves it.
    pub(crate) fn invalidated(&self) -> Self {
        let mut object = self.clone();
        if let Some(stored) = &mut object.record.stored {
            stored.invalidate();
        }
        object
    }
}

/// Identifies the body of an object: an object has another one only after a change of its length or checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentId(ObjectId, u64, u64);

/// The body of an object.
#[derive(Debug, Clone)]
pub enum Body {
    /// A small body.
    Memory(Bytes),
    /// A range of a file.
    File {
        /// The file, open for reading at any offset.
        file: Arc<File>,
        /// Where the body begins.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
}

impl Body {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads at most `max` bytes at a position. Empty at the end. It waits for the disk.
    pub fn read_at(&self, position: u64, max: usize) -> io::Result<Bytes> {
        let length = usize::try_from(self.len().saturating_sub(position)).unwrap_or(usize::MAX).min(max);
        match self {
            Self::Memory(bytes) => {
                let start = bytes.len().min(usize::try_from(position).unwrap_or(usize::MAX));
                Ok(bytes.slice(start..start + length))
            }
            Self::File { file, offset, .. } => {
                let mut buffer = vec![0; length];
                let read = read_at(file, &mut buffer, offset + position, Access::Blocking)?;
                if read == length { Ok(buffer.into()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}
