//! Rudy's generator beside wrk: what a request costs the one and the other, at the same server, in the same run.

use std::fs;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::bench::report::{Spread, table};
use crate::bench::server::{Kind, Server};
use crate::bench::site::{KIB_1, Site};
use crate::bench::{build_release, machine};
use crate::process::Program;
use crate::{Outcome, command, process, workspace};

/// What both have under way, and on one thread each.
const CONNECTIONS: &str = "64";

/// At a rate.
const OPEN_CONNECTIONS: &str = "256";

/// The tables of the field say that a tool may make a server seem slower than wrk does by so much: noise.
const RATE_AT_LEAST: f64 = 1.0;

/// The share of wrk's CPU that a request may cost.
const CPU_AT_MOST: f64 = 1.0;

/// By how much a request may be sent late, at the 99th percentile, at half of what the server holds.
const LATE_AT_MOST_US: f64 = 100.0;

/// What a run at full rate may take in memory, whatever its length.
const MEMORY_AT_MOST: f64 = 30.0 * 1024.0 * 1024.0;

/// What to measure and how long.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures both generators.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of load by each generator in a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Seconds at full rate over which its memory is watched; the target is for 600.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..))]
    memory_seconds: u32,
    /// Exit 1 where a target is missed.
    #[arg(long)]
    check: bool,
}

/// What a generator came to in one round.
#[derive(Clone, Copy)]
struct Cost {
    cpu_us_per_request: f64,
    requests_per_second: f64,
}

/// A line of the table.
struct Line {
    what: String,
    figures: [String; 2],
    measured: String,
    target: String,
    is_met: bool,
}

/// Measures and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    for program in ["wrk", "nginx"] {
        if command::find(program).is_none() {
            return Err(format!(
                "{program} is not installed: `cargo xtask setup` installs it where there is apt"
            ));
        }
    }
    build_release()?;
    let site = Site::new()?;
    let mut lines = Vec::new();
    for kind in [Kind::Rudy, Kind::Nginx] {
        let server = Server::start(kind, &site, "percore")?;
        lines.extend(closed_loop(&server, arguments)?);
    }
    let server = Server::start(Kind::Rudy, &site, "percore")?;
    lines.push(open_loop(&server, arguments)?);
    lines.push(memory(&server, arguments.memory_seconds)?);
    print(&lines);
    let is_missed = lines.iter().any(|line| !line.is_met);
    if arguments.check && is_missed { Err("a target was missed, see the table".into()) } else { Ok(()) }
}

/// The rounds are interleaved, A B, B A, so that a change in the machine's mood falls on both.
fn closed_loop(server: &Server, arguments: &Arguments) -> Outcome<[Line; 2]> {
    let mut rounds = Vec::new();
    for round in 0..arguments.rounds {
        let (rudy, wrk) = if round % 2 == 0 {
            let rudy = cost(server, full_rate(server, arguments.seconds), counted_by_rudy)?;
            (rudy, cost(server, wrk(server, arguments.seconds), counted_by_wrk)?)
        } else {
            let wrk = cost(server, wrk(server, arguments.seconds), counted_by_wrk)?;
            (cost(server, full_rate(server, arguments.seconds), counted_by_rudy)?, wrk)
        };
        eprintln!(
            "{}: rudy {:.2} µs, {:.0}/s; wrk {:.2} µs, {:.0}/s",
            server.kind.name(),
            rudy.cpu_us_per_request,
            rudy.requests_per_second,
            wrk.cpu_us_per_request,
            wrk.requests_per_second
        );
        rounds.push([rudy, wrk]);
    }
    let line = |what: &str, unit: &str, figure: fn(&Cost) -> f64, is_met: fn(f64) -> bool, target: String| {
        let side = |index: usize| Spread::of(rounds.iter().map(|round| figure(&round[index]))).median;
        let ratio = Spread::of(rounds.iter().map(|[rudy, wrk]| figure(rudy) / figure(wrk)));
        Line {
            what: format!("{what}, of {}", server.kind.name()),
            figures: [0, 1].map(|index| format!("{:.2}{unit}", side(index))),
            measured: format!("{:.3} ({:.3} to {:.3})", ratio.median, ratio.min, ratio.max),
            target,
            is_met: is_met(ratio.median),
        }
    };
    Ok([
        line(
            "CPU per request",
            " µs",
            |cost| cost.cpu_us_per_request,
            |ratio| ratio <= CPU_AT_MOST,
            format!("at most {CPU_AT_MOST:.2}"),
        ),
        line(
            "requests per second, thousands",
            "",
            |cost| cost.requests_per_second / 1000.0,
            |ratio| ratio >= RATE_AT_LEAST,
            format!("at least {RATE_AT_LEAST:.2}"),
        ),
    ])
}

