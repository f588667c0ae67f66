//! The step: hits from memory at once, everything else as a [`Visit`].

use std::io;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderValue, Method};
use rudy_cache::{Forward, Policy};
use rudy_pipeline::exchange::{note, trace};
use rudy_pipeline::{Around, Call, Next, Start, Step};
use rudy_service::{Reply, Request, poll_time};
use rudy_store::Access;

use super::origin::Origin;
use super::store::{CacheStore, OpenStore};
use super::subject::{KeyRules, Subject};
use super::table::CacheTable;
use super::visit::{self, Attempt, Visit, attempt};
use super::{Shared, bypass, prepared, purge, subject};

/// The cache of a route.
#[derive(Debug)]
pub struct Cache(Arc<Shared>);

impl Cache {
    /// `scope` distinguishes caches for the same URLs. `site` names the site. `identifies_content` is whether a step around it uses the
    /// identity of content. `route` names the route, if others of the site may have the same URLs.
    pub fn new(
        table: &CacheTable,
        scope: String,
        site: &str,
        route: Option<HeaderValue>,
        store: Arc<CacheStore>,
        identifies_content: bool,
    ) -> Self {
        let (policy, rules) = (table.policy(scope), KeyRules::new(table, route));
        // Hosts and addresses are ASCII.
        let site = HeaderValue::from_str(site).unwrap_or(HeaderValue::from_static(""));
        Self(Arc::new(Shared { policy, rules, table: table.clone(), store, site, identifies_content }))
    }

    /// Returns the store, if it is open.
    pub(super) fn open(&self) -> Option<&Arc<OpenStore>> {
        self.0.store.get()
    }

    /// Gives the store the limits of this configuration, which is in effect from now on.
    pub fn take_effect(&self) {
        self.0.store.take_effect();
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.0.policy
    }

    fn read(&self, open: &Arc<OpenStore>, mut request: Request<'_>, call: Call<'_>, next: Next) -> Reply {
        let shared = &self.0;
        shared.rules.reduce_languages(request.headers_mut());
        let subject = self.subject(&request, &call);
        let Ok(found) = open.store.lookup(&subject.key, subject.head.headers(), Access::Cached) else {
            let visit = self.visit(open, subject, request, &call, next);
            return Reply::Later(Box::pin(visit.look_up()));
        };
        match attempt(shared, open, &subject, &found) {
            Attempt::Hit(response, object) => {
                let is_secure = call.context.client.scheme() == Scheme::HTTPS;
                let target = subject::target(&request);
                prepared::keep(shared, &subject.head, request.host(), target, is_secure, &object);
                response.into()
            }
            Attempt::OnlyIfCached(response) => response.into(),
            Attempt::Stale(response, decision) => {
                let origin = || Origin::new(request, &call, next);
                visit::validate(shared, open, subject, decision, found.objects, origin);
                response.into()
            }
            Attempt::Fetch(_) => {
                let visit = self.visit(open, subject, request, &call, next);
                Reply::Later(Box::pin(visit.respond(found)))
            }
        }
    }

    pub(super) fn subject(&self, request: &Request<'_>, call: &Call<'_>) -> Subject {
        self.0.rules.subject(&self.0.policy, request, call.context.client)
    }

    pub(super) fn visit(
        &self,
        open: &Arc<OpenStore>,
        subject: Subject,
        request: Request<'_>,
        call: &Call<'_>,
        next: Next,
    ) -> Visit {
        let (shared, open) = (self.0.clone(), open.clone());
        Visit { shared, open, subject, origin: Origin::new(request, call, next) }
    }
}

impl Around for Cache {
    fn call(&self, mut request: Request<'_>, call: Call<'_>, next: Next) -> Reply {
        let Some(open) = self.0.store.get() else { return next.call(request, call) };
        let observer = call.context.client.observer.get();
        trace::search(observer);
        if let Some(response) = prepared::respond(&self.0, open, &request, call.context.client) {
            note(observer, |notes| notes.cached("hit", poll_time()));
            return response.into();
        }
        subject::normalize_host(&self.0.policy, &mut request, call.context.client);
        if purge::is_purge(request.method()) {
            let reply = purge::respond(&self.0, open, &request, &call);
            return reply.unwrap_or_else(|| purge::reject(&request));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return bypass::write_through(&self.0, open, request, call, next);
        }
        if open.is_suspended() || self.0.rules.bypasses(&self.0.policy, &request) {
            return bypass::pass(&self.0, Forward::Bypass, request, call, next);
        }
        self.read(open, request, call, next)
    }
}

impl Step for Cache {
    fn around(&self) -> Option<&dyn Around> {
        Some(self)
    }

    fn acts_on(&self, _: &Request<'_>) -> Option<&'static str> {
        Some("cache: what is stored is not known")
    }

    fn describe(&self) -> Vec<String> {
        self.0.table.describe()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.store.open(start.log)
    }
}
