//! Makes the steps around the handlers of a site, in their order.

mod admission;
mod request_limits;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::HeaderValue;
use rudy_caching::{Cache, CacheStore, CacheTable, Caches};
use rudy_config::{OneOrMany, OrOff, Problem};
use rudy_gateway::fastcgi::Authorizer;
use rudy_guard::{
    Compress, Compressor, ErrorPages, LimitSteps, Limits, Pages, Place, VaryByConditions,
    WithoutForwardingFields,
};
use rudy_mirror::{Mirror, MirrorTable};
use rudy_pipeline::client_address::TrustedProxies;
use rudy_pipeline::routing::PathPattern;
use rudy_pipeline::{Resources, Step};

use self::admission::{Admission, Shared, without_user_fields};
pub(crate) use self::request_limits::problems as limit_problems;
use crate::config::{self, Config, HandlerTable};
use crate::step_settings::{Planned, StepKind, StepsTable, planned};

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
        steps.check(&[PathPattern::everything()], location, problems);
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
    of_all: &'c AllSites,
    defaults: &'c StepsTable,
    /// The settings of the site, and those for all sites that they do not replace.
    settings: StepsTable,
    shared: Shared<'c>,
    admission: Admission,
    without_user_fields: Option<Arc<dyn Step>>,
    authorizer: Option<Authorizer>,
    pages: Option<Arc<Pages>>,
    hsts: Option<HeaderValue>,
    limits: Arc<Limits>,
    rate_limits: LimitSteps,
    concurrency: LimitSteps,
    compressor: Option<Arc<Compressor>>,
    /// The maximum size of a request body where no other is set.
    body_bytes: u64,
    /// The largest of these sizes in the configuration, which connections check.
    body_bytes_max: u64,
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
        site.steps.check(&[PathPattern::everything()], &site.location, problems);
        let authorizer = site.authorize.as_ref().and_then(|table| {
            let authorizer = Authorizer::new(table, &site.location.key("authorize"), resources);
            authorizer.map_err(|more| problems.extend(more)).ok()
        });
        let pages = site.steps.pages(of_all.pages.clone(), &site.location, problems);
        let shared = Shared::new(resources, config, Some(site));
        let table = &site.steps.admission;
        let admission = Admission::new(table, &of_all.admission, &shared, &site.location, problems);
        let body_bytes = config.limits.http.body_bytes;
        let place = place(site, &[]);
        let (limits, of_site) = (resources.of::<Limits>(), &LimitSteps::default());
        let rate_limits =
            own_limits(site.steps.rate_limit.as_ref(), of_site, |list| limits.rates(list, &place));
        let concurrency = own_limits(site.steps.concurrent_requests.as_ref(), of_site, |list| {
            limits.concurrency(list, &place)
        });
        let compressor = site.steps.compressor(None);
        Self {
            site,
            of_all,
            defaults: &config.defaults.steps,
            settings: site.steps.after(&config.defaults.steps),
            shared,
            admission,
            without_user_fields: without_user_fields(config, site),
            authorizer,
            pages: pages.or_else(|| of_all.pages.clone()),
            hsts,
            limits,
            rate_limits,
            concurrency,
            compressor,
            body_bytes,
            body_bytes_max,
            cache_store: resources.of::<Caches>().store(&config.cache),
        }
    }

    /// Returns the steps around responses of the server itself, such as 404 for a path without a route.
    pub(crate) fn outer(&self) -> Vec<Arc<dyn Step>> {
        in_order(self.outer_of(&self.settings, &self.admission, self.pages.clone()))
    }

    fn outer_of(
        &self,
        settings: &StepsTable,
        admission: &Admission,
        pages: Option<Arc<Pages>>,
    ) -> Vec<Planned> {
        let mut steps = Vec::from_iter(admission.around_errors());
        if let Some(fields) = settings.response_fields(self.hsts.as_ref()) {
            steps.push(planned(StepKind::ResponseHeaders, fields));
        }
        if self.site.has_conditions() {
            steps.push(planned(StepKind::Conditions, VaryByConditions));
        }
        if let Some(pages) = pages {
            let intercepts = settings.intercept_errors == Some(true);
            steps.push(planned(StepKind::ErrorPages, ErrorPages { pages, intercepts }));
        }
        steps
    }

    /// Returns the steps of a route, the outermost first.
    pub(crate) fn of_route(&self, route: &config::Route, problems: &mut Vec<Problem>) -> Vec<Arc<dyn Step>> {
        route.steps.check(&route.paths, &route.location, problems);
        let settings = route.steps.after(&self.settings);
        let own = route.steps.pages(self.pages.clone(), &route.location, problems);
        let table = &route.steps.admission;
        let admission = Admission::new(table, &self.admission, &self.shared, &route.location, problems);
        let mut steps = self.outer_of(&settings, &admission, own.or_else(|| self.pages.clone()));
        let compressor = route.steps.compressor(self.compressor.as_ref());
        let compresses = compressor.is_some();
        steps.extend(compressor.map(|compressor| planned(StepKind::Compression, Compress { compressor })));
        steps.extend(admission.before_limits());
        self.plan_logins(route, &admission, &mut steps, problems);
        steps.extend(settings.steps(self.body_bytes, self.body_bytes_max));
        let cache = route.caching.cache.clone().or_else(|| self.site.caching.cache.clone());
        self.plan_cache(route, cache, compresses, &mut steps, problems);
        in_order(steps)
    }

    /// Adds the logins of a route, its limits, which may count by user, and what removes fields that name users.
    fn plan_logins(
        &self,
        route: &config::Route,
        admission: &Admission,
        steps: &mut Vec<Planned>,
        problems: &mut Vec<Problem>,
    ) {
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
        let authorizer = self.authorizer(route, problems);
        if route.handler.is_cacheable() || login.has_authorizer || authorizer.is_some() {
            let step = self.of_all.without_forwarding_fields.clone();
            steps.push((StepKind::WithoutForwardingFields, step));
        }
        steps.extend(authorizer.map(|authorizer| planned(StepKind::Authorize, authorizer)));
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
                of_route.concurrent_requests.as_ref().or(of_site.concurrent_requests.as_ref()),
            ),
            unless_off(
                &self.of_all.rate_limits,
                of_route.rate_limit.as_ref().or(of_site.rate_limit.as_ref()),
            ),
        );
        [of_all, (concurrency, rates)]
    }

    /// The authorizer of a route. `None` after a problem, because the configuration is then rejected.
    fn authorizer(&self, route: &config::Route, problems: &mut Vec<Problem>) -> Option<Authorizer> {
        match &route.authorize {
            None => self.authorizer.clone(),
            Some(setting) => {
                let authorizer =
                    Authorizer::new(setting.on()?, &route.location.key("authorize"), self.shared.resources);
                authorizer.map_err(|more| problems.extend(more)).ok()
            }
        }
    }
}

/// Returns the steps in the order of their kinds.
fn in_order(mut steps: Vec<Planned>) -> Vec<Arc<dyn Step>> {
    steps.sort_by_key(|(kind, _)| *kind);
    steps.into_iter().map(|(_, step)| step).collect()
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
fn unless_off<T>(of_all: &LimitSteps, setting: Option<&OrOff<T>>) -> LimitSteps {
    match setting {
        Some(OrOff::Off) => LimitSteps::default(),
        Some(OrOff::On(_)) | None => of_all.clone(),
    }
}

/// Names a route of a site, or the site itself without paths.
fn place(site: &config::Site, paths: &[PathPattern]) -> Place {
    let host = site.hosts.first().map(ToString::to_string);
    let label = match (host, paths.first()) {
        (host, Some(path)) => format!("{}{path}", host.unwrap_or_default()),
        (Some(host), None) => host,
        (None, None) => "the default site".to_owned(),
    };
    let hosts =
        site.hosts.iter().map(ToString::to_string).chain(site.listen.iter().map(|_| site.own_addresses()));
    let all: Vec<_> = hosts.chain(paths.iter().map(ToString::to_string)).collect();
    Place { label, identity: all.join(" ") }
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
