//! The tables of limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;
use rudy_config::{Int, OneOrMany, Table, Words, written_as_text};
use rudy_units::{Size, parse_duration};

use super::key::{KeyPart, KeySettings};
use super::{Effect, Max, Place, Scope, Settings};

/// The largest number of requests in a rate.
const REQUESTS_MAX: u32 = 1_000_000;

/// The longest time of a rate.
const PERIOD_MAX: Duration = Duration::from_hours(24);

/// The bits of an IPv6 address that count. A home or a server usually has a /64.
const V6_BITS: Int<16, 128> = Int(64);

/// 114,688 keys.
const MEMORY: Size<65_536, 1_073_741_824> = Size(2 * 1024 * 1024);

const TOO_MANY_REQUESTS: Int<400, 599> = Int(429);

/// A number of requests per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate {
    /// The number, from 1 to a million.
    pub requests: u32,
    /// The time, from a millisecond to a day.
    pub period: Duration,
}

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected a number from 1 to {REQUESTS_MAX} and a time of at most a day, as in \"10/s\", \"100/m\" or \"20/10s\""
            )
        };
        let (requests, period) = text.split_once('/').ok_or_else(expected)?;
        let requests = requests.trim().parse().ok().filter(|number| (1..=REQUESTS_MAX).contains(number));
        let period = period.trim();
        let starts_with_number = period.starts_with(|letter: char| letter.is_ascii_digit());
        let period =
            if starts_with_number { parse_duration(period) } else { parse_duration(&format!("1{period}")) };
        let period = period.filter(|period| (Duration::from_millis(1)..=PERIOD_MAX).contains(period));
        Ok(Self { requests: requests.ok_or_else(expected)?, period: period.ok_or_else(expected)? })
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1, "s"), (60, "m"), (3600, "h"), (86_400, "d")];
        let unit = UNITS.into_iter().find(|(seconds, _)| Duration::from_secs(*seconds) == self.period);
        match unit {
            Some((_, unit)) => write!(f, "{}/{unit}", self.requests),
            None => write!(f, "{}/{}", self.requests, rudy_units::Time::<0>::from(self.period)),
        }
    }
}

written_as_text!(RequestRate, "a rate (\"10/s\")", {
    doc: "A number of requests per time: a number, a slash, and `s`, `m`, `h`, `d` or a time such as `10s`.",
    examples: ["10/s", "100/m", "20/10s"],
});

/// What a rate limit counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum Events {
    /// All requests.
    #[default]
    Requests,
    /// Requests with a wrong user name or password.
    FailedLogins,
}

/// A limit for requests per time: a table, or its rate alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(rate), what = "a rate (\"10/s\") or a table")]
pub struct RateLimitTable {
    /// How many requests each key may make per time: `10/s`, `100/m`, `5000/h`, or `20/10s` for another time.
    #[setting(example = "10/s")]
    pub rate: RequestRate,
    /// How many of them may come at once. The default is the number of `rate`.
    #[setting(example = 20)]
    pub burst: Option<Int<1, 1_000_000>>,
    /// What the limit counts: all requests, or only logins of `basic_auth` that fail. Over a limit for logins, no password is verified.
    #[setting(default, example = "failed-logins")]
    pub counts: Events,
    /// What the limit counts by; each value has the whole allowance. `address` is the address of the client, `user` the user after the
    /// login, `header.NAME` a field of the request, `path` its path, `host` its host, and `all` counts all requests together. A list
    /// counts by the combination.
    #[setting(example = ["address", "path"])]
    pub by: Option<OneOrMany<KeyPart>>,
    /// How many bits of an IPv6 address count. All addresses with the same bits are one client.
    #[setting(default = V6_BITS)]
    pub ipv6_prefix: Int<16, 128>,
    /// Status of the response to a request over the limit.
    #[setting(default = TOO_MANY_REQUESTS)]
    pub status: Int<400, 599>,
    /// Only logs and counts requests over the limit.
    #[setting(default)]
    pub dry_run: bool,
    /// Name of the limit. All limits with the same name share their counts, and must have the same settings. Without a name,
    /// a limit counts the requests of its route, or those of all routes of its site together.
    #[setting(example = "login")]
    pub name: Option<String>,
    /// Maximum memory for keys. 1 MiB is enough for 57,000. It is allocated when it is used.
    #[setting(default = MEMORY)]
    pub memory: Size<65_536, 1_073_741_824>,
    /// Adds the fields `RateLimit-Policy` and `RateLimit` to responses (draft-ietf-httpapi-ratelimit-headers).
    #[setting(default)]
    pub send_fields: bool,
}

