//! The stderr of an app's requests: lines for the log, each with its request.

use std::sync::Arc;
use std::time::Instant;

use rudy_net::poll_time;

use super::failure::{Cause, Failure};
use super::output::AppOutput;
use crate::follow::Lines;
use crate::upstream::RequestInfo;

/// The stderr of one request.
pub(super) struct Stderr {
    info: RequestInfo,
    output: Arc<AppOutput>,
    lines: Lines,
}

impl Stderr {
    /// Creates the stderr of a request.
    pub(super) fn new(info: RequestInfo, output: Arc<AppOutput>) -> Self {
        Self { info, output, lines: Lines::default() }
    }

    /// Logs the lines that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { info, output, lines } = self;
        lines.push(bytes, &mut |line, _| output.request_line(info, line, Instant::now()));
    }

    /// Describes the request for the log.
    pub(super) fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Logs a failure after a complete response.
    pub(super) fn log_late_failure(&self, cause: Cause) {
        let failure = Failure::from(cause);
        if let Some(log) = &self.info.log {
            log.recurring_error(
                (&*failure.kind(), &*self.info.upstream),
                &format!("{}: after a complete response: {failure}", self.info),
            );
        }
    }

    /// Ends the stderr, and logs an unfinished last line.
    pub(super) fn finish(&mut self) {
        let Self { info, output, lines } = self;
        lines.finish(&mut |line, _| output.request_line(info, line, Instant::now()));
        output.request_ended(poll_time());
    }
}
