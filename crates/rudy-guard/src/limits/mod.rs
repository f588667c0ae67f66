//! Limits for requests: how many per time, how many at the same time, and how fast a response is sent.
//!
//! [`rate`] and [`concurrency`] count requests by a [`key`], such as the address of the client, in tables of [`rudy_limit`] that all
//! workers share. They outlive a reload that does not change their settings ([`Limits`]). [`bandwidth()`] paces a response.
//!
//! A limit counts a request once, also if internal redirects and error pages lead it through several routes ([`Counted`](rudy_pipeline::request_state::Counted)).

mod applied;
mod bandwidth;
mod concurrency;
mod key;
mod logins;
mod meter;
mod rate;
mod status;
mod table;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use rudy_admin::LimitStatus;
use rudy_config::{Location, OneOrMany, OrOff, Problem};
use rudy_pipeline::Step;
use rudy_pipeline::pacing::Rate;
use rudy_pipeline::registry::Registry;

use self::applied::{Applied, Limit, Limited};
use self::bandwidth::Bandwidth;
use self::concurrency::ConcurrencyLimit;
pub use self::key::KeyPart;
use self::key::KeySettings;
pub(crate) use self::logins::Attempt;
pub use self::logins::LoginLimits;
use self::rate::RateLimit;
pub use self::table::{BandwidthTable, ConcurrencyTable, Events, RateLimitTable, RequestRate};
use super::Login;

/// The maximum number of limits in a list.
const LIMITS_MAX: usize = 16;

/// The limits by key of a process, with their counts.
#[derive(Debug, Default)]
pub struct Limits {
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
pub struct Place {
    /// The first host and path.
    pub label: String,
    /// All hosts and paths.
    pub identity: String,
}

/// The number of requests that a limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Max {
    PerTime { rate: RequestRate, burst: u32, counts: Events, memory: usize },
    AtOnce(u32),
}

/// What a step does with a request over a limit.
#[derive(Debug, Clone, Copy)]
struct Effect {
    status: StatusCode,
    /// Only counts and logs it.
    dry_run: bool,
    /// Whether responses have fields with the allowance.
    sends_fields: bool,
}

/// The steps for the limits of a site or route.
#[derive(Debug, Clone, Default)]
pub struct LimitSteps {
    /// Before the login.
    pub outer: Option<Arc<dyn Step>>,
    /// After the login: the limits by user.
    pub by_user: Option<Arc<dyn Step>>,
    /// What the login itself counts.
    pub logins: LoginLimits,
}

impl LimitSteps {
    /// The steps before and after the login.
    fn new<L: Limit>(limits: &[(Position, Applied<L>)]) -> Self {
        Self {
            outer: Limited::step(at(Position::Outer, limits)),
            by_user: Limited::step(at(Position::ByUser, limits)),
            logins: LoginLimits::default(),
        }
    }
}

/// The place of a limit among the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Outer,
    Login,
    ByUser,
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

    fn position(&self) -> Position {
        match self.max {
            Max::PerTime { counts: Events::FailedLogins, .. } => Position::Login,
            _ if self.key.has_user() => Position::ByUser,
            _ => Position::Outer,
        }
    }

    /// Why the limit has no effect on requests with this login.
    fn fault(&self, login: Login) -> Option<(&'static str, &'static str)> {
        let position = self.position();
        if position == Position::Login && self.key.has_user() {
            Some(("a failed login has no user", "count by \"address\""))
        } else if position == Position::Login && !login.has_passwords {
            Some(("the limit counts failed logins, but there is no login", "set `basic_auth`"))
        } else if position == Position::ByUser && !login.has_users && login.has_authorizer {
            let title = "the limit counts by user, but the authorizer names none";
            Some((title, "let the authorizer send `Remote-User`, and add it to `copy` of `forward_auth`"))
        } else if position == Position::ByUser && !login.has_users {
            Some(("the limit counts by user, but there is no login", "set `basic_auth` or `forward_auth`"))
        } else {
            None
        }
    }
}

impl Limits {
    /// Returns the steps for the rate limits of a site or route.
    pub fn rates(&self, tables: &[RateLimitTable], place: &Place) -> LimitSteps {
        let limits = tables.iter().enumerate().map(|(number, table)| {
            let settings = table.settings(place, number);
            (settings.position(), Applied::new(&self.rates, &settings, table.effect()))
        });
        let limits: Vec<_> = limits.collect();
        LimitSteps { logins: LoginLimits::new(at(Position::Login, &limits)), ..LimitSteps::new(&limits) }
    }

