//! The error log: one line per event on stderr, with a timestamp and a severity.
//!
//! Errors that peers cause are rate-limited by kind, so that no client can fill a disk.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::config::{Placeholders, visible};
use crate::line_writer::{LineWriter, LinesLost, OnLinesLost};
use crate::local_time::LocalClock;

/// How long further errors of a kind are only counted after one was logged.
const RATE_LIMIT_PERIOD: Duration = Duration::from_mins(1);
/// Maximum number of kinds. Some names of kinds contain text from a peer; beyond this limit, all others are counted together.
const KINDS_MAX: usize = 128;

/// The error log. Clones write to the same file. Writing never blocks.
#[derive(Debug, Clone)]
pub struct ErrorLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writer: LineWriter,
    state: Mutex<State>,
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// A normal event.
    Notice,
    /// An error of a client.
    Client,
    /// Output of an app that Rudy started.
    App,
    /// An error on this machine or in the configuration.
    Error,
    /// A bug in Rudy.
    Bug,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Notice => "notice",
            Self::Client => "client",
            Self::App => "app",
            Self::Error => "error",
            Self::Bug => "bug",
        })
    }
}

impl ErrorLog {
    /// Writes to stderr.
    pub fn stderr() -> io::Result<Self> {
        Self::to(File::from(io::stderr().as_fd().try_clone_to_owned()?))
    }

    /// Writes to `file`.
    pub fn to(file: File) -> io::Result<Self> {
        // A failed write to stderr cannot be reported anywhere. Dropped lines are reported in the log itself.
        let on_lines_lost: OnLinesLost = Box::new(|lost| match lost {
            LinesLost::Dropped(lines) => {
                Some(format!("error: {lines} lines of this log were dropped here\n"))
            }
            LinesLost::Failed(..) | LinesLost::NotRotated(_) => None,
        });
        let writer = LineWriter::start("error-log", file, on_lines_lost)?;
        let state = State {
            clock: LocalClock::new(),
            kinds: Kinds::default(),
            placeholders: Placeholders::default(),
        };
        Ok(Self(Arc::new(Inner { writer, state: Mutex::new(state) })))
    }

    /// Replaces the values of these placeholders in all later lines. Placeholders of earlier calls stay in force, because requests
    /// of an older configuration can still log its values. Their number is bounded by the environment, which does not change.
    pub(crate) fn mask(&self, placeholders: &Placeholders) {
        self.lock().placeholders.extend(placeholders);
    }

