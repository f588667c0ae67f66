//! A request to the origin, as a task: what it changes in the store, and its response for the requests that wait.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rudy_cache::{Content, Decision, Exchange, Forward, NotStored, Policy, Stored, Verdict, is_error};
use rudy_pipeline::pages;
use rudy_pipeline::request_state::{HasRequestState, HasResponseState};
use rudy_runtime::{blocking, is_planted};
use rudy_service::{Body, Head, Response};
use rudy_store::{Epoch, Object, SITE};

use super::flights::{Incoming, Progress, Registration, Validated};
use super::origin::Origin;
use super::pump::{self, Source};
use super::purge::TAG_FIELDS;
use super::store::OpenStore;
use super::subject::{Subject, varies_by_client};
use super::table::RUDY_CACHE_CONTROL;
use super::waiting::{First, Waiting, passing_interim};
use super::{Shared, now, reply};

/// A part that does not complete a stored object has at least the size of the object divided by this, or it is not stored.
const PART_SHARE: u64 = 8;

/// A request to the origin.
pub(super) struct Fetch {
    pub(super) shared: Arc<Shared>,
    pub(super) open: Arc<OpenStore>,
    pub(super) origin: Origin,
    pub(super) subject: Subject,
    pub(super) decision: Decision,
    /// What the decision is about.
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) registration: Registration,
    /// The first request. `None` for a validation in the background, and after the response.
    pub(super) first: Option<Waiting>,
    /// Whether it is a validation that no client waits for.
    pub(super) is_background: bool,
}

/// A response that was received, and the times around it.
struct Received {
    response: Response,
    exchange: Exchange,
    epoch: Epoch,
}

impl Fetch {
    /// Runs the request in a task, which ends when no client is left to wait for it.
    pub(super) fn start(self) {
        rudy_runtime::spawn(self.run());
    }

    async fn run(mut self) {
        let Some(received) = self.request().await else { return };
        if let Some(received) = self.use_stored(received).await {
            self.receive(received).await;
        }
    }

    /// Sends the request that the decision requires. `None` if all clients have left.
    async fn request(&mut self) -> Option<Received> {
        loop {
            let epoch = self.open.store.epoch();
            let requested_at = now();
            let mut head = self.origin.request();
            head.state_mut().is_in_flight = true;
            self.decision.prepare(&self.stored(), head.headers_mut());
            let is_conditional = [IF_NONE_MATCH, IF_MODIFIED_SINCE].iter().any(|name| head.contains(name));
            let mut sending = pin!(passing_interim(self.origin.send(head), self.first.as_ref()));
            let response = loop {
                let flight = self.registration.flight.clone();
                tokio::select! {
                    biased;
                    response = &mut sending => break response,
                    () = flight.closed(), if !self.is_background => {
                        if self.registration.end_if_abandoned() {
                            return None;
                        }
                    }
                }
            };
            let is_answer = is_conditional || response.status() != StatusCode::NOT_MODIFIED;
            let response = declare_freshness(if is_answer { response } else { self.unrequested() });
            let received =
                Received { response, exchange: Exchange { requested_at, received_at: now() }, epoch };
            if self.fits(&received) {
                return Some(received);
            }
            // Without conditions and ranges of the cache, every response fits.
            self.decision = Decision::Forward(Forward::Stale);
        }
    }

    /// Returns the response in place of a 304 to a request without conditions: its client may have nothing stored.
    fn unrequested(&self) -> Response {
        let url = String::from_utf8_lossy(self.subject.key.as_bytes());
        let kind = "the upstream has sent 304 to a request without conditions";
        self.open.log.recurring_error(kind, &format!("{kind}: {} {url}", self.subject.head.method()));
        let explanation = "The upstream has sent 304 Not Modified to a request without conditions.";
        pages::error(StatusCode::BAD_GATEWAY, self.subject.head.headers(), explanation)
    }

