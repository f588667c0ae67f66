//! Why an app's answer is not to be had, and whose fault that is.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_fastcgi::cgi::HeadError;
use rudy_fastcgi::{Fault, ProtocolStatus};
use rudy_net::{RequestBodyError, Response};

use crate::buffer::{BufferError, GatherError};
use crate::files::access::Access;
use crate::internal_redirect::REDIRECTS_MAX;
use crate::pages;
use crate::upstream::CheckoutError;

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no connection to the app.
    Checkout(CheckoutError),
    /// The app's processes do not run: why.
    NotRunning(String),
    /// The app has said nothing for so long.
    Slow(Duration),
    /// The connection broke off.
    Lost(io::Error),
    /// The connection had broken off before a byte of the request was sent.
    Unsent(io::Error),
    /// What came is not FastCGI, or the app closed the connection too early.
    Fault(Fault),
    /// The answer does not begin as one.
    Head(HeadError),
    /// Whether a script is there cannot be known: its path, and why.
    Script(PathBuf, io::Error),
    /// The app wants a file sent that is not to be had.
    Sendfile {
        /// With which the client is told.
        status: StatusCode,
        /// The field that names it.
        name: HeaderName,
        /// The file.
        value: String,
        /// Why not.
        why: &'static str,
    },
    /// The app's local redirections lead on and on.
    Redirects(String),
    /// The app refuses the request.
    Refused(ProtocolStatus),
    /// The app knows no authorizer's role.
    NoAuthorizer,
    /// An authorizer says what it may not of a variable.
    Variable {
        /// Of the variable.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// An authorizer has sent status 200 and ended with this application status, which is not 0.
    AppStatus(u32),
    /// The app's answer had no end of the request behind it, which says that it was meant.
    Unended,
    /// An authorizer lets a request in with a body of more bytes than this.
    Verbose(usize),
    /// The answer has more or less bytes than its `Content-Length` says.
    Length {
        /// Bytes that it says.
        said: u64,
        /// Bytes that came, at least.
        came: u64,
    },
    /// A body cannot be stored.
    Buffer(BufferError),
    /// A body that was stored cannot be read.
    BufferRead(io::Error),
    /// The request's body cannot be had from the client.
    Client(RequestBodyError),
}

