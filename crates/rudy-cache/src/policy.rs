//! The settings of a cache.

use std::ops::RangeInclusive;

use http::{HeaderMap, HeaderName, StatusCode};
use rudy_message::semantics::date::HttpDate;

use crate::Seconds;
use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::query::QueryRules;

/// The settings of a cache. Its methods are the decisions.
///
/// The default follows RFC 9111 wherever the RFC decides, and chooses the cautious side where it leaves a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Fields with directives for this cache, such as `CDN-Cache-Control`, from the highest priority to the lowest. The first that
    /// is valid and not empty replaces `Cache-Control` and `Expires` (RFC 9213 §2.2).
    pub targets: Vec<HeaderName>,
    /// The freshness of responses that do not declare their own (§4.2.2). By default, they are validated before each use.
    pub heuristic: Option<Heuristic>,
    /// The freshness of responses that do not declare their own, by status, before `heuristic`. It also makes them cacheable.
    pub default_freshness: ByStatus,
    /// The longest time for which a response is fresh, whatever the origin declares.
    pub max_freshness: ByStatus,
    /// Whether to ignore `Cache-Control` and `Expires` of the origin, also `private` and `no-store`.
    pub ignore_origin: bool,
    /// Whether to ignore the client's `Cache-Control`, for clients that reload too often.
    pub ignore_client: bool,
    /// Whether to store responses to requests with `Authorization` as if they had none. §3.5 forbids that unless the response allows
    /// it: the operator declares that responses are the same for all users.
    pub ignore_authorization: bool,
    /// Whether to remove `Set-Cookie` from responses that are stored then, also for the client of the request. By default, they are not
    /// stored: §7.3 permits it, but a shared cookie is a shared session.
    pub remove_set_cookie: bool,
    /// For how long a stale response may replace an error, whatever the origin permits. §4.2.4 permits such a configuration,
    /// but not against `must-revalidate` and the like.
    pub stale_if_error: Seconds,
    /// Which parameters of a query are part of the key.
    pub query: QueryRules,
    /// What distinguishes the responses from those of other caches in the same store, for the same URLs. A part of the keys.
    pub scope: String,
    /// Whether `stale-while-revalidate` and `stale-if-error` count beside `s-maxage`. By §5.2.2.10 they do not. Many CDNs
    /// ignore that section, and frameworks such as Next.js send both.
    pub stale_beside_s_maxage: bool,
}

/// A duration for some statuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByStatus(Vec<(RangeInclusive<u16>, Seconds)>);

impl ByStatus {
    /// Creates the durations. The narrowest range that contains a status counts.
    #[must_use]
    pub fn new(mut ranges: Vec<(RangeInclusive<u16>, Seconds)>) -> Self {
        ranges.sort_by_key(|(range, _)| range.end().saturating_sub(*range.start()));
        Self(ranges)
    }

    /// Returns the duration for a status.
    #[must_use]
    pub fn of(&self, status: StatusCode) -> Option<Seconds> {
        let found = self.0.iter().find(|(range, _)| range.contains(&status.as_u16()));
        found.map(|(_, duration)| *duration)
    }
}

/// Heuristic freshness (RFC 9111 §4.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heuristic {
    /// The share of the time since the last modification for which a response is fresh. §4.2.2: typically 10 %.
    pub percent: u8,
    /// The longest time for which a response is fresh.
    pub max: Seconds,
}

/// The times of an exchange with the origin, from which the age of its response is computed (§4.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The time at which the request was sent: `request_time`.
    pub requested_at: HttpDate,
    /// The time at which the response was received: `response_time`.
    pub received_at: HttpDate,
}

impl Policy {
    pub(crate) fn of_client(&self, fields: &HeaderMap) -> RequestDirectives {
        if self.ignore_client { RequestDirectives::default() } else { RequestDirectives::parse(fields) }
    }

    pub(crate) fn of_origin(&self, fields: &HeaderMap) -> ResponseDirectives {
        if self.ignore_origin {
            // As if an empty target replaced Cache-Control and Expires.
            return ResponseDirectives { is_targeted: true, ..ResponseDirectives::default() };
        }
        ResponseDirectives::parse(fields, &self.targets)
    }
}
