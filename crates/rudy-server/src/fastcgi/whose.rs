//! Which app was asked, and which request of whom.

use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use rudy_net::Client;

use super::failure::Failure;
use crate::error_log::ErrorLog;

/// A request put to an app, as the log names it. Written out only where there is something to say of it.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    pub(super) app: Arc<str>,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) client: Client,
    pub(super) log: Option<ErrorLog>,
}

impl Whose {
    /// Says in the log why there is no answer, or why it was cut.
    pub(super) fn say(&self, failure: &Failure) {
        let Some(log) = &self.log else { return };
        let line = format!("{self}: {failure}");
        if failure.is_clients() {
            log.client(failure.kind(), &line);
        } else {
            log.repeated(failure.kind(), &line);
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, method, uri, client, .. } = self;
        write!(f, "{app}: {method} {} of {}", uri.path(), client.peer)
    }
}
