//! Results of compression that are kept in memory, up to a limit of bytes.

use std::hash::Hash;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use rudy_message::semantics::negotiation::Coding;
use rudy_service::Body;
use rudy_store::ContentId;
use tokio::sync::Semaphore;

use super::whole;

/// Results by what was compressed and how; `W` weighs their bytes. That content does not become smaller is a result, too.
#[derive(Debug)]
pub struct KeptVariants<K, V, W> {
    /// In one shard, so that each result fits.
    variants: Cache<K, V, W>,
    /// A permit for each KiB of files that can be compressed into memory at a time, as many as the cache can hold.
    memory_permits: Semaphore,
}

impl<K: Clone + Eq + Hash, V: Clone, W: Weighter<K, V> + Clone + Default> KeptVariants<K, V, W> {
    /// Keeps results of at most `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let kibibytes = usize::try_from(bytes / 1024).unwrap_or(usize::MAX);
        let memory_permits = Semaphore::new(kibibytes.min(Semaphore::MAX_PERMITS));
        Self { variants: by_bytes(bytes, 1), memory_permits }
    }

    /// Returns how many bytes it keeps at most.
    pub fn bytes_max(&self) -> u64 {
        self.variants.capacity()
    }

    /// Returns the memory in use.
    pub fn bytes(&self) -> u64 {
        self.variants.weight()
    }

    /// Returns the result for a key, if it is known.
    pub fn get(&self, key: &K) -> Option<V> {
        self.variants.get(key)
    }

    /// Returns the result for a key, or makes it. Concurrent requests wait for the result: that takes a fraction of a second once,
    /// while the uncompressed content would take each of them longer.
    pub async fn get_or_make(&self, key: &K, make: impl Future<Output = io::Result<V>>) -> io::Result<V> {
        self.variants.get_or_insert_async(key, make).await
    }

    /// Compresses a whole body. `None` if it does not become smaller. `encoders` limits how many files are compressed at a time.
    ///
    /// # Errors
    ///
    /// The result of a file does not fit, too many others are compressed, reading fails, or the body is a stream.
    pub async fn compress(
        &self,
        body: Body,
        coding: Coding,
        level: u8,
        encoders: &Semaphore,
    ) -> io::Result<Option<Bytes>> {
        match body {
            Body::Bytes(plain) => whole::bytes(plain, coding, level).await,
            Body::File(file) => {
                let kibibytes = u32::try_from(file.length.div_ceil(1024)).map_err(io::Error::other)?;
                let _memory = self.memory_permits.try_acquire_many(kibibytes).map_err(io::Error::other)?;
                let _encoder = encoders.try_acquire().map_err(io::Error::other)?;
                whole::file(file, coding, level).await
            }
            Body::Empty | Body::Silence | Body::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Returns a cache of this many bytes, which `W` counts.
///
/// # Panics
///
/// Never: a capacity is given.
#[must_use]
pub fn by_bytes<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone + Default>(
    bytes: u64,
    shards: usize,
) -> Cache<K, V, W> {
    // Files have 10 KiB on average or more. Only the initial size of a table depends on this.
    let likely = usize::try_from(bytes / (8 * 1024)).unwrap_or(usize::MAX).clamp(1, 64 * 1024);
    let options = OptionsBuilder::new()
        .shards(shards)
        .estimated_items_capacity(likely)
        .weight_capacity(bytes)
        .build()
        .expect("the builder fails only if a capacity is missing");
    Cache::with_options(options, W::default(), DefaultHashBuilder::default(), DefaultLifecycle::default())
}

/// Weighs the compressed bodies of stored responses.
#[derive(Debug, Clone, Default)]
pub struct ByBytes;

/// The compressed bodies of stored responses.
pub type StoredVariants = KeptVariants<StoredVariant, Compressed, ByBytes>;

/// A compressed body; `None` if the content does not become smaller.
type Compressed = Option<Bytes>;

/// A compressed body of a stored response: its content, the coding and the level.
pub(super) type StoredVariant = (ContentId, Coding, u8);

/// Memory of a compressed body besides its bytes: its key, and its share of the table.
const OVERHEAD_BYTES: u64 = 256;

impl Weighter<StoredVariant, Compressed> for ByBytes {
    fn weight(&self, _: &StoredVariant, variant: &Compressed) -> u64 {
        variant.as_ref().map_or(0, |bytes| bytes.len() as u64) + OVERHEAD_BYTES
    }
}

/// The whole content of a stored response.
#[derive(Debug, Clone)]
pub struct StoredContent {
    /// Its compressed bodies.
    pub variants: Arc<StoredVariants>,
    /// What identifies it.
    pub id: ContentId,
}
