//! What the running server has to say, on stderr: one line each, with the time and who is to blame.
//!
//! What peers do wrong is said once for each kind and then counted, so that nobody can fill a disk from outside.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::config::{Placeholders, visible};
use crate::line_writer::{LineWriter, OnTrouble, Trouble};
use crate::local_time::LocalClock;

/// How long a kind of trouble is only counted after a line about it.
const QUIET_TIME: Duration = Duration::from_mins(1);
/// Kinds that are told apart. Their names come from our own code, but some carry words of a peer; beyond this many they
/// are counted together.
const KINDS: usize = 128;

/// The error log. Clones write to the same place; whoever writes never waits for it.
#[derive(Debug, Clone)]
pub struct ErrorLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writer: LineWriter,
    state: Mutex<State>,
}

/// Who or what a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blame {
    /// Nobody: something went as it should.
    Notice,
    /// A client did something wrong.
    Client,
    /// An app that we started: what it writes to its standard output and error.
    App,
    /// Something is amiss on this machine or in the configuration.
    Error,
    /// We did something wrong.
    Bug,
}

impl fmt::Display for Blame {
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
        // Nobody is left to tell if stderr takes nothing; that lines are missing is said where it can be.
        let on_trouble: OnTrouble = Box::new(|trouble| match trouble {
            Trouble::Dropped(lines) => Some(format!("error: {lines} lines of this log dropped here\n")),
            Trouble::Failed(..) => None,
        });
        let writer = LineWriter::start("error-log", file, on_trouble)?;
        let state = State {
            clock: LocalClock::new(),
            kinds: Kinds::default(),
            placeholders: Placeholders::default(),
        };
        Ok(Self(Arc::new(Inner { writer, state: Mutex::new(state) })))
    }

    /// Shows these placeholders in place of their values from now on, and those of earlier calls: apps and requests of a
    /// configuration before may still name its values. There are no more than variables in the environment, which does not change.
    pub(crate) fn mask(&self, placeholders: &Placeholders) {
        self.lock().placeholders.extend(placeholders);
    }

    /// A text that is shown elsewhere, as it would be in the log.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.lock().placeholders.mask(text).into_owned()
    }

    /// Something happened that was meant to.
    pub fn notice(&self, message: &str) {
        self.say(&mut self.lock(), Blame::Notice, message);
    }

    /// An app has something to say. How many of its lines there may be is for the caller to see to.
    pub fn app(&self, line: &str) {
        self.say(&mut self.lock(), Blame::App, line);
    }

    /// Something is amiss, on this machine or in its configuration.
    pub fn error(&self, message: &str) {
        self.say(&mut self.lock(), Blame::Error, message);
    }

    /// Something is amiss, perhaps again and again: said once a minute for each `kind` and counted in between. The
    /// count is told by `kind` alone, so that is worded for people too.
    pub fn recurring_error(&self, kind: &str, message: &str) {
        self.say_once(Blame::Error, kind, message);
    }

    /// A client did something wrong: said once a minute for each `kind` and counted in between.
    pub fn client(&self, kind: &str, message: &str) {
        self.say_once(Blame::Client, kind, message);
    }

    /// A bug of ours; the same one is said once a minute.
    pub fn bug(&self, message: &str) {
        self.say_once(Blame::Bug, message, message);
    }

    /// A line, and below it a text of several lines as it is: the diagnostics of a configuration.
    pub fn error_with_details(&self, message: &str, text: &str) {
        let mut state = self.lock();
        let line = state.line(Blame::Error, message);
        self.0.writer.push(format!("{line}{}\n", text.trim_end()).as_bytes());
    }

    /// Says how often what was said once happened again, and writes what still waits: at the end of the process.
    pub fn close(&self) {
        let mut state = self.lock();
        for ((blame, kind), seen) in std::mem::take(&mut state.kinds.0) {
            if seen.unsaid > 0 {
                self.say(
                    &mut state,
                    blame,
                    &format!("{kind}: {} more since the last line about it", seen.unsaid),
                );
            }
        }
        drop(state);
        self.0.writer.close();
    }

    fn say_once(&self, blame: Blame, kind: &str, message: &str) {
        let mut state = self.lock();
        match state.kinds.note(blame, kind, Instant::now()) {
            None => {}
            Some(0) => self.say(&mut state, blame, message),
            Some(more) => {
                self.say(&mut state, blame, &format!("{message} ({more} more like it since the last line)"));
            }
        }
    }

    fn say(&self, state: &mut State, blame: Blame, message: &str) {
        self.0.writer.push(state.line(blame, message).as_bytes());
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
    /// One line: what could end it or talk to a terminal is escaped.
    fn line(&mut self, blame: Blame, message: &str) -> String {
        format!(
            "{} {blame}: {}\n",
            self.clock.rfc3339(SystemTime::now()),
            visible(&self.placeholders.mask(message))
        )
    }
}

/// When each kind of trouble was last said, and how often it was not.
#[derive(Debug, Default)]
struct Kinds(BTreeMap<(Blame, String), Seen>);

#[derive(Debug)]
struct Seen {
    said_at: Instant,
    unsaid: u64,
}

impl Kinds {
    /// Counts one of `kind`. Says how many were not said before it if it is to be said, `None` if not.
    fn note(&mut self, blame: Blame, kind: &str, now: Instant) -> Option<u64> {
        let mut key = (blame, kind.to_owned());
        if self.0.len() >= KINDS && !self.0.contains_key(&key) {
            "other kinds".clone_into(&mut key.1);
        }
        match self.0.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Seen { said_at: now, unsaid: 0 });
                Some(0)
            }
            Entry::Occupied(entry) if now.duration_since(entry.get().said_at) < QUIET_TIME => {
                entry.into_mut().unsaid += 1;
                None
            }
            Entry::Occupied(entry) => {
                let seen = entry.into_mut();
                seen.said_at = now;
                Some(std::mem::take(&mut seen.unsaid))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    /// What `write` leaves in the log, without the times.
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
    fn a_kind_is_said_once_and_its_count_at_the_end() {
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
    fn a_kind_is_said_again_after_a_minute_with_the_count() {
        let mut kinds = Kinds::default();
        let start = Instant::now();
        let seen =
            [0, 1, 59, 60, 61, 120].map(|s| kinds.note(Blame::Client, "x", start + Duration::from_secs(s)));
        assert_eq!(seen, [Some(0), None, None, Some(2), None, Some(1)]);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut kinds = Kinds::default();
        for n in 0..10 * KINDS {
            kinds.note(Blame::Client, &n.to_string(), Instant::now());
        }
        assert_eq!(kinds.0.len(), KINDS + 1);
    }

    #[test]
    fn a_message_stays_one_line() {
        assert_eq!(written(|log| log.error("a\nb\u{1b}[31m")), "error: a\\nb\\u{1b}[31m");
    }

    #[test]
    fn placeholders_stay_when_others_come() {
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
    fn a_text_of_several_lines_follows_its_line() {
        assert_eq!(written(|log| log.error_with_details("not taken", "a b\n")), "error: not taken\nb");
    }
}
