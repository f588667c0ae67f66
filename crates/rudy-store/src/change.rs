//! Adds, updates and removes the files of objects.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rudy_cache::index::ObjectId;
use rudy_cache::{Key, Stored};

use crate::disk::Access;
use crate::failure::DiskFailure;
use crate::head::{HEAD_BYTES, RECORD_BYTES_MAX, Slot, checksum};
use crate::index::Uses;
use crate::inner::{Counters, Inner, Writing};
use crate::layout::TEMPORARY;
use crate::load::{Absent, Read, load};
use crate::object::{Body, Compared, Object};
use crate::purge::Effect;
use crate::record::{Epoch, NAMES_MAX, Record};

/// Why a complete response was not stored.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotKept {
    /// This process does not have the lock of the folder.
    ReadOnly,
    /// The body, the metadata or the list of names in `Vary` exceeds a limit.
    TooLong,
    /// A purge came after the request to the origin.
    Purged,
    /// The disk is full, or failed.
    System(io::Error),
}

impl From<io::Error> for NotKept {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("another process has the lock of the cache"),
            Self::TooLong => f.write_str("the response exceeds a limit of the cache"),
            Self::Purged => f.write_str("the response was purged while it was received"),
            Self::System(error) => write!(f, "the cache cannot be written: {error}"),
        }
    }
}

/// Why the metadata of an object was not updated.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotUpdated {
    /// This process does not have the lock of the folder. The object remains as it is.
    ReadOnly,
    /// The object was replaced, updated, purged or removed.
    Superseded,
    /// The variant changed. The object has been removed.
    Variant,
    /// The disk is full, or failed. The object has been removed.
    System(io::Error),
}

/// A response to be stored.
pub(crate) struct New {
    pub(crate) id: ObjectId,
    pub(crate) key: Key,
    pub(crate) stored: Stored,
    pub(crate) epoch: Epoch,
    pub(crate) body: NewBody,
}

pub(crate) enum NewBody {
    Small(Bytes),
    /// Written already.
    File {
        temporary: Temporary,
        length: u64,
        checksum: u64,
    },
}

/// A file without its final name. It is removed with this value.
pub(crate) struct Temporary {
    inner: Arc<Inner>,
    name: String,
    pub(crate) file: Arc<File>,
    has_final_name: bool,
}

impl Temporary {
    /// Creates a file for an object. `run` is that of [`Inner::writing`].
    pub(crate) fn create(inner: &Arc<Inner>, run: u64) -> io::Result<Self> {
        loop {
            let name = format!("{TEMPORARY}/{run}-{}", Counters::add(&inner.counters.temporary));
            match inner.disk.create(&name) {
                // The file of the state was lost, so that runs have the numbers of earlier ones again.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    let file = Arc::new(file?);
                    return Ok(Self { inner: Arc::clone(inner), name, file, has_final_name: false });
                }
            }
        }
    }

    fn rename(mut self, path: &str) -> io::Result<Arc<File>> {
        self.inner.disk.rename_into(&self.name, path)?;
        self.has_final_name = true;
        Ok(Arc::clone(&self.file))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.has_final_name {
            // The next process that stores removes what remains.
            let _ = self.inner.disk.remove(&self.name);
        }
    }
}

impl Inner {
    /// Stores a response.
    pub(crate) fn store(self: &Arc<Self>, new: New) -> Result<Arc<Object>, NotKept> {
        let Some(writing) = self.writing() else { return Err(NotKept::ReadOnly) };
        let mut evicted = Vec::new();
        let result = {
            let mut changes = self.lock(new.id);
            *changes += 1;
            self.place(&writing, new, &mut evicted)
        };
        self.evict(evicted);
        if let Err(NotKept::System(error)) = &result {
            self.failed(DiskFailure::Write, error);
        }
        result
    }

    fn place(
        self: &Arc<Self>,
        writing: &Writing<'_>,
        new: New,
        evicted: &mut Vec<ObjectId>,
    ) -> Result<Arc<Object>, NotKept> {
        let New { id, key, mut stored, epoch, body } = new;
        self.check_purges(&key, &mut stored, epoch)?;
        let (names, base) = (stored.variant().names().to_vec(), self.ids.base(&key));
        if names.len() > NAMES_MAX {
            return Err(NotKept::TooLong);
        }
        // The other responses of the key remain reachable.
        let vary = if id == base { self.current(base).map(|base| base.record.vary) } else { None };
        let record = Record {
            epoch,
            key: key.as_bytes().into(),
            vary: vary.unwrap_or_default(),
            stored: Some(stored),
        };
        let object = self.write_file(writing, id, record, body, evicted)?;
        if !names.is_empty() {
            self.add_names(writing, base, key.as_bytes(), &names, evicted)?;
        }
        Ok(object)
    }

