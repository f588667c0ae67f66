//! The header fields of compressed responses.

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rudy_message::semantics::etag::{self, Comparison, EntityTag};
use rudy_message::semantics::field::{ChangeFields, FieldLines, KnownField};
use rudy_message::semantics::media_type;
use rudy_message::semantics::negotiation::{AcceptedCodings, Coding};
use rudy_message::syntax::members;
use rudy_service::{Body, Request, Response};

use super::Compression;
use crate::vary;

/// What a request says about the form of its response.
#[derive(Debug)]
pub struct Wanted {
    accepted: AcceptedCodings,
    /// Whether the client wants only the head.
    pub is_head: bool,
    /// The path is that of a compressed drawing, of which an upstream may not declare the coding.
    is_coded: bool,
    /// The client opens a tunnel.
    is_tunnel: bool,
    /// The client forbids transformations (RFC 9111 §5.2.1.6).
    forbids_transformation: bool,
    if_none_match: Vec<Box<[u8]>>,
}

impl Wanted {
    /// Reads what a request accepts.
    pub fn of(request: &Request<'_>) -> Self {
        let path = str::from_utf8(request.path()).unwrap_or_default();
        Self {
            accepted: AcceptedCodings::parse(request.lines(KnownField::AcceptEncoding)),
            is_head: *request.method() == Method::HEAD,
            is_coded: media_type::coding_of_name(path) != Coding::Identity,
            is_tunnel: *request.method() == Method::CONNECT,
            forbids_transformation: lines_forbid_transformation(request.lines(KnownField::CacheControl)),
            if_none_match: request.lines(KnownField::IfNoneMatch).map(Into::into).collect(),
        }
    }

    /// Returns the best of these codings for the response.
    #[must_use]
    pub fn coding(&self, codings: &[Coding]) -> Coding {
        if self.forbids_transformation { Coding::Identity } else { self.best(codings) }
    }

    fn accepts_any(&self, codings: &[Coding]) -> bool {
        self.best(codings) != Coding::Identity
    }

    /// Returns the best of these codings for the client.
    fn best(&self, codings: &[Coding]) -> Coding {
        self.accepted.choose_from(codings, |_| true)
    }
}

/// Removes the range from a request that would continue a compressed response with bytes of the uncompressed one: a date in
/// `If-Range` does not distinguish the two. A server MAY ignore a range (RFC 9110 §14.2).
pub fn without_ambiguous_range(request: &mut Request<'_>, wanted: &Wanted, codings: &[Coding]) {
    if has_date_in_if_range(&**request) && wanted.accepts_any(codings) {
        request.remove(&IF_RANGE);
        request.remove(&RANGE);
    }
}

/// Whether a range is for a representation with a date. It may have several codings.
pub fn has_date_in_if_range(fields: &impl FieldLines) -> bool {
    fields.lines(KnownField::IfRange).next().is_some_and(|value| !value.ends_with(b"\""))
}

/// Whether a response may be compressed, for a request that allows it. `Vary` depends on this alone: a cache may use the response for
/// other requests.
pub fn is_eligible(response: &Response, wanted: &Wanted, compression: &Compression) -> bool {
    let status = response.status();
    let has_content = !status.is_informational()
        && ![StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT]
            .contains(&status)
        && status != StatusCode::NOT_MODIFIED
        && !matches!(response.body, Body::Empty);
    has_content
        && !wanted.is_tunnel
        && response.upgrade.is_none()
        && !response.contains(&CONTENT_ENCODING)
        && !response.contains(&CONTENT_RANGE)
        && !lines_forbid_transformation(response.get_all(&CACHE_CONTROL))
        && response
            .get(&CONTENT_TYPE)
            .filter(|media_type| !wanted.is_coded || media_type.starts_with(b"text/"))
            .is_some_and(|media_type| compression.includes(response.body.length(), media_type))
}

/// Whether `Cache-Control` has `no-transform` (RFC 9111 §5.2.2.6).
fn lines_forbid_transformation<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    lines.any(|line| members(line).any(|directive| directive.eq_ignore_ascii_case(b"no-transform")))
}

/// Changes the fields of a response that is sent in `coding`.
pub fn set_coding(fields: &mut impl ChangeFields, coding: Coding) {
    fields.set(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    // Parts of the result cannot be made.
    fields.remove(&ACCEPT_RANGES);
    for name in &DIGESTS {
        fields.remove(name);
    }
    weaken_tag(fields);
}

/// RFC 9110 §8.8.3.3: representations with different codings need different strong tags. A weak tag may be the same.
fn weaken_tag(fields: &mut impl ChangeFields) {
    if let Some(weak) = tag(fields).and_then(|tag| tag.weakened()) {
        fields.set(ETAG, weak.value().clone());
    }
}

fn tag(fields: &impl ChangeFields) -> Option<EntityTag> {
    EntityTag::parse(&HeaderValue::from_bytes(fields.get(&ETAG)?).ok()?)
}

/// Changes the fields of a 304 to a client that has the compressed representation: a cache finds the stored response by its tag
/// (RFC 9111 §4.3.4).
pub fn confirm(response: &mut Response, wanted: &Wanted) {
    let tag = tag(response);
    let matches = |comparison| {
        etag::list_matches(wanted.if_none_match.iter().map(|line| &**line), tag.as_ref(), comparison)
    };
    if tag.is_some() && matches(Comparison::Weak) && !matches(Comparison::Strong) {
        weaken_tag(response);
    }
    add_vary(response);
}

/// Adds `Accept-Encoding` to `Vary`, unless it is there.
pub fn add_vary(fields: &mut impl ChangeFields) {
    vary::add(fields, HeaderValue::from_static("Accept-Encoding"));
}

/// Whether `Vary` includes `Accept-Encoding`.
pub fn varies(fields: &impl ChangeFields) -> bool {
    vary::includes(fields, b"accept-encoding")
}

/// Digests of the content or the representation, which both include the coding (RFC 9530 §2 and §3, RFC 3230, RFC 1864).
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Removes digests from the trailers of a compressed body.
#[must_use]
pub fn without_digests(mut trailers: HeaderMap) -> HeaderMap {
    for name in &DIGESTS {
        trailers.remove(name);
    }
    trailers
}
