//! A line on the terminal, while requests are sent.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::Report;

/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);

/// The line. Without a terminal, there is none.
pub(super) struct Progress {
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self { shown: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Shows the numbers so far.
    pub(super) fn show(&mut self, report: &Report, total: Option<usize>) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL);
        if !self.is_terminal || !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let of = total.map_or(String::new(), |total| format!(" of {total}"));
        let Report { requests, different, .. } = report;
        // A failure of standard error cannot be reported.
        let _ = write!(io::stderr(), "\r{requests}{of} requests, {different} different");
    }

    /// Removes the line.
    pub(super) fn end(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
