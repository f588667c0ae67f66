//! Formats numbers for users, and times for programs.

use std::time::{SystemTime, UNIX_EPOCH};

use rudy_observe::Processes;
use rudy_units::visible;
use serde_json::Value;

/// A count with its limit, as far as known: `87 of 1024`.
pub(crate) fn of_limit(count: Option<u64>, limit: Option<u64>) -> String {
    let count = count.map_or_else(|| "not shown to us".to_owned(), |count| count.to_string());
    match limit {
        Some(limit) => format!("{count} of {limit}"),
        None => count,
    }
}

/// The name of what is watched: `nginx (pid 17)`, or `nginx (5 processes)`.
pub(crate) fn title(processes: &Processes) -> String {
    let which = match processes.pids().count() {
        1 => format!("pid {}", processes.pid()),
        count => format!("{count} processes"),
    };
    format!("{} ({which})", visible(processes.name()))
}

/// Milliseconds since 1970; 0 for an earlier clock.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An object without these keys, as far as they are null.
pub(crate) fn without_null(mut object: Value, keys: &[&str]) -> Value {
    if let Value::Object(map) = &mut object {
        map.retain(|key, value| !value.is_null() || !keys.contains(&key.as_str()));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_left_out() {
        assert_eq!(of_limit(Some(87), Some(1024)), "87 of 1024");
        assert_eq!(of_limit(Some(87), None), "87");
        assert_eq!(of_limit(None, Some(1024)), "not shown to us of 1024");
    }
}
