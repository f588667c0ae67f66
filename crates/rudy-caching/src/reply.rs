//! Responses from stored objects, and from those that are being received.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use rudy_cache::{Content, HttpDate, Span, Stored, Verdict};
use rudy_client::HeadOnlyBody;
use rudy_message::semantics::range;
use rudy_pipeline::compression::StoredContent;
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::{Pieces, pages, ranges};
use rudy_runtime::watch;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange, Response};
use rudy_store::{self as store, FillReader, Object, Piece};

use super::flights::{Incoming, Progress};
use super::subject::public_vary;
use super::table::RUDY_CACHE_CONTROL;

/// Fields for this cache only. `CDN-Cache-Control` is passed on: another cache may be on the way.
const PRIVATE_FIELDS: [HeaderName; 3] =
    [RUDY_CACHE_CONTROL, HeaderName::from_static("surrogate-key"), HeaderName::from_static("cache-tag")];

/// Fields that describe the content, which a 304 does not have (RFC 9110 §15.4.5).
const CONTENT_FIELDS: [HeaderName; 4] =
    [http::header::CONTENT_ENCODING, http::header::CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE];

/// Returns the fields of a stored response for a client, without its age.
pub(super) fn ageless_fields(stored: &Stored) -> HeaderMap {
    let mut fields = stored.fields().clone();
    fields.remove(AGE);
    make_public(&mut fields);
    fields
}

fn fields(stored: &Stored, now: HttpDate) -> HeaderMap {
    let mut fields = stored.fields_at(stored.age(now));
    make_public(&mut fields);
    fields
}

/// Removes what is for this cache only.
pub(super) fn make_public(fields: &mut HeaderMap) {
    for name in PRIVATE_FIELDS.iter().chain([&store::SITE]) {
        fields.remove(name);
    }
    public_vary(fields);
}

/// Responds with a stored object: the whole, a part, 304, 412 or 416. The decision was that it can satisfy the request. `content`
/// identifies the whole for compression.
pub(super) fn of_object(
    object: &Object,
    request: &Request<()>,
    now: HttpDate,
    content: Option<StoredContent>,
) -> Response {
    let stored = object.stored();
    let whole = |body| {
        let mut response = Response::new(stored.status());
        *response.headers_mut() = fields(stored, now);
        response.body = body;
        response
    };
    let complete = || {
        let mut response = whole(of_whole(object, request.method()));
        if content.is_some() {
            response.state_mut().content = content;
        }
        response
    };
    match stored.verdict(request) {
        Verdict::NotModified => not_modified(stored, now),
        Verdict::PreconditionFailed => precondition_failed(request),
        Verdict::Proceed => of_parts(object, request, whole).unwrap_or_else(complete),
        Verdict::IgnoreRange => complete(),
    }
}

/// Returns the 304 of a stored response.
pub(super) fn not_modified(stored: &Stored, now: HttpDate) -> Response {
    let mut response = Response::new(StatusCode::NOT_MODIFIED);
    *response.headers_mut() = of_not_modified(fields(stored, now));
    response
}

/// Returns those fields of a response that its 304 has too.
pub(super) fn of_not_modified(mut fields: HeaderMap) -> HeaderMap {
    for name in &CONTENT_FIELDS {
        fields.remove(name);
    }
    fields
}

fn precondition_failed(request: &Request<()>) -> Response {
    let explanation = "The condition of the request is not met.";
    pages::error(StatusCode::PRECONDITION_FAILED, request.headers(), explanation)
}

/// The body of a whole response.
fn of_whole(object: &Object, method: &Method) -> Body {
    match object.stored().content() {
        // Only for HEAD: the length is that of the whole.
        Content::Parts { size, .. } if *method == Method::HEAD => {
            Body::Stream(Box::new(HeadOnlyBody { length: Some(*size) }))
        }
        _ => body(object),
    }
}

/// The body of an object: the whole, or the stored parts one after the other.
fn body(object: &Object) -> Body {
    match object.body() {
        store::Body::Memory(bytes) => Body::Bytes(bytes.clone()),
        store::Body::File { file, offset, length } => {
            Body::File(FileRange::append_only(file.clone(), *offset, *length))
        }
    }
}

