//! From what the command line says to a plan, or to what is wrong with it.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use rudy_stats::rate::Rate;
use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};

use super::options::{
    ArrivalsName, ConnectionOptions, ExpectedOptions, Options, PaceOptions, RequestOptions,
};
use super::plan::{Expected, Pace, Plan, Until};
use crate::exit::Refusal;
use crate::request::{Mix, Template};
use crate::{Remote, Url, room};

/// How long requests are sent that count, where nothing is said.
const DURATION: Duration = Duration::from_secs(10);

/// How long requests are sent before those that count: connections, caches and clocks of the processor come up to speed.
const WARM_UP: Duration = Duration::from_secs(1);

/// Connections opened in a second: 64 at once, and 10,000 of them in two seconds instead of in a storm that overruns the
/// queue in which a server finds them (4096 on Linux, at most).
const CONNECT_RATE: f64 = 5000.0;

/// How often something is said.
const INTERVAL: Duration = Duration::from_secs(1);

/// More often than this what is said costs more than what is measured.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A file that is sent or expected as a body is held in memory, once for each thread.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What will be run.
#[derive(Debug)]
pub(super) struct Prepared {
    /// With the first of the remotes.
    pub(super) plan: Plan,
    /// Where the server may be, in the order in which they are tried.
    pub(super) remotes: Vec<Remote>,
    /// The first that is asked.
    pub(super) url: Url,
    /// How many URLs there are.
    pub(super) urls: usize,
}

/// Reads the files, looks the server up, and judges what was said.
pub(super) fn prepare(options: &Options) -> Result<Prepared, Refusal> {
    let weighted =
        super::urls::all(&options.urls, options.url_file.as_deref()).map_err(Refusal::Arguments)?;
    let url = weighted[0].0.clone();
    let (until, warm_up) = until(&options.pace).map_err(Refusal::Arguments)?;
    let pace = pace(&options.pace, until).map_err(Refusal::Arguments)?;
    check_connections(&options.connections, &options.pace).map_err(Refusal::Arguments)?;
    let template = template(&options.request, &options.connections).map_err(Refusal::Arguments)?;
    let expected = expected(&options.expected).map_err(Refusal::Arguments)?;
    let urls = weighted.len();
    let mix = mix(&template, &weighted).map_err(Refusal::Arguments)?;
    let interval = interval(options.output.interval).map_err(Refusal::Arguments)?;
    let route = options.access.route(&url).map_err(|error| Refusal::World(error.to_string()))?;
    let remotes = reachable(route.remotes, &options.connections)?;
    let connections = &options.connections;
    let one_each = connections.disables_keep_alive.then_some(NonZeroU32::MIN);
    let plan = Plan {
        remote: remotes[0].clone(),
        security: route.security,
        mix: Arc::new(mix),
        connections: connections.connections,
        threads: threads(connections).map_err(Refusal::Arguments)?,
        pace,
        share: Share::WHOLE,
        until,
        warm_up,
        timeout: options.pace.timeout,
        deadline: options.pace.deadline,
        pipeline: connections.pipeline,
        requests_per_connection: one_each.or(connections.requests_per_connection),
        connect_rate: connections.connect_rate.unwrap_or(CONNECT_RATE),
        sources: connections.sources.map(super::Sources::addresses).unwrap_or_default().into(),
        expected: Arc::new(expected),
        interval,
    };
    room::check(&plan)?;
    Ok(Prepared { plan, remotes, url, urls })
}

fn until(options: &PaceOptions) -> Result<(Until, Duration), String> {
    for (name, time) in [
        ("--duration", options.duration),
        ("--timeout", Some(options.timeout)),
        ("--deadline", options.deadline),
    ] {
        if time.is_some_and(|time| time.is_zero()) {
            return Err(format!("{name} must be longer than nothing"));
        }
    }
    match (options.requests, options.warm_up) {
        (Some(0), _) => Err("--requests must be at least 1".into()),
        (Some(_), Some(warm_up)) if !warm_up.is_zero() => {
            Err("--warm-up-time is for runs of a --duration: of a number of requests every one counts".into())
        }
        (Some(requests), _) => Ok((Until::Requests(requests), Duration::ZERO)),
        (None, warm_up) => {
            // Where the rate rises, its beginning is part of what is asked.
            let default = if matches!(options.rate, Some(Rate::Ramp(..))) { Duration::ZERO } else { WARM_UP };
            Ok((Until::Time(options.duration.unwrap_or(DURATION)), warm_up.unwrap_or(default)))
        }
    }
}

fn pace(options: &PaceOptions, until: Until) -> Result<Pace, String> {
    let Some(rate) = options.rate else {
        return match (options.arrivals, options.seed, options.deadline) {
            (Some(_), ..) => Err("--arrivals needs a rate (-R): without one each connection sends when it has its answer".into()),
            (_, Some(_), _) => Err("--seed needs --arrivals poisson and a rate (-R)".into()),
            (.., Some(_)) => Err("--deadline counts from when a request is due, and without a rate (-R) none is: use --timeout".into()),
            _ => Ok(Pace::Closed),
        };
    };
    let arrivals = match (options.arrivals, options.seed) {
        (Some(ArrivalsName::Poisson), seed) => Arrivals::Poisson { seed: seed.unwrap_or(0) },
        (_, Some(_)) => return Err("--seed needs --arrivals poisson: what is uniform is not drawn".into()),
        (_, None) => Arrivals::Uniform,
    };
    let profile = match (rate, until) {
        (Rate::Constant(rate), _) => Profile::Constant(rate),
        (Rate::Ramp(..), Until::Requests(_)) => {
            return Err("a ramp (-R A:B) goes over the --duration: leave --requests out".into());
        }
        (Rate::Ramp(..), Until::Time(_)) if options.warm_up.is_some_and(|time| !time.is_zero()) => {
            return Err(
                "a ramp (-R A:B) has no warm-up: its beginning is part of it; leave --warm-up-time out"
                    .into(),
            );
        }
        (Rate::Ramp(from, to), Until::Time(over)) => Profile::Ramp { from, to, over },
    };
    Schedule::new(profile, arrivals, Share::WHOLE).map_err(|error| error.to_string())?;
    Ok(Pace::Open(profile, arrivals))
}