    /// Whether a response fits what the client has requested. A 304 for another object, or a part that cannot be combined, does not.
    fn fits(&self, received: &Received) -> bool {
        let (status, view) = (received.response.status(), self.with_keys(sized_view(&received.response)));
        match &self.decision {
            Decision::Validate { .. } | Decision::StaleHit(_) if status == StatusCode::NOT_MODIFIED => {
                let mut stored = self.cloned();
                !self.policy().freshen(&self.subject.head, &view, &mut stored, received.exchange).is_empty()
            }
            Decision::Extend(selected) if !self.subject.head.headers().contains_key(RANGE) => {
                let mut combined = self.objects[selected.index].stored().clone();
                let span = self.policy().combine(&self.subject.head, &view, &mut combined, received.exchange);
                match status {
                    StatusCode::PARTIAL_CONTENT => span.is_ok() && *combined.content() == Content::Whole,
                    status => status != StatusCode::RANGE_NOT_SATISFIABLE,
                }
            }
            _ => true,
        }
    }

    /// Adds the keys of the settings to the `Vary` of a response that updates a stored one: it replaces one that has them.
    fn with_keys(&self, mut view: http::Response<()>) -> http::Response<()> {
        if view.headers().contains_key(VARY) {
            self.shared.rules.add_vary(&self.subject, view.headers_mut());
        }
        view
    }

    fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    fn stored(&self) -> Vec<&Stored> {
        self.objects.iter().map(|object| object.stored()).collect()
    }

    fn cloned(&self) -> Vec<Stored> {
        self.objects.iter().map(|object| object.stored().clone()).collect()
    }

    /// Lets the waiting requests respond with a stored object, if the response is about one: a 304, or an error that it replaces.
    async fn use_stored(&mut self, received: Received) -> Option<Received> {
        let status = received.response.status();
        let object = match &self.decision {
            Decision::Validate { .. } | Decision::StaleHit(_) if status == StatusCode::NOT_MODIFIED => {
                let view = self.with_keys(view(&received.response));
                let (exchange, epoch) = (received.exchange, received.epoch);
                self.freshen(&view, exchange, epoch).await
            }
            Decision::Validate { selected, stale_if_error: true, .. } | Decision::StaleHit(selected)
                if is_error(status) =>
            {
                self.open.marks.set_failed(&self.subject.key);
                Some(self.objects[selected.index].clone())
            }
            _ => None,
        };
        let Some(object) = object else { return Some(received) };
        let unshared = match status {
            StatusCode::NOT_MODIFIED => {
                self.policy().unshared_fields(received.response.headers(), object.stored().fields())
            }
            // It replaces an error, whose fields are not about it.
            _ => HeaderMap::new(),
        };
        self.send_first(First::Ready(object.clone(), Validated { status }, unshared));
        self.registration.flight.send_replace(Progress::Ready(object, Validated { status }));
        None
    }

    /// The client of the first request may have left.
    fn send_first(&mut self, first: First) {
        if let Some(waiting) = self.first.take() {
            waiting.respond(first);
        }
    }

    /// Updates the stored objects that a 304 is about, and returns the one that is the response.
    async fn freshen(
        &self,
        view: &http::Response<()>,
        exchange: Exchange,
        epoch: Epoch,
    ) -> Option<Arc<Object>> {
        let mut stored = self.cloned();
        let changes = self.policy().freshen(&self.subject.head, view, &mut stored, exchange);
        let mut newest = None;
        for change in changes {
            let (object, stored) = (self.objects[change.index].clone(), stored[change.index].clone());
            let changed = self.change(object.clone(), stored.clone(), change.kept, epoch).await;
            // The response has the fields of the 304 (RFC 9111 §4.3.4), even if they cannot be stored: the object may have been
            // replaced, or another process stores.
            newest.get_or_insert_with(|| match changed {
                None if is_planted("fields of a 304 that are lost if they cannot be stored") => object,
                None => Arc::new(object.with_stored(stored)),
                Some(changed) => changed,
            });
        }
        newest
    }

    /// Updates or removes an object. Returns the updated one.
    async fn change(
        &self,
        object: Arc<Object>,
        stored: Stored,
        kept: Result<(), NotStored>,
        epoch: Epoch,
    ) -> Option<Arc<Object>> {
        let open = self.open.clone();
        let change = move || {
            if kept.is_ok() {
                return open.store.update(&object, stored, epoch).ok();
            }
            open.store.remove(&object);
            None
        };
        blocking(change).await.ok().flatten()
    }

