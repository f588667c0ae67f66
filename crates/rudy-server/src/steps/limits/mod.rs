//! Limits for requests: how many per time, how many at the same time, and how fast a response is sent.
//!
//! [`rate`] and [`concurrency`] count requests by a [`key`], such as the address of the client, in tables of [`rudy_limit`] that all
//! workers share. They outlive a reload that does not change their settings ([`Limits`]). [`bandwidth()`] paces a response.
//!
//! A limit counts a request once, also if internal redirects lead it through several routes ([`Counted`]). Requests of the server
//! itself for error pages are not counted.

mod bandwidth;
mod concurrency;
mod key;
mod meter;
mod pieces;
mod rate;
mod status;
mod table;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use http::StatusCode;
use rudy_net::Request;

use self::bandwidth::Bandwidth;
use self::concurrency::{ConcurrencyLimit, ConcurrencyLimits};
pub use self::key::KeyPart;
use self::key::KeySettings;
use self::rate::{RateLimit, RateLimits};
pub(crate) use self::status::{LimitStatus, TopKeyStatus};
pub use self::table::{BandwidthTable, ConcurrencyTable, RateLimitTable, RequestRate};
use super::{Step, StepsTable};
use crate::config::{Config, Location, OneOrMany, Problem};
use crate::internal_redirect::ErrorPageFor;
use crate::registry::Registry;

/// The maximum number of limits in a list.
const LIMITS_MAX: usize = 16;

/// The limits by key of a process, with their counts.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    rates: Registry<Settings, RateLimit>,
    concurrency: Registry<Settings, ConcurrencyLimit>,
}

/// What identifies a limit by key. Limits with the same settings share their counts.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    scope: Scope,
    max: Max,
    key: KeySettings,
}

/// The requests that a limit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// Of all routes with a limit of this name.
    Named(String),
    /// Of one site or route.
    Of(Place, usize),
}

/// A site, or a route of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The first host and path.
    pub(super) label: String,
    /// All hosts and paths.
    pub(super) identity: String,
}

/// The number of requests that a limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Max {
    PerTime { rate: RequestRate, burst: u32, memory: usize },
    AtOnce(u32),
}

/// What a step does with a request over a limit.
#[derive(Debug, Clone, Copy)]
struct Effect {
    status: StatusCode,
    /// Only counts and logs it.
    dry_run: bool,
}

impl Settings {
    /// The name for logs and commands.
    fn label(&self) -> String {
        match &self.scope {
            Scope::Named(name) => name.clone(),
            Scope::Of(place, 0) => place.label.clone(),
            Scope::Of(place, number) => format!("{} ({})", place.label, number + 1),
        }
    }
}

impl Limits {
    /// Returns the step for the rate limits of a site or route.
    pub(super) fn rates(&self, tables: &[RateLimitTable], place: &Place) -> Arc<dyn Step> {
        let limit = |(number, table): (usize, &RateLimitTable)| {
            let settings = table.settings(place, number);
            let Ok(limit) = self
                .rates
                .get_or_create(&settings, || Ok::<_, Infallible>(Arc::new(RateLimit::new(settings.clone()))));
            rate::Applied { limit, effect: table.effect(), sends_fields: table.send_fields }
        };
        Arc::new(RateLimits(tables.iter().enumerate().map(limit).collect()))
    }

    /// Returns the step for the limits of concurrent requests of a site or route.
    pub(super) fn concurrency(&self, tables: &[ConcurrencyTable], place: &Place) -> Arc<dyn Step> {
        let limit = |(number, table): (usize, &ConcurrencyTable)| {
            let settings = table.settings(place, number);
            let Ok(limit) = self.concurrency.get_or_create(&settings, || {
                Ok::<_, Infallible>(Arc::new(ConcurrencyLimit::new(settings.clone())))
            });
            concurrency::Applied { limit, effect: table.effect() }
        };
        Arc::new(ConcurrencyLimits(tables.iter().enumerate().map(limit).collect()))
    }

    /// Returns the counts of all limits.
    pub(crate) fn status(&self) -> Vec<LimitStatus> {
        let rates = self.rates.values();
        let concurrency = self.concurrency.values();
        rates
            .iter()
            .map(|limit| limit.status())
            .chain(concurrency.iter().map(|limit| limit.status()))
            .collect()
    }
}

/// Returns the step that paces responses.
pub(super) fn bandwidth(table: &BandwidthTable) -> Arc<dyn Step> {
    Arc::new(Bandwidth { bytes_per_second: table.rate.0, after: table.after.0 })
}

/// The limits that have counted a request already, in its extensions. Internal redirects keep them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted(Vec<usize>);

impl Counted {
    fn includes<T>(&self, limit: &Arc<T>) -> bool {
        self.0.contains(&Arc::as_ptr(limit).addr())
    }

    /// Notes limits in the extensions of a request.
    fn add<'l, T: 'l>(request: &mut Request, limits: impl Iterator<Item = &'l Arc<T>>) {
        let counted = request.extensions_mut().get_or_insert_default::<Self>();
        for limit in limits {
            if !counted.includes(limit) {
                counted.0.push(Arc::as_ptr(limit).addr());
            }
        }
    }
}

/// Whether limits count a request. The server itself makes those for error pages.
fn is_counted(request: &Request) -> bool {
    request.extensions().get::<ErrorPageFor>().is_none()
}

/// Reports lists that are too long, and limits that have the same name and other settings.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (mut rates, mut concurrency) = (Vec::new(), Vec::new());
    let place = Place { label: String::new(), identity: String::new() };
    for (steps, location) in places(config) {
        let of_rates = steps.rate_limit.iter().flat_map(OneOrMany::as_slice).enumerate();
        let key = location.key("rate_limit");
        check(of_rates.map(|(at, table)| table.settings(&place, at)), &key, &mut rates, &mut problems);
        let of_concurrency = steps.concurrent_requests.iter().flat_map(OneOrMany::as_slice).enumerate();
        let key = location.key("concurrent_requests");
        let settings = of_concurrency.map(|(at, table)| table.settings(&place, at));
        check(settings, &key, &mut concurrency, &mut problems);
    }
    problems
}

fn places(config: &Config) -> impl Iterator<Item = (&StepsTable, &Location)> {
    config.sites.iter().flat_map(|site| {
        let routes = site.routes.iter().map(|route| (&route.steps, &route.location));
        std::iter::once((&site.steps, &site.location)).chain(routes)
    })
}

fn check(
    list: impl Iterator<Item = Settings>,
    location: &Location,
    named: &mut Vec<(Settings, Location)>,
    problems: &mut Vec<Problem>,
) {
    for (at, settings) in list.enumerate() {
        if at == LIMITS_MAX {
            let title = format!("more than {LIMITS_MAX} limits");
            problems.push(Problem::value(location, title).label("too many"));
        }
        let Scope::Named(name) = &settings.scope else { continue };
        match named.iter().find(|(known, _)| known.scope == settings.scope) {
            Some((known, other)) if *known != settings => {
                let problem = Problem::value(location, format!("two limits named \"{name}\" differ"));
                let problem = problem.label("one of them").also(other, "the other one");
                problems.push(
                    problem.help("limits with the same name share their counts: write the same settings"),
                );
            }
            Some(_) => {}
            None => named.push((settings, location.clone())),
        }
    }
}

impl std::fmt::Display for Max {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PerTime { rate, burst, .. } => write!(f, "{rate}, {burst} at once"),
            Self::AtOnce(max) => write!(f, "{max} at once"),
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.dry_run { f.write_str("dry run") } else { write!(f, "otherwise {}", self.status.as_str()) }
    }
}