impl Failure {
    /// Whether another connection may fare better.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Unsent(_) | Self::Fault(Fault::Closed))
    }

    /// Whether the request may be said again on another connection: one that `is_repeatable`, or of which nothing was said.
    pub(super) fn may_be_repeated(&self, is_repeatable: bool) -> bool {
        matches!(self, Self::Unsent(_)) || is_repeatable && self.is_of_connection()
    }

    /// Only the pool for blocking work can tell whether a script is there.
    pub(crate) fn would_block(&self, access: Access) -> bool {
        matches!(self, Self::Script(_, error) if access.must_wait(error))
    }

    /// The app is slow or gone: what it has said so far stands.
    pub(super) fn is_of_app(&self) -> bool {
        self.is_of_connection() || matches!(self, Self::Slow(_))
    }

    /// What was stored cannot be read.
    pub(super) fn from_disk(error: io::Error) -> Self {
        Self::BufferRead(error)
    }

    /// The client's own doing; the app is not to blame.
    pub(super) fn is_clients(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    /// The status with which a client is told, where nothing of an answer was sent yet.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Checkout(CheckoutError::QueueFull(_) | CheckoutError::QueueTimeout(_))
            | Self::Refused(ProtocolStatus::Overloaded) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow(_) => StatusCode::GATEWAY_TIMEOUT,
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

    /// The answer for a client, whose request had these fields. What went wrong behind the scenes is the log's.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let status = self.status();
        let explanation = match self {
            Self::Client(error) => format!("Bad request: {error}."),
            Self::Script(..) => "The server could not look for this.".to_owned(),
            Self::Sendfile { status: StatusCode::NOT_FOUND, .. } => {
                "The requested URL was not found on this server.".to_owned()
            }
            _ => match status {
                StatusCode::SERVICE_UNAVAILABLE => "The app has too much to do; try again soon.".to_owned(),
                StatusCode::INSUFFICIENT_STORAGE => {
                    "The server has no room for the body; try again later.".to_owned()
                }
                StatusCode::GATEWAY_TIMEOUT => "The app did not answer in time.".to_owned(),
                _ => "The app gave no answer that can be passed on.".to_owned(),
            },
        };
        let mut response = pages::error(status, headers, &explanation);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// A kind, in words: what the log counts together.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Checkout(CheckoutError::Connect(..)) => "no connection to the app",
            Self::NotRunning(_) | Self::Checkout(CheckoutError::Rejected) => "the app does not run",
            Self::Checkout(_) => "too many requests wait for the app",
            Self::Slow(_) => "the app is too slow",
            Self::Lost(_) | Self::Unsent(_) | Self::Fault(Fault::Closed) => "the app broke off",
            Self::Fault(_)
            | Self::AppStatus(_)
            | Self::Head(_)
            | Self::Length { .. }
            | Self::Variable { .. }
            | Self::Verbose(_) => "the app answers wrongly",
            Self::Script(..) => "a script cannot be looked for",
            Self::Sendfile { .. } => "the app wants a file sent that is not to be had",
            Self::Redirects(_) => "the app leads round in circles",
            // The log has said why behind the answer, as another kind.
            Self::Unended => "the app did not end its answer",
            Self::Refused(_) | Self::NoAuthorizer => "the app refuses requests",
            Self::Buffer(_) => "no room for a body",
            Self::BufferRead(_) => "a stored body cannot be read",
            Self::Client(_) => "a request for the app cannot be read",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkout(error) => error.fmt(f),
            Self::NotRunning(why) => f.write_str(why),
            Self::Slow(time) => write!(f, "the app said nothing for {time:?} (`response_timeout`)"),
            Self::Lost(error) | Self::Unsent(error) => write!(f, "the connection broke off: {error}"),
            Self::Fault(fault) => fault.fmt(f),
            Self::Head(error) => error.fmt(f),
            Self::Script(path, error) => write!(
                f,
                "cannot look for {}: {error}; the user that rudy runs as needs the right to enter each folder above it",
                path.display()
            ),
            Self::Sendfile { name, value, why, .. } => {
                write!(f, "{name} names \"{}\", {why}", crate::config::visible(value))
            }
            Self::Redirects(target) => {
                write!(
                    f,
                    "one local redirection led to the next, {REDIRECTS_MAX} times, the last time to {target}"
                )
            }
            Self::Refused(status) => write!(f, "the app refused the request: {status:?}"),
            Self::NoAuthorizer => f.write_str(
                "the app does not know the role of an authorizer (FCGI_UNKNOWN_ROLE): `authorize` needs an app that was \
                 written for that role, and this one answers requests",
            ),
            Self::Variable { name, why } => write!(f, "the app says Variable-{name}, {why}"),
            Self::AppStatus(app_status) => write!(
                f,
                "the authorizer ended its 200 with application status {app_status}; expected 0"
            ),
            Self::Unended => f.write_str(
                "the app did not end the request behind its 200 (FCGI_END_REQUEST), which lets nobody in",
            ),
            Self::Verbose(most) => write!(
                f,
                "the 200 with which an authorizer lets a request in has a body that nobody sees, and this one is longer than \
                 {most} bytes: is this the right app?"
            ),
            Self::Length { said, came } if came > said => {
                write!(f, "Content-Length of the answer is {said}, and more came: the rest was left out")
            }
            Self::Length { said, came } => {
                write!(f, "Content-Length of the answer is {said}, and only {came} bytes came")
            }
            Self::Buffer(error) => write!(f, "the body cannot be stored: {error}"),
            Self::BufferRead(error) => write!(f, "the stored body cannot be read: {error}"),
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

impl From<GatherError> for Failure {
    fn from(error: GatherError) -> Self {
        match error {
            GatherError::Body(error) => Self::Client(error),
            GatherError::Buffer(error) => Self::Buffer(error),
        }
    }
}
