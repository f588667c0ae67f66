//! The settings of what surrounds the handlers of a site or a route, in one table, and the steps that are made of them.

mod admission;
mod steps;

use std::sync::Arc;

use http::{HeaderValue, header};
use rudy_caching::CacheTable;
use rudy_config::{Location, Problem, Table};
use rudy_guard::{Changes, ResponseFields};
use rudy_pipeline::Step;
use rudy_pipeline::field_changes::{FieldChange, FieldChanges};
use rudy_pipeline::media_types::FileTypes;

pub(crate) use self::admission::AdmissionTable;
pub(crate) use self::steps::{StepKind, StepsTable};

/// The cache of a site or a route. It is no setting for all sites: at the top, `[cache]` is the store of all caches.
#[derive(Debug, Clone, Table)]
#[setting(default)]
pub struct CacheSetting {
    /// Stores responses of `proxy`, `fastcgi` and `php`, and responds with them while they are fresh (RFC 9111): `true`, or a table.
    /// `false` disables the cache of the site for a route. Other handlers of a site are not affected.
    #[setting(example = true, example = { bypass_cookies = ["session*"] })]
    pub cache: Option<CacheTable>,
}

impl CacheSetting {
    /// Reports invalid settings of the cache of a site or a route.
    pub(crate) fn problem(&self, location: &Location) -> Option<Problem> {
        self.cache.as_ref()?.problem(&location.key("cache"))
    }
}

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
