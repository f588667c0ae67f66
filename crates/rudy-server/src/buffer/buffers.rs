//! What the buffers of all messages have in common: their bounds, and how much there is of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::BufferError;
use super::options::{Options, default_total};

/// How long the free space of the file system counts as known.
const FREE_SPACE_AGE: Duration = Duration::from_secs(1);

/// The bounds and counts of all messages of the process. Clones share them, across reloads too.
///
/// ```
/// use rudy_server::buffer::{Buffers, Options};
///
/// let buffers = Buffers::default();
/// buffers.set(Options { total: Some(1 << 30), ..Options::default() });
/// assert_eq!((buffers.in_memory(), buffers.on_disk()), (0, 0));
/// ```
#[derive(Debug, Clone)]
pub struct Buffers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: AtomicU64,
    memory_max: AtomicU64,
    disk: AtomicU64,
    files: Mutex<Files>,
}

/// Where files go, and how much they may take.
#[derive(Debug)]
struct Files {
    dir: PathBuf,
    total: Option<u64>,
    /// The bound by the free space, and when it was asked for.
    default_total: Option<(Instant, u64)>,
}

impl From<Options> for Files {
    fn from(options: Options) -> Self {
        Self { dir: options.dir(), total: options.total, default_total: None }
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Buffers {
    /// No message yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared {
            memory: AtomicU64::new(0),
            memory_max: AtomicU64::new(options.memory),
            disk: AtomicU64::new(0),
            files: Mutex::new(options.into()),
        }))
    }

    /// Replaces the bounds. Existing files stay in the folder that they are in, and what is beyond a lower bound stays, too.
    pub fn set(&self, options: Options) {
        self.0.memory_max.store(options.memory, Ordering::Relaxed);
        *self.files() = options.into();
    }

    /// Bytes of all messages in memory.
    #[must_use]
    pub fn in_memory(&self) -> u64 {
        self.0.memory.load(Ordering::Relaxed)
    }

    /// Bytes of all messages in files.
    #[must_use]
    pub fn on_disk(&self) -> u64 {
        self.0.disk.load(Ordering::Relaxed)
    }

    /// The folder of new files.
    pub(super) fn dir(&self) -> PathBuf {
        self.files().dir.clone()
    }

    /// Whether all messages together hold more in memory than they may.
    pub(super) fn memory_is_full(&self) -> bool {
        self.in_memory() > self.0.memory_max.load(Ordering::Relaxed)
    }

    /// Takes `bytes` of the room for files. It may ask the file system for its free space, which blocks.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Share, BufferError> {
        let total = self.total();
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= total);
        let taken = self.0.disk.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| BufferError::Total(total))?;
        Ok(Share { buffers: self.clone(), of: Resource::Disk, bytes })
    }

    /// Whether there is room for a file of `bytes` now. It takes nothing, so that it takes nothing from others, and it blocks as
    /// [`Self::reserve`] does.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), BufferError> {
        let total = self.total();
        let used = self.on_disk().checked_add(bytes).filter(|used| *used <= total);
        used.map(drop).ok_or(BufferError::Total(total))
    }

    fn total(&self) -> u64 {
        let dir = match &*self.files() {
            Files { total: Some(total), .. } => return *total,
            Files { default_total: Some((at, total)), .. } if at.elapsed() < FREE_SPACE_AGE => return *total,
            Files { dir, .. } => dir.clone(),
        };
        // Not under the lock: a network file system may take long to respond.
        let total = default_total(&dir, self.on_disk());
        self.files().default_total = Some((Instant::now(), total));
        total
    }

    /// A panic while the lock is held leaves nothing half done: fields are set in one step.
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counter(&self, of: Resource) -> &AtomicU64 {
        match of {
            Resource::Memory => &self.0.memory,
            Resource::Disk => &self.0.disk,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Resource {
    Memory,
    Disk,
}

/// What a message has of the bytes that all messages have. It is given back when the share is dropped.
#[derive(Debug)]
pub(super) struct Share {
    buffers: Buffers,
    of: Resource,
    bytes: u64,
}

impl Share {
    pub(super) fn of_memory(buffers: &Buffers) -> Self {
        Self { buffers: buffers.clone(), of: Resource::Memory, bytes: 0 }
    }

    pub(super) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` from now on. No atomic operation where that is what is counted already.
    pub(super) fn set(&mut self, bytes: u64) {
        let counter = self.buffers.counter(self.of);
        if bytes > self.bytes {
            counter.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            counter.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Moves all of it out.
    pub(super) fn take(&mut self) -> Self {
        Self { buffers: self.buffers.clone(), of: self.of, bytes: std::mem::take(&mut self.bytes) }
    }

    /// Adds a share of the same resource.
    pub(super) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
