//! The settings of what surrounds the handlers of a site or a route, in one table, and the order of the steps.

mod admission;

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderValue, header};
use rudy_caching::CacheTable;
use rudy_config::{Location, OneOrMany, OrOff, Problem, Table};
use rudy_guard::{
    BandwidthTable, BodyLimit, Changes, Compressor, ConcurrencyTable, ErrorPagesTable, Pages, RateLimitTable,
    RequestFields, RequestTimeout, ResponseFields,
};
use rudy_pipeline::Step;
use rudy_pipeline::compression::CompressionSetting;
use rudy_pipeline::field_changes::{FieldChange, FieldChanges};
use rudy_pipeline::media_types::{Charset, FileTypes, MediaTypeTable};
use rudy_pipeline::routing::PathPattern;
use rudy_units::{Size, Timeout};

pub(crate) use self::admission::AdmissionTable;

/// What surrounds the handlers of all sites, those of a site, or the handler of a route. A route extends the settings of its site, and a
/// site those for all sites.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct StepsTable {
    /// Changes to the header fields of every response, errors and redirects too: a value sets a field, `false` removes it,
    /// `{ add = "..." }` adds a line, `{ default = "..." }` sets a field that the response lacks, and
    /// `{ replace = "...", with = "..." }` replaces a text in the field. Values can contain `{path}`, `{query}`, `{host}`,
    /// `{method}`, `{scheme}`, `{client}` (its address) and `{header.NAME}` (of the request). The changes of a route come
    /// after those of its site, and replace them for the same field.
    #[setting(example = { "X-Frame-Options" = "DENY", Server = false, "Set-Cookie" = { add = "seen=1" } })]
    pub response_headers: FieldChanges,
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

/// The cache of a site or a route. It is no setting for all sites: at the top, `[cache]` is the store of all caches.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct CacheSetting {
    /// Stores responses of `proxy`, `fastcgi` and `php`, and responds with them while they are fresh (RFC 9111): `true`, or a table.
    /// `false` disables the cache of the site for a route. Other handlers of a site are not affected.
    #[setting(example = true, example = { bypass_cookies = ["session*"] })]
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
    pub(crate) fn after(&self, site: &Self) -> Self {
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
        }
    }

    /// Adds those settings for all sites to those of a site that routes look up in their site. The plan adds the others.
    pub(crate) fn inherit(&mut self, of_all: &Self) {
        inherit(&mut self.compression, of_all.compression.as_ref());
        inherit(&mut self.charset, of_all.charset.as_ref());
        self.media_types = match (self.media_types.take(), &of_all.media_types) {
            (Some(own), Some(of_all)) => Some(own.after(of_all)),
            (own, of_all) => own.or_else(|| of_all.clone()),
        };
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
    pub(crate) fn check(&self, paths: &[PathPattern], location: &Location, problems: &mut Vec<Problem>) {
        let tables =
            [("response_headers", &self.response_headers), ("request_headers", &self.request_headers)];
        for (key, changes) in tables {
            problems.extend(changes.problems(paths, &location.key(key), key == "request_headers"));
        }
    }

    /// Reads the error pages, which come before those of the site. `None` without a setting.
    pub(crate) fn pages(
        &self,
        of_site: Option<Arc<Pages>>,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<Pages>> {
        let table = self.error_pages.as_ref()?;
        Some(Arc::new(table.read(of_site, &location.key("error_pages"), problems)))
    }

    /// Returns the compressor of these settings, or that of the site without a setting.
    pub(crate) fn compressor(&self, of_site: Option<&Arc<Compressor>>) -> Option<Arc<Compressor>> {
        match &self.compression {
            Some(CompressionSetting(table)) => table.as_ref().map(|table| Arc::new(Compressor::new(table))),
            None => of_site.cloned(),
        }
    }

    pub(crate) fn response_fields(&self, hsts: Option<&HeaderValue>) -> Option<ResponseFields> {
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

    /// Returns the steps that these settings alone determine. `body_bytes` is the maximum size of a request body where no other is set, and
    /// `body_bytes_max` the largest of these sizes, which connections check.
    pub(crate) fn steps(&self, body_bytes: u64, body_bytes_max: u64) -> impl Iterator<Item = Planned> {
        let bandwidth = self.bandwidth.as_ref().and_then(OrOff::on);
        let bandwidth = bandwidth.map(|table| (StepKind::Bandwidth, rudy_guard::bandwidth(table)));
        let bytes =
            Some(self.body_bytes.map_or(body_bytes, |size| size.0)).filter(|bytes| *bytes < body_bytes_max);
        let bytes = bytes.map(|bytes| planned(StepKind::BodyBytes, BodyLimit { bytes }));
        let timeout = self.request_timeout;
        let timeout = timeout.map(|timeout| planned(StepKind::RequestTimeout, RequestTimeout(timeout.0)));
        let fields = Some(&self.request_headers).filter(|fields| !fields.is_empty());
        let fields =
            fields.map(|fields| planned(StepKind::RequestHeaders, RequestFields(Changes::new(&fields.0))));
        [bandwidth, bytes, timeout, fields].into_iter().flatten()
    }
}

/// Sets a missing setting.
pub(crate) fn inherit<T: Clone>(own: &mut Option<T>, of_all: Option<&T>) {
    if own.is_none() {
        *own = of_all.cloned();
    }
}

/// A step and its kind.
pub(crate) type Planned = (StepKind, Arc<dyn Step>);

/// Returns a step with its kind.
pub(crate) fn planned(kind: StepKind, step: impl Step + 'static) -> Planned {
    (kind, Arc::new(step))
}

/// Lists all kinds of steps, with their names in the reference.
macro_rules! step_kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal,)+) => {
        /// A kind of step. A request passes them in the order of the variants, and its response passes them back.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum StepKind {
            $($(#[$doc])* $kind,)+
        }

        impl StepKind {
            /// All kinds, in their order, with their names in the reference.
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$kind, $name)),+];
        }
    };
}

step_kinds! {
    /// Paces the response. The outermost, so that it paces what is sent.
    Bandwidth: "`bandwidth`",
    /// Around the others, so that it has the last word about the media type, the entity tag and `Vary`.
    Compression: "`compression`",
    ResponseHeaders: "`response_headers`, `security_headers` and HSTS",
    CorsHeaders: "`cors`: the fields of responses",
    Conditions: "`when`: the fields that choose a route, in `Vary`",
    ErrorPages: "`error_pages`",
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
    BodyBytes: "`body_bytes`",
    RequestTimeout: "`request_timeout`",
    RequestHeaders: "`request_headers`",
    Mirror: "`mirror`",
    /// The innermost: it sees the request as the handler does, on which `Vary` of the response is based.
    Cache: "`cache`",
}
