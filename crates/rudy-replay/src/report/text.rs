//! The report for a terminal.

use std::fmt;

use rudy_units::counted;

use super::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Old  {}\nNew  {}\n", self.old, self.new)?;
        for group in &self.groups {
            writeln!(f, "{} × {}", group.count, group.cause)?;
            let detail = if group.detail.is_empty() { "" } else { "  " };
            writeln!(f, "    {}:{}{detail}{}", self.source, group.line, group.detail)?;
            writeln!(f, "    {}", group.curl)?;
        }
        if !self.groups.is_empty() {
            writeln!(f)?;
        }
        for line in self.totals() {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl Report {
    /// The numbers, a sentence each.
    pub(super) fn totals(&self) -> Vec<String> {
        let requests = counted(self.requests, "request");
        let mut lines = vec![match self.different {
            0 => format!("{requests}, no difference."),
            different => format!("{requests}: {different} different, {} equal.", self.equal()),
        }];
        if self.sampled > 0 {
            let urls = counted(self.sampled, "URL");
            lines.push(format!("{urls} also with a condition or a range."));
        }
        if self.failed_on_both > 0 {
            lines.push(format!("{} failed on both servers.", counted(self.failed_on_both, "request")));
        }
        if self.unstable > 0 {
            let requests = counted(self.unstable, "request");
            lines.push(format!("{requests} with differences that are not counted: two responses of the old server have them, too."));
        }
        if !self.skipped.is_empty() {
            let skipped: Vec<_> =
                self.skipped.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
            lines.push(format!("Not sent: {}.", skipped.join(", ")));
        }
        lines
    }
}
