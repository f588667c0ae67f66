//! What was received of a response, over any version of HTTP.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_http::h1::client::{ResponseEvent, ResponseHead};
use rudy_http::h1::{Framing, ReceivedHead};
use rudy_service::send_interim;

use super::exchange::Http;
use super::failure::{Cause, HttpCause};
use super::http1::Http1Connection;
use super::http2::Parts;
use rudy_client::Received;

/// The maximum number of interim responses. 102 Processing may come every few seconds while a request takes minutes; more than this
/// is a flood.
pub(super) const INTERIM_MAX: u32 = 100;

/// The head of a response.
pub(super) struct Head {
    /// The status, and the fields without those of the connection.
    pub(super) fields: rudy_service::Head,
    /// The length of the body, if known.
    pub(super) length: Option<u64>,
    /// The protocol that the connection changes to, with status 101.
    pub(super) upgrade: Option<HeaderValue>,
    /// How long the upstream keeps the connection open without a request, if it says so.
    pub(super) kept_for: Option<Duration>,
}

impl Head {
    /// Creates the head of a response from a view of it, and what `ResponseFields::finish` returns for it.
    pub(super) fn new(
        head: &ResponseHead<'_>,
        (received, kept_for): (ReceivedHead, Option<Duration>),
    ) -> Self {
        let length = match head.framing() {
            Framing::Length(length) => Some(length),
            // The response to HEAD has the length of that to GET.
            Framing::None => head.get("content-length").and_then(rudy_http::syntax::parse_digits),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let upgrade = || head.get("upgrade").and_then(|value| HeaderValue::from_bytes(value).ok());
        let upgrade = if head.status() == 101 { upgrade() } else { None };
        Self { fields: rudy_service::Head::Received(received), length, upgrade, kept_for }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.fields.status()
    }

    /// Returns the fields in a map.
    pub(super) fn take_fields(&mut self) -> HeaderMap {
        std::mem::take(self.fields.headers_mut())
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Http {
    /// Receives once.
    pub(super) fn poll_http1(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Http1Connection,
        received: &mut Received<Head>,
    ) -> Poll<Result<(), Cause>> {
        let Self { fields, interim, kept_for, .. } = self;
        connection.poll_receive(cx, fields, |event, fields| {
            match event {
                ResponseEvent::Informational(head) => pass_interim(fields.finish(&head).0, interim)?,
                ResponseEvent::Head(head) => {
                    let head = Head::new(&head, fields.finish(&head));
                    *kept_for = head.kept_for;
                    received.begin(head);
                }
                ResponseEvent::Data(data) => received.body.extend_from_slice(data),
                ResponseEvent::End(trailers) => {
                    (received.trailers, received.is_complete) = (trailers.map(Box::new), true);
                }
                ResponseEvent::NeedData => {}
            }
            Ok(())
        })
    }

    /// Adds the parts that a stream has received.
    pub(super) fn take(&mut self, parts: Parts, received: &mut Received<Head>) -> Result<(), Cause> {
        let Parts { interim, head, body, trailers, is_complete } = parts;
        for head in interim {
            pass_interim(head, &mut self.interim)?;
        }
        if let Some(head) = head {
            self.kept_for = head.kept_for;
            received.begin(head);
        }
        // A caller takes a piece before it polls for the next one.
        received.body.unsplit(body);
        (received.trailers, received.is_complete) = (trailers.map(Box::new), is_complete);
        Ok(())
    }
}

/// Passes an interim response on, and counts it. It gets lost if the client does not read, or uses HTTP/1.0.
fn pass_interim(mut head: ReceivedHead, count: &mut u32) -> Result<(), Cause> {
    *count += 1;
    if *count > INTERIM_MAX {
        return Err(HttpCause::TooManyInterim(INTERIM_MAX).into());
    }
    let _is_sent = send_interim(head.status(), head.take_headers());
    Ok(())
}
