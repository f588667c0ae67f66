//! The stderr of an app's requests: lines for the log, each with its request.

use std::sync::Arc;

use rudy_client::RequestInfo;
use rudy_log::Lines;
use rudy_message::LazyHead;
use rudy_pipeline::exchange::trace::InTrace;
use rudy_runtime::clock;
use rudy_service::{Peer, poll_time};

use super::app::App;
use super::failure::{Cause, Failure};

/// The stderr of one request. Of what all workers share, it has only the app: each count of references costs a cache line.
pub(super) struct Stderr {
    pub(super) app: Arc<App>,
    pub(super) head: LazyHead<'static>,
    pub(super) client: Peer,
    pub(super) trace: InTrace,
    pub(super) lines: Lines,
}

impl Stderr {
    /// Logs the lines that these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (info, Some(output)) = (self.info(), self.app.output()) else { return };
        self.lines.push(bytes, &mut |line, _| output.request_line(&info, line, clock::now()));
    }

    /// Describes the request for the log.
    pub(super) fn info(&self) -> RequestInfo {
        self.app.info_of(&self.head, self.client, self.trace)
    }

    /// Logs a failure after a complete response.
    pub(super) fn log_late_failure(&self, cause: Cause) {
        let (info, failure) = (self.info(), Failure::from(cause));
        if let Some(log) = &info.log {
            log.recurring_error(
                (&*failure.kind(), &*info.upstream),
                &format!("{info}: after a complete response: {failure}"),
            );
        }
    }

    /// Ends the stderr, and logs an unfinished last line.
    pub(super) fn finish(&mut self) {
        let Self { app, head, client, trace, lines } = self;
        let Some(output) = app.output() else { return };
        lines.finish(&mut |line, _| {
            output.request_line(&app.info_of(head, *client, *trace), line, clock::now());
        });
        output.request_ended(poll_time());
    }
}
