//! Failures of requests to an app, and the response and log line for each.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_fastcgi::cgi::HeadError;
use rudy_fastcgi::{Fault, ProtocolStatus};
use rudy_net::{RequestBodyError, Response};

use crate::buffer::{BufferError, StoreError};
use crate::files::access::Access;
use crate::internal_redirect::REDIRECTS_MAX;
use crate::pages;
use crate::sandboxed::hint;
use crate::upstream::{CheckoutError, Endpoint, RequestFailure, SendError, UploadError, error};

/// Why there is no response, or why it is incomplete.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no connection to the app.
    Checkout(CheckoutError),
    /// The app has no running process, with the reason.
    NotRunning(String),
    /// The app sent nothing for this long.
    Timeout(Duration),
    /// The connection was lost.
    ConnectionLost(io::Error),
    /// The connection was lost before any byte of the request was sent.
    NothingSent(io::Error),
    /// The app violated the protocol, or closed the connection too early.
    Fault(Fault),
    /// The head of the response is invalid.
    Head(HeadError),
    /// The path of a script, and why Rudy cannot check whether it exists.
    Script(PathBuf, io::Error),
    /// The app requested a file that cannot be sent.
    Sendfile {
        /// The status for the client.
        status: StatusCode,
        /// The header field of the app's response.
        name: HeaderName,
        /// The value of the field.
        value: String,
        /// Why not.
        why: &'static str,
    },
    /// Too many local redirects; the last target.
    TooManyRedirects(String),
    /// The app rejected the request.
    Rejected(ProtocolStatus),
    /// The app does not implement the authorizer role.
    NotAnAuthorizer,
    /// An authorizer set an invalid variable.
    Variable {
        /// The name of the variable.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// An authorizer sent status 200 with this application status instead of 0.
    AppStatus(u32),
    /// An authorizer sent status 200 but no regular end of the request.
    NoEndOfRequest,
    /// An authorizer allowed a request with a body of more than this many bytes.
    BodyTooLong(usize),
    /// The response is longer or shorter than its `Content-Length`.
    Length {
        /// The value of `Content-Length`.
        expected: u64,
        /// The number of bytes received, at least.
        received: u64,
    },
    /// A body cannot be stored.
    Buffer(BufferError),
    /// A stored body cannot be read.
    BufferRead(io::Error),
    /// The client did not send the request's body.
    Client(RequestBodyError),
}

impl Failure {
    /// Returns whether another connection may succeed.
    pub(super) fn is_connection_failure(&self) -> bool {
        matches!(self, Self::ConnectionLost(_) | Self::NothingSent(_) | Self::Fault(Fault::Closed))
    }

    /// Returns whether the request can be repeated on another connection: it `is_repeatable`, or nothing of
    /// it was sent.
    pub(super) fn is_retryable(&self, is_repeatable: bool) -> bool {
        matches!(self, Self::NothingSent(_)) || is_repeatable && self.is_connection_failure()
    }

    /// Returns whether only the pool for blocking work can check if a script exists.
    pub(crate) fn would_block(&self, access: Access) -> bool {
        matches!(self, Self::Script(_, error) if access.must_wait(error))
    }

    /// Returns whether the app timed out or closed the connection. What it sent before stays valid.
    pub(super) fn is_app_failure(&self) -> bool {
        self.is_connection_failure() || matches!(self, Self::Timeout(_))
    }

