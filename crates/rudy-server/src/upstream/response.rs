//! What the responses of all kinds of upstreams have in common.

use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderName, Method, StatusCode, header};
use rudy_net::{BodyError, BodyPiece, BodyStream, Response};

/// The field that switches response buffering off, as in nginx. It is not passed on.
static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Removes the field that switches response buffering off. Returns whether it did.
pub(crate) fn take_unbuffered(response: &mut Response) -> bool {
    let Some(value) = response.header(&ACCEL_BUFFERING) else { return false };
    let is_unbuffered = value.eq_ignore_ascii_case(b"no");
    response.headers_mut().remove(&ACCEL_BUFFERING);
    is_unbuffered
}

/// Returns whether a response is an event stream, which must not be delayed.
pub(crate) fn is_of_events(response: &Response) -> bool {
    let events = b"text/event-stream";
    let start = response.header(&header::CONTENT_TYPE).and_then(|value| value.get(..events.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(events))
}

/// Returns whether a response has no body, regardless of its fields (RFC 9110 §9.3.2, §15.3.5, §15.4.5).
pub(crate) fn has_no_body(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// The body of a response of which only the head is sent. It may have a length.
pub(crate) struct HeadOnlyBody {
    pub(crate) length: Option<u64>,
}

impl BodyStream for HeadOnlyBody {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
