//! What a replay has found.

mod html;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compare::{Difference, Kind};
use crate::mask::shortened;

/// Maximum number of groups. Further differences are in one group for each kind.
const GROUPS_MAX: usize = 500;

/// The report of a replay. Values are masked as the options say.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The URL of the old server.
    pub old: String,
    /// The URL of the new server.
    pub new: String,
    /// The source of the requests.
    pub source: String,
    /// Number of requests that were sent to both servers, without those that check again.
    pub requests: u64,
    /// Number of requests with a difference.
    pub different: u64,
    /// Number of requests that failed on both servers in the same way.
    pub failed_on_both: u64,
    /// Number of requests with differences that the old server has with itself.
    pub unstable: u64,
    /// Number of URLs that were requested again with conditions and ranges.
    pub sampled: u64,
    /// Number of requests that were not sent, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The differences by cause, the most frequent first within each kind.
    pub groups: Vec<Group>,
}

/// The differences with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What differs.
    pub kind: Kind,
    /// The cause.
    pub cause: String,
    /// Number of requests with this difference.
    pub count: u64,
    /// The first request: its line in the source.
    pub line: u64,
    /// Its values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// A command that sends it to both servers.
    pub curl: String,
}

impl Report {
    /// Counts requests that are not sent.
    pub(crate) fn skip(&mut self, reason: impl Into<String>, count: u64) {
        if count > 0 {
            *self.skipped.entry(reason.into()).or_default() += count;
        }
    }

    /// Adds a difference of the request at a line.
    pub(crate) fn add(&mut self, difference: &Difference, line: u64, curl: impl FnOnce() -> String) {
        let Difference { kind, subject, values, detail } = difference;
        let mut cause = if values.is_empty() { subject.clone() } else { format!("{subject}: {values}") };
        if self.groups.len() >= GROUPS_MAX && !self.has(*kind, &cause) {
            "others".clone_into(&mut cause);
        }
        if let Some(group) = self.groups.iter_mut().find(|group| group.kind == *kind && group.cause == cause)
        {
            group.count += 1;
            return;
        }
        let detail = shortened(detail);
        self.groups.push(Group { kind: *kind, cause, count: 1, line, detail, curl: curl() });
    }

    fn has(&self, kind: Kind, cause: &str) -> bool {
        self.groups.iter().any(|group| group.kind == kind && group.cause == cause)
    }

    /// Sorts the groups.
    pub(crate) fn sort(&mut self) {
        self.groups.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.count.cmp(&a.count)).then(a.line.cmp(&b.line)));
    }

    /// Number of requests without a difference.
    #[must_use]
    pub fn equal(&self) -> u64 {
        self.requests - self.different
    }

    /// The report as JSON.
    ///
    /// # Errors
    ///
    /// A message. Reports can always be written.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_bounded() {
        let mut report = Report::default();
        for number in 0..GROUPS_MAX as u64 + 10 {
            let difference = Difference {
                kind: Kind::Field,
                subject: format!("field x-{number}"),
                values: String::new(),
                detail: String::new(),
            };
            report.add(&difference, number + 1, String::new);
        }
        let others: Vec<_> = report.groups.iter().filter(|group| group.cause == "others").collect();
        assert_eq!((report.groups.len(), others.len(), others[0].count), (GROUPS_MAX + 1, 1, 10));
    }
}