    /// Receives a response from the origin, and stores it if possible. Otherwise it is for the first request only.
    async fn receive(mut self, received: Received) {
        let Received { mut response, exchange, epoch } = received;
        let stored = self.storable(&response, exchange);
        if stored.is_ok() && self.policy().remove_set_cookie {
            // Also if only a later one is stored, or for HEAD only that to a GET, so that all clients receive the same.
            response.headers_mut().remove(SET_COOKIE);
        }
        if self.decision == Decision::Forward(Forward::Bypass) {
            return self.pass(response, false);
        }
        if *self.subject.head.method() == Method::HEAD {
            let view = self.with_keys(view(&response));
            self.freshen_from_head(&view, exchange, epoch).await;
            return self.pass(response, false);
        }
        let Ok(stored) = stored else {
            let is_marked = !is_error(response.status()) && !self.subject.is_exclusive;
            return self.pass(response, is_marked);
        };
        let combined = self.combined(&response, exchange);
        let length = stored.declared_length().or_else(|| response.body.length());
        if combined.as_ref().is_some_and(|(old, combined)| !is_worth_a_copy(old, combined, length)) {
            return self.pass(response, false);
        }
        let (status, is_part) = (response.status(), response.status() == StatusCode::PARTIAL_CONTENT);
        let completes = combined.as_ref().filter(|(_, stored)| {
            *stored.content() == Content::Whole && !self.subject.head.headers().contains_key(RANGE)
        });
        let most = self.shared.object_bytes_max();
        let fill = self.open.store.fill_at_most(&self.subject.key, stored.clone(), length, epoch, most);
        let incoming = Incoming {
            stored: completes.map_or(stored, |(_, combined)| combined.clone()),
            source: fill.source(),
            is_stored: fill.is_stored(),
            part: (is_part && completes.is_none()).then(|| (status, response.headers().clone())),
            start: completes.map(|(object, _)| object.clone()),
            status,
            age: response.headers().get(http::header::AGE).cloned(),
            unshared: self.policy().unshared_fields(response.headers(), &HeaderMap::new()),
        };
        let is_short = matches!(response.body, Body::Bytes(_) | Body::Empty);
        // A client that gets 304 reads no body, and does not leave.
        let keep = is_short || self.is_background || self.is_not_modified(&incoming);
        let incoming = Arc::new(incoming);
        // Before the first byte: what is not stored is dropped without a reader.
        if let Some(reader) = fill.reader() {
            self.send_first(First::Incoming(incoming.clone(), reader));
        }
        self.announce(incoming, fill.waits_for_readers());
        let body = Source::new(std::mem::replace(&mut response.body, Body::Empty));
        let finished = pump::run(body, fill, &mut self.registration, keep, length).await;
        if let (Some(part), Some((whole, stored))) = (finished, combined) {
            self.store_combined(whole, part, stored, epoch).await;
        }
    }

    /// Whether the response to the first request is 304, by its own conditions.
    fn is_not_modified(&self, incoming: &Incoming) -> bool {
        incoming.part.is_none() && matches!(incoming.stored.verdict(&self.subject.head), Verdict::NotModified)
    }

    /// Lets the waiting requests receive a response, unless its slowest client would hold the others: then each sends its own request.
    fn announce(&self, incoming: Arc<Incoming>, is_held_by_slowest: bool) {
        let progress = if is_held_by_slowest {
            self.open.marks.set_not_stored(&self.subject.key);
            Progress::Nothing
        } else {
            self.open.marks.set_stored(&self.subject.key);
            Progress::Receiving(incoming)
        };
        self.registration.flight.send_replace(progress);
    }

    /// Returns the metadata of a response that can be stored, or that could be if it were for GET instead of HEAD.
    fn storable(&self, response: &Response, exchange: Exchange) -> Result<Stored, NotStored> {
        let is_own = response.state().is_own_error()
            || response.state().is_redirected
            || response.state().is_replacement
            || matches!(response.head, Head::Prepared(_))
            || matches!(response.body, Body::File(_) | Body::Silence);
        let is_live = matches!(&response.body, Body::Stream(stream) if stream.is_live());
        if is_own || is_live || response.upgrade.is_some() {
            // Pages and files of Rudy itself are no responses of an origin, and a live stream has no end.
            return Err(NotStored::NotCacheable);
        }
        if varies_by_client(response.headers()) {
            return Err(NotStored::VaryAny);
        }
        let mut view = sized_view(response);
        if TAG_FIELDS.iter().any(|name| view.headers().contains_key(name)) {
            view.headers_mut().insert(&SITE, self.shared.site.clone());
        }
        self.shared.rules.add_vary(&self.subject, view.headers_mut());
        let mut head = Cow::Borrowed(&self.subject.head);
        if head.method() == Method::HEAD {
            *head.to_mut().method_mut() = Method::GET;
        }
        let stored = self.policy().store(&head, &view, exchange)?;
        let is_too_long =
            response.body.length().is_some_and(|length| length > self.shared.object_bytes_max());
        if is_too_long { Err(NotStored::NotCacheable) } else { Ok(stored) }
    }

