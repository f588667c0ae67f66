//! Describes a request to an app in log lines.

use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use rudy_net::Peer;

use super::failure::Failure;
use crate::error_log::ErrorLog;

/// The app, the request and its client, for log lines. Formatted only if there is something to log.
#[derive(Debug, Clone)]
pub(super) struct RequestInfo {
    pub(super) app: Arc<str>,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) client: Peer,
    pub(super) log: Option<ErrorLog>,
}

impl RequestInfo {
    /// Logs why there is no response, or why it was cut off.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let Some(log) = &self.log else { return };
        let line = format!("{self}: {failure}");
        if failure.is_client_error() {
            log.client(failure.kind(), &line);
        } else {
            log.recurring_error(failure.kind(), &line);
        }
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, method, uri, client, .. } = self;
        write!(f, "{app}: {method} {} from {client}", uri.path())
    }
}
