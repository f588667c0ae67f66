//! Limits lines of the same kind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Severity;

/// How long further errors of a kind are only counted after its lines were logged.
const RATE_LIMIT_PERIOD: Duration = Duration::from_mins(1);
/// Maximum number of kinds. Some names of kinds contain text from a peer, or names of a configuration that a reload changes. Beyond this
/// limit, those of earlier minutes are forgotten, and all others are counted together.
pub(super) const KINDS_MAX: usize = 128;
/// The kind of those that are counted together.
const OTHER_KINDS: &str = "other kinds";
/// Maximum number of subjects of a kind that are counted separately in a minute. Clients can have any number of addresses.
pub(super) const SUBJECTS_MAX: usize = 256;
/// Maximum length of a subject in bytes. Some contain a path that a client has chosen.
const SUBJECT_BYTES_MAX: usize = 256;

/// The kind of a line. It is limited on its own.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// What happened. The line with the count shows it, so it must be readable.
    pub name: &'a str,
    /// What an operator has to tell apart, such as the upstream, the client or the file; empty if there is nothing. Sites have
    /// lines of their own without it.
    pub subject: &'a str,
    /// Maximum number of lines in a minute.
    pub lines: u32,
}

impl<'a> From<&'a str> for Kind<'a> {
    fn from(name: &'a str) -> Self {
        (name, "").into()
    }
}

impl<'a> From<(&'a str, &'a str)> for Kind<'a> {
    fn from((name, subject): (&'a str, &'a str)) -> Self {
        Self { name, subject, lines: 1 }
    }
}

/// What was seen of each kind.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<(Severity, String), Subjects>);

/// What was seen of each site and subject.
type Subjects = BTreeMap<(String, String), Seen>;

/// The lines about a subject.
#[derive(Debug, Default)]
struct Seen {
    /// The start of the current minute.
    since: Option<Instant>,
    /// The number of lines in it.
    lines: u32,
    suppressed: u64,
}

/// Lines that were not logged.
pub(super) struct Suppressed {
    pub(super) severity: Severity,
    /// The kind and the subject.
    pub(super) kind: String,
    pub(super) site: String,
    pub(super) count: u64,
}

impl Kinds {
    /// Counts an error of `kind`. Returns the number of suppressed ones before it if it must be logged, else `None`.
    pub(super) fn count(
        &mut self,
        severity: Severity,
        kind: Kind<'_>,
        site: &str,
        now: Instant,
    ) -> Option<u64> {
        let mut key = (severity, kind.name.to_owned());
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&key) {
            self.forget_earlier(now);
            if self.0.len() >= KINDS_MAX {
                OTHER_KINDS.clone_into(&mut key.1);
            }
        }
        let subject = &kind.subject[..kind.subject.floor_char_boundary(SUBJECT_BYTES_MAX)];
        let subjects = self.0.entry(key).or_default();
        seen(subjects, (site.to_owned(), subject.to_owned()), now).count(kind.lines, now)
    }

    /// Forgets the kinds without a line in the current minute. What was suppressed counts for the others.
    fn forget_earlier(&mut self, now: Instant) {
        let is_earlier = |_: &(Severity, String), subjects: &mut Subjects| {
            !subjects.values().any(|seen| seen.is_current(now))
        };
        let earlier: Vec<_> = self.0.extract_if(.., is_earlier).collect();
        for ((severity, _), subjects) in earlier {
            let suppressed: u64 = subjects.values().map(|seen| seen.suppressed).sum();
            if suppressed > 0 {
                let others = self.0.entry((severity, OTHER_KINDS.to_owned())).or_default();
                others.entry(<(String, String)>::default()).or_default().suppressed += suppressed;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the lines that were not logged, and forgets them.
    pub(super) fn take_suppressed(&mut self) -> Vec<Suppressed> {
        let kinds = std::mem::take(&mut self.0).into_iter();
        let lines = kinds.flat_map(|((severity, name), subjects)| {
            subjects.into_iter().map(move |((site, subject), Seen { suppressed: count, .. })| {
                let kind = if subject.is_empty() { name.clone() } else { format!("{name} ({subject})") };
                Suppressed { severity, kind, site, count }
            })
        });
        lines.filter(|line| line.count > 0).collect()
    }
}

/// Returns what was seen of a subject. If there are too many, those of earlier minutes are forgotten, and beyond that all others are
/// counted together.
fn seen(subjects: &mut Subjects, mut key: (String, String), now: Instant) -> &mut Seen {
    if subjects.len() >= SUBJECTS_MAX && !subjects.contains_key(&key) {
        let mut suppressed = 0;
        subjects.retain(|_, seen| {
            let is_current = seen.is_current(now);
            suppressed += if is_current { 0 } else { seen.suppressed };
            is_current
        });
        let is_full = subjects.len() >= SUBJECTS_MAX;
        let others = (String::new(), "others".to_owned());
        if suppressed > 0 {
            subjects.entry(others.clone()).or_default().suppressed += suppressed;
        }
        if is_full {
            key = others;
        }
    }
    subjects.entry(key).or_default()
}

impl Seen {
    fn is_current(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) < RATE_LIMIT_PERIOD)
    }

    fn count(&mut self, lines: u32, now: Instant) -> Option<u64> {
        if !self.is_current(now) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines >= lines {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}
