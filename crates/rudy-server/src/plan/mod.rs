//! Makes the steps around the handlers of a site, in their order.

mod admission;
mod request_limits;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::HeaderValue;
use rudy_caching::{Cache, CacheStore, CacheTable, Caches};
use rudy_config::{OneOrMany, OrOff, Problem};
use rudy_guard::{
    Compress, Compressor, ErrorPages, LimitSteps, Limits, Pages, Place, VaryByConditions,
    WithoutForwardingFields,
};
use rudy_mirror::{Mirror, MirrorTable};
use rudy_pipeline::client_address::TrustedProxies;
use rudy_pipeline::compression::CompressionSetting;
use rudy_pipeline::routing::template::Scope;
use rudy_pipeline::routing::{Maps, PathPattern};
use rudy_pipeline::{Resources, Step};

use self::admission::{Admission, Shared, without_user_fields};
pub(crate) use self::request_limits::problems as limit_problems;
use crate::config::{self, Config, HandlerTable};
use crate::step_settings::{EffectiveSettings, Planned, StepKind, StepsTable, planned};

/// What all sites share: the steps besides their own, and what those fall back to.
pub(crate) struct AllSites {
    admission: Admission,
    pages: Option<Arc<Pages>>,
    rate_limits: LimitSteps,
    concurrency: LimitSteps,
    without_forwarding_fields: Arc<dyn Step>,
}

impl AllSites {
    /// Checks the settings for all sites.
    pub(crate) fn new(
        config: &Config,
        trusted_proxies: &Arc<TrustedProxies>,
        resources: &Resources,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let (steps, location) = (&config.defaults.steps, &config.location);
        let scope = Scope { paths: &[PathPattern::everything()], hosts: &[], maps: &config.maps };
        steps.check(scope, location, problems);
        let shared = Shared::new(resources, config, None);
        let admission =
            Admission::new(&steps.admission, &Admission::default(), &shared, location, problems).for_all();
        let place = Place { label: "all sites".to_owned(), identity: String::new() };
        let (limits, none) = (resources.of::<Limits>(), &LimitSteps::default());
        let rate_limits = own_limits(steps.rate_limit.as_ref(), none, |list| limits.rates(list, &place));
        let concurrency =
            own_limits(steps.concurrent_requests.as_ref(), none, |list| limits.concurrency(list, &place));
        let pages = steps.pages(None, location, problems);
        let without_forwarding_fields = Arc::new(WithoutForwardingFields::new(trusted_proxies.clone()));
        Self { admission, pages, rate_limits, concurrency, without_forwarding_fields }
    }
}

/// The steps that all routes of a site share.
pub(crate) struct SiteSteps<'c> {
    site: &'c config::Site,
    maps: &'c Maps,
    of_all: &'c AllSites,
    defaults: &'c StepsTable,
    pub(crate) settings: EffectiveSettings<'c>,
    shared: Shared<'c>,
    admission: Admission,
    without_user_fields: Option<Arc<dyn Step>>,
    pages: Option<Arc<Pages>>,
    hsts: Option<HeaderValue>,
    limits: Arc<Limits>,
    rate_limits: LimitSteps,
    concurrency: LimitSteps,
    compressor: Option<Arc<Compressor>>,
    /// The store of caches.
    cache_store: Arc<CacheStore>,
}

impl<'c> SiteSteps<'c> {
    /// Checks the settings of a site. `hsts` is the value of `Strict-Transport-Security`, and `body_bytes_max` the largest size of a
    /// request body in the configuration.
    pub(crate) fn new(
        config: &'c Config,
        of_all: &'c AllSites,
        site: &'c config::Site,
        resources: &'c Resources,
        hsts: Option<HeaderValue>,
        body_bytes_max: u64,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let scope = Scope { paths: &[PathPattern::everything()], hosts: &site.hosts, maps: &config.maps };
        site.steps.check(scope, &site.location, problems);
        problems.extend(site.caching.problem(&site.location));
        let pages = site.steps.pages(of_all.pages.as_ref(), &site.location, problems);
        let shared = Shared::new(resources, config, Some(site));
        let table = &site.steps.admission;
        let admission = Admission::new(table, &of_all.admission, &shared, &site.location, problems);
        let settings = EffectiveSettings {
            tables: vec![&config.defaults.steps, &site.steps],
            body_bytes: config.limits.http.body_bytes,
            body_bytes_max,
        };
        let place = place(site, &[]);
        let (limits, of_site) = (resources.of::<Limits>(), &LimitSteps::default());
        let rate_limits =
            own_limits(site.steps.rate_limit.as_ref(), of_site, |list| limits.rates(list, &place));
        let concurrency = own_limits(site.steps.concurrent_requests.as_ref(), of_site, |list| {
            limits.concurrency(list, &place)
        });
        let compressor = settings.innermost(|steps| steps.compression.as_ref()).and_then(compressor);
        Self {
            site,
            maps: &config.maps,
            of_all,
            defaults: &config.defaults.steps,
            settings,
            shared,
            admission,
            without_user_fields: without_user_fields(config, site),
            pages,
            hsts,
            limits,
            rate_limits,
            concurrency,
            compressor,
            cache_store: resources.of::<Caches>().store(&config.cache),
        }
    }

