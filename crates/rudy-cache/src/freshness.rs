//! How long a response is fresh, and how old it is (RFC 9111 §4.2).

use http::header::{AGE, DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rudy_message::semantics::date::HttpDate;
use rudy_message::syntax::members;

use crate::directives::{ResponseDirectives, Scope};
use crate::policy::{Exchange, Heuristic, Policy};
use crate::seconds::Seconds;

/// How a response may be used, computed once when it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Freshness {
    /// `freshness_lifetime` (§4.2): the response is fresh while its age is less.
    pub(crate) lifetime: Seconds,
    /// For how long a stale response may be used while it is validated (RFC 5861 §3).
    pub(crate) stale_while_revalidate: Seconds,
    /// For how long a stale response may replace an error (RFC 5861 §4).
    pub(crate) stale_if_error: Seconds,
    /// Whether each use needs a validation: `no-cache` (§5.2.2.4).
    pub(crate) validate_always: bool,
    /// Whether it MUST NOT be used when it is stale (§4.2.4).
    pub(crate) never_stale: bool,
    /// Whether the content never changes while the response is fresh (RFC 8246).
    pub(crate) immutable: bool,
}

impl Policy {
    /// Computes the freshness of a response whose `fields` have a valid `Date`.
    pub(crate) fn freshness(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
        directives: &ResponseDirectives,
    ) -> Freshness {
        let heuristic = self.heuristic.filter(|_| is_heuristically_cacheable(status) || directives.public);
        let explicit = explicit_lifetime(fields, directives);
        let implicit =
            || self.default_freshness.of(status).or_else(|| heuristic_lifetime(fields, heuristic?));
        let lifetime = explicit.or_else(implicit).unwrap_or_default();
        let lifetime = self.max_freshness.of(status).map_or(lifetime, |max| lifetime.min(max));
        let s_maxage_forbids = directives.s_maxage.is_some() && !self.stale_beside_s_maxage;
        Freshness {
            lifetime,
            stale_while_revalidate: directives.stale_while_revalidate.unwrap_or_default(),
            stale_if_error: directives.stale_if_error.unwrap_or_default(),
            validate_always: directives.no_cache == Scope::Everything,
            never_stale: directives.must_revalidate || directives.proxy_revalidate || s_maxage_forbids,
            immutable: directives.immutable,
        }
    }
}

/// Returns the lifetime that the origin declares (§4.2.1), by the first match for a shared cache.
pub(crate) fn explicit_lifetime(fields: &HeaderMap, directives: &ResponseDirectives) -> Option<Seconds> {
    let expires = || if directives.is_targeted { None } else { expires_lifetime(fields) };
    directives.s_maxage.or(directives.max_age).or_else(expires)
}

/// Returns `Expires` minus `Date`. §5.3: an invalid date, especially "0", is in the past; §4.2.1: so are different dates together.
fn expires_lifetime(fields: &HeaderMap) -> Option<Seconds> {
    fields.contains_key(EXPIRES).then(|| match (date_of(fields, &DATE), date_of(fields, &EXPIRES)) {
        (Some(date), Some(expires)) => Seconds::between(date, expires),
        _ => Seconds::ZERO,
    })
}

/// §4.2.2: MUST NOT be used with an explicit expiration time.
fn heuristic_lifetime(fields: &HeaderMap, heuristic: Heuristic) -> Option<Seconds> {
    let (modified, date) = (date_of(fields, &LAST_MODIFIED)?, date_of(fields, &DATE)?);
    let unchanged_for = u64::from(Seconds::between(modified, date).get());
    Some(Seconds::new(unchanged_for * u64::from(heuristic.percent) / 100).min(heuristic.max))
}

/// Whether the status is heuristically cacheable (RFC 9110 §15.1).
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns `corrected_initial_age` (§4.2.3): the age of a response when it was received.
pub(crate) fn initial_age(fields: &HeaderMap, exchange: Exchange) -> Seconds {
    let Exchange { requested_at, received_at } = exchange;
    let apparent_age =
        date_of(fields, &DATE).map_or(Seconds::ZERO, |date| Seconds::between(date, received_at));
    let response_delay = Seconds::between(requested_at, received_at);
    apparent_age.max(age_value(fields).plus(response_delay))
}

/// §5.1: only the first member counts, and an invalid field is ignored.
fn age_value(fields: &HeaderMap) -> Seconds {
    let first = fields.get(AGE).and_then(|line| members(line.as_bytes()).next());
    first.and_then(Seconds::parse).unwrap_or_default()
}

/// Returns the date in a field, which may be repeated with the same date. `None` if the field is missing or not one date.
pub(crate) fn date_of(fields: &HeaderMap, name: &HeaderName) -> Option<HttpDate> {
    let mut dates = fields.get_all(name).iter().map(|line| HttpDate::parse_ignoring_case(line.as_bytes()));
    let first = dates.next().flatten()?;
    dates.all(|date| date == Some(first)).then_some(first)
}

/// Adds `Date` if it is missing (RFC 9110 §6.6.1, MUST) or not a date.
pub(crate) fn add_date(fields: &mut HeaderMap, received_at: HttpDate) {
    if date_of(fields, &DATE).is_none() {
        fields.insert(DATE, received_at.to_value());
    }
}

/// Returns an `Age` (§5.1).
pub(crate) fn age_field(age: Seconds) -> HeaderValue {
    HeaderValue::from(age.get())
}

