//! The store of a process.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use http::HeaderMap;
use rudy_cache::index::Capacity;
use rudy_cache::{Key, Stored};
use rudy_runtime::{clock, is_planted};

use crate::background;
use crate::change::NotUpdated;
use crate::disk::{Access, WouldBlock};
use crate::failure::DiskFailure;
use crate::fill::Fill;
use crate::inner::Inner;
use crate::load::{Read, load};
use crate::lookup::Found;
use crate::object::Object;
use crate::open::{self, OpenError};
use crate::options::Options;
use crate::purge::list::TARGET_BYTES_MAX;
use crate::purge::{Effect, PENDING_MAX, Purge, PurgeError, Target};
use crate::record::Epoch;
use crate::sync::atomic::Ordering;

/// The store of a process. All of its threads share it.
///
/// Dropping it ends its background thread. Transfers and bodies in use remain usable.
#[derive(Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// `None` in a simulation, where it is a task.
    background: Option<JoinHandle<()>>,
}

/// What a store has, and what happened since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Objects on the disk, as far as the index knows them. Those that only have names of fields in `Vary` count too.
    pub objects: u64,
    /// The space that they use, in bytes.
    pub bytes: u64,
    /// The limits.
    pub capacity: Capacity,
    /// The memory of the index, in bytes.
    pub index_bytes: u64,
    /// Objects in memory.
    pub memory_objects: u64,
    /// The memory of these objects, in bytes.
    pub memory_bytes: u64,
    /// Whether this process has the lock of the folder.
    pub is_writer: bool,
    /// Whether the index has all objects in the folder.
    pub is_indexed: bool,
    /// Objects that left for others.
    pub evicted: u64,
    /// Files that were removed because they were damaged or foreign.
    pub damaged: u64,
    /// Failed reads: the responses were requested again.
    pub read_errors: u64,
    /// Failed writes, for example because the disk is full.
    pub write_errors: u64,
    /// Purges that the background thread has not applied yet.
    pub purges_pending: u64,
    /// Purged tags whose files a sweep will remove.
    pub tags_unswept: u64,
    /// Objects that purges have removed or made stale.
    pub purged: u64,
}

/// An object in a list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The URI.
    pub key: Vec<u8>,
    /// The metadata.
    pub stored: Stored,
    /// The length of the body.
    pub body_bytes: u64,
}

