//! What an app says beside its answer: lines for the log, each with the request that it belongs to.

use std::sync::Arc;
use std::time::Instant;

use super::failure::Failure;
use super::output::AppOutput;
use super::whose::Whose;
use crate::follow::Lines;

/// The stderr of one request.
pub(super) struct Stderr {
    whose: Whose,
    output: Arc<AppOutput>,
    lines: Lines,
}

impl Stderr {
    /// Nothing is said yet.
    pub(super) fn new(whose: Whose, output: Arc<AppOutput>) -> Self {
        Self { whose, output, lines: Lines::default() }
    }

    /// Logs the lines that these bytes end.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let Self { whose, output, lines } = self;
        lines.push(bytes, &mut |line, _| output.request_line(whose, line, Instant::now()));
    }

    /// Logs what went wrong behind an answer that is whole.
    pub(super) fn note(&self, failure: &Failure) {
        if let Some(log) = &self.whose.log {
            log.repeated(failure.kind(), &format!("{}: behind its answer: {failure}", self.whose));
        }
    }

    /// There will be no more.
    pub(super) fn finish(&mut self) {
        let Self { whose, output, lines } = self;
        lines.finish(&mut |line, _| output.request_line(whose, line, Instant::now()));
        output.request_ended(Instant::now());
    }
}
