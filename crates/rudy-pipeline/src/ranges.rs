//! Responses with the parts of a stored content that a request selects (RFC 9110 §14).

use std::collections::VecDeque;

use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::semantics::range::{self, Ranges, Span};
use rudy_service::{Body, BodyPiece, Response};

use rudy_runtime::random;

use crate::pages;

/// Returns the parts of a content of this size that the fields of a GET request. `None` if they request the whole.
pub fn requested(fields: &impl FieldLines, size: u64) -> Option<Ranges> {
    let mut lines = fields.lines(KnownField::Range);
    let line = lines.next().filter(|_| lines.next().is_none())?;
    Some(range::parse(line, size)).filter(|ranges| *ranges != Ranges::Ignored)
}

/// Replaces the response with a content by the 206 with parts of it, which has the same fields (§15.3.7). The content is in memory or in a
/// file; `position` returns where a part is in it. `None` if a part is missing.
pub fn select(
    mut response: Response,
    ranges: &Ranges,
    size: u64,
    position: impl Fn(Span) -> Option<u64>,
) -> Option<Response> {
    let whole = std::mem::replace(&mut response.body, Body::Empty);
    let part = |span: Span| whole.part(position(span)?, span.length);
    response.set_status(StatusCode::PARTIAL_CONTENT);
    let fields = response.headers_mut();
    response.body = match ranges {
        Ranges::One(span) => {
            fields.insert(CONTENT_RANGE, span.content_range(size));
            part(*span)?.into()
        }
        Ranges::Several(spans) => {
            // A file that contains the boundary could fake parts.
            let boundary = u128::from(random::bits()) << 64 | u128::from(random::bits());
            let plan = range::multipart(spans, size, fields.get(CONTENT_TYPE), boundary);
            fields.insert(CONTENT_TYPE, plan.content_type);
            let mut pieces = VecDeque::with_capacity(plan.parts.len() * 2 + 1);
            for (head, span) in plan.parts {
                pieces.extend([BodyPiece::Data(head), part(span)?]);
            }
            pieces.push_back(BodyPiece::Data(plan.end));
            Body::Stream(Box::new(pieces))
        }
        Ranges::Unsatisfiable | Ranges::Ignored => return None,
    };
    Some(response)
}

/// Returns the 416 to a request with these fields, for what has this size.
pub fn unsatisfiable(fields: &HeaderMap, what: &str, size: u64) -> Response {
    let explanation = format!("The range is not in the {what}, which has {size} bytes.");
    let mut response = pages::error(StatusCode::RANGE_NOT_SATISFIABLE, fields, &explanation);
    response.headers_mut().insert(CONTENT_RANGE, range::unsatisfied_content_range(size));
    response
}
