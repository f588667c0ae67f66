//! A request that needs more than the memory of the store: what is on disk, or the origin.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use rudy_cache::{CacheStatus, Content, Decision, Forward, HttpDate, Stored, is_error};
use rudy_pipeline::pages;
use rudy_pipeline::request_state::{HasRequestState, HasResponseState};
use rudy_runtime::{blocking, clock, is_planted, watch};
use rudy_service::Response;
use rudy_store::{Access, Found, Object};
use tokio::time::timeout_at;

use super::fetch::Fetch;
use super::flights::{Incoming, Place, Progress, Registration, storing};
use super::origin::Origin;
use super::store::OpenStore;
use super::subject::Subject;
use super::waiting::{First, Waiting};
use super::{Shared, now, reply};

/// How often a request joins another one whose response does not suit it, before it is sent by itself.
const ATTEMPTS: u32 = 4;

/// A request, and what it needs until its response.
pub(super) struct Visit {
    pub(super) shared: Arc<Shared>,
    pub(super) open: Arc<OpenStore>,
    pub(super) subject: Subject,
    pub(super) origin: Origin,
}

/// What the stored objects lead to.
pub(super) enum Attempt {
    /// A response, and the object that it is from.
    Hit(Response, Arc<Object>),
    /// A response from a stale object, which has to be validated.
    Stale(Response, Decision),
    /// 504: the client wants nothing but a stored response.
    OnlyIfCached(Response),
    /// A request to the origin.
    Fetch(Decision),
}

/// Decides by the stored objects.
pub(super) fn attempt(shared: &Shared, open: &OpenStore, subject: &Subject, found: &Found) -> Attempt {
    let now = now();
    let stored: Vec<&Stored> = found.objects.iter().map(|object| object.stored()).collect();
    let mut decision = shared.policy.lookup(&subject.head, &stored, now);
    if decision == Decision::Forward(Forward::UriMiss) && found.has_variants {
        decision = Decision::Forward(Forward::VaryMiss);
    }
    let respond = |index: usize, status: &CacheStatus| {
        let object = &found.objects[index];
        let mut response = reply::of_object(object, &subject.head, now, shared.content(open, object));
        shared.add_status(&mut response, status, subject.observer.as_ref());
        (response, object.clone())
    };
    let status = CacheStatus::of(&decision);
    match decision {
        Decision::Hit(selected) => {
            let (response, object) = respond(selected.index, &status);
            Attempt::Hit(response, object)
        }
        Decision::StaleHit(selected) => Attempt::Stale(respond(selected.index, &status).0, decision),
        // Reloads have an object validated at most once a second.
        Decision::Validate { selected, reason: Forward::Request, .. }
            if !shared.table.follows_no_cache && received_now(stored[selected.index], now) =>
        {
            let status = CacheStatus { hit: true, ttl: Some(selected.ttl), ..CacheStatus::default() };
            let (response, object) = respond(selected.index, &status);
            Attempt::Hit(response, object)
        }
        // So does an origin that fails.
        Decision::Validate { selected, stale_if_error: true, .. } if open.marks.has_failed(&subject.key) => {
            let status = CacheStatus { hit: true, ttl: Some(selected.ttl), ..CacheStatus::default() };
            let (response, object) = respond(selected.index, &status);
            Attempt::Hit(response, object)
        }
        Decision::OnlyIfCached => {
            let explanation = "The response is not in the cache, and the request forbids to ask the origin.";
            let mut response = pages::error(StatusCode::GATEWAY_TIMEOUT, subject.head.headers(), explanation);
            shared.add_status(&mut response, &status, subject.observer.as_ref());
            Attempt::OnlyIfCached(response)
        }
        Decision::Validate { .. } | Decision::Extend(_) | Decision::Forward(_) => Attempt::Fetch(decision),
    }
}

fn received_now(stored: &Stored, now: HttpDate) -> bool {
    stored.received_at() == now
}

/// What became of a request that joined another one.
#[expect(clippy::large_enum_variant, reason = "it is matched at once")]
enum Waited {
    Response(Response),
    /// The response does not suit this request, but another one in flight may.
    Other,
    /// The response is for the first request only.
    Alone,
    /// The other request took too long.
    TooLong,
}

impl Visit {
    /// Looks on disk, and responds.
    pub(super) async fn look_up(self) -> Response {
        let found = self.lookup().await;
        self.respond(found).await
    }

