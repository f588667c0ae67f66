//! From an entry and a request to the answer: conditions, ranges, codings.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use http::header::{CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderMap, Method, StatusCode};
use rudy_http::semantics::conditional::{self, Verdict};
use rudy_http::semantics::field::{FieldLines, KnownField};
use rudy_http::semantics::negotiation::Coding;
use rudy_http::semantics::range::{self, Ranges, Span};
use rudy_net::{Body, BodyPiece, Reply, Request, Response};

use super::Files;
use super::cache::{Compressed, Version};
use super::compress::{self, CompressedFile};
use super::entry::{Choice, Coded, Content, Entry, Representation};

impl Files {
    /// Answers with what is in `entry`, which is kept under `key`.
    pub(super) fn respond(&self, request: &Request, key: &str, entry: &Arc<Entry>) -> Reply {
        let (method, headers) = (request.method(), request.headers());
        if let Some(response) = ready(entry, method, headers) {
            return response.into();
        }
        match entry.choose(headers, wants_range(method, headers)) {
            Choice::Ready(ready) => self.answer_conditional(request, ready).into(),
            Choice::Make(coding) => self.respond_compressed(request, key, entry, coding),
        }
    }

    fn answer_conditional(&self, request: &Request, ready: &Representation) -> Response {
        let headers = request.headers();
        match conditional::evaluate(request.method(), headers, &ready.validators) {
            Verdict::NotModified => ready.answer_not_modified(),
            Verdict::PreconditionFailed => self.error(
                StatusCode::PRECONDITION_FAILED,
                headers,
                "The file does not match the preconditions of the request.",
            ),
            Verdict::Proceed if *request.method() == Method::GET => self.answer_ranges(headers, ready),
            Verdict::Proceed | Verdict::IgnoreRange => ready.answer_whole(),
        }
    }

    fn answer_ranges(&self, headers: &HeaderMap, ready: &Representation) -> Response {
        let mut lines = headers.get_all(RANGE).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return ready.answer_whole() };
        let size = ready.content.length();
        match range::parse(line, size) {
            Ranges::Ignored => ready.answer_whole(),
            Ranges::One(span) => one_part(ready, span, size),
            Ranges::Several(spans) => several_parts(ready, &spans, size),
            Ranges::Unsatisfiable => {
                let status = StatusCode::RANGE_NOT_SATISFIABLE;
                let mut response = self.error(
                    status,
                    headers,
                    &format!("The range is not in the file, which has {size} bytes."),
                );
                response.headers_mut().insert(CONTENT_RANGE, range::unsatisfied_content_range(size));
                response
            }
        }
    }

    /// Answers with a coding that is made on the fly. The conditions come first: they may spare the work.
    fn respond_compressed(&self, request: &Request, key: &str, entry: &Arc<Entry>, coding: Coding) -> Reply {
        let version = Version { path: key.into(), coding, stat: entry.stat };
        if let Some(compressed) = self.0.entries.compressed.get(&version) {
            self.put_into_entry(&version, entry, &compressed);
            let ready = compressed.as_deref().unwrap_or(&entry.plain);
            return Reply::Now(self.answer_conditional(request, ready));
        }
        let made = entry.plain.made(entry.plain.content.clone(), &entry.stat, coding);
        let verdict = conditional::evaluate(request.method(), request.headers(), &made.validators);
        if matches!(verdict, Verdict::NotModified | Verdict::PreconditionFailed) {
            return Reply::Now(self.answer_conditional(request, &made));
        }
        let (files, entry) = (self.clone(), entry.clone());
        Reply::Later(Box::pin(async move {
            let Ok(compressed) = files.compress_once(&version, &entry).await else {
                return files.stream(&entry, coding, &made).unwrap_or_else(|| entry.plain.answer_whole());
            };
            files.put_into_entry(&version, &entry, &compressed);
            compressed.as_deref().unwrap_or(&entry.plain).answer_whole()
        }))
    }

    /// Compresses a file while it is sent; `None` if as many encoders are in use as may be.
    fn stream(&self, entry: &Entry, coding: Coding, made: &Representation) -> Option<Response> {
        let Content::File(file) = &entry.plain.content else { return None };
        let permit = self.0.encoders.clone().try_acquire_owned().ok()?;
        let pieces = self.0.pieces.clone();
        let body = CompressedFile::new(file.clone(), coding, self.level(coding), pieces, permit).ok()?;
        Some(Response::prepared(made.whole.clone(), Body::Stream(Box::new(body))))
    }

    /// Compresses a file and keeps the result. Requests for the same version wait for that result rather than get the file as it
    /// is: to wait takes a fraction of a second once, a file of several times the size takes each of them longer. It fails at once
    /// where there is no room for the result.
    async fn compress_once(&self, version: &Version, entry: &Entry) -> io::Result<Compressed> {
        let compress = self.compress(version.coding, entry);
        if entry.settled {
            self.0.entries.compressed.get_or_insert_async(version, compress).await
        } else {
            // Equal times may hide another content.
            compress.await
        }
    }

    async fn compress(&self, coding: Coding, entry: &Entry) -> io::Result<Compressed> {
        let (level, pieces) = (self.level(coding), &self.0.pieces);
        let bytes = match &entry.plain.content {
            Content::Memory(plain) => compress::bytes(plain.clone(), coding, level, pieces).await?,
            Content::File(file) => {
                let kibibytes = u32::try_from(file.length.div_ceil(1024)).map_err(io::Error::other)?;
                let _room = self.0.entries.room.try_acquire_many(kibibytes).map_err(io::Error::other)?;
                let _encoder = self.0.encoders.try_acquire().map_err(io::Error::other)?;
                compress::file(file.clone(), coding, level, pieces).await?
            }
        };
        let made = |bytes| Arc::new(entry.plain.made(Content::Memory(bytes), &entry.stat, coding));
        Ok(bytes.map(made))
    }

    /// Has the entry of a small file answer for the coding from now on.
    fn put_into_entry(&self, version: &Version, entry: &Arc<Entry>, compressed: &Compressed) {
        if matches!(entry.plain.content, Content::Memory(_)) {
            let coded = compressed.as_deref().map_or(Coded::No, |made| Coded::Made(made.clone()));
            self.0.entries.replace(&version.path, entry, Arc::new(entry.with(version.coding, coded)));
        }
    }

    fn level(&self, coding: Coding) -> u8 {
        self.0.options.compression.as_ref().map_or(1, |compression| compression.level(coding))
    }
}

