//! Limits lines of the same kind.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use super::Severity;

/// How long further errors of a kind are only counted after one was logged.
const RATE_LIMIT_PERIOD: Duration = Duration::from_mins(1);
/// Maximum number of kinds. Some names of kinds contain text from a peer; beyond this limit, all others are counted together.
pub(super) const KINDS_MAX: usize = 128;

/// When each kind of error was last logged, and how many were suppressed since.
#[derive(Debug, Default)]
pub(super) struct Kinds(pub(super) BTreeMap<(Severity, String), Seen>);

/// What was seen of a kind.
#[derive(Debug)]
pub(super) struct Seen {
    logged_at: Instant,
    pub(super) suppressed: u64,
}

impl Kinds {
    /// Counts an error of `kind`. Returns the number of suppressed ones before it if it must be logged, else `None`.
    pub(super) fn count(&mut self, severity: Severity, kind: &str, now: Instant) -> Option<u64> {
        let mut key = (severity, kind.to_owned());
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&key) {
            "other kinds".clone_into(&mut key.1);
        }
        match self.0.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Seen { logged_at: now, suppressed: 0 });
                Some(0)
            }
            Entry::Occupied(entry) if now.duration_since(entry.get().logged_at) < RATE_LIMIT_PERIOD => {
                entry.into_mut().suppressed += 1;
                None
            }
            Entry::Occupied(entry) => {
                let seen = entry.into_mut();
                seen.logged_at = now;
                Some(std::mem::take(&mut seen.suppressed))
            }
        }
    }
}