    /// Responds from what was found, or from the origin.
    pub(super) async fn respond(self, mut found: Found) -> Response {
        let mut is_alone = self.subject.is_exclusive || self.open.marks.is_not_stored(&self.subject.key);
        let until = clock::now() + self.shared.table.wait();
        let mut first = None;
        for _ in 0..=ATTEMPTS {
            let decision = match attempt(&self.shared, &self.open, &self.subject, &found) {
                Attempt::Hit(response, _) | Attempt::OnlyIfCached(response) => return response,
                Attempt::Stale(response, decision) => {
                    // The validation begins a flight of its own.
                    drop(first);
                    self.validate(decision, found.objects);
                    return response;
                }
                Attempt::Fetch(decision) => decision,
            };
            if let Some(registration) = first {
                return self.lead(registration, decision, found.objects).await;
            }
            if decision == Decision::Forward(Forward::UriMiss) && self.is_used_too_little() {
                return self.pass().await;
            }
            if is_alone || decision == Decision::Forward(Forward::Bypass) {
                return self.lead(Registration::exclusive(), decision, found.objects).await;
            }
            let place = self.open.flights.join(&self.subject.key, |stored| self.suits(stored));
            found = match place {
                // Another flight may have ended since the lookup, and its response is stored now.
                Place::First(registration) => {
                    first = Some(registration);
                    self.lookup_now().await
                }
                Place::Joined(receiver, behind) => {
                    match self.wait(receiver, behind, &decision, until).await {
                        Waited::Response(response) => return response,
                        Waited::Other => {}
                        Waited::Alone => is_alone = true,
                        Waited::TooLong => return self.pass().await,
                    }
                    self.lookup().await
                }
            };
        }
        self.lead(Registration::exclusive(), Decision::Forward(Forward::UriMiss), Vec::new()).await
    }

    /// Whether too few requests for the key have found nothing stored until now, this one included. A request that joins others counts
    /// more than once, but only when the number is reached.
    fn is_used_too_little(&self) -> bool {
        let min = self.shared.table.min_uses();
        min > 1 && self.open.marks.count_use(&self.subject.key) < min
    }

    /// Whether this request can use a response that is being received: it would be a hit if it were stored.
    fn suits(&self, stored: &Stored) -> bool {
        let decision = self.shared.policy.lookup(&self.subject.head, &[stored], now());
        matches!(decision, Decision::Hit(_) | Decision::StaleHit(_))
    }

    /// Whether this request may have a stored response in place of an error. The one that it has joined may have been permitted more, or
    /// have come earlier.
    fn may_replace_error(&self, stored: &Stored) -> bool {
        match self.shared.policy.lookup(&self.subject.head, &[stored], now()) {
            Decision::Hit(_) | Decision::StaleHit(_) => true,
            Decision::Validate { stale_if_error, .. } => {
                stale_if_error || is_planted("a stale response for a request that joins one that may have it")
            }
            Decision::OnlyIfCached | Decision::Extend(_) | Decision::Forward(_) => false,
        }
    }

    /// Looks in memory, and on disk only if that is necessary.
    async fn lookup_now(&self) -> Found {
        let fields = self.subject.head.headers();
        match self.open.store.lookup(&self.subject.key, fields, Access::Cached) {
            Ok(found) => found,
            Err(_) => self.lookup().await,
        }
    }

