//! The counts of limits.

use serde::{Deserialize, Serialize};

/// The counts of a limit by key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// Its name, or the first host and path of its site or route.
    pub name: String,
    /// What it allows, as in `10/s` and `20 at once`.
    pub max: String,
    /// What it counts by.
    pub by: String,
    /// The number of requests over the limit that were rejected.
    pub rejected: u64,
    /// The number of requests over the limit that passed, because of `dry_run`.
    pub dry_run: u64,
    /// The number of requests that passed with the allowance of their network, because the memory was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u64>,
    /// The memory for keys, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<usize>,
    /// The number of keys with requests in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_keys: Option<usize>,
    /// The keys that were most often over the limit. A count may be too high.
    pub top: Vec<TopKeyStatus>,
}

/// A key that was over a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopKeyStatus {
    /// The key, such as an address.
    pub key: String,
    /// How often.
    pub count: u64,
    /// How long ago it was for the last time, in seconds.
    pub last_s: u64,
}
