//! What all limits by key have: the key, counts, and lines in the log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rudy_admin::LimitStatus;
use rudy_limit::{Key, KeyHasher, TopKeys};
use rudy_log::ErrorLog;
use rudy_pipeline::exchange::note;
use rudy_runtime::clock;

use super::key::{KeySource, Keys};
use super::status::top_keys;
use super::{Effect, Settings};

/// The number of rejected keys to know.
const TOP_KEYS: usize = 32;

/// Counts the requests over a limit, and logs some of them.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) settings: Settings,
    /// The kind of limit.
    pub(super) name: &'static str,
    hasher: KeyHasher,
    rejected: AtomicU64,
    over_in_dry_run: AtomicU64,
    top: TopKeys,
    log: OnceLock<ErrorLog>,
    /// What a line in the log is about. Made once: a client can cause many lines that are only counted.
    over: String,
}

impl Meter {
    pub(super) fn new(settings: Settings, name: &'static str) -> Self {
        Self {
            over: format!("over the {name} of {} ({})", settings.label(), settings.max),
            settings,
            name,
            hasher: KeyHasher::default(),
            rejected: AtomicU64::new(0),
            over_in_dry_run: AtomicU64::new(0),
            top: TopKeys::new(TOP_KEYS),
            log: OnceLock::new(),
        }
    }

    /// Sets the log; only the first call does.
    pub(super) fn set_log(&self, log: &ErrorLog) {
        let _is_set = self.log.set(log.clone());
    }

    /// Returns the number of rejected requests.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(super) fn keys(&self, request: &KeySource<'_>) -> Keys {
        self.settings.key.keys(&self.hasher, request)
    }

    /// Counts a request over the limit.
    pub(super) fn count(&self, key: Key, request: &KeySource<'_>, effect: Effect, now: Instant) {
        let counter = if effect.dry_run { &self.over_in_dry_run } else { &self.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
        if !effect.dry_run {
            note(request.observer(), |notes| notes.limit = Some(self.settings.label().into()));
        }
        self.top.count(key, now, || self.settings.key.name(key, request));
        if let Some(log) = self.log.get() {
            let (over, subject) = (&*self.over, self.settings.key.name(key, request));
            log.client_with((over, &*subject), || {
                let (client, status) = (request.client(), effect.status.as_str());
                let done =
                    if effect.dry_run { "passed (dry run)".to_owned() } else { format!("status {status}") };
                format!("{client} is {over}: {done}")
            });
        }
    }

    /// Returns the counts that all kinds of limits have.
    pub(super) fn status(&self) -> LimitStatus {
        LimitStatus {
            name: self.settings.label(),
            max: self.settings.max.to_string(),
            by: self.settings.key.to_string(),
            rejected: self.rejected(),
            dry_run: self.over_in_dry_run.load(Ordering::Relaxed),
            shared: None,
            memory_bytes: None,
            active_keys: None,
            top: top_keys(&self.top.list(), clock::now()),
        }
    }
}
