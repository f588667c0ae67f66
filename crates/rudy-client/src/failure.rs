//! Failures of requests to an upstream, and the response and log line for each.

use std::fmt;
use std::io;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_pipeline::pages;
use rudy_service::{RequestBodyError, Response};

use super::{CheckoutError, Description, Endpoint, SendError, UploadError, error};
use crate::buffer::{BufferError, StoreError};

/// The field that names the cause of an error response (RFC 9209).
static PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// A failed request: the cause, and the attempt that failed.
#[derive(Debug)]
pub struct Failure<P> {
    /// What has happened.
    pub cause: Cause<P>,
    /// The attempt, unless the request failed before the first one, or there is only one.
    pub attempt: Option<Box<Attempt>>,
}

/// An attempt to send a request.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// The upstream, once there is a connection.
    pub endpoint: Option<Endpoint>,
    /// When it has happened.
    pub phase: Phase,
    /// The time from the start of the request to the failure.
    pub elapsed: Duration,
}

/// The part of an exchange in which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before there was a connection.
    Connecting,
    /// While the request was sent.
    Sending,
    /// Before the response began.
    Waiting,
    /// After the response had begun.
    Receiving,
}

/// Why there is no response, or why it is incomplete.
#[derive(Debug)]
pub enum Cause<P> {
    /// There is no connection to the upstream.
    Checkout(CheckoutError),
    /// The upstream sent no response for this long.
    ResponseTimeout(Duration),
    /// The upstream sent nothing more of its response for this long.
    StallTimeout(Duration),
    /// The connection was lost.
    ConnectionLost(io::Error),
    /// The connection was lost before any byte of the request was sent.
    NothingSent(io::Error),
    /// The response is longer or shorter than its `Content-Length`.
    Length {
        /// The value of `Content-Length`.
        expected: u64,
        /// The number of bytes received, at least.
        received: u64,
    },
    /// The response has a status for which the request may go to another member.
    Status(StatusCode),
    /// A body cannot be stored.
    Buffer(BufferError),
    /// A stored body cannot be read.
    BufferRead(io::Error),
    /// The client did not send the request's body.
    Client(RequestBodyError),
    /// A cause that only this protocol has.
    Protocol(P),
}

/// The causes that only a protocol has.
pub trait ProtocolCause: fmt::Debug + fmt::Display + Send + Sync + Sized + 'static {
    /// What log lines call the upstream.
    const UPSTREAM: &'static str;
    /// What is missing after `response_timeout`.
    const MISSING: &'static str;

    /// Returns whether the connection was lost, so that another one may succeed.
    fn is_connection_failure(&self) -> bool;

    /// Returns whether the upstream has not processed the request.
    fn is_unprocessed(&self) -> bool {
        false
    }

    /// Returns whether the connection has failed, and not only the part of it that the request had.
    fn ends_connection(&self) -> bool {
        self.is_connection_failure()
    }

    /// Returns whether the upstream has not processed the request because of the connection: it serves the request on another one.
    fn is_about_connection(&self) -> bool {
        false
    }

    /// Returns whether the upstream serves the request only on a connection that requests do not share at the same time.
    fn needs_own_connection(&self) -> bool {
        false
    }

    /// Returns whether the upstream had no room for the request, and may have it a moment later.
    fn is_refusal(&self) -> bool {
        false
    }

    /// Returns whether the client caused the failure.
    fn is_client_error(&self) -> bool {
        false
    }

    /// As [`Cause::describe`].
    fn describe(&self) -> Description;

    /// Returns the error type for `Proxy-Status` (RFC 9209 §2.3), if the protocol has these.
    fn proxy_error(_cause: &Cause<Self>) -> Option<&'static str> {
        None
    }
}

impl<P: ProtocolCause> Cause<P> {
    /// Returns whether another connection may succeed.
    pub fn is_connection_failure(&self) -> bool {
        match self {
            Self::ConnectionLost(_) | Self::NothingSent(_) => true,
            Self::Protocol(cause) => cause.is_connection_failure(),
            _ => false,
        }
    }

    /// As [`ProtocolCause::ends_connection`].
    pub fn ends_connection(&self) -> bool {
        self.of_protocol().map_or_else(|| self.is_connection_failure(), P::ends_connection)
    }

    /// As [`ProtocolCause::is_about_connection`].
    pub fn is_about_connection(&self) -> bool {
        self.of_protocol().is_some_and(P::is_about_connection)
    }

    /// As [`ProtocolCause::needs_own_connection`].
    pub fn needs_own_connection(&self) -> bool {
        self.of_protocol().is_some_and(P::needs_own_connection)
    }

    /// As [`ProtocolCause::is_refusal`].
    pub fn is_refusal(&self) -> bool {
        self.of_protocol().is_some_and(P::is_refusal)
    }

    fn of_protocol(&self) -> Option<&P> {
        if let Self::Protocol(cause) = self { Some(cause) } else { None }
    }

    /// Returns whether there is a response, which is better than none.
    pub fn is_response(&self) -> bool {
        matches!(self, Self::Status(_))
    }

