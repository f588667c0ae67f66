//! Whether a stored response may be used for a request (RFC 9111 §4).

use http::header::{IF_MATCH, IF_UNMODIFIED_SINCE};
use http::{Method, Request};
use rudy_message::semantics::date::HttpDate;

use crate::directives::RequestDirectives;
use crate::policy::Policy;
use crate::seconds::Seconds;
use crate::stored::Stored;

/// The response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Respond with a stored response.
    Hit(Selected),
    /// Respond with a stored response, and validate it in the background (RFC 5861 §3).
    StaleHit(Selected),
    /// Validate a stored response first.
    Validate {
        /// The stored response.
        selected: Selected,
        /// The reason, [`Forward::Stale`] or [`Forward::Request`].
        reason: Forward,
        /// Whether to respond with it if the origin cannot be reached, or responds with an error: see [`is_error`].
        stale_if_error: bool,
    },
    /// Request a part that an incomplete stored response lacks: the range of the client, or the missing end.
    Extend(Selected),
    /// Forward the request.
    Forward(Forward),
    /// Respond with 504: the client wants a response from the cache only (§5.2.1.7).
    OnlyIfCached,
}

/// Why a request is forwarded: the parameter `fwd` (RFC 9211 §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// The cache was not used.
    Bypass,
    /// The method requires it.
    Method,
    /// No response is stored for the URI.
    UriMiss,
    /// Responses are stored for the URI, but none matches by `Vary`.
    VaryMiss,
    /// A fresh response is stored, but the client requires a newer one.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response lacks the requested part.
    Partial,
}

impl Forward {
    /// Returns the token of the parameter.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// A stored response that matches a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    /// The position in the list of stored responses.
    pub index: usize,
    /// The age, for [`Stored::fields_at`].
    pub age: Seconds,
    /// For how many seconds it remains fresh. Negative if it is stale.
    pub ttl: i64,
}

