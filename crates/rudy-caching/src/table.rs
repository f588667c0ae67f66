//! The settings of a cache: the `cache` of a route or a site.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;
use rudy_cache::{ByStatus, Heuristic, Parameters, Policy, QueryRules, Seconds, VariableName};
use rudy_config::{Int, Invalid, Location, OneOrMany, Problem, Setting, Shape, Table, Value, two_lines};
use rudy_pipeline::AllowedClients;
use rudy_units::{Size, Time, Timeout};

/// The longest heuristic freshness: a week, as in Varnish and Squid.
const HEURISTIC_MAX: Seconds = Seconds::new(7 * 24 * 3600);

/// How long a request waits for another one for the same URL, as in nginx (`proxy_cache_lock_timeout`): an origin that is slow for one
/// client may be fast for the others.
const WAIT: Duration = Duration::from_secs(5);

/// The targets of directives for this cache only, the most specific one first (RFC 9213).
const TARGETS: [HeaderName; 2] = [RUDY_CACHE_CONTROL, HeaderName::from_static("cdn-cache-control")];

/// The field for this cache alone.
pub(super) const RUDY_CACHE_CONTROL: HeaderName = HeaderName::from_static("rudy-cache-control");

/// Caches responses of apps and upstreams: `true`, or a table. `false` disables the cache of the site for a route.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short = bool, what = "`true`, `false` or a table", default)]
pub struct CacheTable {
    /// Cookies of requests that bypass the cache: they are not answered from it, and their responses are not stored. Names with `*` at
    /// the end match all that begin so.
    #[setting(example = ["session*", "wordpress_logged_in_*"])]
    pub bypass_cookies: Option<OneOrMany<String>>,
    /// Requests with a query bypass the cache. Parameters that are no part of the key (`ignore_query`, `key_query`) do not count.
    pub bypass_query: bool,
    /// Stores a response from this number of requests for its URL within 10 minutes on. The requests before bypass the cache. The default
    /// is 1.
    #[setting(example = 3)]
    pub min_uses: Option<Int<1, 10_000>>,
    /// Freshness of responses that declare none: a time for 200, 203, 204, 300, 301 and 308, or a table by status. By default,
    /// such responses are validated before each use.
    #[setting(example = "5m", example = { "200" = "5m", "404" = "10s", "5xx" = "1s" })]
    pub default_freshness: Option<FreshnessTable>,
    /// Maximum freshness, whatever the response declares: a time for all statuses, or a table by status.
    #[setting(example = "1h")]
    pub max_freshness: Option<FreshnessTable>,
    /// Freshness of responses with `Last-Modified` that declare none, as a share of the time since the modification, in percent. The
    /// default is 0.
    #[setting(example = 10)]
    pub heuristic_percent: Option<Int<0, 100>>,
    /// Ignores `Cache-Control` and `Expires` of responses, also `private` and `no-store`. Use it with `default_freshness`, and only
    /// for responses that are the same for all clients.
    pub ignore_cache_control: bool,
    /// Stores responses to requests with `Authorization`, and to those of users that a login, an authorizer or a client certificate
    /// identifies, as those to other requests. By default they are stored only if they have `public`, `s-maxage` or
    /// `must-revalidate`. Use it only if the responses are the same for all users who may send the requests.
    pub ignore_authorization: bool,
    /// Ignores `Cache-Control` of requests. By default, a client that reloads has the response validated, at most once a second.
    pub ignore_client_cache_control: bool,
    /// Stores responses in spite of `Set-Cookie`, and removes this field, also for the client of the request. By default, they are not
    /// stored. Use it only if the responses are the same for all clients: cookies of a login get lost.
    pub remove_set_cookie: bool,
    /// For how long a stale response replaces an error of the upstream (500, 502, 503, 504), unless the response forbids that. The
    /// default is only what the response allows.
    #[setting(example = "1d")]
    pub stale_if_error: Option<Time>,
    /// Uses `stale-while-revalidate` and `stale-if-error` beside `s-maxage` too. RFC 9111 forbids that; some frameworks send both.
    pub stale_with_s_maxage: bool,
    /// Parameters of the query that the response does not depend on. They are passed on, but are no part of the key. Names with `*`
    /// at the end match all that begin so.
    #[setting(example = ["utm_*", "fbclid", "gclid"])]
    pub ignore_query: Option<OneOrMany<String>>,
    /// The only parameters of the query that the response depends on, instead of `ignore_query`; `[]` is for none. All others are passed
    /// on, but are no part of the key. Names with `*` at the end match all that begin so.
    #[setting(example = ["page", "q"])]
    pub key_query: Option<OneOrMany<String, 0>>,
    /// Whether the order of parameters with different names is no part of the key.
    pub sort_query: bool,
    /// Request fields that the response depends on, besides those in its `Vary`.
    #[setting(example = ["Accept-Language"])]
    pub key_headers: Option<OneOrMany<KeyField>>,
    /// Cookies that the response depends on.
    #[setting(example = ["lang", "theme"])]
    pub key_cookies: Option<OneOrMany<String>>,
    /// Languages of the responses. `Accept-Language` of a request is reduced to the best of them for the application, or removed if
    /// the client accepts none of them. By default it is passed on, so that `Vary: Accept-Language` stores a response for each spelling.
    #[setting(example = ["en", "de", "pt-BR"])]
    pub languages: Option<OneOrMany<Language>>,
    /// Maximum time that a request waits for the head of the response to another request for the same URL. Then it is sent to the
    /// upstream too, and its response is not stored. The default is `5s`, and `1m` in a mirror.
    #[setting(example = "30s")]
    pub wait_timeout: Option<Timeout>,
    /// Maximum size of a response, instead of `object_bytes` in `[cache]`.
    #[setting(example = "10M")]
    pub object_bytes: Option<Size>,
    /// Clients that may send PURGE requests for the URLs of this route. The default is none.
    #[setting(example = ["loopback", "10.0.0.0/8"])]
    pub purge_from: Option<AllowedClients>,
    /// Set by `false`.
    #[setting(skip)]
    pub is_off: bool,
    /// Set for a mirror: `Cache-Control` of requests is not that of clients, so each `no-cache` leads to a validation.
    #[setting(skip)]
    pub follows_no_cache: bool,
}

