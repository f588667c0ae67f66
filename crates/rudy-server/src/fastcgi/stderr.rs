//! What an app says beside its answer: lines for the log, each with the request that it belongs to.

use std::sync::Arc;
use std::time::Instant;

use super::failure::Failure;
use super::output::AppOutput;
use super::request_info::RequestInfo;
use crate::follow::Lines;

/// The stderr of one request.
pub(super) struct Stderr {
    info: RequestInfo,
    output: Arc<AppOutput>,
    lines: Lines,
}

impl Stderr {
    /// Nothing is said yet.
    pub(super) fn new(info: RequestInfo, output: Arc<AppOutput>) -> Self {
        Self { info, output, lines: Lines::default() }
    }

    /// Logs the lines that these bytes end.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let Self { info, output, lines } = self;
        lines.push(bytes, &mut |line, _| output.request_line(info, line, Instant::now()));
    }

    /// The request.
    pub(super) fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Logs what went wrong behind an answer that is whole.
    pub(super) fn note(&self, failure: &Failure) {
        if let Some(log) = &self.info.log {
            log.recurring_error(failure.kind(), &format!("{}: behind its answer: {failure}", self.info));
        }
    }

    /// There will be no more.
    pub(super) fn finish(&mut self) {
        let Self { info, output, lines } = self;
        lines.finish(&mut |line, _| output.request_line(info, line, Instant::now()));
        output.request_ended(Instant::now());
    }
}
