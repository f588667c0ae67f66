//! The head of a response over any version of HTTP, and the interim responses before it.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use rudy_message::client::ResponseHead;
use rudy_message::{Framing, Instructions, ReceivedHead, Replacement};
use rudy_service::send_interim;

use super::failure::{Cause, HttpCause};
use super::fields::PassedHead;

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
    /// The instructions for this server, which are not among the fields.
    pub(super) instructions: Option<Box<Instructions>>,
}

impl Head {
    /// Creates the head of a response from a view of it, and what `ResponseFields::finish` returns for it.
    pub(super) fn new(head: &ResponseHead<'_>, passed: PassedHead) -> Self {
        let length = match head.framing() {
            Framing::Length(length) => Some(length),
            // The response to HEAD has the length of that to GET.
            Framing::None => head.get("content-length").and_then(rudy_message::syntax::parse_digits),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let upgrade = || head.get("upgrade").and_then(|value| HeaderValue::from_bytes(value).ok());
        let upgrade = if head.status() == 101 { upgrade() } else { None };
        let PassedHead { head, kept_for, instructions } = passed;
        Self { fields: rudy_service::Head::Received(head), length, upgrade, kept_for, instructions }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.fields.status()
    }

    /// Returns what the upstream names instead of its own response.
    pub(super) fn replacement(&self) -> Option<&Replacement> {
        self.instructions.as_ref()?.replacement.as_ref()
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

/// Passes an interim response on, and counts it. It gets lost if the client does not read, or uses HTTP/1.0.
pub(super) fn pass_interim(mut head: ReceivedHead, count: &mut u32) -> Result<(), Cause> {
    *count += 1;
    if *count > INTERIM_MAX {
        return Err(HttpCause::TooManyInterim(INTERIM_MAX).into());
    }
    let _is_sent = send_interim(head.status(), head.take_headers());
    Ok(())
}