impl From<bool> for CacheTable {
    fn from(is_on: bool) -> Self {
        Self { is_off: !is_on, ..Self::default() }
    }
}

impl CacheTable {
    /// Returns the settings for the decisions. `scope` distinguishes caches for the same URLs.
    pub(super) fn policy(&self, scope: String) -> Policy {
        let percent = self.heuristic_percent.map_or(0, Int::as_u16);
        let percent = u8::try_from(percent).unwrap_or(100);
        let by_status = |table: &Option<FreshnessTable>| {
            table.as_ref().map_or_else(ByStatus::default, |table| table.0.clone())
        };
        let max_freshness = match &self.max_freshness {
            // One time is the maximum for all statuses.
            Some(table) if table.1 => ByStatus::new(vec![(0..=999, table.first())]),
            table => by_status(table),
        };
        Policy {
            targets: TARGETS.to_vec(),
            heuristic: (percent > 0).then_some(Heuristic { percent, max: HEURISTIC_MAX }),
            default_freshness: by_status(&self.default_freshness),
            max_freshness,
            ignore_origin: self.ignore_cache_control,
            ignore_client: self.ignore_client_cache_control,
            ignore_authorization: self.ignore_authorization,
            remove_set_cookie: self.remove_set_cookie,
            stale_if_error: self.stale_if_error.map_or(Seconds::ZERO, |time| Seconds::new(time.0.as_secs())),
            query: QueryRules { parameters: self.parameters(), sorted: self.sort_query },
            stale_beside_s_maxage: self.stale_with_s_maxage,
            scope,
        }
    }

    fn parameters(&self) -> Parameters {
        self.key_query.as_ref().map_or_else(
            || Parameters::Except(names(self.ignore_query.as_ref())),
            |listed| Parameters::Only(listed.as_slice().iter().map(|name| VariableName::new(name)).collect()),
        )
    }

    /// Reports settings that exclude each other. `location` is that of the table.
    #[must_use]
    pub fn problem(&self, location: &Location) -> Option<Problem> {
        self.key_query.as_ref().zip(self.ignore_query.as_ref())?;
        let title = "this cache has both `key_query` and `ignore_query`";
        let problem = Problem::key(&location.key("ignore_query"), title).label("without effect");
        let problem = problem.also(&location.key("key_query"), "all other parameters are ignored");
        Some(
            problem
                .help("remove `ignore_query`, or list all parameters to ignore in it and remove `key_query`"),
        )
    }

    /// Describes the cache for `rudy check --explain`.
    pub(super) fn describe(&self) -> Vec<String> {
        let stores = match self.min_uses() {
            ..=1 => "cache: stores responses".to_owned(),
            uses => format!("cache: stores responses after {uses} requests"),
        };
        let mut lines = vec![stores];
        let bypass = names(self.bypass_cookies.as_ref());
        if !bypass.is_empty() {
            lines.push(format!("cache: not for requests with cookies {}", bypass.join(", ")));
        }
        if self.bypass_query {
            lines.push("cache: not for requests with a query".to_owned());
        }
        if self.remove_set_cookie {
            lines.push("cache: removes Set-Cookie".to_owned());
        }
        lines
    }

