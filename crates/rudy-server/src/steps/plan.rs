//! The steps of a site and its routes: their settings, and their order.

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use rudy_config::{Location, OneOrMany, OrOff, Problem};
use rudy_units::{Size, Timeout};
use schemars::JsonSchema;
use serde::Deserialize;

use super::admission::{Admission, AdmissionTable, Shared, without_user_fields};
use super::body_limit::BodyLimit;
use super::compress::{Compress, Compressor};
use super::error_pages::{ErrorPages, ErrorPagesTable, Pages};
use super::field_changes::{FieldChange, FieldChanges};
use super::fields::{Changes, RequestFields, ResponseFields};
use super::forwarding_fields::WithoutForwardingFields;
use super::limits::{self, BandwidthTable, ConcurrencyTable, LimitSteps, Limits, Place, RateLimitTable};
use super::timeout::RequestTimeout;
use super::{Step, StepKind};
use crate::Resources;
use crate::cache::{Cache, CacheStore, CacheTable};
use crate::compression::CompressionSetting;
use crate::config::{self, Config};
use crate::fastcgi::Authorizer;
use crate::files::{Charset, FileTypes, MediaTypeTable};
use crate::handlers::HandlerTable;
use crate::mirror::{Mirror, MirrorTable};
use crate::routing::PathPattern;

/// What surrounds the handlers of a site, or the handler of a route. A route extends the settings of its site.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepsTable {
    /// Changes to the header fields of every response, errors and redirects too: a value sets a field, `false` removes it,
    /// `{ add = "..." }` adds a line, `{ default = "..." }` sets a field that the response lacks, and
    /// `{ replace = "...", with = "..." }` replaces a text in the field. Values can contain `{path}`, `{query}`, `{host}`,
    /// `{method}`, `{scheme}`, `{client}` (its address) and `{header.NAME}` (of the request). The changes of a route come
    /// after those of its site, and replace them for the same field.
    pub response_headers: FieldChanges,
    /// Changes to the header fields of requests, before the handler, in the form of `response_headers`. A field that is set
    /// or removed is removed in every spelling that is the same variable for an app.
    pub request_headers: FieldChanges,
    /// Sets header fields that protect against common attacks, where a response lacks them: `X-Content-Type-Options:
    /// nosniff`, `X-Frame-Options: SAMEORIGIN`, `Referrer-Policy: strict-origin-when-cross-origin` and
    /// `Permissions-Policy: browsing-topics=()`.
    #[schemars(example = true)]
    pub security_headers: Option<bool>,
    /// Pages for errors of the server, and with `intercept_errors` those of apps: a folder with `404.html`, `5xx.html` or
    /// `error.html`, or a table by status. `404 = "/not-found"` is a path of the site, `404 = { file = "404.html" }` a file, and
    /// `folder = "errors"` a folder for the other statuses. The response keeps its status. Names ending in `.html.j2` are
    /// templates with `{{ status }}`, `{{ reason }}`, `{{ explanation }}`, `{{ host }}` and `{{ path }}`. Clients that accept
    /// only JSON get `application/problem+json` instead of a file. The pages of a route come before those of its site.
    pub error_pages: Option<ErrorPagesTable>,
    /// Replaces errors (4xx and 5xx) of apps and upstreams by the error pages. The default is `false`: apps have their own.
    #[schemars(example = true)]
    pub intercept_errors: Option<bool>,
    /// Who may send requests.
    #[serde(rename = "$admission")]
    #[schemars(flatten)]
    pub admission: AdmissionTable,
    /// Limits for requests per time, by the address of the client or another part of the request. A request over a limit gets 429 with
    /// `Retry-After`. Those of a route replace those of its site, which count the requests of all other routes together. On a route,
    /// `false` switches off those of the site.
    #[schemars(extend("examples" = ["10/s"]))]
    pub rate_limit: Option<OrOff<OneOrMany<RateLimitTable>>>,
    /// Limits for requests in progress at the same time, by the address of the client or another part of the request. A
    /// request over a limit gets 429. Those of a route replace those of its site, and `false` switches them off.
    #[schemars(example = 20)]
    pub concurrent_requests: Option<OrOff<OneOrMany<ConcurrencyTable>>>,
    /// Bytes per second of each response, the same for a slow and a fast client. On a route, `false` switches off the setting of the site.
    #[schemars(extend("examples" = [{ "rate": "500k", "after": "10M" }]))]
    pub bandwidth: Option<OrOff<BandwidthTable>>,
    /// Maximum size of a request body, instead of `body_bytes` in `limits`. A larger one gets 413.
    #[schemars(extend("examples" = ["100M"]))]
    pub body_bytes: Option<Size>,
    /// Maximum time from the head of a request to the head of its response. Then the request is cancelled, and its client gets
    /// 504. The default is no limit; apps have timeouts of their own.
    #[schemars(extend("examples" = ["30s"]))]
    pub request_timeout: Option<Timeout>,
    /// Compresses responses while they are sent: `true`, or a table. The default is to compress files only. `false` does not
    /// compress files either. Do not compress pages that contain a secret and text of the request (the attack BREACH).
    #[schemars(example = true)]
    pub compression: Option<CompressionSetting>,
    /// Media types of files by extension, besides the usual ones; `"*"` is for files of unknown types. Those of a route come before those
    /// of its site.
    #[schemars(extend("examples" = [{ "md": "text/markdown", "*": "text/plain" }]))]
    pub media_types: Option<MediaTypeTable>,
    /// Charset of text files, for which `media_types` has none. The default is `utf-8`, and `false` is for none. XML declares its own.
    #[schemars(extend("examples" = ["iso-8859-1"]))]
    pub charset: Option<OrOff<Charset>>,
    /// Stores responses of `proxy`, `fastcgi` and `php`, and responds with them while they are fresh (RFC 9111): `true`, or a table.
    /// `false` disables the cache of the site for a route. Other handlers of a site are not affected.
    #[schemars(extend("examples" = [true, { "bypass_cookies": ["session*"] }]))]
    pub cache: Option<CacheTable>,
}