    /// Compares a response with the purges since its request. With the lock of the key, so that a purge either is known here, or
    /// finds the file.
    fn check_purges(&self, key: &Key, stored: &mut Stored, epoch: Epoch) -> Result<(), NotKept> {
        let purges = self.purges.read();
        match purges.effect(epoch, key.as_bytes(), Some(stored.fields())) {
            _ if !purges.knows(epoch) => Err(NotKept::Purged),
            Effect::Gone => Err(NotKept::Purged),
            Effect::Stale => {
                stored.invalidate();
                Ok(())
            }
            Effect::None => Ok(()),
        }
    }

    /// Writes the file of an object, gives it its name, and adds it to the index.
    fn write_file(
        self: &Arc<Self>,
        writing: &Writing<'_>,
        id: ObjectId,
        record: Record,
        body: NewBody,
        evicted: &mut Vec<ObjectId>,
    ) -> Result<Arc<Object>, NotKept> {
        let bytes = record.encode();
        if bytes.len() > RECORD_BYTES_MAX as usize {
            return Err(NotKept::TooLong);
        }
        let (temporary, slot, small) = match body {
            NewBody::Small(body) => {
                let slot = Slot::first(id, body.len() as u64, checksum(id, &body), &bytes);
                let temporary = Temporary::create(self, writing.run)?;
                let content = [&slot.head(id)[..], &body, &bytes].concat();
                self.disk.write(&temporary.file, &content, 0)?;
                (temporary, slot, Some(body))
            }
            NewBody::File { temporary, length, checksum } => {
                let slot = Slot::first(id, length, checksum, &bytes);
                self.disk.write(&temporary.file, &bytes, slot.record_at)?;
                self.disk.write(&temporary.file, &slot.head(id), 0)?;
                (temporary, slot, None)
            }
        };
        if slot.record_end() > self.limits.lock().0.bytes {
            return Err(NotKept::TooLong);
        }
        let file = temporary.rename(&self.layout.path(id))?;
        let body = small
            .map_or_else(|| Body::File { file, offset: HEAD_BYTES, length: slot.body_bytes }, Body::Memory);
        let object =
            Arc::new(Object { id, slot, record, body, uses: Uses::default(), compared: Compared::default() });
        self.add_to_index(&object, evicted);
        Ok(object)
    }

    fn add_to_index(&self, object: &Arc<Object>, evicted: &mut Vec<ObjectId>) {
        self.index.insert(object.id, object.slot.record_end(), evicted);
        self.index.mark(object.id);
        self.remember(object);
    }

    fn remember(&self, object: &Arc<Object>) {
        match object.body {
            Body::Memory(_) => self.memory.insert(object.id, Arc::clone(object)),
            Body::File { .. } => drop(self.memory.remove(&object.id)),
        }
    }

    /// Adds names of fields to the base object of a key, and creates it if there is none.
    fn add_names(
        self: &Arc<Self>,
        writing: &Writing<'_>,
        base: ObjectId,
        key: &[u8],
        names: &[http::HeaderName],
        evicted: &mut Vec<ObjectId>,
    ) -> Result<(), NotKept> {
        if let Some(object) = self.current(base).filter(|object| object.key() == key) {
            let mut record = object.record.clone();
            if record.add_names(names) {
                self.rewrite(&object, record)?;
            }
            return Ok(());
        }
        let record = Record { epoch: Epoch(0), key: key.into(), vary: vec![names.to_vec()], stored: None };
        self.write_file(writing, base, record, NewBody::Small(Bytes::new()), evicted)?;
        Ok(())
    }

