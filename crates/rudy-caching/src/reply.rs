//! Responses from stored objects, and from those that are being received.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use rudy_cache::{Content, HttpDate, Seconds, Span, Stored, Verdict};
use rudy_client::HeadOnlyBody;
use rudy_message::semantics::range::{self, Ranges};
use rudy_pipeline::compression::StoredContent;
use rudy_pipeline::pages;
use rudy_pipeline::request_state::HasResponseState;
use rudy_service::{Body, BodyError, BodyPiece, BodyStream, FileRange, Response};
use rudy_store::{self as store, FillReader, Object, Piece};
use tokio::sync::watch;

use super::flights::{Incoming, Progress};
use super::subject::public_vary;

/// Fields for this cache only. `CDN-Cache-Control` is passed on: another cache may be on the way.
const PRIVATE_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("rudy-cache-control"),
    HeaderName::from_static("surrogate-key"),
    HeaderName::from_static("cache-tag"),
];

/// Fields that describe the content, which a 304 does not have (RFC 9110 §15.4.5).
const CONTENT_FIELDS: [HeaderName; 4] =
    [http::header::CONTENT_ENCODING, http::header::CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE];

/// Returns the fields of a stored response of this age for a client.
pub(super) fn fields(stored: &Stored, age: Seconds) -> HeaderMap {
    let mut fields = stored.fields_at(age);
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
        *response.headers_mut() = fields(stored, stored.age(now));
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
        Verdict::Proceed => match requested_part(stored, object.body().len(), request) {
            Some(part) => part.respond(object, request, whole(Body::Empty)),
            None => complete(),
        },
        Verdict::IgnoreRange => complete(),
    }
}

/// Returns the 304 of a stored response.
pub(super) fn not_modified(stored: &Stored, now: HttpDate) -> Response {
    let mut response = Response::new(StatusCode::NOT_MODIFIED);
    let mut fields = fields(stored, stored.age(now));
    for name in &CONTENT_FIELDS {
        fields.remove(name);
    }
    *response.headers_mut() = fields;
    response
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
        _ => match object.body() {
            store::Body::Memory(bytes) => Body::Bytes(bytes.clone()),
            store::Body::File { file, offset, length } => {
                Body::File(FileRange::append_only(file.clone(), *offset, *length))
            }
        },
    }
}

/// The parts that a request selects, and the size of the whole.
struct Parts {
    ranges: Ranges,
    size: u64,
}

/// Returns the parts that a GET requests. `None` if it requests the whole.
fn requested_part(stored: &Stored, length: u64, request: &Request<()>) -> Option<Parts> {
    let mut lines = request.headers().get_all(RANGE).iter();
    let line = lines.next().filter(|_| lines.next().is_none())?;
    if *request.method() != Method::GET || stored.status() != StatusCode::OK {
        return None;
    }
    let size = match stored.content() {
        Content::Whole => length,
        Content::Parts { size, .. } => *size,
    };
    Some(Parts { ranges: range::parse(line.as_bytes(), size), size })
        .filter(|parts| parts.ranges != Ranges::Ignored)
}

impl Parts {
    /// Responds with the parts. `whole` is the head of a 200.
    fn respond(self, object: &Object, request: &Request<()>, mut whole: Response) -> Response {
        let size = self.size;
        match self.ranges {
            Ranges::One(span) => match piece(object, span) {
                Some(piece) => {
                    whole.set_status(StatusCode::PARTIAL_CONTENT);
                    whole.headers_mut().insert(CONTENT_RANGE, span.content_range(size));
                    whole.body = into_body(piece);
                    whole
                }
                // The decision was wrong: no byte is sent.
                None => unsatisfiable(request, size),
            },
            Ranges::Several(spans) => several(object, &spans, size, whole),
            Ranges::Unsatisfiable | Ranges::Ignored => unsatisfiable(request, size),
        }
    }
}

fn unsatisfiable(request: &Request<()>, size: u64) -> Response {
    let explanation = format!("The range is not in the response, which has {size} bytes.");
    let mut response = pages::error(StatusCode::RANGE_NOT_SATISFIABLE, request.headers(), &explanation);
    response.headers_mut().insert(CONTENT_RANGE, range::unsatisfied_content_range(size));
    response
}

