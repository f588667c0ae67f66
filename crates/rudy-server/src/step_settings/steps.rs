//! The list of steps: their settings, and their kinds in their order. A step is a setting of [`StepsTable`], and a kind in `step_kinds!`.

use std::path::PathBuf;
use std::sync::Arc;

use rudy_config::{Location, OneOrMany, OrOff, Problem, Table};
use rudy_guard::{
    BandwidthTable, BodyLimit, CacheControl, CacheControlTable, Changes, ConcurrencyTable, ErrorPagesTable,
    Pages, RateLimitTable, RequestFields, RequestTimeout,
};
use rudy_pipeline::Step;
use rudy_pipeline::compression::CompressionSetting;
use rudy_pipeline::field_changes::FieldChanges;
use rudy_pipeline::media_types::{Charset, MediaTypeTable};
use rudy_pipeline::routing::template::Scope;
use rudy_units::{Size, Timeout};

use super::{AdmissionTable, EffectiveSettings, step};

/// What surrounds the handlers of all sites, those of a site, or the handler of a route. A route extends the settings of its site, and a
/// site those for all sites.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct StepsTable {
    /// Changes to the header fields of every response, errors and redirects too: a value sets a field, `false` removes it,
    /// `{ add = "..." }` adds a line, `{ default = "..." }` sets a field that the response lacks, and
    /// `{ replace = "...", with = "..." }` replaces a text in the field. Values can contain `{path}`, `{query}`, `{host}`,
    /// `{method}`, `{scheme}`, `{client}` (its address), `{unix_time}`, `{header.NAME}`, `{cookie.NAME}`, `{query.NAME}` (of the request) and `{map.NAME}`. The changes of a route come
    /// after those of its site, and replace them for the same field. A value of `Cache-Control` or `Expires` that lets caches store a response
    /// is for successful ones (2xx and 304) only, except with `{ set = "...", always = true }`.
    #[setting(example = { "X-Frame-Options" = "DENY", Server = false, "Set-Cookie" = { add = "seen=1" } })]
    pub response_headers: FieldChanges,
    /// How long caches may keep successful responses (2xx and 304), whatever the handler is: a value of `Cache-Control`, or a list of
    /// values by path, of which the first that matches counts. It replaces `Cache-Control` and `Expires`, unless the response has `private`,
    /// `no-store` or `no-cache`. That of a route replaces that of its site, and `false` switches it off.
    #[setting(example = "max-age=600", example = [{ pattern = "*.css", value = "max-age=31536000, immutable" }])]
    pub cache_control: Option<OrOff<OneOrMany<CacheControlTable>>>,
    /// Changes to the header fields of requests, before the handler, in the form of `response_headers`. A field that is set
    /// or removed is removed in every spelling that is the same variable for an app.
    #[setting(example = { "X-Frame-Options" = "DENY", Server = false, "Set-Cookie" = { add = "seen=1" } })]
    pub request_headers: FieldChanges,
    /// Sets header fields that protect against common attacks, where a response lacks them: `X-Content-Type-Options:
    /// nosniff`, `X-Frame-Options: SAMEORIGIN`, `Referrer-Policy: strict-origin-when-cross-origin` and
    /// `Permissions-Policy: browsing-topics=()`.
    #[setting(example = true)]
    pub security_headers: Option<bool>,
    /// Pages for errors of the server, and with `intercept_errors` those of apps: a folder with `404.html`, `5xx.html` or
    /// `error.html`, or a table by status. `404 = "/not-found"` is a path of the site, `404 = { file = "404.html" }` a file, and
    /// `folder = "errors"` a folder for the other statuses. The response keeps its status. Names ending in `.html.j2` are
    /// templates with `{{ status }}`, `{{ reason }}`, `{{ explanation }}`, `{{ host }}` and `{{ path }}`. Clients that accept
    /// only JSON get `application/problem+json` instead of a file. The pages of a route come before those of its site.
    #[setting(example = "errors", example = { 404 = "/not-found", 5xx = { file = "down.html" } })]
    pub error_pages: Option<ErrorPagesTable>,
    /// Replaces errors (4xx and 5xx) of apps and upstreams by the error pages. The default is `false`: apps have their own.
    #[setting(example = true)]
    pub intercept_errors: Option<bool>,
    /// Who may send requests.
    #[setting(part)]
    pub admission: AdmissionTable,
    /// Limits for requests per time, by the address of the client or another part of the request. A request over a limit gets 429 with
    /// `Retry-After`. Those of a route replace those of its site, which count the requests of all other routes together. On a route,
    /// `false` switches off those of the site.
    #[setting(example = "10/s")]
    pub rate_limit: Option<OrOff<OneOrMany<RateLimitTable>>>,
    /// Limits for requests in progress at the same time, by the address of the client or another part of the request. A
    /// request over a limit gets 429. Those of a route replace those of its site, and `false` switches them off.
    #[setting(example = 20)]
    pub concurrent_requests: Option<OrOff<OneOrMany<ConcurrencyTable>>>,
    /// Bytes per second of each response, the same for a slow and a fast client. On a route, `false` switches off the setting of the site.
    #[setting(example = { rate = "500k", after = "10M" })]
    pub bandwidth: Option<OrOff<BandwidthTable>>,
    /// Maximum size of a request body, instead of `body_bytes` in `limits`. A larger one gets 413.
    #[setting(example = "100M")]
    pub body_bytes: Option<Size>,
    /// Maximum time from the head of a request to the head of its response. Then the request is cancelled, and its client gets
    /// 504. The default is no limit; apps have timeouts of their own.
    #[setting(example = "30s")]
    pub request_timeout: Option<Timeout>,
    /// Compresses responses while they are sent: `true`, or a table. The default is to compress files only. `false` does not
    /// compress files either. Do not compress pages that contain a secret and text of the request (the attack BREACH).
    #[setting(example = true)]
    pub compression: Option<CompressionSetting>,
    /// Media types of files by extension, besides the usual ones; `"*"` is for files of unknown types. Those of a route come before those
    /// of its site.
    #[setting(example = { md = "text/markdown", "*" = "text/plain" })]
    pub media_types: Option<MediaTypeTable>,
    /// Charset of text files, for which `media_types` has none. The default is `utf-8`, and `false` is for none. XML declares its own.
    #[setting(example = "iso-8859-1")]
    pub charset: Option<OrOff<Charset>>,
}

