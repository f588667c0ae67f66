//! Active health checks: requests of Rudy itself that decide whether an upstream gets requests.
//!
//! A task checks each upstream, off the request path: on the runtime of the name lookups. All workers use the result, which the pool has.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use rudy_client::{Endpoint, Start, Upload, Upstream};
use rudy_config::{Int, OneOrMany, Table, written_as_text};
use rudy_message::BodyLength;
use rudy_message::client::RequestHead;
use rudy_net::proxy_header::{self, ProxiedClient};
use rudy_runtime::clock;
use rudy_runtime::random;
use rudy_units::{Time, Timeout, visible};
use rudy_upstream::Permit;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::ejection::FailureStatuses;
use super::exchange::{Http, Timeouts};
use super::url::UpstreamUrl;

/// Requests of Rudy that decide whether an upstream gets requests: a table, or the path alone.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(short(path), what = "a path (\"/health\") or a table", default)]
pub struct HealthCheckTable {
    /// Path of the requests, with a query if needed. `add_prefix` does not apply.
    #[setting(default = HealthCheckPath("/".to_owned()), example = "/health")]
    pub path: HealthCheckPath,
    /// `Host` of the requests. The default is the host of the upstream's URL.
    #[setting(example = "example.org")]
    pub host: Option<String>,
    /// Time between two checks of an upstream, which varies by a tenth.
    #[setting(default = Time(Duration::from_secs(10)))]
    pub interval: Timeout,
    /// Maximum time of a check.
    #[setting(default = Time(Duration::from_secs(2)))]
    pub timeout: Timeout,
    /// Statuses of a healthy upstream. The default is 200 to 399.
    #[setting(example = [200, 204])]
    pub status: Option<OneOrMany<Int<200, 599>>>,
    /// Number of successful checks in a row after which an upstream gets requests again.
    #[setting(default = Int(2))]
    pub healthy: Int<1, 100>,
    /// Number of failed checks in a row after which an upstream gets no more requests.
    #[setting(default = Int(3))]
    pub unhealthy: Int<1, 100>,
    /// Whether an upstream is healthy if it accepts a connection: it does not speak HTTP.
    #[setting(skip)]
    pub connects_only: bool,
}

/// The path of a health check: `/health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheckPath(String);

impl FromStr for HealthCheckPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') && text.parse::<PathAndQuery>().is_ok() {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("\"{}\" is not a path: write it as in \"/health\"", visible(text)))
    }
}

impl fmt::Display for HealthCheckPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(HealthCheckPath, "a path (\"/health\")", {
    doc: "A path that begins with a slash.",
    pattern: "^/",
    examples: ["/health"],
});

impl HealthCheckTable {
    fn accepts(&self, status: StatusCode) -> bool {
        match &self.status {
            Some(statuses) => statuses.as_slice().iter().any(|one| one.as_u16() == status.as_u16()),
            None => (200..400).contains(&status.as_u16()),
        }
    }
}

/// The results of the checks of one upstream.
#[derive(Debug, Default)]
struct Results {
    is_unhealthy: bool,
    /// How many of the last results differ from that.
    differing: u32,
}

impl Results {
    /// Adds a result. Returns whether the upstream has become healthy or unhealthy.
    fn add(&mut self, is_success: bool, table: &HealthCheckTable) -> bool {
        if is_success != self.is_unhealthy {
            self.differing = 0;
            return false;
        }
        self.differing += 1;
        let needed = if self.is_unhealthy { table.healthy } else { table.unhealthy };
        let changes = self.differing >= needed.as_u32();
        if changes {
            *self = Self { is_unhealthy: !self.is_unhealthy, differing: 0 };
        }
        changes
    }
}

/// The checks of one upstream.
struct Checks {
    upstream: Arc<Upstream<Connection>>,
    /// The id of the member.
    id: u64,
    table: HealthCheckTable,
    fields: HeaderMap,
    /// The PROXY protocol header, if the upstream expects one.
    preamble: Option<Arc<[u8]>>,
}

/// Returns the task that checks the member with this id and URL.
pub(super) fn checks(
    upstream: &Arc<Upstream<Connection>>,
    id: u64,
    url: &UpstreamUrl,
    table: &HealthCheckTable,
    send_proxy_protocol: bool,
) -> impl Future<Output = ()> + Send + use<> {
    let (upstream, table, fields) = (upstream.clone(), table.clone(), fields(url, table));
    let preamble = send_proxy_protocol.then(|| proxy_header::encode(ProxiedClient::ProxyItself, None).into());
    Checks { upstream, id, table, fields, preamble }.run()
}

