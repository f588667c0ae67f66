//! Errors of a checkout, and the explanations that clients get.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::Endpoint;

/// The explanations for clients of failures that all protocols have.
pub const OVERLOADED: &str = "The application is overloaded. Try again soon.";
/// For a client when nothing listens.
pub const NOT_RUNNING: &str = "The application is not running.";
/// For a client after a timeout.
pub const TOO_SLOW: &str = "The application did not respond in time.";
/// For a client after a connection that was closed early.
pub const CLOSED: &str = "The application closed the connection without a complete response.";
/// For a client after a response that violates the protocol.
pub const INVALID: &str = "The application sent an invalid response.";
/// For a client whose body cannot be stored.
pub const NO_SPACE: &str = "The server has no space for the request body. Try again later.";
/// For a client whose stored body cannot be read.
pub const UNREADABLE: &str = "The server could not read the request body that it has stored.";

/// The status and the explanation for the client if no response was sent yet, and the kind of failure. The log counts failures of a kind
/// together.
pub type Description = (StatusCode, &'static str, &'static str);

/// Why a request got no connection.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// The queue is full ([`UpstreamOptions::queue`](super::UpstreamOptions::queue)).
    #[error("the queue is full: {0} requests are waiting for a connection (`queue`)")]
    QueueFull(usize),
    /// No connection became free within [`UpstreamOptions::queue_timeout`](super::UpstreamOptions::queue_timeout).
    #[error("no connection became free within {0:?} (`queue_timeout`)")]
    QueueTimeout(Duration),
    /// All members are drained.
    #[error("all upstreams are drained (`rudy upstreams up NAME`)")]
    Drained,
    /// There is no member, because the name with their SRV records does not resolve: this line says why.
    #[error("{0}")]
    Unresolved(Arc<String>),
    /// The waiting requests were rejected.
    #[error("no process is running, and none can be started")]
    Rejected,
    /// The handler or step with the upstream was not started.
    #[error("it was not started: this is a bug in Rudy")]
    NotStarted,
    /// No connection to the upstream could be opened.
    #[error("cannot connect to {0}: {1}; is the app running?")]
    Connect(Endpoint, io::Error),
}

impl CheckoutError {
    /// Describes the failure. In its kind, `{}` is the upstream.
    pub(super) fn describe(&self) -> Description {
        let status = match self {
            Self::QueueFull(_) | Self::QueueTimeout(_) | Self::Drained => StatusCode::SERVICE_UNAVAILABLE,
            Self::Connect(_, error) if error.kind() == io::ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let (explanation, kind) = match self {
            Self::QueueFull(_) | Self::QueueTimeout(_) => (OVERLOADED, "too many requests wait for {}"),
            Self::Drained => {
                ("The application is under maintenance. Try again soon.", "all upstreams are drained")
            }
            Self::Rejected | Self::NotStarted => (NOT_RUNNING, "{} is not running"),
            Self::Connect(..) if status == StatusCode::GATEWAY_TIMEOUT => {
                ("The application accepted no connection in time.", "no connection to {}")
            }
            Self::Connect(..) | Self::Unresolved(_) => {
                ("The application cannot be reached.", "no connection to {}")
            }
        };
        (status, explanation, kind)
    }
}
