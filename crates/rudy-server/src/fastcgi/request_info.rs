//! Which app a request goes to, and which client sent it.

use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use rudy_net::Peer;

use super::failure::Failure;
use crate::error_log::ErrorLog;

/// A request to an app, as the log names it. Formatted only where there is something to log.
#[derive(Debug, Clone)]
pub(super) struct RequestInfo {
    pub(super) app: Arc<str>,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) client: Peer,
    pub(super) log: Option<ErrorLog>,
}

impl RequestInfo {
    /// Logs why there is no response, or why it was cut.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let Some(log) = &self.log else { return };
        let line = format!("{self}: {failure}");
        if failure.is_clients() {
            log.client(failure.kind(), &line);
        } else {
            log.recurring_error(failure.kind(), &line);
        }
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, method, uri, client, .. } = self;
        write!(f, "{app}: {method} {} of {client}", uri.path())
    }
}
