//! `rudy http_load`: the options and the output of http_load (Jef Poskanzer, 1998 to 2016) for this load
//! generator. Each fetch opens a connection.

mod options;
mod summary;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_stats::schedule::{Arrivals, Profile, Schedule, Share};

use self::options::{Check, End, Options, Start, USAGE};
use self::summary::Summary;
use crate::bench::{
    Expected, Interval, Outcome, Pace, Plan, Repeat, RequestOptions, Requests, Until, Watch, run,
};
use crate::exit::Refusal;
use crate::interrupt::Interrupt;
use crate::{Access, Exit, Trust, descriptor_limit};

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
        Err(why) => return refuse(Exit::BadInput, &format!("{why}\n\n{USAGE}")),
    };
    let plan = match plan(&options) {
        Ok(plan) => plan,
        Err((exit, why)) => return refuse(exit, &why),
    };
    let interrupt = match Interrupt::catch() {
        Ok(interrupt) => interrupt,
        Err(error) => return refuse(Exit::CannotRun, &format!("cannot catch Ctrl-C: {error}")),
    };
    let mut watcher = Watcher { interrupt: &interrupt, is_verbose: options.is_verbose, completed: 0 };
    match run(&plan, &mut watcher) {
        Ok(outcome) => report(&outcome, options.check, &interrupt),
        Err(error) => refuse(Exit::CannotRun, &error.to_string()),
    }
}

fn report(outcome: &Outcome, check: Check, interrupt: &Interrupt) -> Exit {
    match write!(io::stdout().lock(), "{}", Summary { outcome, check }) {
        // A closed pipe is no error: the reader has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            refuse(Exit::CannotRun, &format!("cannot write to standard output: {error}"))
        }
        _ => interrupt.signal().map_or(Exit::Done, Exit::Signal),
    }
}

fn refuse(exit: Exit, why: &str) -> Exit {
    let _ = writeln!(io::stderr(), "error: {why}");
    exit
}

struct Watcher<'a> {
    interrupt: &'a Interrupt,
    is_verbose: bool,
    completed: u64,
}

impl Watch for Watcher<'_> {
    fn goes_on(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn interval(&mut self, interval: &Interval) {
        self.completed += interval.recorder.requests();
        if self.is_verbose {
            let seconds = (u64::from(interval.index) + 1) * MINUTE.as_secs();
            let (completed, open) = (self.completed, interval.open);
            let _ =
                writeln!(io::stderr(), "--- {seconds} secs, {completed} fetches completed, {open} current");
        }
    }
}

fn plan(options: &Options) -> Result<Plan, (Exit, String)> {
    let bad = |why: String| (Exit::BadInput, why);
    let requests = Requests::new(&[], Some(&options.urls), &RequestOptions::default(), true).map_err(bad)?;
    let pace = pace(options).map_err(bad)?;
    let trust = if options.is_insecure { Trust::Anyone } else { Trust::Platform };
    let route = Access { trust, unix_socket: None }.route(&requests.url);
    let route = route.map_err(|error| (Exit::CannotRun, error.to_string()))?;
    let connections = match options.start {
        Start::Parallel(parallel) => parallel,
        Start::Rate { .. } => {
            descriptor_limit::most_connections().map_err(|refusal| refused(&refusal))?.min(PARALLEL_MAX)
        }
    };
    let plan = Plan {
        remote: route.remotes[0].clone(),
        security: route.security,
        mix: Arc::new(requests.mix),
        connections: NonZeroU32::new(connections).unwrap_or(NonZeroU32::MIN),
        // http_load is single-threaded, and its figures assume that.
        threads: NonZeroU32::MIN,
        pace,
        share: Share::WHOLE,
        until: match options.end {
            End::Fetches(fetches) => Until::Requests(fetches),
            End::Seconds(time) => Until::Time(time),
        },
        warm_up: Duration::ZERO,
        timeout: options.timeout,
        give_up: None,
        deadline: None,
        pipeline: NonZeroU32::MIN,
        requests_per_connection: Some(NonZeroU32::MIN),
        connect_rate: CONNECT_RATE,
        sources: options.sources.clone().into(),
        expected: Arc::new(Expected {
            repeats: match options.check {
                Check::Bytes => Some(Repeat::Bytes),
                Check::Checksum => Some(Repeat::Checksum),
                Check::Nothing => None,
            },
            ..Expected::default()
        }),
        interval: MINUTE,
    };
    descriptor_limit::check(plan.demand()).map_err(|refusal| refused(&refusal))?;
    Ok(plan)
}

fn refused(refusal: &Refusal) -> (Exit, String) {
    (refusal.exit(), refusal.to_string())
}

fn pace(options: &Options) -> Result<Pace, String> {
    let Start::Rate { per_second, jitter } = options.start else { return Ok(Pace::Closed) };
    let profile = Profile::Constant(per_second);
    let arrivals = if jitter { Arrivals::Jitter { seed: 0 } } else { Arrivals::Uniform };
    Schedule::new(profile, arrivals, Share::WHOLE).map_err(|error| error.to_string())?;
    Ok(Pace::Open(profile, arrivals))
}
