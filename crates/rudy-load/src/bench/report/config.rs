//! The settings of a run, for its report.

use std::fmt;
use std::time::Duration;

use rudy_request::Remote;
use rudy_stats::schedule::{Arrivals, Profile};
use serde::{Deserialize, Serialize};

use crate::bench::plan::{Pace, Plan, Until};
use crate::bench::prepare::Prepared;
use crate::bench::split::ShareConfig;
use crate::units;

/// The target and the settings of a run. Plain values, so that a report can be parsed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The first URL.
    pub target: String,
    /// Number of URLs.
    pub urls: usize,
    /// The address of the server.
    pub remote: String,
    /// The number of connections.
    pub connections: u32,
    /// The number up to which an open loop opens further connections; absent if it opens none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<u32>,
    /// Number of generator threads.
    pub threads: u32,
    /// The version of HTTP: `1.0`, `1.1`, `2`.
    #[serde(default = "http_1_1")]
    pub http_version: String,
    /// HTTP/2: maximum concurrent streams per connection; null with HTTP/1.
    #[serde(default)]
    pub streams: Option<u32>,
    /// Maximum pipelined requests per connection; 1 with HTTP/2.
    pub pipeline: u32,
    /// Requests after which a connection was replaced; null if never.
    pub requests_per_connection: Option<u32>,
    /// The total rate of an open loop, per second; null in a closed loop.
    pub rate: Option<f64>,
    /// The final rate of a ramp.
    pub rate_at_end: Option<f64>,
    /// The distribution of send times: `uniform`, `jitter`, `poisson`; null in a closed loop.
    pub arrivals: Option<String>,
    /// The seed of random send times.
    pub seed: Option<u64>,
    /// The planned duration; null if the number of requests was given.
    pub duration_s: Option<f64>,
    /// The planned number of requests; null if the duration was given.
    pub requests: Option<u64>,
    /// The duration of the warm-up.
    pub warm_up_s: f64,
    /// The timeout of a response, from the send.
    pub timeout_s: f64,
    /// The timeout of a response, from the due time.
    pub deadline_s: Option<f64>,
    /// How sessions of TLS were used: `full`, `resumed` or `early_data`; null without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_sessions: Option<String>,
    /// The simulated round-trip time of the path to the server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<f64>,
    /// The share of a plan, if any. The rates above are those of the whole plan, the other numbers those of
    /// the share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareConfig>,
}

impl Config {
    pub(in crate::bench) fn new(prepared: &Prepared, remote: &Remote) -> Self {
        let plan = &prepared.plan;
        let (rate, rate_at_end) = rate(plan.pace);
        let (arrivals, seed) = arrivals(plan.pace);
        let (duration_s, requests) = match plan.until {
            Until::Time(time) => (Some(time.as_secs_f64()), None),
            Until::Requests(requests) => (None, Some(requests)),
        };
        let is_open = plan.is_open_loop();
        let Plan {
            connections,
            connections_max,
            threads,
            in_flight_per_connection,
            requests_per_connection,
            ..
        } = *plan;
        let has_streams = plan.protocols.may_have_streams();
        Self {
            target: prepared.url.to_string(),
            urls: prepared.urls,
            remote: remote.to_string(),
            connections: connections.get(),
            connections_max: Some(connections_max.get()).filter(|max| is_open && *max > connections.get()),
            threads: threads.get(),
            http_version: prepared.http_version.to_owned(),
            streams: has_streams.then_some(in_flight_per_connection.get()),
            pipeline: if has_streams { 1 } else { in_flight_per_connection.get() },
            requests_per_connection: requests_per_connection.map(u32::from),
            rate,
            rate_at_end,
            arrivals: arrivals.map(str::to_owned),
            seed,
            duration_s,
            requests,
            warm_up_s: plan.warm_up.as_secs_f64(),
            timeout_s: plan.timeout.as_secs_f64(),
            deadline_s: plan.deadline.map(|deadline| deadline.as_secs_f64()),
            tls_sessions: plan.security.as_ref().map(|_| prepared.sessions.name().to_owned()),
            round_trip_s: prepared.round_trip.map(|time| time.as_secs_f64()),
            share: prepared.split.map(|split| ShareConfig::new(split, plan.mix.checksum())),
        }
    }

