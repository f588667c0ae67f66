//! The keys of limits, for commands and metrics.

use std::time::Instant;

use rudy_admin::TopKeyStatus;
use rudy_limit::TopKey;

pub(super) fn top_keys(keys: &[TopKey], now: Instant) -> Vec<TopKeyStatus> {
    let status = |key: &TopKey| TopKeyStatus {
        key: key.name.clone(),
        count: key.count,
        last_s: now.saturating_duration_since(key.last).as_secs(),
    };
    keys.iter().map(status).collect()
}
