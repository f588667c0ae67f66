//! Turns the options into a plan, or into an error.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use rudy_command::CommandError;
use rudy_request::{Protocols, Relay, Remote, Sessions, Url};
use rudy_stats::Slo;
use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};
use rudy_units::Rate;

use super::options::{ArrivalsName, ConnectionOptions, Options, PaceOptions};
use super::plan::{Pace, Plan, Until};
use super::requests::{Requests, expected};
use super::sources::Sources;
use super::split::Split;
use crate::descriptor_limit;

/// Default duration of the measurement.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Default warm-up. Connections, caches and the CPU clock reach their normal speed.
const DEFAULT_WARM_UP: Duration = Duration::from_secs(1);

/// Default number of connections.
const DEFAULT_CONNECTIONS: NonZeroU32 = NonZeroU32::new(64).expect("not 0");

/// Default maximum number of connections of an open loop. At 1,000 requests per second, they carry responses that take 4 s.
const DEFAULT_CONNECTIONS_MAX: NonZeroU32 = NonZeroU32::new(4096).expect("not 0");

/// Default number of new connections per second: 64 at once, 10,000 in two seconds. More could overflow the
/// accept queue of the server (at most 4096 on Linux).
const DEFAULT_CONNECT_RATE: f64 = 5000.0;

/// Minimum number of new connections per second.
const CONNECT_RATE_MIN: f64 = 1.0;

/// Maximum number of pipelined requests. Servers read fewer than this before they respond, and each uses
/// memory.
const PIPELINE_MAX: u32 = 256;

/// Maximum number of concurrent streams. Servers allow between 100 and a few thousand.
const STREAMS_MAX: u32 = 10_000;

/// Maximum duration, for which the schedule is exact to the nanosecond.
const DURATION_MAX: Duration = Duration::from_hours(100 * 24);

/// Default time between progress updates.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between progress updates. More frequent ones would cost more CPU time than the load itself.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A prepared run.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The plan, with the first of the remotes.
    pub(super) plan: Plan,
    /// The addresses of the server, in the order in which they are tried.
    pub(super) remotes: Vec<Remote>,
    /// The first URL.
    pub(super) url: Url,
    /// The number of URLs.
    pub(super) urls: usize,
    /// The version of HTTP, as a number.
    pub(super) http_version: &'static str,
    /// The share of the plan to run; `None` is the whole plan.
    pub(super) split: Option<Split>,
    /// How sessions of TLS are used.
    pub(super) sessions: Sessions,
    /// The round-trip time that the relay simulates.
    pub(super) round_trip: Option<Duration>,
}

/// Validates the options, reads the files, and looks up the server.
pub(super) fn prepare(options: &Options) -> Result<Prepared, CommandError> {
    check_durations(&options.pace, options.output.interval)?;
    check_objective(options)?;
    let (until, warm_up) = until(&options.pace)?;
    let pace = pace(&options.pace, until)?;
    let connections = connections(&options.connections, &options.pace)?;
    let connections_max = connections_max(options, connections)?;
    let (connections, connections_max, until) = match options.split {
        Some(split) => {
            (split.connections(connections)?, split.connections(connections_max)?, split.until(until))
        }
        None => (connections, connections_max, until),
    };
    let closes_connections = requests_per_connection(&options.connections) == Some(NonZeroU32::MIN);
    let Requests { mix, url, urls } =
        Requests::new(&options.urls, options.url_file.as_deref(), &options.request, closes_connections)?;
    let expected = expected(&options.expected)?;
    let route = options.access.route(&url).map_err(|error| CommandError::Environment(error.to_string()))?;
    if route.security.is_none() && options.access.sessions != Sessions::Resumed {
        return Err("--tls-resume and --tls-early-data need an https URL".to_owned().into());
    }
    let remotes = reachable(route.remotes, &options.connections)?;
    let connect_rate = options.connections.connect_rate.unwrap_or(DEFAULT_CONNECT_RATE);
    let protocols = options.request.protocols();
    let plan = Plan {
        remote: remotes[0].clone(),
        security: route.security.map(|security| security.offering(protocols)),
        protocols,
        mix: Arc::new(mix),
        connections,
        connections_max,
        threads: threads(options.connections.threads, connections)?,
        pace,
        share: options.split.map_or(Share::WHOLE, Split::share),
        until,
        warm_up,
        timeout: options.pace.timeout,
        abort_condition: None,
        deadline: options.pace.deadline,
        in_flight_per_connection: in_flight_per_connection(&options.connections, protocols)?,
        requests_per_connection: requests_per_connection(&options.connections),
        connect_rate: options.split.map_or(connect_rate, |split| split.rate(connect_rate)),
        sources: options.connections.sources.map(Sources::addresses).unwrap_or_default().into(),
        expected: Arc::new(expected),
        relay: route.relay,
        interval: options.output.interval.unwrap_or(DEFAULT_INTERVAL),
    };
    descriptor_limit::check(plan.requirements())?;
    Ok(Prepared {
        plan,
        remotes,
        url,
        urls,
        http_version: options.request.http_version(),
        split: options.split,
        sessions: options.access.sessions,
        round_trip: options.access.round_trip,
    })
}