    /// Whether the run was an open loop, whose requests have due times.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rate.is_some()
    }

    /// Maximum number of requests in flight.
    #[must_use]
    pub fn max_in_flight(&self) -> u64 {
        u64::from(self.max_connections()) * u64::from(self.in_flight_per_connection())
    }

    /// Maximum number of connections.
    #[must_use]
    pub fn max_connections(&self) -> u32 {
        self.connections_max.unwrap_or(self.connections)
    }

    /// `64 connections, up to 4096 while all are busy`
    pub(in crate::bench) fn describe_connections(&self) -> String {
        let max = self.connections_max.map(|max| format!(", up to {max} while all are busy"));
        count(self.connections, "connection") + &max.unwrap_or_default()
    }

    /// Maximum number of requests in flight on each connection.
    #[must_use]
    pub fn in_flight_per_connection(&self) -> u32 {
        self.streams.unwrap_or(self.pipeline)
    }
}

/// The version in reports that do not have it.
fn http_1_1() -> String {
    "1.1".to_owned()
}

/// The rate at the start, and at the end of a ramp.
fn rate(pace: Pace) -> (Option<f64>, Option<f64>) {
    match pace {
        Pace::Closed => (None, None),
        Pace::Open(Profile::Constant(rate), _) => (Some(rate), None),
        Pace::Open(Profile::Ramp { from, to, .. }, _) => (Some(from), Some(to)),
    }
}

fn arrivals(pace: Pace) -> (Option<&'static str>, Option<u64>) {
    match pace {
        Pace::Closed => (None, None),
        Pace::Open(_, Arrivals::Uniform) => (Some("uniform"), None),
        Pace::Open(_, Arrivals::Jitter { seed }) => (Some("jitter"), Some(seed)),
        Pace::Open(_, Arrivals::Poisson { seed }) => (Some("poisson"), Some(seed)),
    }
}

/// `64 connections, 1 thread, closed loop, 10 s to 127.0.0.1:8080; 1 s of warm-up not counted`
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.describe_connections(), count(self.threads, "thread"))?;
        if let Some(streams) = self.streams {
            write!(f, ", HTTP/{} with {} on each", self.http_version, count(streams, "concurrent stream"))?;
        }
        if self.pipeline > 1 {
            write!(f, ", {} requests in flight on each", self.pipeline)?;
        }
        match self.requests_per_connection {
            Some(1) => f.write_str(", a connection for each request")?,
            Some(requests) => write!(f, ", each closed after {requests} requests")?,
            None => {}
        }
        match self.tls_sessions.as_deref() {
            Some("full") => f.write_str(", full TLS handshakes")?,
            Some("early_data") => f.write_str(", TLS with early data")?,
            _ => {}
        }
        match (self.rate, self.rate_at_end) {
            (None, _) => f.write_str(", closed loop")?,
            (Some(rate), None) => write!(f, ", open loop, {rate} requests/s in all")?,
            (Some(from), Some(to)) => write!(f, ", open loop, {from} to {to} requests/s in all")?,
        }
        if let (Some(arrivals), Some(seed)) = (&self.arrivals, self.seed) {
            write!(f, ", {arrivals} arrivals (seed {seed})")?;
        }
        if let Some(duration) = self.duration_s {
            write!(f, ", {}", format_seconds(duration))?;
        }
        if let Some(requests) = self.requests {
            write!(f, ", {}", count(requests, "request"))?;
        }
        write!(f, " to {}", self.remote)?;
        if let Some(round_trip) = self.round_trip_s {
            let time = units::duration(Duration::from_secs_f64(round_trip));
            write!(f, " over a simulated path with a round trip of {time}")?;
        }
        if let Some(share) = &self.share {
            write!(f, "; share {} of this plan", share.split())?;
        }
        if self.warm_up_s > 0.0 {
            write!(f, "; {} of warm-up not counted", format_seconds(self.warm_up_s))?;
        }
        Ok(())
    }
}

/// Formats seconds as the user wrote them: `10 s` and not `10.0 s`.
fn format_seconds(seconds: f64) -> String {
    if seconds.fract() == 0.0 {
        format!("{seconds} s")
    } else {
        units::duration(Duration::from_secs_f64(seconds))
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn count(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