impl Store {
    /// Opens a folder, or creates it, and takes its lock if that is free. Otherwise this process only reads, and tries again
    /// to take it every second and at each purge.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let inner = Arc::new(open::open(options)?);
        if inner.is_writer() {
            inner.signal.scan();
        }
        let background = if rudy_runtime::current().is_some() {
            rudy_runtime::spawn(background::run_in_task(Arc::clone(&inner)));
            None
        } else {
            let of_thread = Arc::clone(&inner);
            let thread = std::thread::Builder::new().name("cache-store".into());
            let thread = thread.spawn(move || background::run(&of_thread));
            Some(thread.map_err(|error| OpenError::System(inner.disk.path().into(), error))?)
        };
        Ok(Self { inner, background })
    }

    /// Opens a folder without the background thread, which a model runs as one of its own.
    #[cfg(test)]
    pub(crate) fn without_background(options: Options) -> Self {
        Self { inner: Arc::new(open::open(options).unwrap()), background: None }
    }

    /// Finds the objects that can serve a request for a key: those whose variant matches the fields of the request, and the one
    /// without `Vary`. Softly purged ones are invalid ([`Stored::invalidate`]).
    ///
    /// Fails only with [`Access::Cached`].
    pub fn lookup(&self, key: &Key, request: &HeaderMap, access: Access) -> Result<Found, WouldBlock> {
        self.inner.lookup(key, request, access)
    }

    /// Whether [`Store::lookup`] would return this object from memory: it was not replaced, updated, removed or purged, and is small.
    /// It counts as a use. Does no IO.
    #[must_use]
    pub fn is_current(&self, object: &Arc<Object>) -> bool {
        self.inner.is_current(object)
    }

    /// Returns all objects of a key. It reads a folder.
    #[must_use]
    pub fn objects(&self, key: &Key) -> Vec<Arc<Object>> {
        self.inner.objects(key)
    }

    /// Returns the present in relation to purges. Take it before a request is sent to the origin: a purge that comes while the
    /// response is on its way then concerns it.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.inner.purges.read().epoch()
    }

    /// Begins to receive the body of a response, of the declared `length` if there is one. It always succeeds: a body that
    /// cannot be stored is still streamed to its readers.
    #[must_use]
    pub fn fill(&self, key: &Key, stored: Stored, length: Option<u64>, epoch: Epoch) -> Fill {
        self.fill_at_most(key, stored, length, epoch, self.inner.options.object_bytes_max)
    }

    /// Begins to receive the body of a response, which is stored if it has at most this number of bytes, whatever the options say.
    #[must_use]
    pub fn fill_at_most(
        &self,
        key: &Key,
        stored: Stored,
        length: Option<u64>,
        epoch: Epoch,
        bytes_max: u64,
    ) -> Fill {
        Fill::new(Arc::clone(&self.inner), key, stored, length, epoch, bytes_max)
    }

    /// Replaces the metadata of an object, after a validation. It waits for the disk. The body is not written again.
    pub fn update(&self, object: &Object, stored: Stored, epoch: Epoch) -> Result<Arc<Object>, NotUpdated> {
        self.inner.update(object, stored, epoch)
    }

    /// Removes an object, unless it has been replaced. It waits for the disk.
    pub fn remove(&self, object: &Object) {
        self.inner.remove(object);
    }

    /// Removes all objects of the keys, for requests that change them (RFC 9111 §4.4). Transfers that began before are not stored.
    /// It waits for the disk, but not until the removal is on it.
    ///
    /// Without the lock of the folder, this process does not use the objects any more, but another one does.
    pub fn invalidate(&self, keys: &[Key]) {
        let was_writer = self.is_writer();
        if was_writer {
            self.remove_keys(keys);
        }
        // It may have given up the lock meanwhile.
        if !was_writer || !self.is_writer() {
            self.inner.hide(keys);
        }
    }

    fn remove_keys(&self, keys: &[Key]) {
        let purges: Vec<_> =
            keys.iter().map(|key| Purge { target: Target::Key(key.clone()), soft: false }).collect();
        {
            let _state = self.inner.state.lock();
            self.inner.change_purges(|known| known.add(known.number(&purges, false), clock::now()));
        }
        self.inner.apply_to_keys(&purges);
        self.inner.signal.apply();
    }

    /// Purges objects. When it returns, the purge is on the disk, and no later lookup finds what it concerns. It waits for the disk.
    pub fn purge(&self, purges: &[Purge]) -> Result<(), PurgeError> {
        if purges.iter().any(|purge| purge.target.text().len() > TARGET_BYTES_MAX) {
            return Err(PurgeError::TooLong);
        }
        if is_planted("a purge that is lost") {
            return Ok(());
        }
        if !self.inner.become_writer() {
            return Err(PurgeError::Busy);
        }
        self.add_durably(purges)?;
        self.inner.apply_to_keys(purges);
        self.inner.signal.apply();
        Ok(())
    }

    /// Adds purges to the file of the state, and then to those in memory.
    fn add_durably(&self, purges: &[Purge]) -> Result<(), PurgeError> {
        let Some(_writing) = self.inner.writing() else { return Err(PurgeError::Busy) };
        let mut state = self.inner.state.lock();
        let new = {
            let known = self.inner.purges.read();
            let prefixes = purges.iter().filter(|purge| matches!(purge.target, Target::Prefix(_))).count();
            if prefixes > 0 && known.pending() + prefixes > PENDING_MAX {
                return Err(PurgeError::Full);
            }
            known.number(purges, true)
        };
        let failed = |error: &io::Error| self.inner.failed(DiskFailure::Write, error);
        let file = state.append(&self.inner.disk, &new).inspect_err(|error| {
            if let PurgeError::System(error) = error {
                failed(error);
            }
        })?;
        let _ = state.confirm(&self.inner.disk, &file).inspect_err(failed);
        self.inner.change_purges(|known| known.add(new, clock::now()));
        Ok(())
    }

    /// Removes the files of all purged objects. Blocks until all objects were compared with the purges. Returns whether the files are gone.
    #[must_use]
    pub fn sweep(&self) -> bool {
        self.inner.signal.sweep()
    }

    /// Returns what the store has.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Inner { counters, memory, .. } = &*self.inner;
        let (objects, bytes, index_bytes) = self.inner.index.usage();
        let (pending, tags) = {
            let purges = self.inner.purges.read();
            (purges.pending(), purges.unswept_tags())
        };
        Stats {
            objects: objects.into(),
            bytes,
            capacity: self.inner.limits.lock().0,
            index_bytes: index_bytes as u64,
            memory_objects: memory.len() as u64,
            memory_bytes: memory.weight(),
            is_writer: self.inner.is_writer(),
            is_indexed: self.is_indexed(),
            evicted: counters.evicted.load(Ordering::Relaxed),
            damaged: counters.damaged.load(Ordering::Relaxed),
            read_errors: counters.read_errors.load(Ordering::Relaxed),
            write_errors: counters.write_errors.load(Ordering::Relaxed),
            purges_pending: pending as u64,
            tags_unswept: tags as u64,
            purged: counters.purged.load(Ordering::Relaxed),
        }
    }

    /// Changes the space for objects, and the memory. Objects that have no room leave a moment later.
    pub fn resize(&self, capacity: Capacity, memory_bytes: u64) {
        if std::mem::replace(&mut *self.inner.limits.lock(), (capacity, memory_bytes))
            != (capacity, memory_bytes)
        {
            self.inner.memory.set_capacity(memory_bytes);
            self.inner.signal.resize();
        }
    }

    /// Whether requests should pass the store by: its disk has had ten errors in ten seconds, and a probe once a minute has not worked yet.
    /// A full disk is none. What requests change must be invalidated nevertheless.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.inner.health.is_suspended()
    }

    /// Whether this process has the lock of the folder. Otherwise it only reads.
    #[must_use]
    pub fn is_writer(&self) -> bool {
        self.inner.is_writer()
    }

    /// Gives up the lock for another process, for example during a binary upgrade, and does not take it again until
    /// [`Store::reclaim`].
    pub fn release(&self) {
        self.inner.release();
    }

    /// Takes the lock again as soon as it is free, after [`Store::release`]: the other process has ended.
    pub fn reclaim(&self) {
        self.inner.reclaim();
    }

    /// Whether the index has all objects in the folder. Lookups find the others on the disk.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.inner.signal.is_indexed()
    }

    /// Waits until the index has all objects in the folder. Returns at once if this process only reads.
    pub fn wait_until_indexed(&self) {
        if self.is_writer() {
            self.inner.signal.wait_until(|| self.is_indexed());
        }
    }

    /// Waits until a condition holds after a task of the background thread.
    #[cfg(test)]
    pub(crate) fn wait_until(&self, condition: impl Fn(&Stats) -> bool) {
        self.inner.signal.wait_until(|| condition(&self.stats()));
    }

    /// Adds the base object of a key to the index, as a scan does.
    #[cfg(test)]
    pub(crate) fn add_to_index(&self, key: &Key) {
        self.inner.index.insert(self.inner.ids.base(key), 1, &mut Vec::new());
    }

    /// Waits until the background thread has swept and applied all purges, removed what was hidden, and forgotten all but `count`.
    #[cfg(test)]
    pub(crate) fn wait_for_purges(&self, count: usize) {
        let _ = self.sweep();
        self.inner.signal.wait_until(|| {
            let purges = self.inner.purges.read();
            let is_applied = purges.pending() == 0 && purges.hidden.is_empty();
            is_applied && purges.entries().count() <= count && purges.unswept_tags() <= count
        });
    }

    /// Calls `each` with every stored object, in no order, until it breaks. It reads all files.
    pub fn for_each(&self, mut each: impl FnMut(Listed) -> ControlFlow<()>) {
        let _ = background::walk(&self.inner, &mut |path, id| {
            let Some(id) = id else { return ControlFlow::Continue(()) };
            match load(&self.inner.disk, path, id, Read::Metadata, Access::Blocking) {
                Ok(object) if self.inner.effect(&object) != Effect::Gone => {
                    let Object { slot, record, .. } = object;
                    let listed =
                        |stored| Listed { key: record.key.into(), stored, body_bytes: slot.body_bytes };
                    record.stored.map(listed).map_or(ControlFlow::Continue(()), &mut each)
                }
                Ok(_) | Err(_) => ControlFlow::Continue(()),
            }
        });
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inner.signal.stop();
        if let Some(thread) = self.background.take() {
            // It has no result. A panic in it was printed.
            let _ = thread.join();
        }
        // Transfers that have not ended may not be stored without the lock.
        self.inner.release();
    }
}