    /// Updates the metadata of an object.
    pub(crate) fn update(
        self: &Arc<Self>,
        object: &Object,
        mut stored: Stored,
        epoch: Epoch,
    ) -> Result<Arc<Object>, NotUpdated> {
        let Some(writing) = self.writing() else { return Err(NotUpdated::ReadOnly) };
        let mut changes = self.lock(object.id);
        *changes += 1;
        let current = self.current(object.id).filter(|current| current.slot == object.slot);
        let Some(current) = current else {
            // The object in memory may be one whose file is lost.
            self.memory.remove(&object.id);
            return Err(NotUpdated::Superseded);
        };
        if current.record.stored.as_ref().is_none_or(|current| current.variant() != stored.variant()) {
            self.delete(&writing, &current);
            return Err(NotUpdated::Variant);
        }
        let effect = self.purges.read().effect(epoch, object.key(), Some(stored.fields()));
        if self.effect(&current) == Effect::Gone || effect == Effect::Gone || !self.purges.read().knows(epoch)
        {
            self.delete(&writing, &current);
            return Err(NotUpdated::Superseded);
        }
        if effect == Effect::Stale {
            stored.invalidate();
        }
        let current = Object { body: object.body.clone(), ..current };
        let record = Record { epoch, stored: Some(stored), ..current.record.clone() };
        self.rewrite(&current, record).map_err(|error| {
            self.failed(DiskFailure::Write, &error);
            self.delete(&writing, &current);
            NotUpdated::System(error)
        })
    }

    /// Writes another record into the file of an object, with the lock of its key.
    pub(crate) fn rewrite(&self, object: &Object, record: Record) -> io::Result<Arc<Object>> {
        let bytes = record.encode();
        if bytes.len() > RECORD_BYTES_MAX as usize {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let id = object.id;
        let slot = object.slot.next(id, &bytes);
        let file = self.disk.edit(&self.layout.path(id))?;
        self.disk.write(&file, &bytes, slot.record_at)?;
        let (offset, head) = slot.encode(id);
        self.disk.write(&file, &head, offset)?;
        let object = Arc::new(Object {
            id,
            slot,
            record,
            body: object.body.clone(),
            uses: Uses::default(),
            compared: Compared::default(),
        });
        self.remember(&object);
        Ok(object)
    }

    /// Removes an object, unless it was replaced.
    pub(crate) fn remove(self: &Arc<Self>, object: &Object) {
        let Some(writing) = self.writing() else { return };
        let mut changes = self.lock(object.id);
        *changes += 1;
        // Also if its file is lost.
        self.memory.remove(&object.id);
        // Its metadata may have been updated.
        let same = |current: &Object| current.slot.is_of_same_body(&object.slot);
        if let Some(current) = self.current(object.id).filter(same) {
            self.delete(&writing, &current);
        }
    }

    /// Returns an object as it is on the disk, with the lock of its key.
    pub(crate) fn current(&self, id: ObjectId) -> Option<Object> {
        load(&self.disk, &self.layout.path(id), id, Read::Body, Access::Blocking).ok()
    }

    /// Removes an object, with the lock of its key. The names of fields on which other responses depend remain.
    ///
    /// Returns whether it is gone: a disk that fails can keep a file.
    pub(crate) fn delete(self: &Arc<Self>, writing: &Writing<'_>, object: &Object) -> bool {
        let Object { id, record: Record { epoch, key, vary, .. }, .. } = object;
        let names_only = Record { epoch: *epoch, key: key.clone(), vary: vary.clone(), stored: None };
        // Its file is not larger than the last one, so none has to leave for it.
        let has_names = !vary.is_empty()
            && self
                .write_file(writing, *id, names_only, NewBody::Small(Bytes::new()), &mut Vec::new())
                .is_ok();
        has_names || self.delete_file(*id)
    }

    /// Removes a file, with the lock of its key. Returns whether it is gone.
    pub(crate) fn delete_file(&self, id: ObjectId) -> bool {
        self.index.remove(id);
        self.memory.remove(&id);
        let removed = self.disk.remove(&self.layout.path(id));
        if let Err(error) = &removed {
            self.failed(DiskFailure::Write, error);
        }
        removed.is_ok()
    }

    /// Removes the files of objects that left the index.
    pub(crate) fn evict(&self, evicted: Vec<ObjectId>) {
        for id in evicted {
            let mut changes = self.lock(id);
            // It may have been stored again.
            if !self.index.contains(id) {
                *changes += 1;
                self.delete_file(id);
                Counters::add(&self.counters.evicted);
            }
        }
    }

    /// Removes an object that could not be loaded, unless another thread has replaced it.
    pub(crate) fn remove_damaged(&self, id: ObjectId) {
        let Some(_writing) = self.writing() else { return };
        let mut changes = self.lock(id);
        *changes += 1;
        match load(&self.disk, &self.layout.path(id), id, Read::Verified, Access::Blocking) {
            Err(Absent::Damaged(_)) => {
                Counters::add(&self.counters.damaged);
                self.delete_file(id);
            }
            Err(Absent::Missing) => {
                self.index.remove(id);
                self.memory.remove(&id);
            }
            Ok(_) | Err(Absent::WouldBlock | Absent::Failed(_)) => {}
        }
    }
}
