//! Failures of requests to an upstream, and the response and log line for each.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_http::h1::client::{Fault, RequestError};
use rudy_http::h2::{ConnectionError, ErrorCode};
use rudy_net::{RequestBodyError, Response};
use rudy_tls::is_untrusted_certificate;

use crate::buffer::{BufferError, StoreError};
use crate::pages;
use crate::upstream::{CheckoutError, Endpoint, RequestFailure, SendError, UploadError, error};

/// The field that names the cause of an error response (RFC 9209).
static PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// A failed request: the cause, and the attempt that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    /// The attempt, unless the request failed before the first one.
    pub(super) attempt: Option<Attempt>,
}

/// An attempt to send a request.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Its number, from 1.
    pub(super) number: u32,
    /// The upstream, once there is a connection.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) phase: Phase,
    /// The time from the start of the request to the failure.
    pub(super) elapsed: Duration,
}

/// The part of an exchange in which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Sending,
    Waiting,
    Receiving,
}

/// Why there is no response, or why it is incomplete.
#[derive(Debug)]
pub(super) enum Cause {
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
    /// The upstream has refused the stream without processing the request.
    Refused,
    /// The upstream has announced the end of the connection, and does not process the request.
    GoneAway,
    /// The upstream does not process the request over HTTP/2.
    Http11Required,
    /// The upstream has reset the stream.
    Reset(ErrorCode),
    /// The upstream violated HTTP/2 in this response.
    Http2Stream(ConnectionError),
    /// The upstream violated HTTP/2, which has ended the connection.
    Http2(ConnectionError),
    /// The upstream violated the protocol, or closed the connection too early.
    Fault(Fault),
    /// The upstream sent more than this many interim responses.
    TooManyInterim(u32),
    /// The upstream changed to another protocol, and why it must not.
    Upgrade(&'static str),
    /// The upstream responded with this status, a success, to a request for a tunnel instead of opening it.
    NoTunnel(StatusCode),
    /// The upstream does not accept tunnels.
    NoTunnels,
    /// The request cannot be expressed in HTTP/1.1.
    Request(RequestError),
    /// A request body cannot be stored.
    Buffer(BufferError),
    /// A stored body cannot be read.
    BufferRead(io::Error),
    /// The client did not send the request's body.
    Client(RequestBodyError),
}

impl Cause {
    /// Returns whether another connection may succeed.
    pub(super) fn is_connection_failure(&self) -> bool {
        match self {
            Self::ConnectionLost(_) | Self::NothingSent(_) | Self::Reset(_) => true,
            Self::Fault(fault) => matches!(fault, Fault::ClosedBeforeResponse),
            _ => false,
        }
    }

    /// Returns whether the upstream has failed, and not the client or this machine.
    pub(super) fn is_upstream_failure(&self) -> bool {
        let is_invalid = matches!(self, Self::Fault(_) | Self::TooManyInterim(_));
        let is_invalid = is_invalid || matches!(self, Self::Http2Stream(_) | Self::Http2(_) | Self::Reset(_));
        let is_late = matches!(self, Self::ResponseTimeout(_) | Self::StallTimeout(_));
        is_invalid || is_late || matches!(self, Self::ConnectionLost(_) | Self::NothingSent(_))
    }

    /// Returns whether the connection has failed, and not only one of its streams.
    pub(super) fn ends_connection(&self) -> bool {
        self.is_connection_failure() && !matches!(self, Self::Reset(_))
    }

    /// Returns whether the request can be sent again on another connection: it `is_repeatable`, or was not processed (RFC 9113 §8.7).
    pub(super) fn is_retryable(&self, is_repeatable: bool) -> bool {
        matches!(self, Self::NothingSent(_) | Self::Refused)
            || self.is_about_connection()
            || is_repeatable && self.is_connection_failure()
    }

