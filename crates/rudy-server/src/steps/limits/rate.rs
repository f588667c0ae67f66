//! The step that limits requests per time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use rudy_limit::{Allowance, Decision, Key, RateLimiter};
use rudy_net::{Reply, Request, Response};

use super::key::KeySource;
use super::meter::Meter;
use super::{Counted, Effect, LimitStatus, Max, Settings, is_counted};
use crate::handlers::{Call, Start};
use crate::pages;
use crate::steps::{HeadCall, Next, Step};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// A rate limit and its counts.
#[derive(Debug)]
pub(super) struct RateLimit {
    limiter: RateLimiter,
    meter: Meter,
    /// `RateLimit-Policy`, without a comma.
    policy: String,
}

impl RateLimit {
    pub(super) fn new(settings: Settings) -> Self {
        let (allowance, memory, policy) = match settings.max {
            Max::PerTime { rate, burst, memory } => {
                let full_after = rate.period.mul_f64(f64::from(burst) / f64::from(rate.requests));
                let policy = format!(";q={burst};w={}", seconds(full_after));
                (Allowance::new(rate.requests, rate.period, burst), memory, policy)
            }
            // A limit of the other kind has no rate.
            Max::AtOnce(max) => (Allowance::new(max, Duration::from_secs(1), max), 0, String::new()),
        };
        let policy = format!("{}{policy}", quoted(&settings.label()));
        let what = format!("rate limit of {} ({})", settings.label(), settings.max);
        Self {
            limiter: RateLimiter::new(allowance, memory, Instant::now()),
            meter: Meter::new(settings, what),
            policy,
        }
    }

    pub(super) fn status(&self) -> LimitStatus {
        let (rejected, dry_run) = self.meter.counts();
        LimitStatus {
            name: self.meter.settings.label(),
            max: self.meter.settings.max.to_string(),
            by: self.meter.key_settings().to_string(),
            rejected,
            dry_run,
            shared: Some(self.limiter.shared()),
            memory_bytes: Some(self.limiter.allocated_bytes()),
            active_keys: None,
            top: self.meter.top(),
        }
    }
}

/// A rate limit, and what happens over it.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    pub(super) limit: Arc<RateLimit>,
    pub(super) effect: Effect,
    pub(super) sends_fields: bool,
}

/// The limits of a site or route: a request needs the allowance of each, and otherwise uses none.
#[derive(Debug)]
pub(super) struct RateLimits(pub(super) Vec<Applied>);

/// A request over a limit.
struct Over<'l> {
    applied: &'l Applied,
    key: Key,
    decision: Decision,
}

/// A request, and what was decided on it.
struct Deciding<'a> {
    request: KeySource<'a>,
    /// The limits that have counted it.
    counted: Option<&'a Counted>,
    now: Instant,
    /// The fields for its response.
    fields: Vec<(HeaderName, String)>,
}

impl Deciding<'_> {
    /// Counts the request with each limit, or with none of them.
    fn take<'l>(&mut self, limits: &'l [Applied]) -> Result<(), Over<'l>> {
        let Some((applied, others)) = limits.split_first() else { return Ok(()) };
        let Applied { limit, effect, .. } = applied;
        if self.counted.is_some_and(|counted| counted.includes(limit)) {
            return self.take(others);
        }
        let key = limit.meter.key(&self.request);
        let decision = limit.limiter.take(key, self.now);
        if !decision.is_allowed() && !effect.dry_run {
            self.add_fields(applied, decision);
            return Err(Over { applied, key, decision });
        }
        let taken = self.take(others);
        if decision.is_allowed() && taken.is_err() {
            limit.limiter.give_back(key);
        }
        taken?;
        if !decision.is_allowed() {
            limit.meter.count(key, &self.request, *effect, self.now);
        }
        self.add_fields(applied, decision);
        Ok(())
    }

    fn add_fields(&mut self, applied: &Applied, decision: Decision) {
        if applied.sends_fields {
            let Decision { remaining, full_after, .. } = decision;
            let name = quoted(&applied.limit.meter.settings.label());
            self.fields.push((POLICY, applied.limit.policy.clone()));
            self.fields.push((STATE, format!("{name};r={remaining};t={}", seconds(full_after))));
        }
    }
}

/// Rounds up: a client that waits this long is not early.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Formats a string of structured fields (RFC 9651 §3.3.3). Other characters than those of ASCII cannot be in one.
fn quoted(text: &str) -> String {
    let allowed = text.chars().filter(|letter| matches!(letter, ' '..='~'));
    let escaped = allowed.flat_map(|letter| {
        let escape = matches!(letter, '"' | '\\').then_some('\\');
        escape.into_iter().chain([letter])
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn add_fields(fields: &[(HeaderName, String)], headers: &mut HeaderMap) {
    for (name, value) in fields {
        // Only characters of ASCII, see `quoted`.
        if let Ok(value) = HeaderValue::try_from(value.as_str()) {
            headers.append(name.clone(), value);
        }
    }
}

impl Over<'_> {
    /// Returns the response, and counts the request.
    fn reject(&self, request: &Request, deciding: &Deciding<'_>) -> Response {
        let Self { applied: Applied { limit, effect, .. }, key, decision } = self;
        limit.meter.count(*key, &deciding.request, *effect, deciding.now);
        let wait = seconds(decision.retry_after.unwrap_or_default()).max(1);
        let explanation = format!("Too many requests. Try again in {}.", rudy_units::counted(wait, "second"));
        let mut response = pages::error(effect.status, request.headers(), &explanation);
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
        add_fields(&deciding.fields, response.headers_mut());
        response
    }
}

impl Step for RateLimits {
    fn call(&self, mut request: Request, call: Call<'_>, next: Next) -> Reply {
        if !is_counted(&request) {
            return next.call(request, call);
        }
        let counted = request.extensions().get::<Counted>();
        let source = KeySource::of_request(&request, &call);
        let mut deciding = Deciding { request: source, counted, now: Instant::now(), fields: Vec::new() };
        if let Err(over) = deciding.take(&self.0) {
            return over.reject(&request, &deciding).into();
        }
        let fields = deciding.fields;
        Counted::add(&mut request, self.0.iter().map(|applied| &applied.limit));
        let reply = next.call(request, call);
        if fields.is_empty() {
            return reply;
        }
        reply.map(move |mut response| {
            add_fields(&fields, response.headers_mut());
            response
        })
    }

    fn describe(&self) -> Vec<String> {
        let line = |Applied { limit, effect, .. }: &Applied| {
            format!("rate limit: {} by {}, {effect}", limit.meter.settings.max, limit.meter.key_settings())
        };
        self.0.iter().map(line).collect()
    }

    fn start(&self, start: &Start<'_>) -> io::Result<()> {
        self.0.iter().for_each(|applied| applied.limit.meter.set_log(start.log));
        Ok(())
    }

    fn finish(&self, response: Response, _call: HeadCall<'_>) -> Option<Response> {
        Some(response)
    }

    /// The fields are not those of a prepared head.
    fn can_finish(&self) -> bool {
        self.0.iter().all(|applied| !applied.sends_fields)
    }

    fn admit(&self, response: Response, call: HeadCall<'_>) -> Option<Response> {
        let request = KeySource::of_head(call);
        let mut deciding = Deciding { request, counted: None, now: Instant::now(), fields: Vec::new() };
        deciding.take(&self.0).ok().map(|()| response)
    }
}
