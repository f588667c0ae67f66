//! The failures that only requests over HTTP have.

use std::io;

use http::StatusCode;
use rudy_client::{self, CheckoutError, Description, ProtocolCause, error};
use rudy_files::replacement::ReplacementError;
use rudy_http::h1::client::Fault;
use rudy_http::h2::{ConnectionError, ErrorCode};
use rudy_message::client::RequestError;
use rudy_tls::is_untrusted_certificate;

pub(super) use rudy_client::{Attempt, Phase};

pub(super) type Cause = rudy_client::Cause<HttpCause>;
pub(super) type Failure = rudy_client::Failure<HttpCause>;

/// Why there is no response over HTTP, or why it is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpCause {
    /// The upstream has refused the stream without processing the request.
    #[error("the upstream refused the request (REFUSED_STREAM)")]
    Refused,
    /// The upstream has announced the end of the connection, and does not process the request.
    #[error("the upstream announced the end of the connection (GOAWAY)")]
    GoneAway,
    /// The upstream does not process the request over HTTP/2.
    #[error(
        "the upstream requires HTTP/1.1 (HTTP_1_1_REQUIRED); use `http` or `https` instead of `h2c` in its URL"
    )]
    Http11Required,
    /// The upstream has reset the stream.
    #[error("the upstream reset the request ({0})")]
    Reset(ErrorCode),
    /// The upstream violated HTTP/2 in this response.
    #[error("{0}")]
    Http2Stream(ConnectionError),
    /// The upstream violated HTTP/2, which has ended the connection.
    #[error("{0}")]
    Http2(ConnectionError),
    /// The upstream violated the protocol, or closed the connection too early.
    #[error("{}", of_fault(.0))]
    Fault(Fault),
    /// The upstream sent more than this many interim responses.
    #[error("the upstream sent more than {0} interim responses (1xx)")]
    TooManyInterim(u32),
    /// The upstream changed to another protocol, and why it must not.
    #[error("the upstream changed the protocol {0}")]
    Upgrade(&'static str),
    /// The upstream responded with this status, a success, to a request for a tunnel instead of opening it.
    #[error("the upstream responded with {} to a WebSocket handshake; expected a change of protocol (101), or an error", .0.as_u16())]
    NoTunnel(StatusCode),
    /// The upstream does not accept tunnels.
    #[error(
        "the upstream accepts no WebSockets over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441); if it accepts them over HTTP/1.1, use `http` instead of `h2c` in its URL"
    )]
    NoTunnels,
    /// The upstream named a file or a path that cannot be sent.
    #[error("{0}")]
    Replacement(#[from] ReplacementError),
    /// The request cannot be expressed in HTTP/1.1.
    #[error("{0}")]
    Request(RequestError),
}

impl HttpCause {
    /// Returns whether the upstream has violated the protocol.
    fn is_violation(&self) -> bool {
        matches!(self, Self::Fault(_) | Self::TooManyInterim(_) | Self::Http2Stream(_) | Self::Http2(_))
    }
}

/// Returns whether the upstream has failed, and not the client or this machine.
pub(super) fn is_upstream_failure(cause: &Cause) -> bool {
    match cause {
        Cause::ConnectionLost(_) | Cause::NothingSent(_) => true,
        Cause::Protocol(cause) => cause.is_violation() || matches!(cause, HttpCause::Reset(_)),
        _ => cause.is_late(),
    }
}

impl ProtocolCause for HttpCause {
    const UPSTREAM: &'static str = "the upstream";
    const MISSING: &'static str = "no response";

    fn is_connection_failure(&self) -> bool {
        matches!(self, Self::Reset(_) | Self::Fault(Fault::ClosedBeforeResponse))
    }

    fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Refused) || self.is_about_connection()
    }

    fn ends_connection(&self) -> bool {
        self.is_connection_failure() && !matches!(self, Self::Reset(_))
    }

    fn is_about_connection(&self) -> bool {
        matches!(self, Self::GoneAway | Self::Http11Required)
    }

    fn needs_own_connection(&self) -> bool {
        matches!(self, Self::Http11Required)
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused)
    }

    fn is_client_error(&self) -> bool {
        matches!(self, Self::Request(_))
    }

    fn describe(&self) -> Description {
        let (explanation, kind) = match self {
            Self::Refused => {
                let kind = "the upstream reset the request";
                return (StatusCode::SERVICE_UNAVAILABLE, error::OVERLOADED, kind);
            }
            Self::Replacement(replacement) => {
                let (status, explanation) = replacement.describe(error::INVALID);
                return (status, explanation, "the upstream requested a file that cannot be sent");
            }
            Self::Request(_) => return (StatusCode::BAD_REQUEST, "", "invalid request for an upstream"),
            Self::GoneAway => (error::CLOSED, "the upstream closed the connection"),
            Self::Reset(_) => (error::CLOSED, "the upstream reset the request"),
            Self::Http11Required => (error::INVALID, "the upstream requires HTTP/1.1"),
            Self::NoTunnel(_) | Self::NoTunnels => (
                "The application does not accept WebSockets here.",
                "the upstream does not accept WebSockets",
            ),
            Self::Fault(fault) if fault.is_early_close() => {
                (error::CLOSED, "the upstream closed the connection")
            }
            _ => (error::INVALID, "invalid response of the upstream"),
        };
        (StatusCode::BAD_GATEWAY, explanation, kind)
    }

    /// Client errors and those of this machine have none.
    fn proxy_error(cause: &Cause) -> Option<&'static str> {
        Some(match cause {
            Cause::Checkout(CheckoutError::Connect(_, error)) => match error.kind() {
                io::ErrorKind::ConnectionRefused => "connection_refused",
                io::ErrorKind::TimedOut => "connection_timeout",
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "connection_terminated",
                _ if is_untrusted_certificate(error) => "tls_certificate_error",
                _ if is_violation(error) => "http_protocol_error",
                io::ErrorKind::InvalidData => "tls_protocol_error",
                _ => "destination_unavailable",
            },
            Cause::Checkout(CheckoutError::Drained | CheckoutError::NotStarted) => "destination_unavailable",
            Cause::Checkout(CheckoutError::Unresolved(_)) => "dns_error",
            Cause::Checkout(_) => "connection_limit_reached",
            Cause::ResponseTimeout(_) => "http_response_timeout",
            Cause::StallTimeout(_) => "connection_read_timeout",
            Cause::ConnectionLost(_) | Cause::NothingSent(_) => "connection_terminated",
            Cause::Length { .. } => "http_response_incomplete",
            Cause::Status(_) | Cause::Buffer(_) | Cause::BufferRead(_) | Cause::Client(_) => return None,
            Cause::Protocol(cause) => return cause.proxy_error_of_protocol(),
        })
    }
}