/// Returns the response with the parts that a GET requests; `whole` is that with what is stored. `None` if it requests the whole.
fn of_parts(
    object: &Object,
    request: &Request<()>,
    whole: impl FnOnce(Body) -> Response,
) -> Option<Response> {
    let (stored, fields) = (object.stored(), request.headers());
    if *request.method() != Method::GET || stored.status() != StatusCode::OK {
        return None;
    }
    let size = match stored.content() {
        Content::Whole => object.body().len(),
        Content::Parts { size, .. } => *size,
    };
    let ranges = ranges::requested(fields, size)?;
    let parts = ranges::select(whole(body(object)), &ranges, size, |part| position(stored.content(), part));
    // If a part is missing, the decision was wrong: no byte is sent.
    Some(parts.unwrap_or_else(|| ranges::unsatisfiable(fields, "response", size)))
}

/// Returns the position of a part in the body of an object, which has the stored parts one after the other.
pub(super) fn position(content: &Content, part: Span) -> Option<u64> {
    let Content::Parts { spans, .. } = content else { return Some(part.start) };
    let mut position = 0;
    for span in spans {
        if span.contains(part) {
            return Some(position + part.start - span.start);
        }
        position += span.length;
    }
    None
}

/// Adds the fields of the origin that are for one request alone to the response to it.
pub(super) fn with_unshared(mut response: Response, unshared: &HeaderMap) -> Response {
    if unshared.is_empty() || response.status() == StatusCode::PRECONDITION_FAILED {
        return response;
    }
    let fields = response.headers_mut();
    for name in unshared.keys() {
        fields.remove(name);
    }
    fields.extend(unshared.iter().map(|(name, line)| (name.clone(), line.clone())));
    make_public(fields);
    response
}

/// Responds with what is being received. `is_first` is whether this is the request that led to it: a part is for that one only, and so
/// are fields that are not stored.
pub(super) fn of_incoming(
    incoming: &Arc<Incoming>,
    receiver: watch::Receiver<Progress>,
    request: &Request<()>,
    reader: FillReader,
    is_first: bool,
    now: HttpDate,
) -> Response {
    let response = of_received(incoming, receiver, request, reader, is_first, now);
    if is_first { with_unshared(response, &incoming.unshared) } else { response }
}

fn of_received(
    incoming: &Arc<Incoming>,
    receiver: watch::Receiver<Progress>,
    request: &Request<()>,
    reader: FillReader,
    is_first: bool,
    now: HttpDate,
) -> Response {
    let Incoming { stored, part, start, age, .. } = &**incoming;
    let (status, fields) = match (part, stored.verdict(request)) {
        (Some((status, fields)), _) => {
            let mut fields = fields.clone();
            make_public(&mut fields);
            (*status, fields)
        }
        (None, Verdict::NotModified) => return not_modified(stored, now),
        (None, Verdict::PreconditionFailed) => return precondition_failed(request),
        (None, Verdict::Proceed | Verdict::IgnoreRange) => (stored.status(), fields(stored, now)),
    };
    let mut response = Response::new(status);
    *response.headers_mut() = fields;
    if is_first {
        // RFC 9111 §5.1: with Age, the response would not be from the origin.
        response.headers_mut().remove(AGE);
        age.as_ref().map(|age| response.headers_mut().insert(AGE, age.clone()));
    }
    let length = length(response.headers(), part.is_some()).filter(|_| has_content(status));
    let start = Pieces::new(start.as_ref().map_or(Body::Empty, |start| body(start)), receiver);
    response.body = Body::Stream(Box::new(Receiving { start, reader, length }));
    response
}

fn has_content(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Returns the length of the body by its head.
fn length(fields: &HeaderMap, is_part: bool) -> Option<u64> {
    if is_part && let Some((span, _)) = fields.get(CONTENT_RANGE).and_then(range::parse_content_range) {
        return Some(span.length);
    }
    fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body that is received and stored meanwhile. Dropping it ends the interest of its client.
struct Receiving {
    /// The stored beginning of a body that is being completed. What is held keeps the flight from ending while a client receives it.
    start: Pieces<watch::Receiver<Progress>>,
    reader: FillReader,
    /// The number of bytes that follow, if it is known.
    length: Option<u64>,
}

impl BodyStream for Receiving {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let piece = match ready!(self.start.poll_piece(cx, now, max)) {
            Some(stored) => stored?,
            None => match ready!(self.reader.poll_piece(cx, max)).transpose()? {
                None => return Poll::Ready(None),
                Some(Piece::Bytes(bytes)) => BodyPiece::Data(bytes),
                Some(Piece::File { file, offset, length }) => {
                    BodyPiece::File(FileRange::append_only(file, offset, length))
                }
            },
        };
        self.length = self.length.map(|length| length.saturating_sub(piece.length()));
        Poll::Ready(Some(Ok(piece)))
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
