//! Whether a response may be stored (RFC 9111 §3).

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use rudy_message::semantics::range::{Span, parse_content_range};
use rudy_message::syntax::parse_digits;

use crate::directives::{ResponseDirectives, Scope};
use crate::fields::stored_fields;
use crate::freshness::{Freshness, add_date, explicit_lifetime, initial_age, is_heuristically_cacheable};
use crate::policy::{Exchange, Policy};
use crate::seconds::Seconds;
use crate::stored::{Content, Stored, Validators};
use crate::vary::{Variant, add_coding};

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// Only responses to GET are stored. HEAD updates them (§4.3.5); POST needs more than most applications send (RFC 9110 §9.3.3).
    #[error("the method is not GET")]
    Method,
    /// The status is not final, depends on more than the URI, or MUST NOT be stored.
    #[error("responses with this status are not stored")]
    Status,
    /// `must-understand`, and the status is not understood (§5.2.2.3).
    #[error("must-understand, and the status is unknown")]
    NotUnderstood,
    /// `no-store` of the request (§5.2.1.5) or of the response (§5.2.2.5).
    #[error("no-store")]
    NoStore,
    /// `private` (§5.2.2.7).
    #[error("private")]
    Private,
    /// The request has `Authorization`, and the response does not allow it (§3.5).
    #[error("the request has Authorization, and the response allows no shared use")]
    Authorization,
    /// The response sets a cookie. See [`Policy::remove_set_cookie`].
    #[error("the response sets a cookie")]
    SetCookie,
    /// `Vary: *` (§4.1).
    #[error("Vary: *")]
    VaryAny,
    /// Nothing declares the response cacheable (§3).
    #[error("the status needs explicit freshness, such as max-age")]
    NotCacheable,
    /// The response would need a validation before each use, and has no validator.
    #[error("it is never fresh, and has neither ETag nor Last-Modified")]
    NoValidator,
    /// A part without a strong entity tag, a known size or one range (§3.3, §3.4), one whose length is not that of its range, or too
    /// many parts.
    #[error("a part needs a strong ETag and one Content-Range with a size")]
    Partial,
    /// A part of another representation than the stored one (§3.4).
    #[error("the part belongs to another version")]
    OtherRepresentation,
}

/// For logs: `not stored: no-store`.
impl Policy {
    /// Decides whether to store the response to a request, and returns its metadata.
    ///
    /// The request is the client's, since `Vary` and the directives are about it. A 304 updates what is stored instead: see
    /// [`Policy::freshen`]; a 206 may extend it: see [`Policy::combine`].
    ///
    /// ```
    /// # use http::{Request, Response};
    /// # use rudy_cache::{Exchange, HttpDate, NotStored, Policy};
    /// let at = HttpDate::from_unix_seconds(784_111_777);
    /// let exchange = Exchange { requested_at: at, received_at: at };
    /// let request = Request::get("/a").body(())?;
    /// let response = |directives| Response::builder().header("cache-control", directives).body(());
    /// assert!(Policy::default().store(&request, &response("max-age=60")?, exchange).is_ok());
    /// assert_eq!(Policy::default().store(&request, &response("private")?, exchange), Err(NotStored::Private));
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn store<B, C>(
        &self,
        request: &Request<B>,
        response: &Response<C>,
        exchange: Exchange,
    ) -> Result<Stored, NotStored> {
        let (method, status) = (request.method(), response.status());
        self.store_parts(method, request.headers(), status, response.headers(), exchange)
    }

    fn store_parts(
        &self,
        method: &Method,
        request: &HeaderMap,
        status: StatusCode,
        response: &HeaderMap,
        exchange: Exchange,
    ) -> Result<Stored, NotStored> {
        if *method != Method::GET {
            return Err(NotStored::Method);
        }
        if self.of_client(request).no_store {
            return Err(NotStored::NoStore);
        }
        if status.is_informational() || NEVER_STORED.contains(&status.as_u16()) {
            return Err(NotStored::Status);
        }
        let directives = self.of_origin(response);
        let mut fields = stored_fields(response, &directives);
        if self.remove_set_cookie {
            fields.remove(SET_COOKIE);
        }
        add_date(&mut fields, exchange.received_at);
        add_coding(&mut fields);
        let content = content(status, &mut fields)?;
        // §3.3: a 206 is stored as an incomplete 200.
        let status = if status == StatusCode::PARTIAL_CONTENT { StatusCode::OK } else { status };
        let is_authorized = request.contains_key(AUTHORIZATION);
        let validators = Validators::of(&fields);
        Ok(Stored {
            freshness: self.check(status, &fields, &validators, &directives, is_authorized)?,
            variant: Variant::new(request, response).ok_or(NotStored::VaryAny)?,
            initial_age: initial_age(response, exchange),
            received_at: exchange.received_at,
            is_invalid: false,
            status,
            fields,
            validators,
            content,
            is_authorized,
        })
    }

