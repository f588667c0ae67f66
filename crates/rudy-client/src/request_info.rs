//! Describes a request to an upstream in log lines.

use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use rudy_log::ErrorLog;
use rudy_message::Replacement;
use rudy_pipeline::exchange::trace::InTrace;
use rudy_pipeline::network::client_subject;
use rudy_service::Peer;
use rudy_units::visible;

use super::{Failure, ProtocolCause};

/// The upstream, the request and its client, for log lines. Formatted only if there is something to log.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The method.
    pub method: Method,
    /// The target as the client has sent it.
    pub uri: Uri,
    /// The client.
    pub client: Peer,
    /// Its trace.
    pub trace: InTrace,
    /// The log of the route.
    pub log: Option<ErrorLog>,
}

impl RequestInfo {
    /// Logs why there is no response, or why it was cut off.
    pub fn log_failure<P: ProtocolCause>(&self, failure: &Failure<P>) {
        let Some(log) = &self.log else { return };
        let line = format!("{self}: {failure}");
        if failure.is_client_error() {
            log.client((&*failure.kind(), &*client_subject(self.client)), &line);
        } else {
            let member = failure.member().map_or_else(|| self.upstream.to_string(), ToString::to_string);
            log.recurring_error((&*failure.kind(), &*member), &line);
        }
    }
}

impl RequestInfo {
    /// Logs fields of a response that this server ignores, because their values are invalid.
    pub fn log_ignored(&self, invalid: &[Replacement]) {
        for Replacement { name, value } in invalid {
            let value = String::from_utf8_lossy(value.as_bytes());
            let line =
                format!("{self}: {name} is ignored, because \"{}\" is no valid value", visible(&value));
            self.log.iter().for_each(|log| log.recurring_error((name.as_str(), &*self.upstream), &line));
        }
    }
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, method, uri, client, trace, .. } = self;
        write!(f, "{upstream}: {method} {} from {client}{trace}", uri.path())
    }
}
