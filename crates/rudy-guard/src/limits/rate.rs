//! The step that limits requests per time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue, header};
use rudy_admin::LimitStatus;
use rudy_limit::{Allowance, Decision, Key, RateLimiter, Slots};
use rudy_message::semantics::field::ChangeFields as _;
use rudy_pipeline::request_state::{Counted, HasRequestState};
use rudy_pipeline::{Call, Flow, Passage, pages};
use rudy_runtime::clock;
use rudy_service::{Request, Response};

use super::applied::{Applied, Limit};
use super::key::KeySource;
use super::meter::Meter;
use super::{Max, Settings};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// A rate limit and its counts.
#[derive(Debug)]
pub(super) struct RateLimit {
    pub(super) limiter: RateLimiter,
    /// The logins that are counted as failed until they are verified.
    pub(super) pending: Arc<Slots>,
    pub(super) meter: Meter,
    /// `RateLimit-Policy`, without a comma.
    policy: String,
}

/// A request over a limit.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) applied: Applied<RateLimit>,
    pub(super) key: Key,
    pub(super) decision: Decision,
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
    fn take(&mut self, limits: &[Applied<RateLimit>]) -> Result<(), Over> {
        let Some((applied, others)) = limits.split_first() else { return Ok(()) };
        let Applied { limit, effect } = applied;
        if self.counted.is_some_and(|counted| counted.includes(limit)) {
            return self.take(others);
        }
        let keys = limit.meter.keys(&self.request);
        let (key, decision) = limit.take(&keys, self.now);
        if !decision.is_allowed() && !effect.dry_run {
            return Err(Over { applied: applied.clone(), key, decision });
        }
        let taken = self.take(others);
        if decision.is_allowed() && taken.is_err() {
            keys.iter().for_each(|key| limit.limiter.give_back(*key));
        }
        taken?;
        if !decision.is_allowed() {
            limit.meter.count(key, &self.request, *effect, self.now);
        }
        self.fields.extend(fields(applied, decision));
        Ok(())
    }
}

impl RateLimit {
    /// Counts a request by each of its keys, or by none of them. Returns the key that decides.
    fn take(&self, keys: &[Key], now: Instant) -> (Key, Decision) {
        let (first, others) = keys.split_first().expect("a request has a key");
        let mut last = (*first, self.limiter.take(*first, now));
        for (count, key) in (1..).zip(others) {
            if !last.1.is_allowed() {
                break;
            }
            last = (*key, self.limiter.take(*key, now));
            if !last.1.is_allowed() {
                keys[..count].iter().for_each(|key| self.limiter.give_back(*key));
            }
        }
        last
    }
}

/// Returns the fields that describe an allowance, if the limit has them.
fn fields(applied: &Applied<RateLimit>, decision: Decision) -> Vec<(HeaderName, String)> {
    if !applied.effect.sends_fields {
        return Vec::new();
    }
    let Decision { remaining, full_after, .. } = decision;
    let name = quoted(&applied.limit.meter.settings.label());
    let state = format!("{name};r={remaining};t={}", seconds(full_after));
    vec![(POLICY, applied.limit.policy.clone()), (STATE, state)]
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

pub(super) fn add_fields(fields: &[(HeaderName, String)], response: &mut Response) {
    for (name, value) in fields {
        // Only characters of ASCII, see `quoted`.
        if let Ok(value) = HeaderValue::try_from(value.as_str()) {
            response.add(name.clone(), value);
        }
    }
}

impl Over {
    /// Returns the response, and counts the request.
    pub(super) fn reject(&self, request: &Request<'_>, source: &KeySource<'_>) -> Response {
        let Self { applied: Applied { limit, effect }, key, decision } = self;
        limit.meter.count(*key, source, *effect, clock::now());
        let wait = seconds(decision.retry_after.unwrap_or_default()).max(1);
        let explanation = format!("Too many requests. Try again in {}.", rudy_units::counted(wait, "second"));
        let mut response = pages::error(effect.status, request.headers(), &explanation);
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
        add_fields(&fields(&self.applied, *decision), &mut response);
        response
    }
}

impl Limit for RateLimit {
    fn new(settings: Settings) -> Self {
        let (allowance, memory, policy) = match settings.max {
            Max::PerTime { rate, burst, memory, .. } => {
                let full_after = rate.period.mul_f64(f64::from(burst) / f64::from(rate.requests));
                let policy = format!(";q={burst};w={}", seconds(full_after));
                (Allowance::new(rate.requests, rate.period, burst), memory, policy)
            }
            // A limit of the other kind has no rate.
            Max::AtOnce(max) => (Allowance::new(max, Duration::from_secs(1), max), 0, String::new()),
        };
        let policy = format!("{}{policy}", quoted(&settings.label()));
        Self {
            limiter: RateLimiter::new(allowance, memory, clock::now()),
            pending: Arc::new(Slots::new(u32::MAX)),
            meter: Meter::new(settings, "rate limit"),
            policy,
        }
    }

    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn status(&self) -> LimitStatus {
        LimitStatus {
            shared: Some(self.limiter.shared()),
            memory_bytes: Some(self.limiter.allocated_bytes()),
            ..self.meter.status()
        }
    }

    /// A request needs the allowance of each limit, and otherwise uses none.
    fn count(limits: &[Applied<Self>], passage: &mut Passage<'_>, call: &Call<'_>) -> Flow {
        let request = &passage.request;
        let (source, counted) = (KeySource::of_request(request, call), Some(&request.state().counted));
        let mut deciding = Deciding { request: source, counted, now: clock::now(), fields: Vec::new() };
        if let Err(over) = deciding.take(limits) {
            return over.reject(request, &deciding.request).into();
        }
        // Those of the inner steps come first.
        passage.kept.allowances.splice(0..0, deciding.fields);
        Flow::Continue
    }
}
