//! From an entry and a request to the answer: conditions, ranges, codings.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use http::header::{CONTENT_RANGE, CONTENT_TYPE, RANGE};
use http::{HeaderMap, Method, StatusCode};
use rudy_http::semantics::conditional::{self, Verdict};
use rudy_http::semantics::negotiation::Coding;
use rudy_http::semantics::range::{self, Ranges, Span};
use rudy_net::{Body, Part, Reply, Request, Response};
use tokio::sync::OwnedSemaphorePermit;

use super::Files;
use super::compress::{self, CompressedFile};
use super::entry::{Choice, Coded, Content, Entry, Representation};

impl Files {
    /// Answers with what is in `entry`, which is kept under `key`.
    pub(super) fn respond(&self, request: &Request, key: &str, entry: &Arc<Entry>) -> Reply {
        let headers = request.headers();
        let conditional = conditional::has_conditions(headers);
        let wants_range = conditional && *request.method() == Method::GET && headers.contains_key(RANGE);
        let (ready, made) = match entry.choose(headers, wants_range) {
            Choice::Ready(ready) => (ready, None),
            Choice::Make(coding) => (&entry.plain, Some(coding)),
        };
        match made {
            None if !conditional => Reply::Now(ready.answer_whole()),
            None => Reply::Now(self.answer_conditional(request, ready)),
            Some(coding) => self.respond_compressed(request, key, entry, coding),
        }
    }

    fn answer_conditional(&self, request: &Request, ready: &Representation) -> Response {
        let headers = request.headers();
        match conditional::evaluate(request.method(), headers, &ready.validators) {
            Verdict::NotModified => ready.answer_not_modified(),
            Verdict::PreconditionFailed => self.error(
                StatusCode::PRECONDITION_FAILED,
                headers,
                "The file is not what the request expects.",
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
                let mut response = self.error(status, headers, &format!("The file has {size} bytes."));
                response.headers_mut().insert(CONTENT_RANGE, range::unsatisfied_content_range(size));
                response
            }
        }
    }

    /// Answers with a coding that is to be made. The conditions come first: they may spare the work.
    fn respond_compressed(&self, request: &Request, key: &str, entry: &Arc<Entry>, coding: Coding) -> Reply {
        let Some(compression) = &self.0.options.compression else {
            return Reply::Now(self.answer_conditional(request, &entry.plain));
        };
        let made = entry.plain.made(entry.plain.content.clone(), &entry.stat, coding);
        let verdict = conditional::evaluate(request.method(), request.headers(), &made.validators);
        if matches!(verdict, Verdict::NotModified | Verdict::PreconditionFailed) {
            return Reply::Now(self.answer_conditional(request, &made));
        }
        // Encoders take memory. When as many are at work as may be, the file is sent as it is.
        let Ok(permit) = self.0.streams.clone().try_acquire_owned() else {
            return Reply::Now(entry.plain.answer_whole());
        };
        match &entry.plain.content {
            Content::Memory(_) => self.compress_once(key, entry, coding, compression.level, permit),
            Content::File(file) => match CompressedFile::new(file.clone(), coding, compression.level, permit)
            {
                Ok(body) => Reply::Now(Response::prepared(made.whole.clone(), Body::Stream(Box::pin(body)))),
                Err(_) => Reply::Now(entry.plain.answer_whole()),
            },
        }
    }

    /// Compresses on the pool for blocking work and keeps the result. Two who ask at once both do the work.
    fn compress_once(
        &self,
        key: &str,
        entry: &Arc<Entry>,
        coding: Coding,
        level: u8,
        permit: OwnedSemaphorePermit,
    ) -> Reply {
        let (files, key, entry) = (self.clone(), key.to_owned(), entry.clone());
        Reply::Later(Box::pin(async move {
            let source = entry.clone();
            let work = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let Content::Memory(plain) = &source.plain.content else { return None };
                let bytes = compress::whole(plain, coding, level).ok()?;
                (bytes.len() < plain.len()).then(|| Content::Memory(bytes.into()))
            });
            // What does not shrink, or fails, is sent as it is from now on.
            let coded = match work.await {
                Ok(Some(content)) => Coded::Made(entry.plain.made(content, &entry.stat, coding)),
                _ => Coded::No,
            };
            let response = match &coded {
                Coded::Made(made) => made.answer_whole(),
                _ => entry.plain.answer_whole(),
            };
            files.0.entries.replace(&key, &entry, Arc::new(entry.with(coding, coded)));
            response
        }))
    }
}

fn one_part(ready: &Representation, span: Span, size: u64) -> Response {
    let mut response = partial(ready);
    response.headers_mut().insert(CONTENT_RANGE, span.content_range(size));
    response.body = match ready.content.part(span) {
        Part::Bytes(bytes) => Body::Bytes(bytes),
        Part::File(range) => Body::File(range),
    };
    response
}

fn several_parts(ready: &Representation, spans: &[Span], size: u64) -> Response {
    let plan = range::multipart(spans, size, ready.whole.headers().get(CONTENT_TYPE), unguessable());
    let mut response = partial(ready);
    response.headers_mut().insert(CONTENT_TYPE, plan.content_type);
    let mut parts = VecDeque::with_capacity(plan.parts.len() * 2 + 1);
    for (head, span) in plan.parts {
        parts.push_back(Part::Bytes(head));
        parts.push_back(ready.content.part(span));
    }
    parts.push_back(Part::Bytes(plan.end));
    response.body = Body::Parts(parts);
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
