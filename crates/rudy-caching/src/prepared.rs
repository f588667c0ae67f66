//! Hits from the head of a request alone: each worker keeps the encoded heads of the responses that it has sent.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use http::header::{CONTENT_ENCODING, RANGE};
use http::uri::Scheme;
use http::{Method, Request as HttpRequest};
use http_body::Body as _;
use rudy_cache::{CacheStatus, Content, HttpDate, Seconds, Verdict};
use rudy_message::semantics::field::{FieldLines, KnownField};
use rudy_message::{PreparedHead, RequestHead};
use rudy_pipeline::request_state::{HasRequestState, HasResponseState, RequestState};
use rudy_runtime::{is_planted, lose};
use rudy_service::{Body, Client, Request, Response};
use rudy_store::{self as store, Object};

use super::spellings::Spellings;
use super::store::OpenStore;
use super::{Shared, now, reply};

thread_local! {
    /// By the hash of the URL and of the accepted codings, whatever their spelling.
    static PREPARED: RefCell<Spellings<Prepared>> = const { RefCell::new(Spellings::new()) };
}

/// An object, and the heads of the responses from it in one second.
struct Prepared {
    /// Weak, because a worker keeps it after a reload: the old store would never give up its folder.
    shared: Weak<Shared>,
    /// The URL as the client spelled it.
    is_secure: bool,
    host: Box<[u8]>,
    target: Box<[u8]>,
    /// Weak, so that the memory of the store decides which objects remain.
    object: Weak<Object>,
    at: HttpDate,
    whole: Option<Arc<PreparedHead>>,
    not_modified: Option<Arc<PreparedHead>>,
}

/// Responds with a fresh object that this worker has sent before. `None` if anything else might count.
pub(super) fn respond(
    shared: &Arc<Shared>,
    open: &OpenStore,
    request: &Request<'_>,
    client: &Client<'_>,
) -> Option<Response> {
    let head = request.unchanged().filter(|head| is_plain(shared, head) && is_public(request, client))?;
    let is_secure = client.scheme() == Scheme::HTTPS;
    let hash = hash(head.host(), head.target(), head.lines(KnownField::AcceptEncoding));
    PREPARED.with_borrow_mut(|table| {
        let is_it = |prepared: &Prepared| prepared.is_of(shared, (head.host(), head.target()), is_secure);
        let prepared = table.get_mut(hash, is_it)?;
        let object = prepared.object.upgrade().filter(|object| open.store.is_current(object))?;
        let mut response = prepared.respond(&object, shared, head)?;
        if let Some(content) = shared.content(open, &object) {
            response.state_mut().content = Some(content);
        }
        Some(response)
    })
}

/// Keeps an object for requests with the same spelling, after a hit.
pub(super) fn keep(
    shared: &Arc<Shared>,
    request: &HttpRequest<()>,
    host: &[u8],
    target: &[u8],
    is_secure: bool,
    object: &Arc<Object>,
) {
    let stored = object.stored();
    // See `Stored::suits`: the decision whether the client accepts the coding is made with all fields.
    let is_coded = stored.variant().names().is_empty() && stored.fields().contains_key(CONTENT_ENCODING);
    let is_kept = !is_coded
        && matches!(object.body(), store::Body::Memory(_))
        && *stored.content() == Content::Whole
        && !request.headers().contains_key(RANGE);
    if !is_kept {
        return;
    }
    let hash = hash(host, target, request.headers().lines(KnownField::AcceptEncoding));
    if is_planted("a prepared response that keeps a store") {
        lose(shared.clone());
    }
    let prepared = Prepared {
        shared: Arc::downgrade(shared),
        is_secure,
        host: host.into(),
        target: target.into(),
        object: Arc::downgrade(object),
        at: HttpDate::from_unix_seconds(0),
        whole: None,
        not_modified: None,
    };
    let is_replaced =
        |other: &Prepared| other.is_of(shared, (host, target), is_secure) || other.object.strong_count() == 0;
    PREPARED.with_borrow_mut(|table| table.insert(hash, prepared, is_replaced));
}

