//! The parts of a store, and which process may change its folder.
//!
//! Locks are taken in this order: the role, the state, a stripe, the purges or the index. No lock but that of the role is held
//! while a large body is read or written.

use std::fs::File;
use std::io;
use std::sync::Arc;

use quick_cache::Weighter;
use rudy_cache::index::{Capacity, ObjectId};
use rudy_cache::{HttpDate, Key};
use rudy_runtime::clock;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::disk::{Access, Disk, WouldBlock};
use crate::failure::DiskFailure;
use crate::health::{self, Health};
use crate::index::Index;
use crate::layout::{Ids, LOCK, Layout, key_half};
use crate::load::{Read, load};
use crate::object::Object;
use crate::options::Options;
use crate::purge::list::{self, State, Written};
use crate::purge::{Effect, Purges};
use crate::record::Epoch;
use crate::signal::Signal;
use crate::snapshot::Snapshot;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Cache, Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// The number of locks for the files of objects. Changes to the objects of a key have the same one.
const STRIPES: usize = 64;

/// All that the threads of a process share of a store.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) disk: Disk,
    pub(crate) layout: Layout,
    pub(crate) ids: Ids,
    pub(crate) role: RwLock<Role>,
    /// Whether the role is [`Role::Writer`], for readers.
    is_writer: AtomicBool,
    pub(crate) purges: RwLock<Purges>,
    /// The number of the newest purge in memory: younger objects need no look at `purges`.
    newest_purge: AtomicU64,
    /// How often purges were forgotten.
    forgets: AtomicU64,
    /// The file of the state, held while it is written.
    pub(crate) state: Mutex<Written>,
    pub(crate) index: Index,
    /// The space for objects, which the background thread gives to the index, and the memory.
    pub(crate) limits: Mutex<(Capacity, u64)>,
    pub(crate) memory: Cache<ObjectId, Arc<Object>, Weight>,
    stripes: [Mutex<u64>; STRIPES],
    /// Purged objects that a lookup has found: their files leave next.
    pub(crate) met: Mutex<Vec<ObjectId>>,
    pub(crate) signal: Signal,
    pub(crate) counters: Counters,
    pub(crate) health: Health,
}

/// Numbers since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) evicted: AtomicU64,
    pub(crate) purged: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    pub(crate) temporary: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a process may do with the folder.
#[derive(Debug)]
pub(crate) enum Role {
    /// It stores. It holds the lock of the folder.
    Writer { _lock: File, run: u64 },
    /// Another process stores, or the state cannot be written. It reads.
    Reader,
    /// It gave up the lock for another process, and reads.
    Released,
}

/// The permission to change the folder.
pub(crate) struct Writing<'a> {
    _role: RwLockReadGuard<'a, Role>,
    pub(crate) run: u64,
}

/// The memory of an object counts.
#[derive(Debug, Clone)]
pub(crate) struct Weight;

impl Weighter<ObjectId, Arc<Object>> for Weight {
    fn weight(&self, _: &ObjectId, object: &Arc<Object>) -> u64 {
        object.memory_bytes()
    }
}

/// A typical object in memory. It only sizes the table of the cache in memory.
const OBJECT_BYTES_ESTIMATE: u64 = 8 * 1024;

impl Inner {
    pub(crate) fn new(
        options: Options,
        disk: Disk,
        layout: Layout,
        state: State,
        lock: Option<(File, Written)>,
    ) -> Self {
        let items = usize::try_from(options.memory_bytes / OBJECT_BYTES_ESTIMATE).unwrap_or(usize::MAX);
        let (role, written) = match lock {
            Some((lock, written)) => (Role::Writer { _lock: lock, run: state.run }, written),
            None => (Role::Reader, Written::default()),
        };
        let inner = Self {
            index: Index::new(options.capacity),
            limits: Mutex::new((options.capacity, options.memory_bytes)),
            memory: Cache::with_weighter(items.clamp(1, 1 << 20), options.memory_bytes, Weight),
            ids: Ids(state.seed),
            is_writer: AtomicBool::new(matches!(role, Role::Writer { .. })),
            newest_purge: AtomicU64::default(),
            forgets: AtomicU64::default(),
            role: RwLock::new(role),
            purges: RwLock::default(),
            state: Mutex::new(written),
            stripes: std::array::from_fn(|_| Mutex::default()),
            met: Mutex::default(),
            signal: Signal::default(),
            counters: Counters::default(),
            health: Health::default(),
            options,
            disk,
            layout,
        };
        inner.change_purges(|purges| purges.replace(state.purges));
        inner
    }