    async fn lookup(&self) -> Found {
        let (open, key) = (self.open.clone(), self.subject.key.clone());
        let fields = self.subject.head.headers().clone();
        let found = blocking(move || open.store.lookup(&key, &fields, Access::Blocking)).await;
        found.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Validates an object in the background, at most once a second.
    fn validate(self, decision: Decision, objects: Vec<Arc<Object>>) {
        let Self { shared, open, subject, origin } = self;
        validate(&shared, &open, subject, decision, objects, || origin);
    }

    /// Sends the request to the origin for its client alone: nothing is stored, because another request or a later one is to store the
    /// response.
    async fn pass(self) -> Response {
        self.lead(Registration::exclusive(), Decision::Forward(Forward::Bypass), Vec::new()).await
    }

    /// Sends the request to the origin, and responds.
    async fn lead(
        self,
        registration: Registration,
        decision: Decision,
        objects: Vec<Arc<Object>>,
    ) -> Response {
        let Self { shared, open, mut subject, origin } = self;
        let observer = subject.observer.take();
        let (waiting, first) = Waiting::new();
        let receiver = registration.flight.subscribe();
        let request = subject.head.clone();
        let status = CacheStatus::of(&decision);
        let follows = origin.head.state().follows_storing;
        let storing = follows.then(|| storing(receiver.clone()));
        let fetch = Fetch {
            shared: shared.clone(),
            open: open.clone(),
            origin,
            subject,
            decision,
            objects,
            registration,
            first: Some(waiting),
            is_background: false,
        };
        fetch.start();
        let (mut response, status) = match first.response().await {
            Some(First::Response(response)) => {
                let status = forwarded(status, response.status());
                (response, status)
            }
            Some(First::Incoming(incoming, reader)) => {
                let status = CacheStatus { stored: incoming.is_stored, ..forwarded(status, incoming.status) };
                let mut response = reply::of_incoming(&incoming, receiver, &request, reader, true, now());
                if storing.is_some() {
                    response.state_mut().storing = storing;
                }
                (response, status)
            }
            Some(First::Ready(object, validated, unshared)) => {
                let content = shared.content(&open, &object);
                let response = reply::of_object(&object, &request, now(), content);
                (reply::with_unshared(response, &unshared), forwarded(status, validated.status))
            }
            None => return failed(&request),
        };
        shared.add_status(&mut response, &status, observer.as_ref());
        response
    }

    /// Waits for the response to another request, which was sent so long before this one.
    async fn wait(
        &self,
        mut receiver: watch::Receiver<Progress>,
        behind: Duration,
        decision: &Decision,
        until: Instant,
    ) -> Waited {
        let request = &self.subject.head;
        let suits = |stored: &Stored| stored.suits(request.headers());
        let Ok(progress) = timeout_at(until.into(), progress(&mut receiver)).await else {
            return Waited::TooLong;
        };
        let (mut response, status) = match progress {
            Progress::Receiving(incoming) => {
                let Incoming { stored, part, status, .. } = &*incoming;
                if part.is_some() || !suits(stored) || !stored.may_be_shared_after(behind) {
                    return Waited::Other;
                }
                let Some(reader) = incoming.source.reader() else { return Waited::Other };
                (reply::of_incoming(&incoming, receiver, request, reader, false, now()), *status)
            }
            Progress::Ready(object, validated) => {
                let stored = object.stored();
                if !suits(stored) || *stored.content() != Content::Whole {
                    return Waited::Other;
                }
                if is_error(validated.status) {
                    if !self.may_replace_error(stored) {
                        return Waited::Alone;
                    }
                } else if !stored.may_be_shared_after(behind) {
                    return Waited::Other;
                }
                let content = self.shared.content(&self.open, &object);
                (reply::of_object(&object, request, now(), content), validated.status)
            }
            Progress::Waiting | Progress::Nothing => return Waited::Alone,
        };
        let status = CacheStatus { collapsed: true, ..forwarded(CacheStatus::of(decision), status) };
        self.shared.add_status(&mut response, &status, self.subject.observer.as_ref());
        Waited::Response(response)
    }
}

/// Validates a stale object in the background, unless that was begun within the last second.
pub(super) fn validate(
    shared: &Arc<Shared>,
    open: &Arc<OpenStore>,
    mut subject: Subject,
    decision: Decision,
    objects: Vec<Arc<Object>>,
    origin: impl FnOnce() -> Origin,
) {
    if open.marks.is_validated(&subject.key) {
        return;
    }
    let Some(registration) = open.flights.begin(&subject.key) else { return };
    open.marks.set_validated(&subject.key);
    subject.observer = None;
    let mut origin = origin();
    // The whole, whatever the client requested.
    *subject.head.method_mut() = http::Method::GET;
    subject.head.headers_mut().remove(http::header::RANGE);
    origin.head.set_method(http::Method::GET);
    let (shared, open) = (shared.clone(), open.clone());
    let fetch = Fetch {
        shared,
        open,
        origin,
        subject,
        decision,
        objects,
        registration,
        first: None,
        is_background: true,
    };
    fetch.start();
}

/// Waits until something is known of the response.
async fn progress(receiver: &mut watch::Receiver<Progress>) -> Progress {
    let known = receiver.wait_for(|progress| !matches!(progress, Progress::Waiting)).await;
    known.map_or(Progress::Nothing, |progress| progress.clone())
}

fn forwarded(status: CacheStatus, forward_status: StatusCode) -> CacheStatus {
    CacheStatus { forward_status: Some(forward_status), ..status }
}

/// The task of the request has panicked, which is logged.
fn failed(request: &http::Request<()>) -> Response {
    let explanation = "The response could not be received.";
    pages::error(StatusCode::BAD_GATEWAY, request.headers(), explanation)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http::HeaderValue;
    use http::header::{CACHE_CONTROL, ETAG, HOST};
    use rudy_log::ErrorLog;
    use rudy_message::semantics::path::RequestPath;
    use rudy_service::{Body, Client, Peer, Reply, Request, poll_time};

    use super::*;
    use crate::Cache;
    use crate::store::{CacheStore, StoreTable};
    use crate::table::CacheTable;
    use rudy_config::FilePath;
    use rudy_pipeline::conditions::SiteConditions;
    use rudy_pipeline::routing::{Hosts, Listeners, Route, Router, Site};
    use rudy_pipeline::{Call, Handler, NoHandler};
    use rudy_pipeline::{Context, Routes};
    use rudy_pipeline::{Next, Step, Target};

    /// An origin whose responses are stale at once, and are used while they are validated.
    #[derive(Debug)]
    struct StaleAtOnce;

    impl Handler for StaleAtOnce {
        fn call(&self, _: Request<'_>, _: Call<'_>) -> Reply {
            let mut response = Response::text(StatusCode::OK, "text/plain", "text");
            let fields = response.headers_mut();
            fields.insert(ETAG, HeaderValue::from_static("\"a\""));
            fields.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=0, stale-while-revalidate=60"));
            response.into()
        }
    }

    fn routes(cache: Cache) -> Arc<Routes> {
        let route = |steps: Vec<Arc<dyn Step>>, handler: Box<dyn Handler>| {
            Route::everything(Target::new(steps, false, handler))
        };
        let site = Site {
            routes: vec![route(vec![Arc::new(cache)], Box::new(StaleAtOnce))],
            outer: route(Vec::new(), Box::new(NoHandler)),
            redirects: None,
            conditions: SiteConditions::default(),
            tls: None,
            is_auto: false,
            https_port: None,
            takes_connections: false,
        };
        let mut hosts = Hosts::default();
        hosts.set_default(0);
        let router = Arc::new(Router::new(Listeners::Alike(hosts), vec![site]));
        Arc::new(Routes { router, ..Routes::none() })
    }

    fn request() -> Request<'static> {
        let mut request = Request::default();
        request.set_uri("/a".parse().unwrap());
        request.set(HOST, HeaderValue::from_static("a.org"));
        request.state_mut().follows_storing = true;
        request
    }

