//! The failures that only requests to an app have.

use std::io;
use std::path::PathBuf;

use http::StatusCode;
use rudy_client::{self, Description, ProtocolCause, error};
use rudy_fastcgi::cgi::HeadError;
use rudy_fastcgi::{Fault, ProtocolStatus};
use rudy_files::replacement::ReplacementError;
use rudy_pipeline::internal_redirect::REDIRECTS_MAX;
use rudy_system::file_access::Access;
use rudy_system::sandboxed::hint;

pub(super) type Cause = rudy_client::Cause<AppCause>;
pub(crate) type Failure = rudy_client::Failure<AppCause>;

/// Why there is no response of an app, or why it is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum AppCause {
    /// The app has no running process, with the reason.
    #[error("{0}")]
    NotRunning(String),
    /// The app violated the protocol, or closed the connection too early.
    #[error("{0}")]
    Fault(Fault),
    /// The head of the response is invalid.
    #[error("{0}")]
    Head(HeadError),
    /// The path of a script, and why Rudy cannot check whether it exists.
    #[error("cannot check whether {} exists: {error}; Rudy's user needs execute permission on each parent folder{}", .0.display(), hint(.1), error = .1)]
    Script(PathBuf, io::Error),
    /// The app named a file or a path that cannot be sent.
    #[error("{0}")]
    Replacement(#[from] ReplacementError),
    /// Too many local redirects; the last target.
    #[error("more than {REDIRECTS_MAX} local redirects, the last one to {0}")]
    TooManyRedirects(String),
    /// The variables of the request, in bytes, do not fit into a request over uwsgi.
    #[error(
        "the request has {0} bytes of variables, of which header fields are most; uwsgi has room for 65,535"
    )]
    VariablesTooLarge(usize),
    /// A variable of the request has a zero byte, with which SCGI would end it.
    #[error("a variable of the request has a zero byte, which SCGI cannot pass on")]
    ZeroInVariable,
    /// The app rejected the request.
    #[error("the app rejected the request: {0:?}")]
    Rejected(ProtocolStatus),
    /// The app does not implement the authorizer role.
    #[error(
        "the app does not support the authorizer role (FCGI_UNKNOWN_ROLE): `authorize` needs an app that implements it"
    )]
    NotAnAuthorizer,
    /// An authorizer set an invalid variable.
    #[error("the app set Variable-{name}, {why}")]
    Variable {
        /// The name of the variable.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// An authorizer sent status 200 with this application status instead of 0.
    #[error("the authorizer ended its 200 response with application status {0}, expected 0")]
    AppStatus(u32),
    /// An authorizer sent status 200 but no regular end of the request.
    #[error(
        "the authorizer sent 200 but did not end the request (FCGI_END_REQUEST), so the request is denied"
    )]
    NoEndOfRequest,
    /// An authorizer allowed a request with a body of more than this many bytes.
    #[error(
        "the authorizer sent 200 with a body of more than {0} bytes, which no client sees: is this the right app?"
    )]
    BodyTooLong(usize),
}

/// Returns whether only the pool for blocking work can check if a script exists.
pub(crate) fn would_block(failure: &Failure, access: Access) -> bool {
    matches!(&failure.cause, Cause::Protocol(AppCause::Script(_, error)) if access.must_wait(error))
}

impl ProtocolCause for AppCause {
    const UPSTREAM: &'static str = "the app";
    const MISSING: &'static str = "nothing";

    fn is_connection_failure(&self) -> bool {
        matches!(self, Self::Fault(Fault::Closed))
    }

    fn describe(&self) -> Description {
        let (explanation, kind) = match self {
            Self::NotRunning(_) => (error::NOT_RUNNING, "the app is not running"),
            Self::Fault(Fault::Closed) => (error::CLOSED, "the app closed the connection"),
            Self::Script(_, error) => {
                let denied = error.kind() == io::ErrorKind::PermissionDenied;
                let status = if denied { StatusCode::FORBIDDEN } else { StatusCode::INTERNAL_SERVER_ERROR };
                let explanation = "The server cannot check whether this file exists.";
                return (status, explanation, "cannot check whether a script exists");
            }
            Self::Replacement(replacement) => {
                let (status, explanation) = replacement.describe(error::INVALID);
                return (status, explanation, "the app requested a file that cannot be sent");
            }
            Self::VariablesTooLarge(_) => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                return (
                    status,
                    "The header fields are too large for this application.",
                    "too large header fields",
                );
            }
            Self::ZeroInVariable => {
                let explanation = "The request has a zero byte, which this application cannot receive.";
                return (StatusCode::BAD_REQUEST, explanation, "a zero byte for an app behind SCGI");
            }
            Self::Rejected(ProtocolStatus::Overloaded) => {
                return (StatusCode::SERVICE_UNAVAILABLE, error::OVERLOADED, "the app rejects requests");
            }
            Self::Rejected(_) | Self::NotAnAuthorizer => (error::INVALID, "the app rejects requests"),
            Self::TooManyRedirects(_) => (error::INVALID, "too many local redirects"),
            // The log names the cause as another kind.
            Self::NoEndOfRequest => (error::INVALID, "the app did not end its response"),
            _ => (error::INVALID, "invalid response of the app"),
        };
        (StatusCode::BAD_GATEWAY, explanation, kind)
    }
}