/// The fields of `security_headers`, and their values.
const SECURITY_HEADERS: [(&str, &str); 4] = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("Permissions-Policy", "browsing-topics=()"),
];

impl StepsTable {
    /// Returns these settings, and those of the site that they do not replace.
    fn after(&self, site: &Self) -> Self {
        Self {
            // They are prepared for the site, and for the route.
            admission: AdmissionTable::default(),
            response_headers: self.response_headers.after(&site.response_headers),
            request_headers: self.request_headers.after(&site.request_headers),
            security_headers: self.security_headers.or(site.security_headers),
            error_pages: None,
            intercept_errors: self.intercept_errors.or(site.intercept_errors),
            // Those of a site count the requests of all its routes together.
            rate_limit: None,
            concurrent_requests: None,
            bandwidth: self.bandwidth.clone().or_else(|| site.bandwidth.clone()),
            body_bytes: self.body_bytes.or(site.body_bytes),
            request_timeout: self.request_timeout.or(site.request_timeout),
            // The routes of a site share its compressor.
            compression: None,
            // The handler applies them.
            media_types: None,
            charset: None,
            cache: self.cache.clone().or_else(|| site.cache.clone()),
        }
    }

    /// Returns how to find the media types of files.
    pub(crate) fn file_types(&self, site: &Self) -> FileTypes {
        [site, self].into_iter().fold(FileTypes::default(), |types, steps| {
            FileTypes::after(types, steps.media_types.as_ref(), steps.charset.as_ref())
        })
    }

    /// Whether responses of the server itself depend on these settings.
    pub(crate) fn changes_errors(&self) -> bool {
        self.error_pages.is_some()
            || self.security_headers == Some(true)
            || !self.response_headers.is_empty()
            || self.admission.changes_errors()
    }