impl RateLimitTable {
    pub(super) fn settings(&self, place: &Place, number: usize) -> Settings {
        let burst = self.burst.map_or(self.rate.requests, Int::as_u32);
        let max =
            Max::PerTime { rate: self.rate, burst, counts: self.counts, memory: self.memory.as_usize() };
        let key = KeySettings::new(self.by.as_ref(), self.ipv6_prefix.as_u32());
        Settings { scope: scope(self.name.as_ref(), place, number), max, key }
    }

    pub(super) fn effect(&self) -> Effect {
        Effect { sends_fields: self.send_fields, ..effect(self.status, self.dry_run) }
    }
}

/// A limit for requests at the same time: a table, or their number alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(max), what = "a number of requests (10) or a table")]
pub struct ConcurrencyTable {
    /// How many requests each key may have in progress. A request is in progress until its whole response was sent, and a
    /// WebSocket until it is closed.
    #[setting(example = 10)]
    pub max: Int<1, 1_000_000>,
    /// What the limit counts by, as in `rate_limit`. The default is `address`.
    #[setting(example = "host")]
    pub by: Option<OneOrMany<KeyPart>>,
    /// How many bits of an IPv6 address count.
    #[setting(default = V6_BITS)]
    pub ipv6_prefix: Int<16, 128>,
    /// Status of the response to a request over the limit.
    #[setting(default = TOO_MANY_REQUESTS)]
    pub status: Int<400, 599>,
    /// Only logs and counts requests over the limit.
    #[setting(default)]
    pub dry_run: bool,
    /// Name of the limit, as in `rate_limit`.
    #[setting(example = "downloads")]
    pub name: Option<String>,
}

impl ConcurrencyTable {
    pub(super) fn settings(&self, place: &Place, number: usize) -> Settings {
        let key = KeySettings::new(self.by.as_ref(), self.ipv6_prefix.as_u32());
        Settings { scope: scope(self.name.as_ref(), place, number), max: Max::AtOnce(self.max.as_u32()), key }
    }

    pub(super) fn effect(&self) -> Effect {
        effect(self.status, self.dry_run)
    }
}

fn scope(name: Option<&String>, place: &Place, number: usize) -> Scope {
    name.map_or_else(|| Scope::Of(place.clone(), number), |name| Scope::Named(name.clone()))
}

fn effect(status: Int<400, 599>, dry_run: bool) -> Effect {
    // The bounds are those of errors.
    let status = StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    Effect { status, dry_run, sends_fields: false }
}

/// The speed of responses: a table, or the bytes per second alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(rate), what = "bytes per second (\"500k\") or a table")]
pub struct BandwidthTable {
    /// Bytes per second of each response.
    #[setting(example = "500k")]
    pub rate: Size<1>,
    /// How many bytes are sent at full speed first.
    #[setting(default = Size(0))]
    pub after: Size,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_per_time() {
        for (text, requests, seconds) in
            [("10/s", 10, 1), ("100/m", 100, 60), ("1/h", 1, 3600), ("7/d", 7, 86_400), ("20/10s", 20, 10)]
        {
            let rate: RequestRate = text.parse().unwrap();
            assert_eq!(rate, RequestRate { requests, period: Duration::from_secs(seconds) });
            assert_eq!(rate.to_string(), text);
        }
        for text in
            ["", "10", "10/", "/s", "0/s", "1000001/s", "10/2d", "10/us", "10/x", "-1/s", "1.5/s", "10/0s"]
        {
            assert!(text.parse::<RequestRate>().unwrap_err().contains("as in \"10/s\""), "{text}");
        }
    }
}