/// Makes the step of a kind. `None` without a setting.
type Make = fn(&EffectiveSettings<'_>) -> Option<Arc<dyn Step>>;

/// Lists all kinds of steps, with their names in the reference, and how to make those that depend only on settings. The plan adds the others.
macro_rules! step_kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal $(= $make:expr)?,)+) => {
        /// A kind of step. A request passes them in the order of the variants, and its response passes them back.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum StepKind {
            $($(#[$doc])* $kind,)+
        }

        impl StepKind {
            /// All kinds, in their order, with their names in the reference.
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$kind, $name)),+];

            pub(super) const MADE_OF_SETTINGS: &[(Self, Make)] = &[$($((Self::$kind, $make),)?)+];
        }
    };
}

step_kinds! {
    /// Paces the response. The outermost, so that it paces what is sent.
    Bandwidth: "`bandwidth`" = |settings| {
        settings.innermost(|steps| steps.bandwidth.as_ref())?.on().map(rudy_guard::bandwidth)
    },
    /// Around the others, so that it has the last word about the media type, the entity tag and `Vary`.
    Compression: "`compression`",
    ResponseHeaders: "`response_headers`, `security_headers` and HSTS",
    CorsHeaders: "`cors`: the fields of responses",
    Conditions: "`when`: the fields that choose a route, in `Vary`",
    ErrorPages: "`error_pages`",
    CacheControl: "`cache_control`" = |settings| {
        settings.innermost(|steps| steps.cache_control.as_ref())?.on().map(|rules| step(CacheControl::new(rules)))
    },
    Maintenance: "`maintenance`",
    Access: "`allow`, `deny` and `access`",
    /// Preflight requests have no credentials.
    CorsPreflight: "`cors`: preflight requests",
    /// A request that has too many others beside it does not use up the allowance of the client.
    ConcurrentRequests: "`concurrent_requests`",
    RateLimit: "`rate_limit`",
    WithoutUserFields: "removal of fields in which a login names users",
    WithoutForwardingFields: "removal of fields that only proxies set",
    BasicAuth: "`basic_auth`",
    ForwardAuth: "`forward_auth`",
    ConcurrentRequestsByUser: "`concurrent_requests` by user",
    RateLimitByUser: "`rate_limit` by user",
    Authorize: "`authorize`",
    BodyBytes: "`body_bytes`" = |settings| {
        let bytes = settings.innermost(|steps| steps.body_bytes).map_or(settings.body_bytes, |size| size.0);
        (bytes < settings.body_bytes_max).then(|| step(BodyLimit { bytes }))
    },
    RequestTimeout: "`request_timeout`" = |settings| {
        Some(step(RequestTimeout(settings.innermost(|steps| steps.request_timeout)?.0)))
    },
    RequestHeaders: "`request_headers`" = |settings| {
        let changes = settings.changes(|steps| &steps.request_headers);
        (!changes.is_empty()).then(|| step(RequestFields(Changes::new(&changes.0))))
    },
    Mirror: "`mirror`",
    /// The innermost: it sees the request as the handler does, on which `Vary` of the response is based.
    Cache: "`cache`",
}

impl StepsTable {
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
    pub(crate) fn check(&self, scope: Scope<'_>, location: &Location, problems: &mut Vec<Problem>) {
        let tables =
            [("response_headers", &self.response_headers), ("request_headers", &self.request_headers)];
        for (key, changes) in tables {
            problems.extend(changes.problems(scope, &location.key(key), key == "request_headers"));
        }
    }

    /// Reads the error pages, which come before those of the site. Returns those of the site without a setting.
    pub(crate) fn pages(
        &self,
        of_site: Option<&Arc<Pages>>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<Pages>> {
        let Some(table) = &self.error_pages else { return of_site.cloned() };
        Some(Arc::new(table.read(of_site.cloned(), &location.key("error_pages"), problems)))
    }
}
