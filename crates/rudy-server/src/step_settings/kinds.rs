//! The kinds of steps, in their order, and how those are made that depend only on settings.

use std::sync::Arc;

use http::{HeaderValue, header};
use rudy_guard::{BodyLimit, CacheControl, Changes, RequestFields, RequestTimeout, ResponseFields};
use rudy_pipeline::Step;
use rudy_pipeline::field_changes::{FieldChange, FieldChanges};
use rudy_pipeline::media_types::FileTypes;

use super::StepsTable;

/// The fields of `security_headers`, and their values.
const SECURITY_HEADERS: [(&str, &str); 4] = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("Permissions-Policy", "browsing-topics=()"),
];

/// The settings that apply to a site or a route.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveSettings<'c> {
    /// Those for all sites, those of the site, and those of the route.
    pub(crate) tables: Vec<&'c StepsTable>,
    /// The maximum size of a request body where no other is set.
    pub(crate) body_bytes: u64,
    /// The largest of these sizes in the configuration, which connections check.
    pub(crate) body_bytes_max: u64,
}

impl<'c> EffectiveSettings<'c> {
    /// Returns the settings of a route of the site that has these.
    pub(crate) fn of_route(&self, route: &'c StepsTable) -> Self {
        let mut settings = self.clone();
        settings.tables.push(route);
        settings
    }

    /// Returns the setting of the innermost table that has it.
    pub(crate) fn innermost<T>(&self, setting: impl Fn(&'c StepsTable) -> Option<T>) -> Option<T> {
        self.tables.iter().rev().find_map(|steps| setting(steps))
    }

    /// Returns the changes of all tables.
    fn changes(&self, changes: impl Fn(&StepsTable) -> &FieldChanges) -> FieldChanges {
        let tables = self.tables.iter();
        tables.fold(FieldChanges::default(), |outer, steps| changes(steps).after(&outer))
    }

    /// Returns how to find the media types of files.
    pub(crate) fn file_types(&self) -> FileTypes {
        self.tables.iter().fold(FileTypes::default(), |types, steps| {
            FileTypes::after(types, steps.media_types.as_ref(), steps.charset.as_ref())
        })
    }

    /// Returns the steps that depend only on settings.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Planned> {
        StepKind::MADE_OF_SETTINGS.iter().filter_map(|(kind, make)| Some((*kind, make(self)?)))
    }

    /// Returns the step that changes the fields of responses. `hsts` is the value of `Strict-Transport-Security`.
    pub(crate) fn response_fields(&self, hsts: Option<&HeaderValue>) -> Option<ResponseFields> {
        let preset = SECURITY_HEADERS.map(|(name, value)| FieldChange::default(name, value));
        let has_preset = self.innermost(|steps| steps.security_headers) == Some(true);
        let preset = preset.into_iter().filter(|_| has_preset);
        let plain: Vec<_> = preset.chain(self.changes(|steps| &steps.response_headers).0).collect();
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

/// A step and its kind.
pub(crate) type Planned = (StepKind, Arc<dyn Step>);

/// Returns a step with its kind.
pub(crate) fn planned(kind: StepKind, step: impl Step + 'static) -> Planned {
    (kind, Arc::new(step))
}

fn step(step: impl Step + 'static) -> Arc<dyn Step> {
    Arc::new(step)
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

            const MADE_OF_SETTINGS: &[(Self, Make)] = &[$($((Self::$kind, $make),)?)+];
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
