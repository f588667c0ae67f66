//! The counts of limits, for commands and metrics.

use std::time::Instant;

use rudy_limit::TopKey;
use serde::{Deserialize, Serialize};

/// The counts of a limit by key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitStatus {
    /// Its name, or the first host and path of its site or route.
    pub(crate) name: String,
    /// What it allows, as in `10/s` and `20 at once`.
    pub(crate) max: String,
    /// What it counts by.
    pub(crate) by: String,
    /// The number of requests over the limit that were rejected.
    pub(crate) rejected: u64,
    /// The number of requests over the limit that passed, because of `dry_run`.
    pub(crate) dry_run: u64,
    /// The number of requests that passed with the allowance of their network, because the memory was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<u64>,
    /// The memory for keys, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_bytes: Option<usize>,
    /// The number of keys with requests in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) active_keys: Option<usize>,
    /// The keys that were most often over the limit. A count may be too high.
    pub(crate) top: Vec<TopKeyStatus>,
}

/// A key that was over a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TopKeyStatus {
    /// The key, such as an address.
    pub(crate) key: String,
    /// How often.
    pub(crate) count: u64,
    /// How long ago it was for the last time, in seconds.
    pub(crate) last_s: u64,
}

pub(super) fn top_keys(keys: &[TopKey], now: Instant) -> Vec<TopKeyStatus> {
    let status = |key: &TopKey| TopKeyStatus {
        key: key.name.clone(),
        count: key.count,
        last_s: now.saturating_duration_since(key.last).as_secs(),
    };
    keys.iter().map(status).collect()
}