/// Whether a status is an error that `stale-if-error` can replace (RFC 5861 §4).
#[must_use]
pub fn is_error(status: http::StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

impl Policy {
    /// Decides how to respond to a request, given all responses that are stored for its [`Key`](crate::Key).
    ///
    /// ```
    /// # use http::{Request, Response};
    /// # use rudy_cache::{Decision, Exchange, HttpDate, Policy, Seconds};
    /// let (policy, time) = (Policy::default(), |second: i64| HttpDate::from_unix_seconds(second));
    /// let request = Request::get("/a").body(())?;
    /// let response = Response::builder().header("cache-control", "max-age=60").body(())?;
    /// let exchange = Exchange { requested_at: time(0), received_at: time(1) };
    /// let stored = policy.store(&request, &response, exchange).expect("it is cacheable");
    ///
    /// let Decision::Hit(selected) = policy.lookup(&request, &[stored], time(31)) else { panic!("a hit") };
    /// assert_eq!((selected.age, selected.ttl), (Seconds::new(31), 29));
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn lookup<B>(&self, request: &Request<B>, stored: &[impl AsRef<Stored>], now: HttpDate) -> Decision {
        let (method, fields) = (request.method(), request.headers());
        // §4: unsafe methods MUST be written through. The others have no stored responses.
        if *method != Method::GET && *method != Method::HEAD {
            return Decision::Forward(Forward::Method);
        }
        let client = self.of_client(fields);
        let decision = if fields.contains_key(IF_MATCH) || fields.contains_key(IF_UNMODIFIED_SINCE) {
            // Only the origin knows the current representation (RFC 9110 §13.1.1, §13.1.4).
            Decision::Forward(Forward::Bypass)
        } else {
            self.select(request, &client, stored, now)
        };
        match decision {
            Decision::Hit(_) | Decision::StaleHit(_) => decision,
            _ if client.only_if_cached => Decision::OnlyIfCached,
            _ => decision,
        }
    }

    fn select<B>(
        &self,
        request: &Request<B>,
        client: &RequestDirectives,
        stored: &[impl AsRef<Stored>],
        now: HttpDate,
    ) -> Decision {
        // §4.1: the fields that Vary names MUST match, and responses without Vary are the last choice: some origins omit it from
        // their default response. §4: of several, the most recent MUST be used.
        let all = stored.iter().map(AsRef::as_ref).enumerate();
        let matching = all.filter(|(_, stored)| stored.suits(request.headers()));
        let Some((index, stored_response)) =
            matching.max_by_key(|(_, stored)| (stored.variant.is_specific(), stored.recency()))
        else {
            let reason = if stored.is_empty() { Forward::UriMiss } else { Forward::VaryMiss };
            return Decision::Forward(reason);
        };
        let age = stored_response.age(now);
        let ttl = i64::from(stored_response.freshness.lifetime.get()) - i64::from(age.get());
        let selected = Selected { index, age, ttl };
        match stored_response.coverage(request) {
            Coverage::Enough => self.decide(client, stored_response, selected),
            Coverage::Extensible => Decision::Extend(selected),
            Coverage::Other => Decision::Forward(Forward::Partial),
        }
    }

    fn decide(&self, client: &RequestDirectives, stored: &Stored, selected: Selected) -> Decision {
        match may_use(client, stored, selected.age) {
            Use::Fresh | Use::AllowedByClient => Decision::Hit(selected),
            Use::WhileRevalidating => Decision::StaleHit(selected),
            Use::AfterValidation(reason) => {
                let stale_if_error = self.may_replace_error(client, stored, selected.age);
                Decision::Validate { selected, reason, stale_if_error }
            }
        }
    }

    /// Whether the response may replace an error, by the client, the origin (RFC 5861 §4) or the settings (§4.2.4). Then it also may
    /// if it is fresh, and the client requires a younger one.
    fn may_replace_error(&self, client: &RequestDirectives, stored: &Stored, age: Seconds) -> bool {
        let freshness = &stored.freshness;
        let forbidden =
            stored.is_invalid || freshness.validate_always || freshness.never_stale || client.no_cache;
        let of_client = client.stale_if_error.unwrap_or_default();
        let limit = freshness.stale_if_error.max(self.stale_if_error).max(of_client);
        !forbidden && age.minus(freshness.lifetime) < limit
    }
}

/// The part of a request that an incomplete response can satisfy.
pub(crate) enum Coverage {
    /// All of it.
    Enough,
    /// Further parts, combined with the stored ones, can satisfy it.
    Extensible,
    /// None: the client requests the whole, or a part of another representation.
    Other,
}

enum Use {
    Fresh,
    /// Stale, within `max-stale`.
    AllowedByClient,
    /// Stale, within `stale-while-revalidate`.
    WhileRevalidating,
    AfterValidation(Forward),
}

/// Whether a response that matches may be used at this age (§4, §4.2.4, §5.2.1).
fn may_use(client: &RequestDirectives, stored: &Stored, age: Seconds) -> Use {
    let freshness = &stored.freshness;
    if stored.is_invalid || freshness.validate_always {
        return Use::AfterValidation(Forward::Stale);
    }
    let is_fresh = freshness.lifetime > age;
    if !accepts(client, stored, age, is_fresh) {
        return Use::AfterValidation(if is_fresh { Forward::Request } else { Forward::Stale });
    }
    if is_fresh {
        return Use::Fresh;
    }
    if freshness.never_stale {
        return Use::AfterValidation(Forward::Stale);
    }
    let stale_for = age.minus(freshness.lifetime);
    if client.max_stale.is_some_and(|max| stale_for <= max) {
        return Use::AllowedByClient;
    }
    // §5.2.1.1: with max-age and without max-stale, the client does not want a stale response.
    let wants_fresh = client.max_age.is_some() && client.max_stale.is_none();
    if !wants_fresh && stale_for < freshness.stale_while_revalidate {
        return Use::WhileRevalidating;
    }
    Use::AfterValidation(Forward::Stale)
}

/// Whether the client accepts a response of this age without validation (§5.2.1).
fn accepts(client: &RequestDirectives, stored: &Stored, age: Seconds, is_fresh: bool) -> bool {
    let remaining = stored.freshness.lifetime.minus(age);
    // RFC 8246 §2.1: a reload, `max-age=0`, needs no validation of a fresh immutable response; `no-cache` does.
    let is_immutable = is_fresh && stored.freshness.immutable;
    let is_young = is_immutable || client.max_age.is_none_or(|max| age <= max);
    !client.no_cache && is_young && client.min_fresh.is_none_or(|min| remaining >= min)
}