    /// How long a request waits for another one.
    pub(super) fn wait(&self) -> Duration {
        self.wait_timeout.map_or(WAIT, |timeout| timeout.0)
    }

    /// The number of the request for a URL whose response is stored.
    pub(super) fn min_uses(&self) -> u32 {
        self.min_uses.map_or(1, Int::as_u32)
    }

    /// Whether responses to one user are stored for others, without a directive that allows it.
    #[must_use]
    pub fn shares_between_users(&self) -> bool {
        self.ignore_authorization
    }

    /// Whether it bypasses requests by their cookies.
    #[must_use]
    pub fn has_bypass(&self) -> bool {
        self.bypass_cookies.is_some()
    }
}

/// Returns the values of a list.
pub(super) fn names(list: Option<&OneOrMany<String>>) -> Vec<String> {
    list.map_or_else(Vec::new, |list| list.as_slice().to_vec())
}

/// The name of a field in `key_headers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyField(pub(super) HeaderName);

impl Setting for KeyField {
    const SHAPE: Shape = Shape::Text { is_required: true };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let name = value.text()?;
        let Ok(field) = HeaderName::from_bytes(name.as_bytes()) else {
            let title = format!("\"{}\" is not the name of a header field", name.escape_debug());
            return value.invalid(two_lines(title, "expected for example \"Accept-Language\""));
        };
        if field == http::header::COOKIE {
            let label = "expected the names of cookies in `key_cookies`";
            return value.invalid(two_lines("a key with all cookies differs for each client", label));
        }
        Ok(Self(field))
    }
}

/// A language tag such as `pt-BR` (RFC 5646).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language(pub(super) String);

impl Setting for Language {
    const SHAPE: Shape = Shape::Text { is_required: true };

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let tag = value.text()?;
        let is_part = |part: &str| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if tag.split('-').all(is_part) {
            return Ok(Self(tag.to_owned()));
        }
        let title = format!("\"{}\" is not a language", tag.escape_debug());
        value.invalid(two_lines(title, "expected for example \"de\" or \"pt-BR\""))
    }
}

/// The statuses of a time without a table: successful responses and permanent redirects.
const STATUSES: [RangeInclusive<u16>; 3] = [200..=200, 203..=204, 300..=301];
/// Beside [`STATUSES`].
const PERMANENT: RangeInclusive<u16> = 308..=308;

/// Freshness: a time, or a table by status. The flag is whether it is one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreshnessTable(ByStatus, bool);

impl FreshnessTable {
    fn one(time: Time) -> Self {
        let ranges = STATUSES.into_iter().chain([PERMANENT]);
        Self(ByStatus::new(ranges.map(|range| (range, seconds(time))).collect()), true)
    }

    fn first(&self) -> Seconds {
        self.0.of(http::StatusCode::OK).unwrap_or_default()
    }
}

fn seconds(time: Time) -> Seconds {
    Seconds::new(time.0.as_secs())
}

/// A key: a status, or a class of statuses.
struct Statuses(RangeInclusive<u16>);

impl Setting for Statuses {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let key = value.text()?;
        let class = key.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
        let class = class.filter(|class| (2..=5).contains(class)).map(|class| class * 100..=class * 100 + 99);
        let status = key.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
        class.or(status.map(|status| status..=status)).map(Self).map_or_else(
            || {
                let title = format!("\"{}\" is not a status", key.escape_debug());
                value.invalid(two_lines(title, "expected a status such as 200, or `4xx`"))
            },
            Ok,
        )
    }
}

impl Setting for FreshnessTable {
    const SHAPE: Shape =
        Shape::Either(&[&<Time>::SHAPE, &Shape::Map(&<Time>::SHAPE, Some("^([2-5][0-9][0-9]|[2-5]xx)$"))]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        if value.is_table() {
            let ranges = value.entries::<Statuses, Time>()?.into_iter();
            let ranges = ranges.map(|(Statuses(range), time)| (range, seconds(time)));
            return Ok(Self(ByStatus::new(ranges.collect()), false));
        }
        if value.may_be::<Time>() {
            return Time::read(value).map(Self::one);
        }
        value.expected("a time (\"5m\") or a table by status ({ 200 = \"5m\", 404 = \"10s\" })")
    }
}