/// How late requests are sent at half of what the server holds, round by round: on two cores, which the server has both,
/// that is as much a matter of the machine's mood as of the generator.
fn open_loop(server: &Server, arguments: &Arguments) -> Outcome<Line> {
    let seconds = arguments.seconds;
    let ceiling = figure(&parse(&command::output(&mut full_rate(server, seconds))?)?, "/achieved_rate")?;
    let rate = (ceiling / 2.0).round();
    let mut late = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..arguments.rounds {
        // What waits for a free connection waits for the server, so there are enough of them.
        let mut command = rudy(server, seconds, OPEN_CONNECTIONS);
        command.args(["-R", &rate.to_string(), "--warm-up-time", "1"]);
        let report = parse(&command::output(&mut command)?)?;
        late.push(figure(&report, "/schedule_lag_us/p99")?);
        kept.push(figure(&report, "/rate_ratio")?);
    }
    let (late, kept) = (Spread::of(late), Spread::of(kept));
    Ok(Line {
        what: format!("sent late at p99, {rate}/s"),
        figures: [format!("{:.1} µs", late.median), String::new()],
        measured: format!(
            "{:.1} µs ({:.1} to {:.1}), {:.2} % of the rate kept",
            late.median,
            late.min,
            late.max,
            kept.min * 100.0
        ),
        target: format!("at most {LATE_AT_MOST_US} µs"),
        is_met: late.median <= LATE_AT_MOST_US,
    })
}

/// What a run at full rate takes in memory, at its beginning and at its end.
fn memory(server: &Server, seconds: u32) -> Outcome<Line> {
    let mut command = full_rate(server, seconds);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut generator = Program::start(&mut command)?;
    let mut resident = Vec::new();
    while generator.ended().is_none() {
        resident.extend(resident_bytes(generator.pid()));
        std::thread::sleep(Duration::from_secs(1));
    }
    // The first seconds are those of the warm-up, and the last may see the report being made.
    let early = resident.get(3).or(resident.last()).copied().ok_or("the generator ended at once")?;
    let most = Spread::of(resident).max;
    let mebibytes = |bytes: f64| format!("{:.1} MiB", bytes / 1024.0 / 1024.0);
    Ok(Line {
        what: format!("memory, {seconds} s at full rate"),
        figures: [mebibytes(most), String::new()],
        measured: format!("{} after 3 s, {} at most", mebibytes(early), mebibytes(most)),
        target: format!("at most {}", mebibytes(MEMORY_AT_MOST)),
        is_met: most <= MEMORY_AT_MOST,
    })
}

fn resident_bytes(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

/// Runs a generator to its end. Its CPU is what this process and all below it have used more, without the server's.
fn cost(server: &Server, mut command: Command, counted: fn(&str) -> Outcome<(f64, f64)>) -> Outcome<Cost> {
    let used = || process::cpu_us(std::process::id()) - process::cpu_us(server.pid());
    let before = used();
    let printed = command::output(&mut command)?;
    let spent = used() - before;
    let (requests, requests_per_second) = counted(&printed)?;
    Ok(Cost { cpu_us_per_request: spent / requests, requests_per_second })
}

/// One thread, no warm-up: all that it costs is in what it counts.
/// As wrk does it: a closed loop, from the first request on.
fn full_rate(server: &Server, seconds: u32) -> Command {
    let mut command = rudy(server, seconds, CONNECTIONS);
    command.args(["--warm-up-time", "0"]);
    command
}

fn rudy(server: &Server, seconds: u32, connections: &str) -> Command {
    let mut rudy = Command::new(workspace::root().join("target/release/rudy"));
    rudy.args(["bench", "-t", "1", "-c", connections, "-d", &seconds.to_string()]);
    rudy.args(["--plain", "--json", "-", &server.url(KIB_1)]);
    rudy
}

fn wrk(server: &Server, seconds: u32) -> Command {
    let mut wrk = Command::new(machine::WRK);
    wrk.args(["-t1", "-c", CONNECTIONS, &format!("-d{seconds}s"), "--latency", &server.url(KIB_1)]);
    wrk
}

/// Requests, and requests per second.
fn counted_by_rudy(printed: &str) -> Outcome<(f64, f64)> {
    let report = parse(printed)?;
    Ok((figure(&report, "/requests")?, figure(&report, "/achieved_rate")?))
}

fn counted_by_wrk(printed: &str) -> Outcome<(f64, f64)> {
    crate::bench::counted_by_wrk(printed)
}

fn parse(printed: &str) -> Outcome<Value> {
    serde_json::from_str(printed).map_err(|error| format!("rudy bench printed no report: {error}\n{printed}"))
}

fn figure(report: &Value, pointer: &str) -> Outcome<f64> {
    report
        .pointer(pointer)
        .and_then(Value::as_f64)
        .ok_or_else(|| format!("the report of rudy bench has no {pointer}"))
}

fn print(lines: &[Line]) {
    for (name, value) in machine::describe_machine() {
        println!("{name}: {value}");
    }
    println!();
    let mut rows = vec![["", "rudy bench", "wrk", "measured", "target", ""].map(String::from)];
    rows.extend(lines.iter().map(|line| {
        let [rudy, wrk] = line.figures.clone();
        let verdict = if line.is_met { "met" } else { "MISSED" };
        [line.what.clone(), rudy, wrk, line.measured.clone(), line.target.clone(), verdict.into()]
    }));
    for line in table(&rows) {
        println!("{line}");
    }
}