#[cfg(test)]
mod tests {
    use http::header::CACHE_CONTROL;

    use super::*;

    const DATE_0: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const DATE_60: &str = "Sun, 06 Nov 1994 08:50:37 GMT";
    const RECEIVED_AT: i64 = 784_111_777;

    fn fields(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn lifetime(policy: &Policy, status: u16, lines: &[(HeaderName, &'static str)]) -> u32 {
        let mut fields = fields(lines);
        add_date(&mut fields, HttpDate::from_unix_seconds(RECEIVED_AT));
        let directives = policy.of_origin(&fields);
        policy.freshness(StatusCode::from_u16(status).unwrap(), &fields, &directives).lifetime.get()
    }

    #[test]
    fn section_4_2_1_the_first_declared_lifetime_counts() {
        for (lines, expected) in [
            (&[(CACHE_CONTROL, "max-age=10, s-maxage=20"), (EXPIRES, DATE_60)][..], 20),
            (&[(CACHE_CONTROL, "max-age=10"), (EXPIRES, DATE_60)], 10),
            (&[(CACHE_CONTROL, "max-age=0"), (EXPIRES, DATE_60)], 0),
            (&[(CACHE_CONTROL, "max-age=x"), (EXPIRES, DATE_60)], 0),
            (&[(CACHE_CONTROL, "max-age=10, s-maxage=x")], 0),
            (&[(EXPIRES, DATE_60), (DATE, DATE_0)], 60),
            (&[(EXPIRES, DATE_0), (DATE, DATE_60)], 0),
            (&[], 0),
        ] {
            assert_eq!(lifetime(&Policy::default(), 200, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn section_5_3_an_invalid_expires_is_in_the_past_and_a_missing_date_is_the_time_of_receipt() {
        for (lines, expected) in [
            (&[(EXPIRES, DATE_60)][..], 60),
            (&[(EXPIRES, DATE_60), (DATE, "yesterday")], 60),
            (&[(EXPIRES, "0")], 0),
            (&[(EXPIRES, "")], 0),
            (&[(EXPIRES, "-1"), (EXPIRES, DATE_60)], 0),
            (&[(EXPIRES, DATE_60), (EXPIRES, DATE_60)], 60),
            (&[(EXPIRES, DATE_60), (EXPIRES, DATE_0)], 0),
            (&[(EXPIRES, "sun, 06 NOV 1994 08:50:37 gmt")], 60),
        ] {
            assert_eq!(lifetime(&Policy::default(), 200, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn section_4_2_2_heuristics_need_permission_and_no_explicit_time() {
        const MODIFIED: &str = "Sun, 06 Nov 1994 07:49:37 GMT";
        let heuristic = Some(Heuristic { percent: 10, max: Seconds::new(300) });
        let policy = Policy { heuristic, ..Policy::default() };
        for (policy, status, lines, expected) in [
            (&policy, 200, &[(LAST_MODIFIED, MODIFIED)][..], 300),
            (&Policy::default(), 200, &[(LAST_MODIFIED, MODIFIED)], 0),
            (&policy, 404, &[(LAST_MODIFIED, "Sun, 06 Nov 1994 08:47:57 GMT")], 10),
            (&policy, 200, &[(LAST_MODIFIED, DATE_60)], 0),
            (&policy, 200, &[], 0),
            (&policy, 302, &[(LAST_MODIFIED, MODIFIED)], 0),
            (&policy, 302, &[(LAST_MODIFIED, MODIFIED), (CACHE_CONTROL, "public")], 300),
            (&policy, 200, &[(LAST_MODIFIED, MODIFIED), (CACHE_CONTROL, "max-age=5")], 5),
            (&policy, 200, &[(LAST_MODIFIED, MODIFIED), (EXPIRES, "0")], 0),
        ] {
            assert_eq!(lifetime(policy, status, lines), expected, "{status} {lines:?}");
        }
    }

    #[test]
    fn section_4_2_3_the_initial_age_is_the_larger_estimate() {
        let exchange = |delay: i64, received_at: i64| Exchange {
            requested_at: HttpDate::from_unix_seconds(received_at - delay),
            received_at: HttpDate::from_unix_seconds(received_at),
        };
        for (lines, delay, expected) in [
            (&[(DATE, DATE_0)][..], 0, 0),
            (&[(DATE, DATE_0), (AGE, "30")], 0, 30),
            (&[(DATE, DATE_0), (AGE, "30")], 5, 35),
            (&[(DATE, "Sun, 06 Nov 1994 08:48:37 GMT"), (AGE, "30")], 5, 60),
            (&[(DATE, DATE_60)], 0, 0),
            (&[(DATE, DATE_0), (AGE, "30, 40")], 0, 30),
            (&[(DATE, DATE_0), (AGE, "30"), (AGE, "40")], 0, 30),
            (&[(DATE, DATE_0), (AGE, "-1")], 0, 0),
            (&[(DATE, DATE_0), (AGE, "1.5, 30")], 0, 0),
            (&[(DATE, DATE_0), (AGE, "99999999999999999999")], 5, 1 << 31),
        ] {
            let age = initial_age(&fields(lines), exchange(delay, RECEIVED_AT)).get();
            assert_eq!(age, expected, "{lines:?} after {delay} s");
        }
    }
}