/// Only whole objects are used for several parts.
fn several(object: &Object, spans: &[Span], size: u64, mut whole: Response) -> Response {
    let boundary =
        u128::from(RandomState::new().hash_one(0)) << 64 | u128::from(RandomState::new().hash_one(1));
    let plan = range::multipart(spans, size, whole.headers().get(CONTENT_TYPE), boundary);
    let mut pieces = VecDeque::with_capacity(plan.parts.len() * 2 + 1);
    for (head, span) in plan.parts {
        let Some(part) = piece(object, span) else {
            whole.body = of_whole(object, &Method::GET);
            return whole;
        };
        pieces.push_back(BodyPiece::Data(head));
        pieces.push_back(part);
    }
    pieces.push_back(BodyPiece::Data(plan.end));
    whole.set_status(StatusCode::PARTIAL_CONTENT);
    whole.headers_mut().insert(CONTENT_TYPE, plan.content_type);
    whole.body = Body::Stream(Box::new(pieces));
    whole
}

/// Returns a part of the content, if it is stored.
fn piece(object: &Object, span: Span) -> Option<BodyPiece> {
    let start = position(object.stored().content(), span)?;
    Some(match object.body() {
        store::Body::Memory(bytes) => {
            let (start, length) = (usize::try_from(start).ok()?, usize::try_from(span.length).ok()?);
            let end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
            BodyPiece::Data(bytes.slice(start..end))
        }
        store::Body::File { file, offset, length } => {
            start.checked_add(span.length).filter(|end| end <= length)?;
            BodyPiece::File(FileRange::append_only(file.clone(), offset + start, span.length))
        }
    })
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

fn into_body(piece: BodyPiece) -> Body {
    match piece {
        BodyPiece::Data(bytes) => Body::Bytes(bytes),
        BodyPiece::File(range) => Body::File(range),
        BodyPiece::Trailers(_) => Body::Empty,
    }
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
        (None, Verdict::Proceed | Verdict::IgnoreRange) => (stored.status(), fields(stored, stored.age(now))),
    };
    let mut response = Response::new(status);
    *response.headers_mut() = fields;
    if is_first {
        // RFC 9111 §5.1: with Age, the response would not be from the origin.
        response.headers_mut().remove(AGE);
        age.as_ref().map(|age| response.headers_mut().insert(AGE, age.clone()));
    }
    let length = length(response.headers(), part.is_some()).filter(|_| has_content(status));
    let start = start.as_ref().map_or_else(VecDeque::new, |start| beginning(start));
    response.body = Body::Stream(Box::new(Receiving { start, reader, _receiver: receiver, length }));
    response
}

/// The stored beginning of a body that is being completed.
fn beginning(object: &Object) -> VecDeque<BodyPiece> {
    let span = Span { start: 0, length: object.body().len() };
    piece(object, span).into_iter().collect()
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
    start: VecDeque<BodyPiece>,
    reader: FillReader,
    /// Keeps the flight from ending while a client receives it.
    _receiver: watch::Receiver<Progress>,
    /// The number of bytes that follow, if it is known.
    length: Option<u64>,
}

impl BodyStream for Receiving {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        if let Some(piece) = self.start.pop_front() {
            self.length = self.length.map(|length| length.saturating_sub(piece.length()));
            return Poll::Ready(Some(Ok(piece)));
        }
        let piece = match ready!(self.reader.poll_piece(cx, max)) {
            None => return Poll::Ready(None),
            Some(Err(aborted)) => return Poll::Ready(Some(Err(aborted.into()))),
            Some(Ok(Piece::Bytes(bytes))) => BodyPiece::Data(bytes),
            Some(Ok(Piece::File { file, offset, length })) => {
                BodyPiece::File(FileRange::append_only(file, offset, length))
            }
        };
        self.length = self.length.map(|length| length.saturating_sub(piece.length()));
        Poll::Ready(Some(Ok(piece)))
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