/// Maximum number of requests in flight per connection.
fn in_flight_per_connection(options: &ConnectionOptions, protocols: Protocols) -> Result<NonZeroU32, String> {
    let (pipeline, streams) = (options.pipeline, options.streams);
    match (protocols.may_have_streams(), streams) {
        (false, Some(_)) => Err("--streams needs HTTP/2 or HTTP/3: add --http2 or --http3".into()),
        (false, None) => Ok(pipeline),
        (true, _) if pipeline.get() > 1 => {
            Err("--pipeline is for HTTP/1.1: use --streams with --http2 or --http3".into())
        }
        (true, Some(streams)) if streams.get() > STREAMS_MAX => {
            Err(format!("--streams {streams} is too high: the maximum is {STREAMS_MAX}"))
        }
        (true, Some(streams))
            if streams.get() > 1 && requests_per_connection(options) == Some(NonZeroU32::MIN) =>
        {
            Err("--streams needs persistent connections: remove --disable-keepalive".into())
        }
        (true, streams) => Ok(streams.unwrap_or(NonZeroU32::MIN)),
    }
}

/// Checks the bounds of all durations.
fn check_durations(pace: &PaceOptions, interval: Option<Duration>) -> Result<(), String> {
    for (name, time, min) in [
        ("--duration", pace.duration, Duration::from_nanos(1)),
        ("--warm-up-time", pace.warm_up, Duration::ZERO),
        ("--timeout", Some(pace.timeout), Duration::from_nanos(1)),
        ("--deadline", pace.deadline, Duration::from_nanos(1)),
        ("--interval", interval, INTERVAL_MIN),
    ] {
        match time {
            Some(Duration::ZERO) if !min.is_zero() => {
                return Err(format!("{name} must be greater than 0"));
            }
            Some(time) if time < min => {
                return Err(format!("{name} must be at least {} ms", min.as_millis()));
            }
            Some(time) if time > DURATION_MAX => return Err(format!("{name} must be at most 100 days")),
            _ => {}
        }
    }
    Ok(())
}

/// Rejects an objective about latency in a closed loop, whose latencies lack the waiting time of the requests that a stall prevents.
fn check_objective(options: &Options) -> Result<(), String> {
    let is_about_latency = options.objective.as_ref().is_some_and(Slo::is_about_latency);
    if !is_about_latency || options.pace.rate.is_some() || options.pace.accepts_closed_loop_latency {
        return Ok(());
    }
    Err("--max-p99 needs a rate (-R): without one, a connection sends nothing while it waits, so a server that stalls delays few \
         requests. Add a rate such as -R 2k, or --closed-loop-latency to accept this"
        .into())
}

/// The end of the run, and the duration of the warm-up.
fn until(options: &PaceOptions) -> Result<(Until, Duration), String> {
    match (options.requests, options.warm_up) {
        (Some(0), _) => Err("--requests must be at least 1".into()),
        (Some(_), Some(warm_up)) if !warm_up.is_zero() => {
            Err("--warm-up-time needs a --duration: with a number of requests, all of them count".into())
        }
        (Some(requests), _) => Ok((Until::Requests(requests), Duration::ZERO)),
        (None, warm_up) => {
            // A ramp starts with its lowest rate, which is part of the load.
            let is_ramp = matches!(options.rate, Some(Rate::Ramp(..)));
            let default = if is_ramp { Duration::ZERO } else { DEFAULT_WARM_UP };
            Ok((Until::Time(options.duration.unwrap_or(DEFAULT_DURATION)), warm_up.unwrap_or(default)))
        }
    }
}

/// The load model. Checks the options that need a rate.
fn pace(options: &PaceOptions, until: Until) -> Result<Pace, String> {
    let Some(rate) = options.rate else {
        return match (options.arrivals, options.seed, options.deadline) {
            (Some(_), ..) => {
                Err("--arrivals needs a rate (-R): without one, each connection sends after its response"
                    .into())
            }
            (_, Some(_), _) => Err("--seed needs --arrivals poisson and a rate (-R)".into()),
            (.., Some(_)) => {
                Err("--deadline needs a rate (-R), because it counts from the due time: use --timeout".into())
            }
            _ => Ok(Pace::Closed),
        };
    };
    let arrivals = match (options.arrivals, options.seed) {
        (Some(ArrivalsName::Poisson), seed) => Arrivals::Poisson { seed: seed.unwrap_or(0) },
        (_, Some(_)) => return Err("--seed needs --arrivals poisson: uniform arrivals are not random".into()),
        (_, None) => Arrivals::Uniform,
    };
    let profile = match (rate, until) {
        (Rate::Constant(rate), _) => Profile::Constant(rate),
        (Rate::Ramp(..), Until::Requests(_)) => {
            return Err("a ramp (-R A:B) needs a --duration: remove --requests".into());
        }
        (Rate::Ramp(..), Until::Time(_)) if options.warm_up.is_some_and(|time| !time.is_zero()) => {
            return Err("a ramp (-R A:B) has no warm-up: remove --warm-up-time".into());
        }
        (Rate::Ramp(from, to), Until::Time(over)) => Profile::Ramp { from, to, over },
    };
    Schedule::new(profile, arrivals, Share::WHOLE).map_err(|error| error.to_string())?;
    Ok(Pace::Open(profile, arrivals))
}