    /// Counts and logs an error of the disk.
    pub(crate) fn failed(&self, failure: DiskFailure, error: &io::Error) {
        let counter: &AtomicU64 = match failure {
            DiskFailure::Read => &self.counters.read_errors,
            DiskFailure::Write => &self.counters.write_errors,
        };
        Counters::add(counter);
        let is_suspended = self.health.note(error, clock::now());
        if let Some(log) = &self.options.log {
            log.failed(failure, error);
            if is_suspended {
                log.suspended(true);
            }
        }
        if is_suspended {
            // It waits for the probe.
            self.signal.apply();
        }
    }

    /// Probes a disk that fails.
    pub(crate) fn probe(&self) {
        let works =
            if self.is_writer() { health::can_store(&self.disk) } else { health::can_read(&self.disk) };
        self.health.probed(works, clock::now());
        if let Some(log) = self.options.log.as_ref().filter(|_| works) {
            log.suspended(false);
        }
    }

    pub(crate) fn is_writer(&self) -> bool {
        self.is_writer.load(Ordering::Acquire)
    }

    /// Keeps the permission to change the folder. `None` if this process does not have it. A thread may not call it twice.
    pub(crate) fn writing(&self) -> Option<Writing<'_>> {
        let role = self.role.read();
        let Role::Writer { run, .. } = *role else { return None };
        Some(Writing { _role: role, run })
    }

    /// Takes the lock of the folder if it is free. Returns whether this process stores.
    pub(crate) fn become_writer(&self) -> bool {
        if self.is_writer() {
            return true;
        }
        let mut role = self.role.write();
        match *role {
            Role::Writer { .. } => return true,
            Role::Released => return false,
            Role::Reader => {}
        }
        let lock = try_lock(&self.disk).unwrap_or_else(|error| {
            self.failed(DiskFailure::Write, &error);
            None
        });
        let Some(lock) = lock else { return false };
        // With another seed, the objects that this process has found are not those of the folder.
        let state = State::read(&self.disk).filter(|state| state.seed == self.ids.0).map(State::next_run);
        let Some(state) = state else { return false };
        match begin_run(&self.disk, &state) {
            Ok(written) => *self.state.lock() = written,
            Err(error) => {
                self.failed(DiskFailure::Write, &error);
                return false;
            }
        }
        self.change_purges(|purges| purges.replace(state.purges));
        *role = Role::Writer { _lock: lock, run: state.run };
        self.is_writer.store(true, Ordering::Release);
        self.signal.scan();
        true
    }

    /// Gives up the lock of the folder, until [`Inner::reclaim`].
    pub(crate) fn release(&self) {
        let mut role = self.role.write();
        if let Role::Writer { run, .. } = *role
            && let Err(error) = self.snapshot(run).write()
        {
            self.failed(DiskFailure::Write, &error);
        }
        self.is_writer.store(false, Ordering::Release);
        *role = Role::Released;
        // From now on, other processes change the files. A search that has read one before does not keep the object.
        for stripe in &self.stripes {
            *stripe.lock() += 1;
        }
        self.memory.clear();
    }

    /// Returns the snapshot of a run.
    pub(crate) fn snapshot(&self, run: u64) -> Snapshot<'_> {
        Snapshot { disk: &self.disk, index: &self.index, seed: &self.ids.0, run }
    }

    /// Lets this process take the lock again, with an index of what other processes have left.
    pub(crate) fn reclaim(&self) {
        {
            let mut role = self.role.write();
            if !matches!(*role, Role::Released) {
                return;
            }
            *role = Role::Reader;
        }
        let capacity = self.limits.lock().0;
        self.index.clear(capacity);
        self.signal.apply();
    }

    /// Locks the files of a key. The number in it is that of their changes.
    pub(crate) fn lock(&self, id: ObjectId) -> MutexGuard<'_, u64> {
        self.stripe(id).lock()
    }

    /// Returns the number of changes of the files of a key. `None` while they change.
    pub(crate) fn changes(&self, id: ObjectId) -> Option<MutexGuard<'_, u64>> {
        self.stripe(id).try_lock()
    }

    fn stripe(&self, id: ObjectId) -> &Mutex<u64> {
        let hash = usize::try_from(key_half(id) % STRIPES as u64).expect("less than 64");
        &self.stripes[hash]
    }

    /// Waits until all changes that began before have ended.
    pub(crate) fn wait_for_changes(&self) {
        for stripe in &self.stripes {
            drop(stripe.lock());
        }
    }

    /// Changes the purges.
    pub(crate) fn change_purges<T>(&self, change: impl FnOnce(&mut Purges) -> T) -> T {
        let mut purges = self.purges.write();
        let before = purges.forgets;
        let result = change(&mut purges);
        if purges.forgets != before {
            self.forgets.fetch_add(1, Ordering::Release);
        }
        // Every object is compared with the hidden ones.
        let newest = if purges.hidden.is_empty() { purges.newest() } else { u64::MAX };
        self.newest_purge.store(newest, Ordering::Release);
        result
    }

    /// Hides the objects of keys from this process, which cannot remove their files. It does when it gets the lock of the folder.
    pub(crate) fn hide(&self, keys: &[Key]) {
        let ids = keys.iter().flat_map(|key| self.ids_of(key).unwrap_or_default());
        let metadata =
            |id| load(&self.disk, &self.layout.path(id), id, Read::Metadata, Access::Blocking).ok();
        let objects: Vec<_> = ids.filter_map(metadata).collect();
        let now = HttpDate::at(clock::utc());
        self.change_purges(|purges| objects.iter().for_each(|object| purges.hidden.add(object, now)));
        self.signal.apply();
    }

    /// Repeats a search while purges are forgotten. An object that was read before its removal could otherwise be compared with the
    /// purges after that.
    pub(crate) fn while_purges_are_known<T>(&self, search: impl Fn() -> T) -> T {
        loop {
            let forgets = self.forgets.load(Ordering::Acquire);
            let result = search();
            if self.forgets.load(Ordering::Acquire) == forgets {
                return result;
            }
        }
    }

    /// Returns what purges mean for an object. Without a new purge, it takes no lock again.
    pub(crate) fn effect(&self, object: &Object) -> Effect {
        let (epoch, newest) = (object.record.epoch, self.newest_purge.load(Ordering::Acquire));
        if epoch > Epoch(newest) || object.compared.has(newest) {
            return Effect::None;
        }
        let fields = object.record.stored.as_ref().map(rudy_cache::Stored::fields);
        let purges = self.purges.read();
        if purges.hidden.has(object) {
            return Effect::Gone;
        }
        let effect = purges.effect(epoch, object.key(), fields);
        if effect == Effect::None && purges.hidden.is_empty() {
            object.compared.set(newest);
        }
        effect
    }

    /// Reads the purges again if another process has added some. The writer knows all of them.
    pub(crate) fn refresh(&self, access: Access) -> Result<(), WouldBlock> {
        if self.is_writer() {
            return Ok(());
        }
        let known = self.purges.read().version;
        match list::version_on_disk(&self.disk, access) {
            Ok(version) if version == known => return Ok(()),
            Ok(_) if access == Access::Cached => return Err(WouldBlock),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(WouldBlock),
            Ok(_) | Err(_) => {}
        }
        // A purge that was written in part makes the file longer than what is known of it.
        if let Some(state) = State::read(&self.disk).filter(|state| state.purges.version != known) {
            self.change_purges(|purges| purges.replace(state.purges));
        }
        Ok(())
    }
}

/// Takes the lock of a folder. `None` if another process has it.
///
/// # Errors
///
/// The file of the lock cannot be opened: other permissions, or a disk that can only be read.
pub(crate) fn try_lock(disk: &Disk) -> io::Result<Option<File>> {
    let lock = disk.lock_file(LOCK)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(lock)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes that a process begins to store.
pub(crate) fn begin_run(disk: &Disk, state: &State) -> io::Result<Written> {
    disk.create_folder(crate::layout::TEMPORARY)?;
    disk.create_folder(crate::layout::OBJECTS)?;
    list::write(disk, &State::encode(&state.seed, state.run, &state.purges))
}
