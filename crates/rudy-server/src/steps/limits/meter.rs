//! What all limits by key have: the key, counts, and a line in the log now and then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rudy_limit::{Key, KeyHasher, TopKeys};

use super::key::{KeySource, Keys};
use super::status::top_keys;
use super::{Effect, LimitStatus, Settings};
use crate::error_log::ErrorLog;

/// The number of rejected keys to know.
const TOP_KEYS: usize = 32;

/// How long further requests over a limit are only counted after one was logged.
const LOG_PERIOD: Duration = Duration::from_mins(1);

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
    started: Instant,
    /// When the next line may be logged, in milliseconds since the start.
    next_line_ms: AtomicU64,
    /// The number of requests since the last line.
    not_logged: AtomicU64,
}

impl Meter {
    pub(super) fn new(settings: Settings, name: &'static str) -> Self {
        Self {
            settings,
            name,
            hasher: KeyHasher::default(),
            rejected: AtomicU64::new(0),
            over_in_dry_run: AtomicU64::new(0),
            top: TopKeys::new(TOP_KEYS),
            log: OnceLock::new(),
            started: Instant::now(),
            next_line_ms: AtomicU64::new(0),
            not_logged: AtomicU64::new(0),
        }
    }

    /// Sets the log; only the first call does.
    pub(super) fn set_log(&self, log: &ErrorLog) {
        let _is_set = self.log.set(log.clone());
    }

    pub(super) fn keys(&self, request: &KeySource<'_>) -> Keys {
        self.settings.key.keys(&self.hasher, request)
    }

    /// Counts a request over the limit.
    pub(super) fn count(&self, key: Key, request: &KeySource<'_>, effect: Effect, now: Instant) {
        let counter = if effect.dry_run { &self.over_in_dry_run } else { &self.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
        self.top.count(key, now, || self.settings.key.name(key, request));
        if let Some(earlier) = self.may_log(now)
            && let Some(log) = self.log.get()
        {
            let done = if effect.dry_run {
                "passed (dry run)".to_owned()
            } else {
                format!("status {}", effect.status.as_str())
            };
            let more =
                if earlier == 0 { String::new() } else { format!(" ({earlier} more since the last line)") };
            let Self { name, settings, .. } = self;
            let limit = format!("{name} of {} ({})", settings.label(), settings.max);
            log.client_line(&format!("{} is over the {limit}: {done}{more}", request.client()));
        }
    }

    /// Returns the number of requests since the last line, if another one may be logged.
    fn may_log(&self, now: Instant) -> Option<u64> {
        let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let now_ms = milliseconds(now.saturating_duration_since(self.started));
        let due = self.next_line_ms.load(Ordering::Relaxed);
        let next = now_ms.saturating_add(milliseconds(LOG_PERIOD));
        // One of several workers logs the line.
        let is_due = now_ms >= due
            && self.next_line_ms.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due {
            return Some(self.not_logged.swap(0, Ordering::Relaxed));
        }
        self.not_logged.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Returns the counts that all kinds of limits have.
    pub(super) fn status(&self) -> LimitStatus {
        LimitStatus {
            name: self.settings.label(),
            max: self.settings.max.to_string(),
            by: self.settings.key.to_string(),
            rejected: self.rejected.load(Ordering::Relaxed),
            dry_run: self.over_in_dry_run.load(Ordering::Relaxed),
            shared: None,
            memory_bytes: None,
            active_keys: None,
            top: top_keys(&self.top.list(), Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::RateLimitTable;
    use super::super::{Place, RequestRate};
    use super::*;

    #[test]
    fn a_line_is_logged_once_a_minute_with_the_number_of_the_others() {
        let rate = RequestRate { requests: 1, period: Duration::from_secs(1) };
        let place = Place { label: String::new(), identity: String::new() };
        let meter = Meter::new(RateLimitTable::from(rate).settings(&place, 0), "rate limit");
        let at = |seconds| meter.started + Duration::from_secs(seconds);
        let lines: Vec<_> = [0, 1, 59, 60, 61, 119, 120].map(|second| meter.may_log(at(second))).to_vec();
        assert_eq!(lines, [Some(0), None, None, Some(2), None, None, Some(2)]);
    }
}