    /// Receives a response until it is stored.
    async fn store(mut response: Response) {
        let storing = response.take(|state| &mut state.storing);
        if let Body::Stream(mut body) = response.body {
            while let Some(Ok(_)) = poll_fn(|cx| body.poll_piece(cx, poll_time(), 1024)).await {}
        }
        storing.unwrap().end().await;
    }

    #[tokio::test]
    async fn a_stale_response_that_another_request_has_stored_since_the_lookup_is_validated() {
        let folder = tempfile::tempdir().unwrap();
        let table = StoreTable { path: Some(FilePath(folder.path().into())), ..StoreTable::default() };
        let stores = Arc::new(CacheStore::new(&table));
        stores.open(&ErrorLog::to(tempfile::tempfile().unwrap()).unwrap()).unwrap();
        let routes = routes(Cache::new(&CacheTable::default(), String::new(), "a.org", None, stores, false));
        let (client, path) = (Client::new(Peer::Unix, 1, 1), RequestPath::parse("/a").unwrap().into_owned());
        let found = routes.router.find(&request(), &path, &client).unwrap();
        let context = Context::new(&client, &routes);
        let call = Call { path: &path, route: &found, context };
        store(Next(0).call(request(), call).response().await).await;
        let cache = found.handler.steps_of::<Cache>().next().unwrap();
        let open = cache.open().unwrap();
        let subject = cache.subject(&request(), &call);
        let visit = cache.visit(open, subject, request(), &call, Next(1));
        let key = visit.subject.key.clone();
        assert!(!open.marks.is_validated(&key));
        let response = visit.respond(Found::default()).await;
        assert_eq!(response.headers()["cache-status"].to_str().unwrap().split(';').nth(1), Some(" hit"));
        assert!(open.marks.is_validated(&key));
    }
}