fn check_connections(options: &ConnectionOptions, pace: &PaceOptions) -> Result<(), String> {
    let is_one_each = options.disables_keep_alive || options.requests_per_connection == Some(NonZeroU32::MIN);
    if options.disables_keep_alive && options.requests_per_connection.is_some_and(|most| most.get() > 1) {
        return Err(
            "--disable-keepalive is one request per connection: leave --requests-per-connection out".into()
        );
    }
    if is_one_each && options.pipeline.get() > 1 {
        return Err("--pipeline needs connections that stay: leave --disable-keepalive out".into());
    }
    if is_one_each && options.connect_rate.is_some() {
        return Err("--connect-rate is for connections that are opened before the first request; with one for each request the rate of requests (-R) is theirs".into());
    }
    match pace.requests {
        Some(requests) if requests < u64::from(options.connections.get()) && pace.rate.is_none() => {
            Err(format!(
                "{requests} requests leave some of the {} connections without any: use -c {requests} or fewer",
                options.connections
            ))
        }
        _ => Ok(()),
    }
}

fn threads(options: &ConnectionOptions) -> Result<NonZeroU32, String> {
    let Some(threads) = options.threads else {
        let half = available_parallelism().map_or(1, |cores| cores.get() / 2);
        let half = u32::try_from(half).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        return Ok(half.min(options.connections));
    };
    if threads > options.connections {
        return Err(format!(
            "{threads} threads have nothing to do with {} connections: use -t {} or fewer, or more connections",
            options.connections, options.connections
        ));
    }
    Ok(threads)
}

fn template(options: &RequestOptions, connections: &ConnectionOptions) -> Result<Template, String> {
    let body = match options.body.as_deref() {
        None => None,
        Some(text) => Some(match text.strip_prefix('@') {
            Some(path) => read_body(Path::new(path))?,
            None => Bytes::copy_from_slice(text.as_bytes()),
        }),
    };
    let default = if body.is_some() { Method::POST } else { Method::GET };
    let mut fields = HeaderMap::new();
    for (name, value) in &options.fields {
        fields.append(name, value.clone());
    }
    Ok(Template {
        method: options.method.clone().unwrap_or(default),
        fields,
        body,
        version: if options.is_http_10 { Version::HTTP_10 } else { Version::HTTP_11 },
        keep_alive: !connections.disables_keep_alive
            && connections.requests_per_connection != Some(NonZeroU32::MIN),
    })
}

fn expected(options: &ExpectedOptions) -> Result<Expected, String> {
    let body = options.body.as_deref().map(read_body).transpose()?;
    match (&body, options.body_bytes) {
        (Some(body), Some(bytes)) if body.len() as u64 != bytes => Err(format!(
            "--expect-body has {} bytes, and --expect-bytes says {bytes}: leave one of them out",
            body.len()
        )),
        (_, body_bytes) => Ok(Expected { body_bytes, body, repeats: None }),
    }
}

fn read_body(path: &Path) -> Result<Bytes, String> {
    let error = |reason: String| format!("cannot read the body from {}: {reason}", path.display());
    let metadata = fs::metadata(path).map_err(|why| error(why.to_string()))?;
    if metadata.len() > BODY_BYTES_MAX {
        return Err(error(format!("it has {} bytes, and {BODY_BYTES_MAX} are the most", metadata.len())));
    }
    fs::read(path).map(Bytes::from).map_err(|why| error(why.to_string()))
}

fn mix(template: &Template, weighted: &[(Url, u32)]) -> Result<Mix, String> {
    let mut requests = Vec::new();
    for (url, weight) in weighted {
        let request = template.encode(url, false).map_err(|error| format!("{url}: {error}"))?;
        requests.push((request, *weight));
    }
    Mix::new(requests).map_err(|error| error.to_string())
}

fn interval(given: Option<Duration>) -> Result<Duration, String> {
    match given {
        Some(interval) if interval < INTERVAL_MIN => {
            Err(format!("--interval must be at least {} ms", INTERVAL_MIN.as_millis()))
        }
        given => Ok(given.unwrap_or(INTERVAL)),
    }
}

/// The remotes that can be reached from the addresses that were given.
fn reachable(remotes: Vec<Remote>, options: &ConnectionOptions) -> Result<Vec<Remote>, Refusal> {
    let Some(sources) = options.sources else { return Ok(remotes) };
    let of_that_kind =
        |remote: &Remote| matches!(remote, Remote::Ip(address) if address.is_ipv6() == sources.is_ipv6());
    let reachable: Vec<_> = remotes.iter().filter(|remote| of_that_kind(remote)).cloned().collect();
    match &remotes[0] {
        first if reachable.is_empty() => Err(Refusal::Arguments(format!(
            "--sources {sources} cannot reach {first}: it is not of the same kind of address"
        ))),
        _ => Ok(reachable),
    }
}