    /// Returns whether the upstream has not processed the request because of the connection: it serves the request on another one.
    pub(super) fn is_about_connection(&self) -> bool {
        matches!(self, Self::GoneAway | Self::Http11Required)
    }

    /// Returns the status for the client if no response was sent yet.
    fn status(&self) -> StatusCode {
        match self {
            Self::Checkout(
                CheckoutError::QueueFull(_) | CheckoutError::QueueTimeout(_) | CheckoutError::Drained,
            )
            | Self::Refused => StatusCode::SERVICE_UNAVAILABLE,
            Self::ResponseTimeout(_) | Self::StallTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Checkout(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::BufferRead(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Buffer(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Client(RequestBodyError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Client(RequestBodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Client(_) | Self::Request(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the explanation for the client.
    fn explanation(&self) -> Cow<'static, str> {
        match self {
            Self::Client(error) => return format!("Bad request: {error}.").into(),
            Self::Request(error) => return format!("Bad request: {error}.").into(),
            Self::Checkout(error) => error.explanation(),
            Self::Refused => error::OVERLOADED,
            Self::ResponseTimeout(_) | Self::StallTimeout(_) => error::TOO_SLOW,
            Self::ConnectionLost(_) | Self::NothingSent(_) | Self::GoneAway | Self::Reset(_) => error::CLOSED,
            Self::Fault(fault) if fault.is_early_close() => error::CLOSED,
            Self::NoTunnel(_) | Self::NoTunnels => "The application does not accept WebSockets here.",
            Self::Buffer(_) => error::NO_SPACE,
            Self::BufferRead(_) => error::UNREADABLE,
            Self::Fault(_)
            | Self::Http2Stream(_)
            | Self::Http2(_)
            | Self::Http11Required
            | Self::TooManyInterim(_)
            | Self::Upgrade(_) => error::INVALID,
        }
        .into()
    }

    /// Returns the error type for `Proxy-Status` (RFC 9209 §2.3). Client errors and those of this machine have none.
    fn proxy_error(&self) -> Option<&'static str> {
        Some(match self {
            Self::Checkout(CheckoutError::Connect(_, error)) => match error.kind() {
                io::ErrorKind::ConnectionRefused => "connection_refused",
                io::ErrorKind::TimedOut => "connection_timeout",
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "connection_terminated",
                _ if is_untrusted_certificate(error) => "tls_certificate_error",
                _ if is_violation(error) => "http_protocol_error",
                io::ErrorKind::InvalidData => "tls_protocol_error",
                _ => "destination_unavailable",
            },
            Self::Checkout(CheckoutError::Drained | CheckoutError::NotStarted) | Self::Refused => {
                "destination_unavailable"
            }
            Self::Checkout(CheckoutError::Unresolved(_)) => "dns_error",
            Self::Checkout(_) => "connection_limit_reached",
            Self::ResponseTimeout(_) => "http_response_timeout",
            Self::StallTimeout(_) => "connection_read_timeout",
            Self::ConnectionLost(_) | Self::NothingSent(_) | Self::GoneAway | Self::Reset(_) => {
                "connection_terminated"
            }
            Self::Http2Stream(ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, .. }) => {
                "http_response_header_section_size"
            }
            Self::Fault(fault) => proxy_error_of_fault(fault),
            Self::TooManyInterim(_) | Self::Http2Stream(_) | Self::Http2(_) | Self::Http11Required => {
                "http_protocol_error"
            }
            Self::Upgrade(_) | Self::NoTunnel(_) | Self::NoTunnels => "http_upgrade_failed",
            Self::Request(_) | Self::Buffer(_) | Self::BufferRead(_) | Self::Client(_) => return None,
        })
    }
}

/// Returns whether a connection of HTTP/2 could not be opened because the upstream violated the protocol.
fn is_violation(error: &io::Error) -> bool {
    error.get_ref().and_then(|error| error.downcast_ref::<ConnectionError>()).is_some()
}

fn proxy_error_of_fault(fault: &Fault) -> &'static str {
    match fault {
        Fault::ClosedBeforeResponse => "connection_terminated",
        Fault::ClosedInHead { .. } | Fault::ClosedInBody { .. } => "http_response_incomplete",
        Fault::HeadTooLarge { .. } | Fault::TooManyFields { .. } => "http_response_header_section_size",
        Fault::TrailersTooLarge { .. } => "http_response_trailer_section_size",
        Fault::BodyTooLarge { .. } => "http_response_body_size",
        Fault::BadTransferCoding(_) | Fault::TransferCodingInHttp10 => "http_response_transfer_coding",
        Fault::UnsolicitedUpgrade => "http_upgrade_failed",
        _ => "http_protocol_error",
    }
}

impl Failure {
    /// Returns the response for a client whose request had these fields. The log has the details.
    pub(super) fn response(&self, headers: &HeaderMap) -> Response {
        let status = self.cause.status();
        let mut response = pages::error(status, headers, &self.cause.explanation());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        match self.cause.proxy_error() {
            Some(error) => with_proxy_status(response, error),
            None => response,
        }
    }
}

/// Adds `Proxy-Status` with an error type, a token.
pub(super) fn with_proxy_status(mut response: Response, error: &'static str) -> Response {
    if let Ok(value) = HeaderValue::try_from(format!("rudy; error={error}")) {
        response.headers_mut().insert(&PROXY_STATUS, value);
    }
    response
}

impl RequestFailure for Failure {
    fn member(&self) -> Option<&Endpoint> {
        match &self.cause {
            Cause::Checkout(CheckoutError::Connect(endpoint, _)) => Some(endpoint),
            _ => self.attempt.as_ref()?.endpoint.as_ref(),
        }
    }

    fn is_client_error(&self) -> bool {
        matches!(self.cause, Cause::Client(_) | Cause::Request(_))
    }

    fn kind(&self) -> &'static str {
        match &self.cause {
            Cause::Checkout(CheckoutError::Connect(..) | CheckoutError::Unresolved(_)) => {
                "no connection to the upstream"
            }
            Cause::Checkout(CheckoutError::Drained) => "all upstreams are drained",
            Cause::Checkout(CheckoutError::NotStarted) => "the proxy was not started",
            Cause::Checkout(_) => "too many requests wait for the upstream",
            Cause::ResponseTimeout(_) | Cause::StallTimeout(_) => "the upstream is too slow",
            Cause::ConnectionLost(_) | Cause::NothingSent(_) | Cause::GoneAway => {
                "the upstream closed the connection"
            }
            Cause::Refused | Cause::Reset(_) => "the upstream reset the request",
            Cause::Http11Required => "the upstream requires HTTP/1.1",
            Cause::NoTunnel(_) | Cause::NoTunnels => "the upstream does not accept WebSockets",
            Cause::Fault(fault) if fault.is_early_close() => "the upstream closed the connection",
            Cause::Fault(_)
            | Cause::Http2Stream(_)
            | Cause::Http2(_)
            | Cause::TooManyInterim(_)
            | Cause::Upgrade(_) => "invalid response of the upstream",
            Cause::Request(_) => "invalid request for an upstream",
            Cause::Buffer(_) => "no space for a body",
            Cause::BufferRead(_) => "cannot read a stored body",
            Cause::Client(_) => "cannot read a request for the upstream",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Attempt { number, endpoint, phase, elapsed }) = &self.attempt {
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkout(error) => error.fmt(f),
            Self::ResponseTimeout(time) => {
                write!(f, "the upstream sent no response for {time:?} (`response_timeout`)")
            }
            Self::StallTimeout(time) => {
                write!(f, "the upstream sent nothing more for {time:?} (`stall_timeout`)")
            }
            Self::ConnectionLost(error) | Self::NothingSent(error) => {
                write!(f, "the connection was lost: {error}")
            }
            Self::Refused => f.write_str("the upstream refused the request (REFUSED_STREAM)"),
            Self::GoneAway => f.write_str("the upstream announced the end of the connection (GOAWAY)"),
            Self::Http11Required => f.write_str(
                "the upstream requires HTTP/1.1 (HTTP_1_1_REQUIRED); use `http` or `https` instead of `h2c` in its URL",
            ),
            Self::Reset(code) => write!(f, "the upstream reset the request ({code})"),
            Self::Http2Stream(error) | Self::Http2(error) => error.fmt(f),
            Self::NoTunnels => f.write_str(
                "the upstream accepts no WebSockets over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441); \
                 if it accepts them over HTTP/1.1, use `http` instead of `h2c` in its URL",
            ),
            Self::NoTunnel(status) => write!(
                f,
                "the upstream responded with {} to a WebSocket handshake; expected a change of protocol (101), or an error",
                status.as_u16()
            ),
            Self::Fault(Fault::UnsolicitedUpgrade) => f.write_str(
                "the upstream changed the protocol (101), but the request that it received offered none: Rudy passes on \
                 `websocket`, `tcp` and the protocols of `upgrade_protocols`",
            ),
            Self::Fault(fault) => fault.fmt(f),
            Self::TooManyInterim(limit) => {
                write!(f, "the upstream sent more than {limit} interim responses (1xx)")
            }
            Self::Upgrade(how) => write!(f, "the upstream changed the protocol {how}"),
            Self::Request(error) => error.fmt(f),
            Self::Buffer(error) => write!(f, "cannot store the body: {error}"),
            Self::BufferRead(error) => write!(f, "cannot read the stored body: {error}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// A failure before the first attempt.
impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self { cause, attempt: None }
    }
}

impl From<CheckoutError> for Cause {
    fn from(error: CheckoutError) -> Self {
        Self::Checkout(error)
    }
}

/// An error of reading a stored body.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Cause::BufferRead(error).into()
    }
}

impl From<SendError> for Cause {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NothingSent(error) => Self::NothingSent(error),
            SendError::ConnectionLost(error) => Self::ConnectionLost(error),
            SendError::Upload(UploadError::Client(error)) => Self::Client(error),
            SendError::Upload(UploadError::Disk(error)) => Self::BufferRead(error),
        }
    }
}

impl From<StoreError> for Cause {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Body(error) => Self::Client(error),
            StoreError::Buffer(error) => Self::Buffer(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use rudy_net::Body;

    use super::*;

    #[test]
    fn the_page_of_an_upstream_that_does_not_listen_differs_from_that_of_a_late_or_invalid_one() {
        let connect = |kind: io::ErrorKind| {
            let endpoint = Endpoint::Ip(([127, 0, 0, 1], 9).into());
            Cause::Checkout(CheckoutError::Connect(endpoint, kind.into()))
        };
        let lost = io::ErrorKind::ConnectionReset;
        for (cause, status, explanation) in [
            (connect(io::ErrorKind::ConnectionRefused), 502, "The application cannot be reached."),
            (connect(io::ErrorKind::TimedOut), 504, "The application accepted no connection in time."),
            (Cause::ResponseTimeout(Duration::ZERO), 504, error::TOO_SLOW),
            (Cause::ConnectionLost(lost.into()), 502, error::CLOSED),
            (Cause::Fault(Fault::ClosedBeforeResponse), 502, error::CLOSED),
            (Cause::Fault(Fault::TransferCodingInHttp10), 502, error::INVALID),
            (Cause::BufferRead(lost.into()), 500, error::UNREADABLE),
        ] {
            let response = Failure::from(cause).response(&HeaderMap::new());
            assert_eq!(response.status(), status, "{explanation}");
            let Body::Bytes(page) = &response.body else { panic!("a page is in memory") };
            assert!(String::from_utf8_lossy(page).ends_with(&format!("\n{explanation}\n")), "{page:?}");
        }
    }
}