impl HttpCause {
    fn proxy_error_of_protocol(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused => "destination_unavailable",
            Self::GoneAway | Self::Reset(_) => "connection_terminated",
            Self::Http2Stream(ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, .. }) => {
                "http_response_header_section_size"
            }
            Self::Fault(fault) => proxy_error_of_fault(fault),
            Self::TooManyInterim(_) | Self::Http2Stream(_) | Self::Http2(_) | Self::Http11Required => {
                "http_protocol_error"
            }
            Self::Upgrade(_) | Self::NoTunnel(_) | Self::NoTunnels => "http_upgrade_failed",
            Self::Request(_) | Self::Replacement(_) => return None,
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

fn of_fault(fault: &Fault) -> String {
    match fault {
        Fault::UnsolicitedUpgrade => {
            "the upstream changed the protocol (101), but the request that it received offered none: Rudy passes on \
             `websocket`, `tcp` and the protocols of `upgrade_protocols`"
                .to_owned()
        }
        fault => fault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderMap;
    use rudy_service::Body;

    use super::*;
    use rudy_client::Endpoint;
    use rudy_client::retries::{FailedAttempt, RetryBudget};

    #[test]
    fn a_request_is_sent_again_only_if_that_is_safe_and_may_help() {
        let (closed, nothing_sent) = (
            HttpCause::Fault(Fault::ClosedBeforeResponse).into(),
            Cause::NothingSent(io::ErrorKind::BrokenPipe.into()),
        );
        let begun = HttpCause::Fault(Fault::ClosedInHead { received: 5 }).into();
        let timeout = Cause::ResponseTimeout(Duration::from_mins(1));
        let unavailable = Cause::Status(StatusCode::SERVICE_UNAVAILABLE);
        for (cause, may_have_been_dead, is_repeatable, has_others, is_sent_again) in [
            (&closed, true, true, false, true),
            (&closed, true, false, true, false),
            (&closed, false, true, true, true),
            (&closed, false, true, false, false),
            (&nothing_sent, true, false, false, true),
            (&nothing_sent, false, false, true, true),
            (&begun, true, true, true, false),
            (&timeout, true, true, true, false),
            (&unavailable, false, true, true, true),
            (&unavailable, false, true, false, false),
            (&unavailable, false, false, true, false),
            // RFC 9113 §8.7: whatever the method is.
            (&HttpCause::GoneAway.into(), false, false, false, true),
            (&HttpCause::Refused.into(), false, false, false, true),
            (&HttpCause::Http11Required.into(), false, false, false, true),
            (&HttpCause::Reset(ErrorCode::CANCEL).into(), false, false, true, false),
            (&HttpCause::Reset(ErrorCode::CANCEL).into(), false, true, true, true),
        ] {
            let failed =
                |number| FailedAttempt { cause, number, may_have_been_dead, is_repeatable, has_others };
            assert_eq!(RetryBudget::default().allows(&failed(1)), is_sent_again, "{:?}", failed(1));
            let is_still = is_sent_again && may_have_been_dead;
            assert_eq!(RetryBudget::default().allows(&failed(3)), is_still, "{:?}", failed(3));
        }
    }

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
            (HttpCause::Fault(Fault::ClosedBeforeResponse).into(), 502, error::CLOSED),
            (HttpCause::Fault(Fault::TransferCodingInHttp10).into(), 502, error::INVALID),
            (Cause::BufferRead(lost.into()), 500, error::UNREADABLE),
        ] {
            let response = Failure::from(cause).response(&HeaderMap::new());
            assert_eq!(response.status(), status, "{explanation}");
            let Body::Bytes(page) = &response.body else { panic!("a page is in memory") };
            assert!(String::from_utf8_lossy(page).ends_with(&format!("\n{explanation}\n")), "{page:?}");
        }
    }
}