fn hash<'a>(host: &[u8], target: &[u8], codings: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (host, target).hash(&mut hasher);
    codings.for_each(|line| line.hash(&mut hasher));
    hasher.finish()
}

/// Whether no field of the request affects the decision, except those that [`Prepared::respond`] evaluates.
fn is_plain(shared: &Shared, head: &RequestHead<'_>) -> bool {
    const SELECTING: [KnownField; 5] = [
        KnownField::Range,
        KnownField::IfRange,
        KnownField::IfMatch,
        KnownField::IfUnmodifiedSince,
        KnownField::Upgrade,
    ];
    let is_read = matches!(*head.method(), Method::GET | Method::HEAD);
    is_read
        && !SELECTING.iter().any(|field| head.has(*field))
        && (!head.has(KnownField::Cookie) || !shared.rules.need_cookies())
        && !head.fields().any(|(name, _)| counts(shared, name.as_bytes()))
}

/// Whether the response does not depend on who sends the request, and the request is for its own URL.
fn is_public(request: &Request<'_>, client: &Client<'_>) -> bool {
    let RequestState { error_page_for: None, original_target: None, key_url: None, .. } = request.state()
    else {
        return false;
    };
    let has_certificate = client.tls.as_ref().is_some_and(|tls| tls.client_certificate.is_some());
    request.body().is_end_stream() && !request.state().is_of_user() && !has_certificate
}

/// Whether a field may change the decision.
fn counts(shared: &Shared, name: &[u8]) -> bool {
    match name.len() {
        6 => !shared.policy.ignore_client && name.eq_ignore_ascii_case(b"pragma"),
        13 => !shared.policy.ignore_client && name.eq_ignore_ascii_case(b"cache-control"),
        _ => false,
    }
}

impl Prepared {
    fn is_of(&self, shared: &Arc<Shared>, (host, target): (&[u8], &[u8]), is_secure: bool) -> bool {
        std::ptr::eq(self.shared.as_ptr(), Arc::as_ptr(shared))
            && self.is_secure == is_secure
            && *self.target == *target
            && *self.host == *host
    }

    fn respond(&mut self, object: &Object, shared: &Shared, head: &RequestHead<'_>) -> Option<Response> {
        let (stored, now) = (object.stored(), now());
        let (age, ttl) = stored.fresh_at(now)?;
        if stored.variant().matches_view(head) != Some(true) {
            return None;
        }
        if self.at != now {
            (self.at, self.whole, self.not_modified) = (now, None, None);
        }
        match stored.verdict_of(head.method(), head) {
            Verdict::Proceed => {
                let encoded = match &self.whole {
                    Some(encoded) => encoded.clone(),
                    None => self.whole.insert(encode(shared, whole(object, age), ttl)).clone(),
                };
                let store::Body::Memory(bytes) = object.body() else { return None };
                Some(Response::prepared(encoded, Body::Bytes(bytes.clone())))
            }
            Verdict::NotModified => {
                let encoded = if let Some(encoded) = &self.not_modified {
                    encoded.clone()
                } else {
                    let response = reply::not_modified(stored, now);
                    self.not_modified.insert(encode(shared, response, ttl)).clone()
                };
                Some(Response::prepared(encoded, Body::Empty))
            }
            Verdict::IgnoreRange | Verdict::PreconditionFailed => None,
        }
    }
}

fn whole(object: &Object, age: Seconds) -> Response {
    let mut response = Response::new(object.stored().status());
    *response.headers_mut() = reply::fields(object.stored(), age);
    response
}

fn encode(shared: &Shared, mut response: Response, ttl: Seconds) -> Arc<PreparedHead> {
    let status = CacheStatus { hit: true, ttl: Some(ttl.get().into()), ..CacheStatus::default() };
    shared.add_status(&mut response, &status, None);
    Arc::new(PreparedHead::new(response.status(), std::mem::take(response.headers_mut())))
}
