//! Responds with an entry: preconditions, ranges, codings.

use std::io;
use std::sync::Arc;

use http::{Method, StatusCode};
use rudy_message::semantics::conditional::{self, Verdict};
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::fields::has_date_in_if_range;
use rudy_pipeline::compression::{CompressedBody, Effort, Encoder, Of};
use rudy_pipeline::{pages, ranges};
use rudy_service::{Body, Reply, Request, Response};

use super::Files;
use super::cache::{Compressed, CompressedKey};
use super::entry::{Coded, Content, Entry, Representation, Selection};

impl Files {
    /// Responds with `entry`, whose key is `key`.
    pub(super) fn respond(&self, request: &Request<'_>, key: &str, entry: &Arc<Entry>) -> Reply {
        self.negotiate(request, key, entry).map(|mut response| {
            response.is_negotiated = true;
            response
        })
    }

    fn negotiate(&self, request: &Request<'_>, key: &str, entry: &Arc<Entry>) -> Reply {
        let (method, fields) = (request.method(), &**request);
        if let Some(response) = ready(entry, method, fields) {
            return response.into();
        }
        // RFC 9110 §8.8.1: a date is no strong validator beside other codings. With one in `If-Range`, the client may have the beginning of
        // the coding that it would get without a range.
        let wants_range = has_range(method, fields) && !has_date_in_if_range(fields);
        match entry.select(fields, wants_range) {
            Selection::Ready(ready) => respond_conditionally(request, ready).into(),
            Selection::Compress(coding) => self.respond_compressed(request, key, entry, coding),
        }
    }

    /// Responds with a coding compressed on the fly. Evaluates the preconditions first, which can make that unnecessary.
    fn respond_compressed(
        &self,
        request: &Request<'_>,
        key: &str,
        entry: &Arc<Entry>,
        coding: Coding,
    ) -> Reply {
        let key = CompressedKey { path: key.into(), coding, stat: entry.stat };
        if let Some(compressed) = self.0.entries.compressed.get(&key) {
            self.update_entry(&key, entry, &compressed);
            let ready = compressed.as_deref().unwrap_or(&entry.plain);
            return Reply::Now(respond_conditionally(request, ready));
        }
        let plan = entry.plain.compressed(entry.plain.content.clone(), &entry.stat, coding);
        let verdict = conditional::evaluate(request.method(), &**request, &plan.validators);
        if matches!(verdict, Verdict::NotModified | Verdict::PreconditionFailed) {
            return Reply::Now(respond_conditionally(request, &plan));
        }
        let (files, entry) = (self.clone(), entry.clone());
        Reply::Later(Box::pin(async move {
            let Ok(compressed) = files.compress_once(&key, &entry).await else {
                return files.stream(&entry, coding, &plan).unwrap_or_else(|| entry.plain.ok_response());
            };
            files.update_entry(&key, &entry, &compressed);
            compressed.as_deref().unwrap_or(&entry.plain).ok_response()
        }))
    }

    /// Compresses a file while it is sent. Returns `None` if all encoders are in use. `plan` has the head of the response.
    fn stream(&self, entry: &Entry, coding: Coding, plan: &Representation) -> Option<Response> {
        let Content::File(file) = &entry.plain.content else { return None };
        let permit = self.0.encoders.clone().try_acquire_owned().ok()?;
        let encoder = Encoder::new(coding, self.level(coding), Some(file.length), Effort::Live).ok()?;
        let body = CompressedBody::new(Body::File(file.clone()), encoder, permit);
        Some(Response::prepared(plan.whole.clone(), Body::Stream(Box::new(body))))
    }

    /// Compresses a file and keeps the result. Fails at once if the result does not fit.
    async fn compress_once(&self, key: &CompressedKey, entry: &Entry) -> io::Result<Compressed> {
        let (coding, kept) = (key.coding, &self.0.entries.compressed);
        let compress = async {
            let body = entry.plain.content.all();
            let bytes = kept.compress(body, coding, self.level(coding), &self.0.encoders).await?;
            let compressed =
                |bytes| Arc::new(entry.plain.compressed(Content::Memory(bytes), &entry.stat, coding));
            Ok(bytes.map(compressed))
        };
        if entry.mtime_is_stable {
            kept.get_or_make(key, compress).await
        } else {
            // The content can change without a change of the modification time.
            compress.await
        }
    }

    /// Adds the result to the entry of a small file.
    fn update_entry(&self, key: &CompressedKey, entry: &Arc<Entry>, compressed: &Compressed) {
        if matches!(entry.plain.content, Content::Memory(_)) {
            let coded = compressed.as_deref().map_or(Coded::No, |ready| Coded::Cached(ready.clone()));
            self.0.entries.replace(&key.path, entry, Arc::new(entry.with(key.coding, coded)));
        }
    }

    fn level(&self, coding: Coding) -> u8 {
        self.0.compression.as_ref().map_or(1, |compression| compression.level(coding, Of::Files))
    }
}

fn respond_conditionally(request: &Request<'_>, ready: &Representation) -> Response {
    match conditional::evaluate(request.method(), &**request, &ready.validators) {
        Verdict::NotModified => ready.not_modified_response(),
        Verdict::PreconditionFailed => pages::error(
            StatusCode::PRECONDITION_FAILED,
            request.headers(),
            "The file does not match the preconditions of the request.",
        ),
        Verdict::Proceed if *request.method() == Method::GET => respond_with_ranges(request, ready),
        Verdict::Proceed | Verdict::IgnoreRange => ready.ok_response(),
    }
}

fn respond_with_ranges(request: &Request<'_>, ready: &Representation) -> Response {
    let size = ready.content.length();
    let whole = ready.ok_response();
    let Some(ranges) = ranges::requested(&**request, size) else { return whole };
    ranges::select(whole, &ranges, size, |part| Some(part.start))
        .unwrap_or_else(|| ranges::unsatisfiable(request.headers(), "file", size))
}

/// Returns a 200 or 304 with an encoded head if the request needs nothing else.
pub(super) fn ready(entry: &Entry, method: &Method, fields: &impl FieldLines) -> Option<Response> {
    if has_range(method, fields) {
        return None;
    }
    let Selection::Ready(ready) = entry.select(fields, false) else { return None };
    match conditional::evaluate(method, fields, &ready.validators) {
        Verdict::Proceed => Some(ready.ok_response()),
        Verdict::NotModified => Some(ready.not_modified_response()),
        Verdict::IgnoreRange | Verdict::PreconditionFailed => None,
    }
}

fn has_range(method: &Method, fields: &impl FieldLines) -> bool {
    *method == Method::GET && fields.has(KnownField::Range)
}
