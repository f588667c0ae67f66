//! Runs `rudy flood`, from the options to the report.

use std::fs;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rudy_command::{CommandError, Exit, print_line, write_output};
use rudy_observe::Process;
use rudy_request::{Interrupt, Remote, Url};

use super::measurement::Measurement;
use super::monitor::ServerMonitor;
use super::options::{Options, Server};
use super::plan::{Plan, Ramp, Requests};
use super::report::Report;
use super::run::{FloodError, Outcome, Progress, Watch, run};
use super::series::Point;
use super::server::ServerProcess;
use super::{document, plot};
use crate::descriptor_limit::{self, Requirements};
use crate::units;

/// Opens the connections and writes the report.
#[must_use]
pub fn flood(options: &Options) -> Exit {
    match try_flood(options) {
        Ok(exit) => exit,
        Err(error) => error.report(),
    }
}

fn try_flood(options: &Options) -> Result<Exit, CommandError> {
    let requests = Requests::new(&options.template, &options.url)
        .map_err(|error| CommandError::Arguments(error.to_string()))?;
    let url: Url = options
        .url
        .replace("{}", "0")
        .parse()
        .map_err(|error: rudy_request::UrlError| CommandError::Arguments(error.to_string()))?;
    let route = options.access.route(&url).map_err(|error| CommandError::Environment(error.to_string()))?;
    check_descriptor_limit(options, &route.remotes[0])?;
    let interrupt = Interrupt::catch()
        .map_err(|error| CommandError::Environment(format!("cannot catch Ctrl-C: {error}")))?;
    let (process, monitor) = open_server(options, &route.remotes)?;
    let protocols = options.template.protocols;
    let plan = Plan {
        remote: route.remotes[0].clone(),
        security: route.security.map(|security| security.offering(protocols)),
        requests: Arc::new(requests),
        connections: options.connections,
        streams: options.streams,
        ramp: Ramp::over(options.total(), options.ramp),
        hold: options.hold,
        interval: options.interval,
        greetings: options.greetings,
        holds_idle: options.holds_idle,
        timeout: options.timeout,
        sources: options.sources.clone().into(),
    };
    let connections = units::counted(options.connections.get(), "connection");
    let [ramp, hold] = [options.ramp, options.hold].map(<units::Time>::from);
    let streams = match options.streams {
        Some(_) => format!("{} of HTTP/2 on ", units::counted(options.total().get(), "stream")),
        None => String::new(),
    };
    print_line(&format!("{streams}{connections} to {} within {ramp}, held for {hold}", plan.remote));
    if let Some(warning) = monitor.as_ref().and_then(|monitor| monitor.warning.as_ref()) {
        print_line(&format!("warning: {warning}"));
    }
    let (base, end) = (Some(plan.memory_base()), options.ramp + options.hold);
    let mut watcher = Watcher { monitor, points: Vec::new(), base, end, interrupt: &interrupt };
    let outcome = run_with_fallback(&plan, &route.remotes, &mut watcher)?;
    let Watcher { monitor, points, .. } = watcher;
    let report = Report {
        options,
        outcome: &outcome,
        points: &points,
        monitor: monitor.as_ref(),
        memory_base: plan.memory_base(),
    };
    write(&report)?;
    drop(process);
    Ok(interrupt.signal().map_or(Exit::Done, Exit::Signal))
}

fn check_descriptor_limit(options: &Options, remote: &Remote) -> Result<(), CommandError> {
    descriptor_limit::check(Requirements {
        connections: options.connections,
        threads: NonZeroU32::MIN,
        remote,
        sources: options.sources.len(),
    })
}

/// Opens the server process to measure, and starts it if the options have a command.
fn open_server(
    options: &Options,
    remotes: &[Remote],
) -> Result<(Option<ServerProcess>, Option<ServerMonitor>), CommandError> {
    let (process, pid) = match &options.server {
        None => return Ok((None, None)),
        Some(Server::Pid(pid)) => (None, *pid),
        Some(Server::Command(command)) => {
            let process = ServerProcess::new(command, remotes).map_err(CommandError::Environment)?;
            let pid = process.pid();
            (Some(process), pid)
        }
    };
    let monitor = Process::open(pid).and_then(|process| ServerMonitor::new(process, &remotes[0]));
    Ok((process, Some(monitor.map_err(|error| CommandError::Environment(error.to_string()))?)))
}

/// Runs the flood against the first address of the server that accepts a connection.
fn run_with_fallback(
    plan: &Plan,
    remotes: &[Remote],
    watch: &mut dyn Watch,
) -> Result<Outcome, CommandError> {
    let mut errors = Vec::new();
    for remote in remotes {
        match run(&Plan { remote: remote.clone(), ..plan.clone() }, watch) {
            Err(error @ FloodError::Connect(..)) => errors.push(error.to_string()),
            result => return result.map_err(|error| CommandError::Environment(error.to_string())),
        }
    }
    Err(CommandError::Environment(errors.join("; ")))
}

fn write(report: &Report<'_>) -> Result<(), CommandError> {
    if let Some(path) = &report.options.plot {
        match plot::render(report) {
            Some(svg) => {
                fs::write(path, svg).map_err(|error| {
                    CommandError::Environment(format!("cannot write {}: {error}", path.display()))
                })?;
                print_line(&format!("chart: {}", path.display()));
            }
            None => print_line("no chart: it needs at least two samples; hold the connections for longer"),
        }
    }
    let text = if report.options.is_json {
        units::visible_json(&document::render(report))
    } else {
        units::visible_lines(&report.to_string())
    };
    write_output(&text).map_err(CommandError::Environment)
}

/// Prints progress to standard error, and samples the server.
struct Watcher<'a> {
    monitor: Option<ServerMonitor>,
    points: Vec<Point>,
    /// The number of connections from which on the memory of each is measured, until they are open.
    base: Option<u32>,
    /// The end of the flood.
    end: Duration,
    interrupt: &'a Interrupt,
}

impl Watch for Watcher<'_> {
    fn should_continue(&mut self) -> bool {
        self.interrupt.signal().is_none()
    }

    fn progress(&mut self, progress: &Progress, measurement: &Measurement) {
        let is_at_base = self.base.take_if(|base| progress.open >= *base).is_some();
        let is_exact = is_at_base || progress.at >= self.end;
        let server = self.monitor.as_mut().and_then(|monitor| monitor.sample(is_exact));
        let chunks = measurement.chunks - self.points.last().map_or(0, |point| point.chunks);
        let usage = server.as_ref().map_or(String::new(), |server| {
            format!("  server {:>5.1} % CPU, {}", server.cpu * 100.0, units::bytes(server.private_bytes))
        });
        print_line(&format!(
            "{:>8}  {:>6} open of {:>6} planned  {:>7} chunks  {} not opened  {} failed  {} stalled{usage}",
            units::duration(progress.at),
            units::count(progress.open.into()),
            units::count(progress.planned.into()),
            units::count(chunks),
            measurement.connect_failed,
            measurement.failed(),
            progress.stalled,
        ));
        self.points.push(Point { progress: *progress, chunks: measurement.chunks, server });
    }
}