    /// The files and folders that the steps read.
    pub(crate) fn paths_read(&self) -> Vec<PathBuf> {
        let pages = self.error_pages.iter().flat_map(ErrorPagesTable::paths_read);
        pages.map(|path| path.0.clone()).chain(self.admission.paths_read()).collect()
    }

    /// Reports invalid settings of a site or a route.
    fn check(&self, paths: &[PathPattern], location: &Location, problems: &mut Vec<Problem>) {
        let tables =
            [("response_headers", &self.response_headers), ("request_headers", &self.request_headers)];
        for (key, changes) in tables {
            problems.extend(changes.problems(paths, &location.key(key), key == "request_headers"));
        }
    }

    /// Reads the error pages, which come before those of the site. `None` without a setting.
    fn pages(
        &self,
        of_site: Option<Arc<Pages>>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<Pages>> {
        let table = self.error_pages.as_ref()?;
        Some(Arc::new(table.read(of_site, &location.key("error_pages"), problems)))
    }

    /// Returns the compressor of these settings, or that of the site without a setting.
    fn compressor(&self, of_site: Option<&Arc<Compressor>>) -> Option<Arc<Compressor>> {
        match &self.compression {
            Some(CompressionSetting(table)) => table.as_ref().map(|table| Arc::new(Compressor::new(table))),
            None => of_site.cloned(),
        }
    }

    fn response_fields(&self, hsts: Option<&HeaderValue>) -> Option<ResponseFields> {
        let preset = SECURITY_HEADERS.map(|(name, value)| FieldChange::default(name, value));
        let preset = preset.into_iter().filter(|_| self.security_headers == Some(true));
        let plain: Vec<_> = preset.chain(self.response_headers.0.iter().cloned()).collect();
        let hsts = hsts.map(|value| {
            FieldChange::set(&header::STRICT_TRANSPORT_SECURITY, value.to_str().unwrap_or_default())
        });
        if plain.is_empty() && hsts.is_none() {
            return None;
        }
        let changes = Arc::new(Changes::new(&plain));
        let https =
            hsts.map_or_else(|| changes.clone(), |hsts| Arc::new(Changes::new(plain.iter().chain([&hsts]))));
        Some(ResponseFields { changes, https })
    }
}

/// The steps that all routes of a site share.
pub(crate) struct SiteSteps<'c> {
    site: &'c config::Site,
    shared: Shared<'c>,
    admission: Admission,
    without_user_fields: Option<Arc<dyn Step>>,
    without_forwarding_fields: Arc<dyn Step>,
    authorizer: Option<Authorizer>,
    pages: Option<Arc<Pages>>,
    hsts: Option<HeaderValue>,
    limits: &'c Limits,
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
        config: &Config,
        site: &'c config::Site,
        resources: &'c Resources,
        hsts: Option<HeaderValue>,
        body_bytes_max: u64,
        problems: &mut Vec<Problem>,
    ) -> Self {
        site.steps.check(&[PathPattern::everything()], &site.location, problems);
        let authorizer = site.authorize.as_ref().and_then(|table| {
            let authorizer = Authorizer::new(table, &site.location.key("authorize"));
            authorizer.map_err(|more| problems.extend(more)).ok()
        });
        let pages = site.steps.pages(None, &site.location, problems);
        let shared = Shared::new(resources, config, site);
        let table = &site.steps.admission;
        let admission = Admission::new(table, &Admission::default(), &shared, &site.location, problems);
        let body_bytes = config.limits.http.body_bytes;
        let place = place(site, &[]);
        let (limits, of_site) = (&resources.limits, &LimitSteps::default());
        let rate_limits =
            own_limits(site.steps.rate_limit.as_ref(), of_site, |list| limits.rates(list, &place));
        let concurrency = own_limits(site.steps.concurrent_requests.as_ref(), of_site, |list| {
            limits.concurrency(list, &place)
        });
        let compressor = site.steps.compressor(None);
        Self {
            site,
            shared,
            admission,
            without_user_fields: without_user_fields(site),
            without_forwarding_fields: Arc::new(WithoutForwardingFields(config.client_address.clone())),
            authorizer,
            pages,
            hsts,
            limits,
            rate_limits,
            concurrency,
            compressor,
            body_bytes,
            body_bytes_max,
            cache_store: resources.caches.store(&config.cache),
        }
    }

    /// Returns the steps around responses of the server itself, such as 404 for a path without a route.
    pub(crate) fn outer(&self) -> Vec<Arc<dyn Step>> {
        in_order(self.outer_of(&self.site.steps, &self.admission, self.pages.clone()))
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
        if let Some(pages) = pages {
            let intercepts = settings.intercept_errors == Some(true);
            steps.push(planned(StepKind::ErrorPages, ErrorPages { pages, intercepts }));
        }
        steps
    }

    /// Returns the steps of a route, the outermost first.
    pub(crate) fn of_route(&self, route: &config::Route, problems: &mut Vec<Problem>) -> Vec<Arc<dyn Step>> {
        route.steps.check(&route.paths, &route.location, problems);
        let settings = route.steps.after(&self.site.steps);
        let own = route.steps.pages(self.pages.clone(), &route.location, problems);
        let table = &route.steps.admission;
        let admission = Admission::new(table, &self.admission, &self.shared, &route.location, problems);
        let mut steps = self.outer_of(&settings, &admission, own.or_else(|| self.pages.clone()));
        let compressor = route.steps.compressor(self.compressor.as_ref());
        let compresses = compressor.is_some();
        steps.extend(compressor.map(|compressor| planned(StepKind::Compression, Compress { compressor })));
        steps.extend(admission.before_limits());
        self.plan_logins(route, &admission, &mut steps, problems);
        self.plan_settings(&settings, &mut steps);
        self.plan_cache(route, settings.cache, compresses, &mut steps, problems);
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
        let login = route.steps.admission.login(&self.site.steps.admission);
        let limits = self.limits_of(route);
        let (concurrency, rates) = &limits;
        steps.extend(concurrency.outer.clone().map(|step| (StepKind::ConcurrentRequests, step)));
        steps.extend(rates.outer.clone().map(|step| (StepKind::RateLimit, step)));
        if login.has_users {
            let by_user = concurrency.by_user.clone();
            steps.extend(by_user.map(|step| (StepKind::ConcurrentRequestsByUser, step)));
            steps.extend(rates.by_user.clone().map(|step| (StepKind::RateLimitByUser, step)));
        }
        steps.extend(admission.logins(&rates.logins));
        let authorizer = self.authorizer(route, problems);
        if route.handler.is_cacheable() || login.has_authorizer || authorizer.is_some() {
            let step = self.without_forwarding_fields.clone();
            steps.push((StepKind::WithoutForwardingFields, step));
        }
        steps.extend(authorizer.map(|authorizer| planned(StepKind::Authorize, authorizer)));
        let without_user_fields = self.without_user_fields.clone();
        steps.extend(without_user_fields.map(|step| (StepKind::WithoutUserFields, step)));
    }

    /// Adds what the settings alone determine.
    fn plan_settings(&self, settings: &StepsTable, steps: &mut Vec<Planned>) {
        let bandwidth = settings.bandwidth.as_ref().and_then(OrOff::on);
        steps.extend(bandwidth.map(|table| (StepKind::Bandwidth, limits::bandwidth(table))));
        let bytes = settings.body_bytes.map_or(self.body_bytes, |size| size.0);
        if bytes < self.body_bytes_max {
            steps.push(planned(StepKind::BodyBytes, BodyLimit { bytes }));
        }
        let timeout = settings.request_timeout;
        steps.extend(timeout.map(|timeout| planned(StepKind::RequestTimeout, RequestTimeout(timeout.0))));
        if !settings.request_headers.is_empty() {
            let fields = RequestFields(Changes::new(&settings.request_headers.0));
            steps.push(planned(StepKind::RequestHeaders, fields));
        }
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
            if route.steps.cache.as_ref().is_some_and(|table| table.is_off) {
                let problem = Problem::key(&route.location.key("cache"), "a mirror always has a cache");
                problems.push(problem.label("remove it, or use `proxy`"));
            }
            cache = Some(MirrorTable::cache(cache));
            let mirror = Mirror::new(table, self.cache_store.clone());
            steps.extend(mirror.map(|mirror| planned(StepKind::Mirror, mirror)));
        }
        let Some(table) = cache.filter(|table| !table.is_off) else { return };
        if !route.handler.is_cacheable() {
            problems.extend(route.steps.cache.as_ref().map(|_| not_cacheable(route)));
            return;
        }
        let (scope, site, identifies_content) = match route.handler {
            // Its keys are URLs of the repository, which no request for another site can have.
            HandlerTable::Mirror(_) => ("mirror".to_owned(), "mirror".to_owned(), true),
            _ => (self.site.own_addresses(), site_name(self.site), compresses),
        };
        let cache = Cache::new(&table, scope, &site, self.cache_store.clone(), identifies_content);
        steps.push(planned(StepKind::Cache, cache));
    }

    /// The limits of a route, its own or those of the site: of concurrent requests, and of requests per time.
    fn limits_of(&self, route: &config::Route) -> (LimitSteps, LimitSteps) {
        let place = place(self.site, &route.paths);
        let concurrency = own_limits(route.steps.concurrent_requests.as_ref(), &self.concurrency, |list| {
            self.limits.concurrency(list, &place)
        });
        let rates = own_limits(route.steps.rate_limit.as_ref(), &self.rate_limits, |list| {
            self.limits.rates(list, &place)
        });
        (concurrency, rates)
    }

    /// The authorizer of a route. `None` after a problem, because the configuration is then rejected.
    fn authorizer(&self, route: &config::Route, problems: &mut Vec<Problem>) -> Option<Authorizer> {
        match &route.authorize {
            None => self.authorizer.clone(),
            Some(setting) => {
                let authorizer = Authorizer::new(setting.on()?, &route.location.key("authorize"));
                authorizer.map_err(|more| problems.extend(more)).ok()
            }
        }
    }
}