    /// Returns a text with the values of all placeholders replaced, as in the log.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.lock().placeholders.mask(text).into_owned()
    }

    /// Logs a normal event.
    pub fn notice(&self, message: &str) {
        self.write(&mut self.lock(), Severity::Notice, message);
    }

    /// Logs a line of an app's output. The caller limits their number.
    pub fn app(&self, line: &str) {
        self.write(&mut self.lock(), Severity::App, line);
    }

    /// Logs an error on this machine or in its configuration.
    pub fn error(&self, message: &str) {
        self.write(&mut self.lock(), Severity::Error, message);
    }

    /// Logs an error that can recur, once a minute for each `kind`, and counts the others. The line with the count shows only
    /// `kind`, so `kind` must be readable too.
    pub fn recurring_error(&self, kind: &str, message: &str) {
        self.write_limited(Severity::Error, kind, message);
    }

    /// Logs an error of a client, once a minute for each `kind`, and counts the others.
    pub fn client(&self, kind: &str, message: &str) {
        self.write_limited(Severity::Client, kind, message);
    }

    /// Logs an error of a client. The caller limits their number.
    pub(crate) fn client_line(&self, message: &str) {
        self.write(&mut self.lock(), Severity::Client, message);
    }

    /// Logs a bug in Rudy, once a minute for each message.
    pub fn bug(&self, message: &str) {
        self.write_limited(Severity::Bug, message, message);
    }

    /// Logs an error, and below it a text of several lines without escapes: the diagnostics of a configuration.
    pub fn error_with_details(&self, message: &str, text: &str) {
        let mut state = self.lock();
        let line = state.line(Severity::Error, message);
        self.0.writer.push(format!("{line}{}\n", text.trim_end()).as_bytes());
    }

    /// Logs the counts of all rate-limited kinds and writes all queued lines. For the end of the process.
    pub fn close(&self) {
        let mut state = self.lock();
        for ((severity, kind), seen) in std::mem::take(&mut state.kinds.0) {
            if seen.suppressed > 0 {
                let message = format!("{kind}: {} more since the last line about it", seen.suppressed);
                self.write(&mut state, severity, &message);
            }
        }
        drop(state);
        self.0.writer.close();
    }

    fn write_limited(&self, severity: Severity, kind: &str, message: &str) {
        let mut state = self.lock();
        match state.kinds.count(severity, kind, Instant::now()) {
            None => {}
            Some(0) => self.write(&mut state, severity, message),
            Some(more) => {
                let message = format!("{message} ({more} more like it since the last line)");
                self.write(&mut state, severity, &message);
            }
        }
    }

    fn write(&self, state: &mut State, severity: Severity, message: &str) {
        self.0.writer.push(state.line(severity, message).as_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    clock: LocalClock,
    kinds: Kinds,
    placeholders: Placeholders,
}

impl State {
    /// Formats a line. Escapes line breaks and control characters.
    fn line(&mut self, severity: Severity, message: &str) -> String {
        format!(
            "{} {severity}: {}\n",
            self.clock.rfc3339(SystemTime::now()),
            visible(&self.placeholders.mask(message))
        )
    }
}

/// When each kind of error was last logged, and how many were suppressed since.
#[derive(Debug, Default)]
struct Kinds(BTreeMap<(Severity, String), Seen>);

#[derive(Debug)]
struct Seen {
    logged_at: Instant,
    suppressed: u64,
}

impl Kinds {
    /// Counts an error of `kind`. Returns the number of suppressed ones before it if it must be logged, else `None`.
    fn count(&mut self, severity: Severity, kind: &str, now: Instant) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    /// Returns what `write` leaves in the log, without the timestamps.
    fn written(write: impl FnOnce(&ErrorLog)) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let log = ErrorLog::to(file.try_clone().unwrap()).unwrap();
        write(&log);
        log.close();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text.lines()
            .map(|line| line.split_once(' ').map_or(line, |(_, rest)| rest))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn a_kind_is_logged_once_and_its_count_at_the_end() {
        let text = written(|log| {
            for port in 1..=4 {
                log.client("400: bad head", &format!("192.0.2.7:{port}: 400: bad head"));
            }
            log.client("408: slow head", "192.0.2.8:1: 408: slow head");
            log.bug("a panic");
        });
        assert_eq!(
            text,
            "client: 192.0.2.7:1: 400: bad head\n\
             client: 192.0.2.8:1: 408: slow head\n\
             bug: a panic\n\
             client: 400: bad head: 3 more since the last line about it"
        );
    }

    #[test]
    fn a_kind_is_logged_again_after_a_minute_with_the_count() {
        let mut kinds = Kinds::default();
        let start = Instant::now();
        let seen = [0, 1, 59, 60, 61, 120]
            .map(|s| kinds.count(Severity::Client, "x", start + Duration::from_secs(s)));
        assert_eq!(seen, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn the_number_of_kinds_is_bounded() {
        let mut kinds = Kinds::default();
        for n in 0..10 * KINDS_MAX {
            kinds.count(Severity::Client, &n.to_string(), Instant::now());
        }
        assert_eq!(kinds.0.len(), KINDS_MAX + 1);
    }

    #[test]
    fn a_message_stays_one_line() {
        assert_eq!(written(|log| log.error("a\nb\u{1b}[31m")), "error: a\\nb\\u{1b}[31m");
    }

    #[test]
    fn earlier_placeholders_stay_in_force() {
        let text = written(|log| {
            for (value, placeholder) in [("secret", "${OLD}"), ("hidden", "${NEW}")] {
                let mut placeholders = Placeholders::default();
                placeholders.add(value, placeholder);
                log.mask(&placeholders);
            }
            log.error("secret and hidden");
        });
        assert_eq!(text, "error: ${OLD} and ${NEW}");
    }

    #[test]
    fn details_of_several_lines_follow_their_line() {
        assert_eq!(written(|log| log.error_with_details("rejected", "a b\n")), "error: rejected\nb");
    }
}
