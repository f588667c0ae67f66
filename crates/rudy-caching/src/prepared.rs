//! Hits from the head of a request alone: each worker keeps the encoded heads of the responses that it has sent.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

use http::header::{AGE, CONTENT_ENCODING, RANGE};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, Request as HttpRequest, StatusCode};
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
use super::{CACHE_STATUS, Shared, now, reply};

thread_local! {
    /// By the hash of the URL and of the accepted codings, whatever their spelling.
    static PREPARED: RefCell<Spellings<Prepared>> = const { RefCell::new(Spellings::new()) };
}

/// An object, and the heads of the responses from it.
struct Prepared {
    /// Weak, because a worker keeps it after a reload: the old store would never give up its folder.
    shared: Weak<Shared>,
    /// The URL as the client spelled it: the host, and then the target.
    is_secure: bool,
    host_bytes: usize,
    url: Box<[u8]>,
    /// Weak, so that the memory of the store decides which objects remain.
    object: Weak<Object>,
    whole: Option<Aging>,
    not_modified: Option<Aging>,
}

/// A head without its age, and with that of one second.
struct Aging {
    ageless: Arc<PreparedHead>,
    at: HttpDate,
    aged: Arc<PreparedHead>,
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
        host_bytes: host.len(),
        url: [host, target].concat().into(),
        object: Arc::downgrade(object),
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
            && self.url.split_at(self.host_bytes) == (host, target)
    }

    fn respond(&mut self, object: &Object, shared: &Shared, head: &RequestHead<'_>) -> Option<Response> {
        let (stored, now) = (object.stored(), now());
        let (age, ttl) = stored.fresh_at(now)?;
        if stored.variant().matches_view(head) != Some(true) {
            return None;
        }
        let added = || shared.aged(age, ttl);
        match stored.verdict_of(head.method(), head) {
            Verdict::Proceed => {
                let store::Body::Memory(bytes) = object.body() else { return None };
                let ageless = || PreparedHead::new(stored.status(), reply::ageless_fields(stored));
                Some(Response::prepared(
                    Aging::at(&mut self.whole, now, ageless, added),
                    Body::Bytes(bytes.clone()),
                ))
            }
            Verdict::NotModified => {
                let fields = || reply::of_not_modified(reply::ageless_fields(stored));
                let ageless = || PreparedHead::new(StatusCode::NOT_MODIFIED, fields());
                Some(Response::prepared(Aging::at(&mut self.not_modified, now, ageless, added), Body::Empty))
            }
            Verdict::IgnoreRange | Verdict::PreconditionFailed => None,
        }
    }
}

impl Aging {
    /// Returns the head in a second, of which `added` is what changes.
    fn at(
        this: &mut Option<Self>,
        now: HttpDate,
        ageless: impl FnOnce() -> PreparedHead,
        added: impl FnOnce() -> Vec<(HeaderName, HeaderValue)>,
    ) -> Arc<PreparedHead> {
        match this {
            Some(known) if known.at == now => known.aged.clone(),
            Some(known) => {
                known.at = now;
                known.aged = Arc::new(PreparedHead::with(&known.ageless, added()));
                known.aged.clone()
            }
            None => {
                let ageless = Arc::new(ageless());
                let aged = Arc::new(PreparedHead::with(&ageless, added()));
                *this = Some(Self { ageless, at: now, aged: aged.clone() });
                aged
            }
        }
    }
}

impl Shared {
    /// Returns the fields of a hit that change every second.
    fn aged(&self, age: Seconds, ttl: Seconds) -> Vec<(HeaderName, HeaderValue)> {
        let status = CacheStatus { hit: true, ttl: Some(ttl.get().into()), ..CacheStatus::default() };
        let status = self.status_value(&status).ok().map(|value| (CACHE_STATUS.clone(), value));
        [(AGE, HeaderValue::from(age.get()))].into_iter().chain(status).collect()
    }
}