/// The response that is there already, if a request needs no other: a whole representation, or a 304.
pub(super) fn ready(entry: &Entry, method: &Method, fields: &impl FieldLines) -> Option<Response> {
    if wants_range(method, fields) {
        return None;
    }
    let Choice::Ready(ready) = entry.choose(fields, false) else { return None };
    match conditional::evaluate(method, fields, &ready.validators) {
        Verdict::Proceed => Some(ready.answer_whole()),
        Verdict::NotModified => Some(ready.answer_not_modified()),
        Verdict::IgnoreRange | Verdict::PreconditionFailed => None,
    }
}

fn wants_range(method: &Method, fields: &impl FieldLines) -> bool {
    *method == Method::GET && fields.has(KnownField::Range)
}

fn one_part(ready: &Representation, span: Span, size: u64) -> Response {
    let mut response = partial(ready);
    response.headers_mut().insert(CONTENT_RANGE, span.content_range(size));
    response.body = match ready.content.part(span) {
        BodyPiece::Data(bytes) => Body::Bytes(bytes),
        BodyPiece::File(range) => Body::File(range),
        BodyPiece::Trailers(_) => unreachable!("a file has none"),
    };
    response
}

fn several_parts(ready: &Representation, spans: &[Span], size: u64) -> Response {
    let plan = range::multipart(spans, size, ready.whole.headers().get(CONTENT_TYPE), unguessable());
    let mut response = partial(ready);
    response.headers_mut().insert(CONTENT_TYPE, plan.content_type);
    let mut parts = VecDeque::with_capacity(plan.parts.len() * 2 + 1);
    for (head, span) in plan.parts {
        parts.push_back(BodyPiece::Data(head));
        parts.push_back(ready.content.part(span));
    }
    parts.push_back(BodyPiece::Data(plan.end));
    response.body = Body::Stream(Box::new(parts));
    response
}

/// A 206 has the fields that the 200 would have (RFC 9110 §15.3.7).
fn partial(ready: &Representation) -> Response {
    let mut response = Response::new(StatusCode::PARTIAL_CONTENT);
    *response.headers_mut() = ready.whole.headers().clone();
    response
}

/// A number that nobody outside can foresee: the standard library keys its hashes from the system's randomness.
fn unguessable() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(0));
    half() << 64 | half()
}
