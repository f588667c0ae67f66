//! What has become of each directive.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::syntax::{Directive, Place};

/// What has become of a directive. The worst of its uses counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Translated,
    /// With the reason.
    Different(String),
    /// With what to do.
    Open {
        protects: bool,
        advice: String,
    },
}

/// The verdicts, by place and text: a file that is included twice is listed once.
#[derive(Debug, Default)]
pub(crate) struct Ledger(BTreeMap<(Place, String), Verdict>);

impl Ledger {
    pub(crate) fn translated(&mut self, directive: &Directive) {
        self.add(directive, Verdict::Translated);
    }

    pub(crate) fn all_translated<'a>(&mut self, directives: impl IntoIterator<Item = &'a Directive>) {
        for directive in directives {
            self.translated(directive);
        }
    }

    pub(crate) fn different(&mut self, directive: &Directive, reason: impl Into<String>) {
        self.add(directive, Verdict::Different(reason.into()));
    }

    pub(crate) fn open(&mut self, directive: &Directive, advice: impl Into<String>) {
        self.add(directive, Verdict::Open { protects: false, advice: advice.into() });
    }

    /// A protection that is not translated.
    pub(crate) fn unprotected(&mut self, directive: &Directive, advice: impl Into<String>) {
        self.add(directive, Verdict::Open { protects: true, advice: advice.into() });
    }

    /// Whether a directive is not translated.
    pub(crate) fn is_open(&self, directive: &Directive) -> bool {
        matches!(self.0.get(&key(directive)), Some(Verdict::Open { .. }))
    }

    pub(crate) fn has(&self, directive: &Directive) -> bool {
        self.0.contains_key(&key(directive))
    }

    fn add(&mut self, directive: &Directive, verdict: Verdict) {
        let entry = self.0.entry(key(directive)).or_insert(Verdict::Translated);
        if *entry < verdict {
            *entry = verdict;
        }
    }

    pub(crate) fn into_report(self) -> Report {
        let mut report = Report::default();
        for ((place, directive), verdict) in self.0 {
            let entry = |note: String| Entry { place: place.to_string(), directive, note };
            match verdict {
                Verdict::Translated => report.translated.push(entry(String::new())),
                Verdict::Different(reason) => report.different.push(entry(reason)),
                Verdict::Open { protects, advice } => {
                    report.unprotected |= protects;
                    report.not_translated.push(entry(advice));
                }
            }
        }
        report
    }
}

fn key(directive: &Directive) -> (Place, String) {
    (directive.place.clone(), directive.summary())
}

/// What has become of the directives, in three lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Directives whose meaning is in the result.
    pub translated: Vec<Entry>,
    /// Directives that Rudy does not need, or treats in another way, with the reason.
    pub different: Vec<Entry>,
    /// Directives without a translation, with what to do.
    pub not_translated: Vec<Entry>,
    /// Whether one of the latter protects something: the result permits more than the original.
    pub unprotected: bool,
}

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its file and line.
    pub place: String,
    /// Its name and its arguments.
    pub directive: String,
    /// Why it is different, or what to do. Empty if it is translated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Translated: {}", directives(self.translated.len()))?;
        write_list(f, "Different by design", &self.different)?;
        write_list(f, "Not translated", &self.not_translated)
    }
}

/// Writes a list, grouped by its notes: a reason is often that of many directives.
fn write_list(f: &mut fmt::Formatter<'_>, title: &str, entries: &[Entry]) -> fmt::Result {
    writeln!(f, "\n{title}: {}", directives(entries.len()))?;
    let mut groups: Vec<(&str, Vec<&Entry>)> = Vec::new();
    for entry in entries {
        match groups.iter_mut().find(|(note, _)| *note == entry.note) {
            Some((_, group)) => group.push(entry),
            None => groups.push((&entry.note, vec![entry])),
        }
    }
    for (note, group) in groups {
        for entry in group {
            writeln!(f, "  {}  {}", entry.place, entry.directive)?;
        }
        writeln!(f, "      {note}")?;
    }
    Ok(())
}

fn directives(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "1 directive".to_owned(),
        _ => format!("{count} directives"),
    }
}