/// The number of connections. Checks the options of connections.
fn connections(options: &ConnectionOptions, pace: &PaceOptions) -> Result<NonZeroU32, String> {
    let opens_for_each_request = requests_per_connection(options) == Some(NonZeroU32::MIN);
    if options.disables_keep_alive && options.requests_per_connection.is_some_and(|max| max.get() > 1) {
        return Err(
            "--disable-keepalive allows one request per connection: remove --requests-per-connection".into(),
        );
    }
    if opens_for_each_request && options.pipeline.get() > 1 {
        return Err("--pipeline needs persistent connections: remove --disable-keepalive".into());
    }
    if options.pipeline.get() > PIPELINE_MAX {
        return Err(format!("--pipeline {} is too high: the maximum is {PIPELINE_MAX}", options.pipeline));
    }
    if options.connect_rate.is_some_and(|rate| rate < CONNECT_RATE_MIN) {
        return Err(format!("--connect-rate must be at least {CONNECT_RATE_MIN}"));
    }
    if opens_for_each_request && options.connect_rate.is_some() {
        return Err("--connect-rate needs persistent connections: with a connection for each request, use the rate of \
                    requests (-R)".into());
    }
    // In an open loop, requests use any free connection; in a closed loop, each connection must send one.
    let max = pace.requests.filter(|_| pace.rate.is_none()).and_then(|max| u32::try_from(max).ok());
    match (options.connections, max.and_then(NonZeroU32::new)) {
        (Some(connections), Some(max)) if max < connections => {
            Err(format!("{max} requests are too few for {connections} connections: use -c {max} or fewer"))
        }
        (Some(connections), _) => Ok(connections),
        (None, max) => Ok(max.map_or(DEFAULT_CONNECTIONS, |max| max.min(DEFAULT_CONNECTIONS))),
    }
}

/// The number up to which an open loop opens further connections. A number that was given is not exceeded.
fn connections_max(options: &Options, connections: NonZeroU32) -> Result<NonZeroU32, CommandError> {
    let (max, round_trip) = (options.connections.connections_max, options.access.round_trip);
    let most = max.unwrap_or(connections).get();
    if round_trip.is_some() && most > Relay::CONNECTIONS_MAX {
        let max = Relay::CONNECTIONS_MAX;
        return Err(format!(
            "--round-trip carries at most {max} connections, and not {most}: use -c {max} or fewer"
        )
        .into());
    }
    match (max, options.pace.rate) {
        (Some(_), None) => {
            Err("--max-connections needs a rate (-R): without one, no request waits for a connection"
                .to_owned()
                .into())
        }
        (Some(max), _) if max < connections => Err(format!(
            "--max-connections {max} is lower than the {connections} connections at the start (-c)"
        )
        .into()),
        (Some(max), _) => Ok(max),
        (None, Some(_)) if options.connections.connections.is_none() => {
            let relayed = round_trip.map_or(u32::MAX, |_| Relay::CONNECTIONS_MAX);
            let allowed = NonZeroU32::new(descriptor_limit::max_connections()?.min(relayed));
            Ok(DEFAULT_CONNECTIONS_MAX.min(allowed.unwrap_or(NonZeroU32::MIN)).max(connections))
        }
        (None, _) => Ok(connections),
    }
}

/// The number of requests after which a connection is replaced.
fn requests_per_connection(options: &ConnectionOptions) -> Option<NonZeroU32> {
    if options.disables_keep_alive { Some(NonZeroU32::MIN) } else { options.requests_per_connection }
}

/// The number of threads, by default half of the cores.
fn threads(threads: Option<NonZeroU32>, connections: NonZeroU32) -> Result<NonZeroU32, String> {
    match threads {
        Some(threads) if threads > connections => Err(format!(
            "{threads} threads are more than the {connections} connections: use -t {connections} or fewer, or more \
             connections (-c)"
        )),
        Some(threads) => Ok(threads),
        None => {
            let half = available_parallelism().map_or(1, |cores| cores.get() / 2);
            let half = u32::try_from(half).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
            Ok(half.min(connections))
        }
    }
}

/// The remotes with the address family of the local addresses.
fn reachable(remotes: Vec<Remote>, options: &ConnectionOptions) -> Result<Vec<Remote>, CommandError> {
    let Some(sources) = options.sources else { return Ok(remotes) };
    let has_same_family =
        |remote: &Remote| matches!(remote, Remote::Ip(address) if address.is_ipv6() == sources.is_ipv6());
    let reachable: Vec<_> = remotes.iter().filter(|remote| has_same_family(remote)).cloned().collect();
    match &remotes[0] {
        first if reachable.is_empty() => Err(CommandError::Arguments(format!(
            "--sources {sources} cannot reach {first}: the address families differ"
        ))),
        _ => Ok(reachable),
    }
}

#[cfg(test)]
mod tests;