    /// Returns the steps for the limits of concurrent requests of a site or route.
    pub fn concurrency(&self, tables: &[ConcurrencyTable], place: &Place) -> LimitSteps {
        let limits = tables.iter().enumerate().map(|(number, table)| {
            let settings = table.settings(place, number);
            (settings.position(), Applied::new(&self.concurrency, &settings, table.effect()))
        });
        LimitSteps::new(&limits.collect::<Vec<_>>())
    }

    /// Returns the number of requests that each limit has rejected, by name: those of the limits that a configuration has.
    pub fn rejected(&self) -> BTreeMap<String, u64> {
        let (rates, concurrency) = (self.rates.values(), self.concurrency.values());
        let meters =
            rates.iter().map(|limit| limit.meter()).chain(concurrency.iter().map(|limit| limit.meter()));
        let mut rejected = BTreeMap::new();
        for meter in meters.filter(|meter| meter.rejected() > 0) {
            *rejected.entry(meter.settings.label()).or_default() += meter.rejected();
        }
        rejected
    }

    /// Returns the counts of all limits.
    pub fn status(&self) -> Vec<LimitStatus> {
        let rates = self.rates.values();
        let concurrency = self.concurrency.values();
        rates
            .iter()
            .map(|limit| limit.status())
            .chain(concurrency.iter().map(|limit| limit.status()))
            .collect()
    }
}

/// Returns the limits at a position.
fn at<L>(position: Position, limits: &[(Position, Applied<L>)]) -> Vec<Applied<L>> {
    limits.iter().filter(|(other, _)| *other == position).map(|(_, applied)| applied.clone()).collect()
}

/// Returns the step that paces responses.
#[must_use]
pub fn bandwidth(table: &BandwidthTable) -> Arc<dyn Step> {
    Arc::new(Bandwidth(Rate { bytes_per_second: table.rate.0, after: table.after.0 }))
}

/// Finds lists that are too long, limits that have the same name and other settings, and those of a login that does not exist.
#[derive(Debug, Default)]
pub struct LimitCheck {
    rates: Vec<(Settings, Location)>,
    concurrency: Vec<(Settings, Location)>,
}

impl LimitCheck {
    /// Reports the problems of the limits of a site or route at `location`.
    pub fn check(
        &mut self,
        rates: Option<&OrOff<OneOrMany<RateLimitTable>>>,
        concurrency: Option<&OrOff<OneOrMany<ConcurrencyTable>>>,
        login: Login,
        location: &Location,
        problems: &mut Vec<Problem>,
    ) {
        let place = Place { label: String::new(), identity: String::new() };
        let rates = listed(rates).map(|(at, table)| table.settings(&place, at));
        check(rates, login, &location.key("rate_limit"), &mut self.rates, problems);
        let concurrency = listed(concurrency).map(|(at, table)| table.settings(&place, at));
        check(concurrency, login, &location.key("concurrent_requests"), &mut self.concurrency, problems);
    }
}

fn listed<T>(setting: Option<&OrOff<OneOrMany<T>>>) -> impl Iterator<Item = (usize, &T)> {
    setting.and_then(OrOff::on).into_iter().flat_map(OneOrMany::as_slice).enumerate()
}

fn check(
    list: impl Iterator<Item = Settings>,
    login: Login,
    location: &Location,
    named: &mut Vec<(Settings, Location)>,
    problems: &mut Vec<Problem>,
) {
    for (at, settings) in list.enumerate() {
        if at == LIMITS_MAX {
            let title = format!("more than {LIMITS_MAX} limits");
            problems.push(Problem::value(location, title).label("too many"));
        }
        if let Some((title, help)) = settings.fault(login) {
            problems.push(Problem::value(location, title.to_owned()).label("without effect").help(help));
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
            Self::PerTime { rate, burst, counts: Events::Requests, .. } => {
                write!(f, "{rate}, {burst} at once")
            }
            Self::PerTime { rate, burst, counts: Events::FailedLogins, .. } => {
                write!(f, "{rate} failed logins, {burst} at once")
            }
            Self::AtOnce(max) => write!(f, "{max} at once"),
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.dry_run { f.write_str("dry run") } else { write!(f, "otherwise {}", self.status.as_str()) }
    }
}
