//! The shared limits and counts of all buffers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rudy_runtime::clock;

use super::BufferError;
use super::options::{Options, default_total};

/// How long the measured free space of the file system is used.
const FREE_SPACE_AGE: Duration = Duration::from_secs(1);

/// Responses are read ahead into files only while all files use at most the limit divided by this. Clients that read slowly can fill
/// that part, and requests, which need a file, have the rest.
const RESPONSES_DIVISOR: u64 = 2;

/// The limits and counts of all buffered bodies of the process. Clones share them, across reloads too.
///
/// ```
/// use rudy_client::buffer::{Buffers, Options};
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

/// The folder and the limit of the files.
#[derive(Debug)]
struct Files {
    dir: PathBuf,
    total: Option<u64>,
    /// The default limit from the free space, and when it was computed.
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
    /// Creates buffers with these limits.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared {
            memory: AtomicU64::new(0),
            memory_max: AtomicU64::new(options.memory),
            disk: AtomicU64::new(0),
            files: Mutex::new(options.into()),
        }))
    }

    /// Replaces the limits. Existing files stay where they are, even if they exceed a lower limit.
    pub fn set(&self, options: Options) {
        self.0.memory_max.store(options.memory, Ordering::Relaxed);
        *self.0.files.lock() = options.into();
    }

    /// Returns the number of bytes of all bodies in memory.
    #[must_use]
    pub fn in_memory(&self) -> u64 {
        self.0.memory.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of all bodies in files.
    #[must_use]
    pub fn on_disk(&self) -> u64 {
        self.0.disk.load(Ordering::Relaxed)
    }

    /// Returns the folder of new files.
    pub(super) fn dir(&self) -> PathBuf {
        self.0.files.lock().dir.clone()
    }

    /// Returns whether all bodies together exceed the limit in memory.
    pub(super) fn memory_is_full(&self) -> bool {
        self.in_memory() > self.0.memory_max.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` of the limit for files, for a response only up to its share. This may query the free space of the file
    /// system, which blocks.
    pub(super) fn reserve(&self, bytes: u64, is_response: bool) -> Result<Reservation, BufferError> {
        let total = self.total();
        let most = if is_response { total / RESPONSES_DIVISOR } else { total };
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= most);
        let reserved = self.0.disk.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        reserved
            .map_err(|_| if is_response { BufferError::Share(most) } else { BufferError::Total(total) })?;
        Ok(Reservation { buffers: self.clone(), of: Resource::Disk, bytes })
    }

    /// Checks whether a file of `bytes` would be within the limit, without reserving it. Blocks as
    /// [`Self::reserve`] does.
    pub(super) fn check_space(&self, bytes: u64) -> Result<(), BufferError> {
        let total = self.total();
        let used = self.on_disk().checked_add(bytes).filter(|used| *used <= total);
        used.map(drop).ok_or(BufferError::Total(total))
    }

    fn total(&self) -> u64 {
        let dir = match &*self.0.files.lock() {
            Files { total: Some(total), .. } => return *total,
            Files { default_total: Some((at, total)), .. } if clock::since(*at) < FREE_SPACE_AGE => {
                return *total;
            }
            Files { dir, .. } => dir.clone(),
        };
        // Not under the lock: a network file system may respond slowly.
        let total = default_total(&dir, self.on_disk());
        self.0.files.lock().default_total = Some((clock::now(), total));
        total
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

/// The part of a shared count that belongs to one body. Dropping this subtracts it.
#[derive(Debug)]
pub(super) struct Reservation {
    buffers: Buffers,
    of: Resource,
    bytes: u64,
}

impl Reservation {
    pub(super) fn of_memory(buffers: &Buffers) -> Self {
        Self { buffers: buffers.clone(), of: Resource::Memory, bytes: 0 }
    }

    pub(super) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the count to `bytes`. Uses no atomic operation if that is no change.
    pub(super) fn set(&mut self, bytes: u64) {
        let counter = self.buffers.counter(self.of);
        if bytes > self.bytes {
            counter.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            counter.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Moves the whole count out.
    pub(super) fn take(&mut self) -> Self {
        Self { buffers: self.buffers.clone(), of: self.of, bytes: std::mem::take(&mut self.bytes) }
    }

    /// Adds another reservation of the same resource.
    pub(super) fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.set(0);
    }
}