    /// Returns whether the upstream was silent for too long.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::ResponseTimeout(_) | Self::StallTimeout(_))
    }

    /// Returns whether the request can be sent again on another connection: it `is_repeatable`, or was not processed (RFC 9113 §8.7).
    pub fn is_retryable(&self, is_repeatable: bool) -> bool {
        let is_unprocessed = match self {
            Self::NothingSent(_) => true,
            Self::Protocol(cause) => cause.is_unprocessed(),
            _ => false,
        };
        is_unprocessed || is_repeatable && (self.is_connection_failure() || self.is_response())
    }

    /// Describes the failure. In its kind, `{}` is the upstream.
    fn describe(&self) -> Description {
        match self {
            Self::Checkout(error) => error.describe(),
            Self::ResponseTimeout(_) | Self::StallTimeout(_) => {
                (StatusCode::GATEWAY_TIMEOUT, error::TOO_SLOW, "{} is too slow")
            }
            Self::ConnectionLost(_) | Self::NothingSent(_) => {
                (StatusCode::BAD_GATEWAY, error::CLOSED, "{} closed the connection")
            }
            Self::Length { .. } | Self::Status(_) => {
                (StatusCode::BAD_GATEWAY, error::INVALID, "invalid response of {}")
            }
            Self::Buffer(_) => (StatusCode::INSUFFICIENT_STORAGE, error::NO_SPACE, "no space for a body"),
            Self::BufferRead(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, error::UNREADABLE, "cannot read a stored body")
            }
            Self::Client(error) => {
                let status = match error {
                    RequestBodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                    RequestBodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
                    _ => StatusCode::BAD_REQUEST,
                };
                (status, "", "cannot read a request for {}")
            }
            Self::Protocol(cause) => cause.describe(),
        }
    }
}

impl<P: ProtocolCause> Failure<P> {
    /// Returns the response for a client whose request had these fields. The log has the details.
    pub fn response(&self, headers: &HeaderMap) -> Response {
        let (status, explanation, _) = self.cause.describe();
        let mut response = if self.is_client_error() {
            pages::error(status, headers, &format!("Bad request: {}.", self.cause))
        } else {
            pages::error(status, headers, explanation)
        };
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        match P::proxy_error(&self.cause) {
            Some(error) => with_proxy_status(response, error),
            None => response,
        }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> String {
        self.cause.describe().2.replace("{}", P::UPSTREAM)
    }

    /// Returns the member of the upstream that has failed, if known.
    pub fn member(&self) -> Option<&Endpoint> {
        match &self.cause {
            Cause::Checkout(CheckoutError::Connect(endpoint, _)) => Some(endpoint),
            _ => self.attempt.as_ref()?.endpoint.as_ref(),
        }
    }

    /// Returns whether the client caused the failure.
    pub fn is_client_error(&self) -> bool {
        match &self.cause {
            Cause::Client(_) => true,
            Cause::Protocol(cause) => cause.is_client_error(),
            _ => false,
        }
    }
}

/// Adds `Proxy-Status` with an error type, a token.
pub fn with_proxy_status(mut response: Response, error: &'static str) -> Response {
    if let Ok(value) = HeaderValue::try_from(format!("rudy; error={error}")) {
        response.headers_mut().insert(&PROXY_STATUS, value);
    }
    response
}

impl<P: ProtocolCause> fmt::Display for Failure<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(attempt) = &self.attempt {
            let Attempt { number, endpoint, phase, elapsed } = &**attempt;
            let phase = match phase {
                Phase::Connecting => "connecting",
                Phase::Sending => "sending the request",
                Phase::Waiting => "waiting for the response",
                Phase::Receiving => "receiving the response",
            };
            let at = endpoint.as_ref().map(|endpoint| format!(" ({endpoint})")).unwrap_or_default();
            let time = rudy_units::duration(*elapsed);
            write!(f, "{phase}{at}, attempt {number}, after {time}: ")?;
        }
        self.cause.fmt(f)
    }
}

impl<P: ProtocolCause> fmt::Display for Cause<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (upstream, missing) = (P::UPSTREAM, P::MISSING);
        match self {
            Self::Checkout(error) => error.fmt(f),
            Self::ResponseTimeout(time) => {
                write!(f, "{upstream} sent {missing} for {time:?} (`response_timeout`)")
            }
            Self::StallTimeout(time) => {
                write!(f, "{upstream} sent nothing more for {time:?} (`stall_timeout`)")
            }
            Self::ConnectionLost(error) | Self::NothingSent(error) => {
                write!(f, "the connection was lost: {error}")
            }
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
            Self::Status(status) => write!(f, "the status of the response is {status}"),
            Self::Buffer(error) => write!(f, "cannot store the body: {error}"),
            Self::BufferRead(error) => write!(f, "cannot read the stored body: {error}"),
            Self::Client(error) => error.fmt(f),
            Self::Protocol(cause) => fmt::Display::fmt(cause, f),
        }
    }
}

impl<P: ProtocolCause> std::error::Error for Failure<P> {}

/// A failure before the first attempt.
impl<P, E> From<E> for Failure<P>
where
    Cause<P>: From<E>,
{
    fn from(cause: E) -> Self {
        Self { cause: cause.into(), attempt: None }
    }
}

impl<P: ProtocolCause> From<P> for Cause<P> {
    fn from(cause: P) -> Self {
        Self::Protocol(cause)
    }
}

impl<P> From<CheckoutError> for Cause<P> {
    fn from(error: CheckoutError) -> Self {
        Self::Checkout(error)
    }
}

/// An error of reading a stored body.
impl<P> From<io::Error> for Cause<P> {
    fn from(error: io::Error) -> Self {
        Self::BufferRead(error)
    }
}

impl<P> From<SendError> for Cause<P> {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NothingSent(error) => Self::NothingSent(error),
            SendError::ConnectionLost(error) => Self::ConnectionLost(error),
            SendError::Upload(UploadError::Client(error)) => Self::Client(error),
            SendError::Upload(UploadError::Disk(error)) => Self::BufferRead(error),
        }
    }
}

impl<P> From<StoreError> for Cause<P> {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Body(error) => Self::Client(error),
            StoreError::Buffer(error) => Self::Buffer(error),
        }
    }
}
