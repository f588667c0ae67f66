//! The settings of a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rudy_cache::index::Capacity;

use crate::disk::Faults;
use crate::failure::DiskLog;

/// Bodies of at most this many bytes are served from memory: they are written in one piece, and read and verified in one.
pub const SMALL_BYTES_MAX: u64 = 64 * 1024;

/// The settings of a store. [`Options::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder. It is created if it does not exist.
    pub folder: PathBuf,
    /// The hex digits of each folder level, 1 or 2, for at most three levels. The default, 1 and 2, has 4,096 folders, of 250 files
    /// each for a million objects. With other levels, the objects in the folder are unknown.
    pub levels: Vec<u8>,
    /// The space for objects. Objects in transfer are not counted. The default is 10 GiB, and a million objects.
    pub capacity: Capacity,
    /// Longer bodies are not stored. The default is 1 GiB.
    pub object_bytes_max: u64,
    /// The memory for small objects that are used often. 0: none. The default is 64 MiB.
    pub memory_bytes: u64,
    /// For how long an applied purge is remembered, against transfers that began before it. A transfer that takes longer, across a
    /// purge, is not stored. The default is 60 s.
    pub purge_memory: Duration,
    /// Receives errors of the disk.
    pub log: Option<Arc<dyn DiskLog>>,
    /// Faults of the disk, for tests.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Options {
    /// Returns the default settings.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            levels: vec![1, 2],
            capacity: Capacity { bytes: 10 << 30, objects: 1_000_000 },
            object_bytes_max: 1 << 30,
            memory_bytes: 64 << 20,
            purge_memory: Duration::from_mins(1),
            log: None,
            faults: None,
        }
    }
}