    /// Returns the steps around responses of the server itself, such as 404 for a path without a route.
    pub(crate) fn outer(&self) -> Vec<Arc<dyn Step>> {
        in_order(self.outer_of(&self.settings, &self.admission, self.pages.clone()))
    }

    fn outer_of(
        &self,
        settings: &EffectiveSettings<'_>,
        admission: &Admission,
        pages: Option<Arc<Pages>>,
    ) -> Vec<Planned> {
        let mut steps = Vec::from_iter(admission.around_errors());
        if let Some(fields) = settings.response_fields(self.hsts.as_ref()) {
            steps.push(planned(StepKind::ResponseHeaders, fields));
        }
        if self.site.has_conditions_on_fields() {
            steps.push(planned(StepKind::Conditions, VaryByConditions));
        }
        if let Some(pages) = pages {
            let intercepts = settings.innermost(|steps| steps.intercept_errors) == Some(true);
            steps.push(planned(StepKind::ErrorPages, ErrorPages { pages, intercepts }));
        }
        steps
    }

    /// Returns the steps of a route, the outermost first.
    pub(crate) fn of_route(
        &self,
        route: &config::Route,
        settings: &EffectiveSettings<'_>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Arc<dyn Step>> {
        let scope = Scope { paths: &route.paths, hosts: &self.site.hosts, maps: self.maps };
        route.steps.check(scope, &route.location, problems);
        problems.extend(route.caching.problem(&route.location));
        problems.extend(self.unmet_conditions(route));
        let pages = route.steps.pages(self.pages.as_ref(), &route.location, problems);
        let table = &route.steps.admission;
        let admission = Admission::new(table, &self.admission, &self.shared, &route.location, problems);
        let mut steps = self.outer_of(settings, &admission, pages);
        let own = route.steps.compression.as_ref();
        let compressor = own.map_or_else(|| self.compressor.clone(), compressor);
        let compresses = compressor.is_some();
        steps.extend(compressor.map(|compressor| planned(StepKind::Compression, Compress { compressor })));
        steps.extend(admission.before_limits());
        self.plan_logins(route, &admission, &mut steps);
        steps.extend(settings.steps());
        let cache = route.caching.cache.clone().or_else(|| self.site.caching.cache.clone());
        self.plan_cache(route, cache, compresses, &mut steps, problems);
        in_order(steps)
    }

    /// Reports conditions on a client certificate if the site asks for none.
    fn unmet_conditions(&self, route: &config::Route) -> Option<Problem> {
        let mut conditions = route.when.iter().flat_map(OneOrMany::as_slice);
        let is_unmet = conditions.any(|conditions| conditions.parts.certificate.is_some());
        (is_unmet && !self.shared.has_client_certificates).then(|| {
            let title = "the site asks for no client certificates, so no request meets `certificate`";
            let problem = Problem::key(&route.location.key("when"), title).label("without effect");
            problem.help("set `client_certificates` in the table `tls` of the site")
        })
    }

    /// Adds the logins of a route, its limits, which may count by user, and what removes fields that name users.
    fn plan_logins(&self, route: &config::Route, admission: &Admission, steps: &mut Vec<Planned>) {
        let login = route.steps.admission.login(&self.site.steps.admission, &self.defaults.admission);
        let limits = self.limits_of(route);
        for (concurrency, rates) in &limits {
            steps.extend(concurrency.outer.clone().map(|step| (StepKind::ConcurrentRequests, step)));
            steps.extend(rates.outer.clone().map(|step| (StepKind::RateLimit, step)));
            if login.has_users {
                let by_user = concurrency.by_user.clone();
                steps.extend(by_user.map(|step| (StepKind::ConcurrentRequestsByUser, step)));
                steps.extend(rates.by_user.clone().map(|step| (StepKind::RateLimitByUser, step)));
            }
        }
        let [(_, of_all), (_, own)] = &limits;
        steps.extend(admission.logins(&own.logins.after(&of_all.logins)));
        if route.handler.is_cacheable() || admission.has_authorizer() {
            let step = self.of_all.without_forwarding_fields.clone();
            steps.push((StepKind::WithoutForwardingFields, step));
        }
        let without_user_fields = self.without_user_fields.clone();
        steps.extend(without_user_fields.map(|step| (StepKind::WithoutUserFields, step)));
    }