    /// Returns the status for the client if no response was sent yet.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Checkout(CheckoutError::QueueFull(_) | CheckoutError::QueueTimeout(_))
            | Self::Rejected(ProtocolStatus::Overloaded) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Checkout(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Sendfile { status, .. } => *status,
            Self::Script(_, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                StatusCode::FORBIDDEN
            }
            Self::Script(..) | Self::BufferRead(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Buffer(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Client(RequestBodyError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Client(RequestBodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Client(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the explanation for the client.
    fn explanation(&self) -> Cow<'static, str> {
        match self {
            Self::Client(error) => return format!("Bad request: {error}.").into(),
            Self::Script(..) => "The server cannot check whether this file exists.",
            Self::Sendfile { status: StatusCode::NOT_FOUND, .. } => {
                "The requested URL was not found on this server."
            }
            Self::Checkout(error) => error.explanation(),
            Self::NotRunning(_) => error::NOT_RUNNING,
            Self::Rejected(ProtocolStatus::Overloaded) => error::OVERLOADED,
            Self::Timeout(_) => error::TOO_SLOW,
            Self::ConnectionLost(_) | Self::NothingSent(_) | Self::Fault(Fault::Closed) => error::CLOSED,
            Self::Buffer(_) => error::NO_SPACE,
            Self::BufferRead(_) => error::UNREADABLE,
            _ => error::INVALID,
        }
        .into()
    }

    /// Returns the response for a client whose request had these fields. The log has the details.
    pub(super) fn response(&self, headers: &HeaderMap) -> Response {
        let status = self.status();
        let mut response = pages::error(status, headers, &self.explanation());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl RequestFailure for Failure {
    fn member(&self) -> Option<&Endpoint> {
        match self {
            Self::Checkout(CheckoutError::Connect(endpoint, _)) => Some(endpoint),
            // The name of the app says which.
            _ => None,
        }
    }

    fn is_client_error(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Checkout(CheckoutError::Connect(..)) => "no connection to the app",
            Self::NotRunning(_) | Self::Checkout(CheckoutError::Rejected | CheckoutError::NotStarted) => {
                "the app is not running"
            }
            Self::Checkout(_) => "too many requests wait for the app",
            Self::Timeout(_) => "the app is too slow",
            Self::ConnectionLost(_) | Self::NothingSent(_) | Self::Fault(Fault::Closed) => {
                "the app closed the connection"
            }
            Self::Fault(_)
            | Self::AppStatus(_)
            | Self::Head(_)
            | Self::Length { .. }
            | Self::Variable { .. }
            | Self::BodyTooLong(_) => "invalid response of the app",
            Self::Script(..) => "cannot check whether a script exists",
            Self::Sendfile { .. } => "the app requested a file that cannot be sent",
            Self::TooManyRedirects(_) => "too many local redirects",
            // The log names the cause as another kind.
            Self::NoEndOfRequest => "the app did not end its response",
            Self::Rejected(_) | Self::NotAnAuthorizer => "the app rejects requests",
            Self::Buffer(_) => "no space for a body",
            Self::BufferRead(_) => "cannot read a stored body",
            Self::Client(_) => "cannot read a request for the app",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkout(error) => error.fmt(f),
            Self::NotRunning(why) => f.write_str(why),
            Self::Timeout(time) => write!(f, "the app sent nothing for {time:?} (`response_timeout`)"),
            Self::ConnectionLost(error) | Self::NothingSent(error) => {
                write!(f, "the connection was lost: {error}")
            }
            Self::Fault(fault) => fault.fmt(f),
            Self::Head(error) => error.fmt(f),
            Self::Script(path, error) => write!(
                f,
                "cannot check whether {} exists: {error}; Rudy's user needs execute permission on each \
                 parent folder{}",
                path.display(),
                hint(error)
            ),
            Self::Sendfile { name, value, why, .. } => {
                write!(f, "{name} names \"{}\", {why}", crate::config::visible(value))
            }
            Self::TooManyRedirects(target) => {
                write!(f, "more than {REDIRECTS_MAX} local redirects, the last one to {target}")
            }
            Self::Rejected(status) => write!(f, "the app rejected the request: {status:?}"),
            Self::NotAnAuthorizer => f.write_str(
                "the app does not support the authorizer role (FCGI_UNKNOWN_ROLE): `authorize` needs an app \
                 that implements it",
            ),
            Self::Variable { name, why } => write!(f, "the app set Variable-{name}, {why}"),
            Self::AppStatus(app_status) => write!(
                f,
                "the authorizer ended its 200 response with application status {app_status}, expected 0"
            ),
            Self::NoEndOfRequest => f.write_str(
                "the authorizer sent 200 but did not end the request (FCGI_END_REQUEST), so the request is \
                 denied",
            ),
            Self::BodyTooLong(max) => write!(
                f,
                "the authorizer sent 200 with a body of more than {max} bytes, which no client sees: is \
                 this the right app?"
            ),
            Self::Length { expected, received } if received > expected => {
                write!(
                    f,
                    "Content-Length of the response is {expected}, but the body is longer: the rest was dropped"
                )
            }
            Self::Length { expected, received } => {
                write!(
                    f,
                    "Content-Length of the response is {expected}, but only {received} bytes were received"
                )
            }
            Self::Buffer(error) => write!(f, "cannot store the body: {error}"),
            Self::BufferRead(error) => write!(f, "cannot read the stored body: {error}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<CheckoutError> for Failure {
    fn from(error: CheckoutError) -> Self {
        Self::Checkout(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Body(error) => Self::Client(error),
            StoreError::Buffer(error) => Self::Buffer(error),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NothingSent(error) => Self::NothingSent(error),
            SendError::ConnectionLost(error) => Self::ConnectionLost(error),
            SendError::Upload(UploadError::Client(error)) => Self::Client(error),
            SendError::Upload(UploadError::Disk(error)) => Self::BufferRead(error),
        }
    }
}

/// An error of reading a stored body.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::BufferRead(error)
    }
}