    /// Returns the incomplete object that a part extends, and its metadata with the part.
    fn combined(&self, response: &Response, exchange: Exchange) -> Option<(Arc<Object>, Stored)> {
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return None;
        }
        let view = self.with_keys(sized_view(response));
        self.objects.iter().find_map(|object| {
            let mut stored = object.stored().clone();
            let combined = self.policy().combine(&self.subject.head, &view, &mut stored, exchange);
            combined.is_ok().then(|| (object.clone(), stored))
        })
    }

    /// Stores the content of an incomplete object together with a part that was received.
    async fn store_combined(&self, old: Arc<Object>, part: Arc<Object>, stored: Stored, epoch: Epoch) {
        let (open, key) = (self.open.clone(), self.subject.key.clone());
        let most = self.shared.object_bytes_max();
        let copy = move || {
            let fill = open.store.fill_at_most(&key, stored.clone(), None, epoch, most);
            pump::copy_parts(&[&part, &old], stored.content(), fill)
        };
        // After an error, the part alone remains.
        let _ = blocking(copy).await;
    }

    async fn freshen_from_head(&self, view: &http::Response<()>, exchange: Exchange, epoch: Epoch) {
        let mut stored = self.cloned();
        let changes = self.policy().freshen_from_head(&self.subject.head, view, &mut stored, exchange);
        for change in changes {
            let (object, stored) = (self.objects[change.index].clone(), stored[change.index].clone());
            self.change(object, stored, change.kept, epoch).await;
        }
    }

    /// Passes a response on to the first request, and lets the others send their own.
    fn pass(mut self, mut response: Response, is_marked: bool) {
        if is_marked {
            self.open.marks.set_not_stored(&self.subject.key);
        }
        if response.status() == StatusCode::NOT_MODIFIED || !matches!(response.head, Head::Prepared(_)) {
            reply::make_public(response.headers_mut());
        }
        self.registration.flight.send_replace(Progress::Nothing);
        self.send_first(First::Response(response));
    }
}

/// Whether a part is stored with an object that it extends, for which both are written again: otherwise, clients could cause any number
/// of writes with small ranges.
fn is_worth_a_copy(old: &Object, combined: &Stored, part: Option<u64>) -> bool {
    let is_large = part.is_some_and(|part| part >= old.body().len() / PART_SHARE);
    *combined.content() == Content::Whole || is_large
}

/// Returns the head of a response in the form that the decisions need.
pub(super) fn view(response: &Response) -> http::Response<()> {
    let mut view = http::Response::new(());
    *view.status_mut() = response.status();
    *view.headers_mut() = response.headers().clone();
    // Only the cache sets it.
    view.headers_mut().remove(&SITE);
    view
}

/// As [`view`], with the length of the body: handlers have moved it from the fields.
fn sized_view(response: &Response) -> http::Response<()> {
    let mut view = view(response);
    if let Some(length) = response.body.length() {
        view.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    view
}

/// Adds how long an application lets this server use the response, unless the application has a field of its own for this cache.
fn declare_freshness(mut response: Response) -> Response {
    if let Some(expires) = response.take(|state| &mut state.expires)
        && response.header(&RUDY_CACHE_CONTROL).is_none()
    {
        let seconds = expires.seconds(now().unix_seconds());
        let directive = if seconds == 0 { "no-store".to_owned() } else { format!("max-age={seconds}") };
        if let Ok(directive) = HeaderValue::try_from(directive) {
            response.headers_mut().insert(RUDY_CACHE_CONTROL, directive);
        }
    }
    response
}