/// A step and its kind.
pub(super) type Planned = (StepKind, Arc<dyn Step>);

pub(super) fn planned(kind: StepKind, step: impl Step + 'static) -> Planned {
    (kind, Arc::new(step))
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

impl FieldChanges {
    /// Reports fields that no setting can change, and placeholders that the paths do not define.
    fn problems(&self, paths: &[PathPattern], location: &Location, of_request: bool) -> Vec<Problem> {
        let mut problems = Vec::new();
        for change in &self.0 {
            let location = location.key(&change.key);
            if let Some(why) = change.fault(of_request) {
                problems
                    .push(Problem::key(&location, format!("{} cannot be changed", change.key)).label(why));
            }
            for template in change.action.values() {
                if let Err((title, expected)) = template.check_paths(paths) {
                    problems.push(Problem::value(&location, title).label(expected));
                }
            }
        }
        problems
    }
}

impl FieldChange {
    /// Why no setting can change the field.
    fn fault(&self, of_request: bool) -> Option<&'static str> {
        let of_request_only: &[HeaderName] = &[header::HOST, header::EXPECT];
        if super::field_changes::is_of_connection(&self.name) {
            Some("the server sets it for each connection, or frames messages with it")
        } else if of_request && of_request_only.contains(&self.name) {
            Some("the server has selected the site and the form of the request with it")
        } else {
            None
        }
    }
}