impl Checks {
    async fn run(self) {
        let (mut results, interval) = (Results::default(), self.table.interval.0);
        // Spread over the interval, so that an upstream behind several proxies is not checked by all of them at once.
        sleep(interval.mul_f64(random::share())).await;
        loop {
            if let Some(result) = self.check().await
                && results.add(result.is_ok(), &self.table)
            {
                let problem = result.as_ref().err().map(|why| -> &dyn fmt::Display { why });
                self.upstream.pool().set_health(self.id, problem, clock::now());
            }
            sleep(interval.mul_f64(0.9 + 0.2 * random::share())).await;
        }
    }

    /// Checks the upstream once, on a connection that only checks use. Returns why it is unhealthy, or `None` if it is drained.
    async fn check(&self) -> Option<Result<(), String>> {
        let permit = self.upstream.permit_for_check(self.id)?;
        let time = self.table.timeout.0;
        if self.table.connects_only {
            let opened = self.upstream.open(permit, self.preamble.clone());
            let opened = timeout(time, opened).await.map_err(|_| format!("no connection within {time:?}"));
            return Some(opened.and_then(|opened| opened.map_err(|error| error.to_string())).map(drop));
        }
        let status = timeout(time, self.status(permit)).await;
        Some(match status.unwrap_or_else(|_| Err(format!("no response within {time:?}"))) {
            Ok(status) if self.table.accepts(status) => Ok(()),
            Ok(status) => Err(format!("the status of the response is {status}")),
            Err(why) => Err(why),
        })
    }

    async fn status(&self, permit: Permit<Endpoint, Connection>) -> Result<StatusCode, String> {
        let checkout =
            self.upstream.open(permit, self.preamble.clone()).await.map_err(|error| error.to_string())?;
        let head = RequestHead {
            method: &Method::GET,
            target: &self.table.path.0,
            version: Version::HTTP_11,
            fields: (&self.fields).into(),
            body: BodyLength::Known(0),
        };
        let timeouts = Timeouts { response: self.table.timeout.0, stall: Some(self.table.timeout.0) };
        let start = Start { at: clock::now(), attempt: 1 };
        let (body, no_statuses) = (Upload::default(), FailureStatuses::default());
        let exchange = Http::begin(checkout, &head, body, None, timeouts, no_statuses, start);
        let head = exchange.map_err(|cause| cause.to_string())?.head().await;
        head.map(|head| head.status()).map_err(|cause| cause.to_string())
    }
}

fn fields(url: &UpstreamUrl, table: &HealthCheckTable) -> HeaderMap {
    let host = table.host.as_ref().and_then(|host| HeaderValue::from_str(host).ok());
    HeaderMap::from_iter([
        (HOST, host.unwrap_or_else(|| url.host())),
        (USER_AGENT, HeaderValue::from_static("rudy (health check)")),
        // An idle connection would keep the check from noticing that the upstream accepts no others.
        (CONNECTION, HeaderValue::from_static("close")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_in_a_row_change_the_health() {
        let (mut results, table) = (Results::default(), HealthCheckTable::default());
        let changes = |results: &mut Results, sequence: &str| -> Vec<bool> {
            sequence.chars().map(|result| results.add(result == '+', &table)).collect()
        };
        assert_eq!(changes(&mut results, "+--+--"), [false; 6]);
        assert_eq!(changes(&mut results, "-"), [true], "three failures in a row");
        assert_eq!(changes(&mut results, "--+-+"), [false; 5]);
        assert_eq!(changes(&mut results, "+"), [true], "two successes in a row");
        assert_eq!(changes(&mut results, "--+"), [false; 3]);
    }

    #[test]
    fn paths_and_statuses_are_checked() {
        assert!("/health?deep=1".parse::<HealthCheckPath>().is_ok());
        for text in ["", "health", "http://a/health", "/a b"] {
            assert!(text.parse::<HealthCheckPath>().is_err(), "{text}");
        }
        let accepted = |status: Option<u64>| {
            let status = status.map(|status| [Int(status)].into_iter().collect());
            let table = HealthCheckTable { status, ..HealthCheckTable::default() };
            let statuses = [200, 204, 302, 399, 400, 503];
            statuses
                .into_iter()
                .filter(move |status| table.accepts(StatusCode::from_u16(*status).unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(accepted(None), [200, 204, 302, 399]);
        assert_eq!(accepted(Some(503)), [503]);
    }
}