    /// Adds the cache of a route, and what makes a mirror of it. `compresses` says whether its responses are compressed.
    fn plan_cache(
        &self,
        route: &config::Route,
        mut cache: Option<CacheTable>,
        compresses: bool,
        steps: &mut Vec<Planned>,
        problems: &mut Vec<Problem>,
    ) {
        if let HandlerTable::Mirror(table) = &route.handler {
            if route.caching.cache.as_ref().is_some_and(|table| table.is_off) {
                let problem = Problem::key(&route.location.key("cache"), "a mirror always has a cache");
                problems.push(problem.label("remove it, or use `proxy`"));
            }
            cache = Some(MirrorTable::cache(cache));
            let mirror = Mirror::new(table, self.cache_store.clone());
            steps.extend(mirror.map(|mirror| planned(StepKind::Mirror, mirror)));
        }
        let Some(table) = cache.filter(|table| !table.is_off) else { return };
        if !route.handler.is_cacheable() {
            problems.extend(route.caching.cache.as_ref().map(|_| not_cacheable(route)));
            return;
        }
        let (scope, site, identifies_content) = match route.handler {
            // Its keys are URLs of the repository, which no request for another site can have.
            HandlerTable::Mirror(_) => ("mirror".to_owned(), "mirror".to_owned(), true),
            _ => (self.site.own_addresses(), site_name(self.site), compresses),
        };
        let among_others = self.site.has_conditions().then(|| identity(route));
        let store = self.cache_store.clone();
        let cache = Cache::new(&table, scope, &site, among_others, store, identifies_content);
        steps.push(planned(StepKind::Cache, cache));
    }

    /// The limits of a route, those for all sites and its own or those of the site: of concurrent requests, and of requests per time.
    fn limits_of(&self, route: &config::Route) -> [(LimitSteps, LimitSteps); 2] {
        let place = place(self.site, &route.paths);
        let (of_site, of_route) = (&self.site.steps, &route.steps);
        let concurrency = own_limits(of_route.concurrent_requests.as_ref(), &self.concurrency, |list| {
            self.limits.concurrency(list, &place)
        });
        let rates = own_limits(of_route.rate_limit.as_ref(), &self.rate_limits, |list| {
            self.limits.rates(list, &place)
        });
        let of_all = (
            unless_off(
                &self.of_all.concurrency,
                [&of_site.concurrent_requests, &of_route.concurrent_requests],
            ),
            unless_off(&self.of_all.rate_limits, [&of_site.rate_limit, &of_route.rate_limit]),
        );
        [of_all, (concurrency, rates)]
    }
}

/// Returns the steps in the order of their kinds.
fn in_order(mut steps: Vec<Planned>) -> Vec<Arc<dyn Step>> {
    steps.sort_by_key(|(kind, _)| *kind);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Makes what the routes with a setting share. `None` if it switches compression off.
fn compressor(setting: &CompressionSetting) -> Option<Arc<Compressor>> {
    setting.0.as_ref().map(|table| Arc::new(Compressor::new(table)))
}

/// Returns the steps of a setting, or those of the site if there is no own setting.
fn own_limits<T>(
    own: Option<&OrOff<OneOrMany<T>>>,
    of_site: &LimitSteps,
    build: impl FnOnce(&[T]) -> LimitSteps,
) -> LimitSteps {
    match own {
        None => of_site.clone(),
        Some(setting) => setting.on().map(|list| build(list.as_slice())).unwrap_or_default(),
    }
}

/// Returns the limits for all sites, unless a route or its site switches them off.
fn unless_off<T>(of_all: &LimitSteps, inner: [&Option<OrOff<T>>; 2]) -> LimitSteps {
    let is_off = inner.into_iter().any(|setting| matches!(setting, Some(OrOff::Off)));
    if is_off { LimitSteps::default() } else { of_all.clone() }
}

/// Names a route of a site, or the site itself without paths.
fn place(site: &config::Site, paths: &[PathPattern]) -> Place {
    let hosts =
        site.hosts.iter().map(ToString::to_string).chain(site.listen.iter().map(|_| site.own_addresses()));
    let all: Vec<_> = hosts.chain(paths.iter().map(ToString::to_string)).collect();
    Place { label: site.label(paths), identity: all.join(" ") }
}

/// Names a site in stored responses: its first host, which stays when others are added, and its own addresses.
fn site_name(site: &config::Site) -> String {
    let host = site.hosts.first().map(ToString::to_string).unwrap_or_default();
    format!("{host}#{}", site.own_addresses())
}

fn not_cacheable(route: &config::Route) -> Problem {
    let title = format!("responses of `{}` are not cached", route.handler.key());
    let problem = Problem::key(&route.location.key("cache"), title);
    problem.label("expected a route with `proxy`, `fastcgi`, `php` or `mirror`")
}

/// Identifies a route among those of its site, also after a reload: by its paths and conditions.
fn identity(route: &config::Route) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    route.paths.iter().map(ToString::to_string).collect::<Vec<_>>().hash(&mut hasher);
    let conditions = route.when.iter().flat_map(OneOrMany::as_slice);
    conditions.map(ToString::to_string).collect::<Vec<_>>().hash(&mut hasher);
    hasher.finish().into()
}