    /// The conditions of §3 on the response, in its order.
    pub(crate) fn check(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
        validators: &Validators,
        directives: &ResponseDirectives,
        is_authorized: bool,
    ) -> Result<Freshness, NotStored> {
        if directives.must_understand && !UNDERSTOOD.contains(&status.as_u16()) {
            return Err(NotStored::NotUnderstood);
        }
        // §5.2.2.3: a cache that understands the status SHOULD ignore no-store beside must-understand.
        if directives.no_store && !directives.must_understand {
            return Err(NotStored::NoStore);
        }
        if directives.private == Scope::Everything {
            return Err(NotStored::Private);
        }
        if is_authorized && !self.ignore_authorization && !directives.allows_authorized() {
            return Err(NotStored::Authorization);
        }
        if fields.contains_key(SET_COOKIE) {
            return Err(NotStored::SetCookie);
        }
        let is_explicit = directives.public || explicit_lifetime(fields, directives).is_some();
        let is_by_settings = self.default_freshness.of(status).is_some();
        if !is_explicit && !is_by_settings && !is_heuristically_cacheable(status) {
            return Err(NotStored::NotCacheable);
        }
        let freshness = self.freshness(status, fields, directives);
        if !self.is_ever_used(&freshness) && validators.is_empty() {
            return Err(NotStored::NoValidator);
        }
        Ok(freshness)
    }

    /// Whether the response can be used without a successful validation, at least sometimes.
    fn is_ever_used(&self, freshness: &Freshness) -> bool {
        let stale = freshness.stale_while_revalidate.max(freshness.stale_if_error).max(self.stale_if_error);
        let stale = if freshness.never_stale { Seconds::ZERO } else { stale };
        !freshness.validate_always && freshness.lifetime.max(stale) > Seconds::ZERO
    }
}

/// Statuses that depend on fields of the request which `Vary` does not name: credentials (401, 407), conditions (304, 412), ranges
/// (416), expectations (417), early data (425), the connection (421). And those that MUST NOT be stored (RFC 6585: 428, 429, 431,
/// 511).
const NEVER_STORED: [u16; 12] = [304, 401, 407, 412, 416, 417, 421, 425, 428, 429, 431, 511];

/// Statuses whose requirements for caches are implemented here (§3). Of these, only 206 has any.
const UNDERSTOOD: [u16; 16] =
    [200, 203, 204, 206, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 451, 501];

/// Returns the part of the content that a response transfers. For a part, replaces the fields that describe it with the length of
/// the whole.
fn content(status: StatusCode, fields: &mut HeaderMap) -> Result<Content, NotStored> {
    if status != StatusCode::PARTIAL_CONTENT {
        // RFC 9110 §14.4: a Content-Range has no meaning beside another status.
        return Ok(Content::Whole);
    }
    let (span, size) = part(fields).ok_or(NotStored::Partial)?;
    let is_other_length = |line: &HeaderValue| parse_digits(line.as_bytes()) != Some(span.length);
    if fields.get_all(CONTENT_LENGTH).iter().any(is_other_length) {
        return Err(NotStored::Partial);
    }
    fields.remove(CONTENT_RANGE);
    fields.insert(CONTENT_LENGTH, HeaderValue::from(size));
    Ok(if span.length == size { Content::Whole } else { Content::Parts { size, spans: vec![span] } })
}

/// Returns the part that a 206 transfers, and the size of the whole. `None` if parts of it could not be combined: without a strong
/// validator (§3.4), and in a multipart response, whose ranges are in its content (RFC 9110 §15.3.7.2).
pub(crate) fn part(fields: &HeaderMap) -> Option<(Span, u64)> {
    let mut lines = fields.get_all(CONTENT_RANGE).iter();
    let (span, size) = lines.next().filter(|_| lines.next().is_none()).and_then(parse_content_range)?;
    if fields.get_all(CONTENT_TYPE).iter().any(is_multipart) {
        return None;
    }
    Validators::of(fields).strong_tag()?;
    Some((span, size?))
}

/// Whether a media type is that of several parts. Its Content-Range, which it must not have, would be about none of them.
fn is_multipart(media_type: &HeaderValue) -> bool {
    let name = media_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"multipart/byteranges")
}
