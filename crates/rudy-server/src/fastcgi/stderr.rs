//! What an app says beside its answer: lines for the log, each with the request that it belongs to.

use std::fmt::Write;

use super::failure::Failure;
use super::whose::Whose;
use crate::config::visible;
use crate::follow::Lines;

/// Lines of one request that are logged: an app that says more is in a loop, and what it said first tells why.
const LINES_MAX: u32 = 100;

/// Characters of a line that are logged.
const LINE_CHARACTERS_MAX: usize = 2000;

/// The stderr of one request.
pub(super) struct Stderr {
    whose: Whose,
    lines: Lines,
    said: u32,
}

impl Stderr {
    /// Nothing is said yet.
    pub(super) fn new(whose: Whose) -> Self {
        Self { whose, lines: Lines::default(), said: 0 }
    }

    /// Logs the lines that these bytes end.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let Self { whose, lines, said } = self;
        lines.push(bytes, &mut |line, is_cut| say(whose, said, line, is_cut));
    }

    /// Logs what went wrong behind an answer that is whole.
    pub(super) fn note(&self, failure: &Failure) {
        if let Some(log) = &self.whose.log {
            log.repeated(failure.kind(), &format!("{}: behind its answer: {failure}", self.whose));
        }
    }

    /// There will be no more.
    pub(super) fn finish(&mut self) {
        let Self { whose, lines, said } = self;
        lines.finish(&mut |line, is_cut| say(whose, said, line, is_cut));
        if let Some(log) = &whose.log
            && *said > LINES_MAX
        {
            log.error(&format!("{whose}: {} more lines on stderr", *said - LINES_MAX));
        }
        *said = 0;
    }
}

fn say(whose: &Whose, said: &mut u32, line: &[u8], is_cut: bool) {
    let Some(log) = whose.log.as_ref().filter(|_| !line.is_empty()) else { return };
    *said = said.saturating_add(1);
    if *said > LINES_MAX {
        return;
    }
    let text = String::from_utf8_lossy(line);
    let mut shown: String = text.chars().take(LINE_CHARACTERS_MAX).collect();
    if is_cut || shown.len() < text.len() {
        // Writing to a `String` does not fail.
        let _ = write!(shown, " ...");
    }
    log.error(&format!("{whose} says: {}", visible(&shown)));
}
