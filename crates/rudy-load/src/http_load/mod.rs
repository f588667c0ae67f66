//! `rudy http_load`: the options and the output of http_load (Jef Poskanzer, 1998 to 2016) for this load
//! generator. Each fetch opens a connection.

mod options;
mod summary;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_command::{CommandError, Exit, print, print_line, report_error};
use rudy_request::{Access, Interrupt, Protocols, Trust};
use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};

use self::options::{Check, End, Options, Start, USAGE};
use self::summary::Summary;
use crate::bench::{
    BodyProperty, Expected, Interval, Outcome, Pace, Plan, RequestOptions, Requests, Until, Watch, run,
};
use crate::descriptor_limit;
use crate::units::visible_lines;

/// Maximum number of concurrent fetches at a rate.
const PARALLEL_MAX: u32 = 20_000;

/// Connections are opened when they are used, so this is no limit.
const CONNECT_RATE: f64 = 1e6;

/// Time between `-verbose` lines.
const MINUTE: Duration = Duration::from_mins(1);

/// Runs the command with its arguments.
#[must_use]
pub fn http_load(arguments: &[String]) -> Exit {
    let options = match Options::parse(arguments) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = write!(io::stdout(), "{USAGE}");
            return Exit::Done;
        }
        Err(message) => return report_error(Exit::BadInput, &format!("{message}\n\n{USAGE}")),
    };
    let plan = match plan(&options) {
        Ok(plan) => plan,
        Err(error) => return error.report(),
    };
    let interrupt = match Interrupt::catch() {
        Ok(interrupt) => interrupt,
        Err(error) => return report_error(Exit::CannotRun, &format!("cannot catch Ctrl-C: {error}")),
    };
    let mut watcher = Watcher { interrupt: &interrupt, is_verbose: options.is_verbose, completed: 0 };
    match run(&plan, &mut watcher) {
        Ok(outcome) => report(&outcome, options.check, &interrupt),
        Err(error) => report_error(Exit::CannotRun, &error.to_string()),
    }
}

fn report(outcome: &Outcome, check: Check, interrupt: &Interrupt) -> Exit {
    match print(&visible_lines(&Summary { outcome, check }.to_string())) {
        Exit::Done => interrupt.signal().map_or(Exit::Done, Exit::Signal),
        exit => exit,
    }
}

struct Watcher<'a> {
    interrupt: &'a Interrupt,
    is_verbose: bool,
    completed: u64,
}

impl Watch for Watcher<'_> {
    fn should_continue(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn interval(&mut self, interval: &Interval) {
        self.completed += interval.recorder.requests();
        if self.is_verbose {
            let seconds = (u64::from(interval.index) + 1) * MINUTE.as_secs();
            let (completed, open) = (self.completed, interval.open);
            print_line(&format!("--- {seconds} secs, {completed} fetches completed, {open} current"));
        }
    }
}

fn plan(options: &Options) -> Result<Plan, CommandError> {
    let requests = Requests::new(&[], Some(&options.urls), &RequestOptions::default(), true)?;
    let pace = pace(options)?;
    let trust = if options.is_insecure { Trust::All } else { Trust::Platform };
    let route = Access { trust, ..Access::default() }.route(&requests.url);
    let route = route.map_err(|error| CommandError::Environment(error.to_string()))?;
    let connections = match options.start {
        Start::Parallel(parallel) => parallel,
        Start::Rate { .. } => descriptor_limit::max_connections()?.min(PARALLEL_MAX),
    };
    let connections = NonZeroU32::new(connections).unwrap_or(NonZeroU32::MIN);
    let plan = Plan {
        remote: route.remotes[0].clone(),
        security: route.security,
        mix: Arc::new(requests.mix),
        connections,
        connections_max: connections,
        // http_load is single-threaded, and its metrics assume that.
        threads: NonZeroU32::MIN,
        pace,
        share: Share::WHOLE,
        until: match options.end {
            End::Fetches(fetches) => Until::Requests(fetches),
            End::Seconds(time) => Until::Time(time),
        },
        warm_up: Duration::ZERO,
        timeout: options.timeout,
        abort_condition: None,
        deadline: None,
        protocols: Protocols::Http1,
        in_flight_per_connection: NonZeroU32::MIN,
        requests_per_connection: Some(NonZeroU32::MIN),
        connect_rate: CONNECT_RATE,
        sources: options.sources.clone().into(),
        expected: Arc::new(Expected {
            same_as_first: match options.check {
                Check::Bytes => Some(BodyProperty::Length),
                Check::Checksum => Some(BodyProperty::Checksum),
                Check::Nothing => None,
            },
            ..Expected::default()
        }),
        relay: None,
        interval: MINUTE,
    };
    descriptor_limit::check(plan.requirements())?;
    Ok(plan)
}

fn pace(options: &Options) -> Result<Pace, String> {
    let Start::Rate { per_second, jitter } = options.start else { return Ok(Pace::Closed) };
    let profile = Profile::Constant(per_second);
    let arrivals = if jitter { Arrivals::Jitter { seed: 0 } } else { Arrivals::Uniform };
    Schedule::new(profile, arrivals, Share::WHOLE).map_err(|error| error.to_string())?;
    Ok(Pace::Open(profile, arrivals))
}
