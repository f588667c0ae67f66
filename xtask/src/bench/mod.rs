//! Rudy beside nginx: CPU per request and memory per idle connection, on this machine, now.
//!
//! CPU per request (user and system time of a server's whole process tree over the requests it answered) is the figure
//! that a busy machine disturbs least. The rounds are interleaved, A B, B A, so that a change in the machine's mood
//! falls on both; what counts is the median of the rounds' ratios, with the smallest and largest beside it.

pub(crate) mod floor;
pub(crate) mod idle;
mod load;
pub(crate) mod machine;
pub(crate) mod report;
mod rounds;
pub(crate) mod server;
pub(crate) mod site;

use clap::Args;

use crate::{Outcome, command, workspace};
use server::{Kind, Server};
use site::Site;

/// What to measure and how long.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Rounds a row; each measures both servers.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of load on each server in a round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only this row; may be given again.
    #[arg(long, value_name = "ROW", value_parser = row_names())]
    only: Vec<String>,
    /// nginx against itself: what a ratio comes to here where there is no difference.
    #[arg(long)]
    control: bool,
    /// An epoll loop that only receives and sends, in place of Rudy: the least that a server costs here. Small rows only.
    #[arg(long, conflicts_with = "control")]
    floor: bool,
    /// The result as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Exit 1 where a target is missed.
    #[arg(long)]
    check: bool,
}

/// One row of the table: a load, and how much CPU a request may cost of what it costs nginx.
struct Row {
    name: &'static str,
    what: &'static str,
    file: &'static str,
    connections: u32,
    /// A field sent with every request.
    header: Option<&'static str>,
    /// The status that every answer has.
    status: u16,
    /// The engine of Rudy.
    engine: &'static str,
    ratio_at_most: f64,
}

const ROWS: &[Row] = &[
    row("1k-64", "1 KiB file, 64 connections", site::KIB_1, 64, 0.70),
    row("1k-512", "1 KiB file, 512 connections", site::KIB_1, 512, 0.70),
    Row {
        header: Some("If-None-Match: *"),
        status: 304,
        ..row("304", "304 answer, 64 connections", site::KIB_1, 64, 0.70)
    },
    Row {
        engine: "task",
        ..row("1k-64-task", "1 KiB file, 64 connections, engine task", site::KIB_1, 64, 0.85)
    },
    row("100k", "100 KiB file, 64 connections", site::KIB_100, 64, 0.95),
    row("10m", "10 MiB file, 64 connections", site::MIB_10, 64, 1.00),
];

/// The rows whose answers the floor has.
const FLOOR_ROWS: [&str; 3] = ["1k-64", "1k-512", "304"];

/// The row that is not a load: connections held idle, and what each may cost.
const IDLE: &str = "idle";
const IDLE_CONNECTIONS: u32 = 9000;
const IDLE_BYTES_AT_MOST: f64 = 1024.0;

/// Measures every row that was asked for and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let can_be_had = |name: &str| !arguments.floor || FLOOR_ROWS.contains(&name);
    let asked = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == name);
    let wanted = |name: &str| asked(name) && can_be_had(name);
    let first = match (arguments.control, arguments.floor) {
        (true, _) => Kind::Nginx,
        (_, true) => Kind::Floor,
        _ => Kind::Rudy,
    };
    let kinds = [first, Kind::Nginx];
    require_programs()?;
    if first == Kind::Rudy {
        build_release()?;
    }
    let site = Site::new()?;
    let mut report = report::Report::new(machine::describe(kinds)?, kinds.map(Kind::name));
    for row in ROWS.iter().filter(|row| wanted(row.name)) {
        report.rows.push(rounds::measure(
            row,
            &start(kinds, &site, row.engine)?,
            &site,
            arguments.rounds,
            arguments.seconds,
        )?);
    }
    if wanted(IDLE) {
        report.rows.push(idle::measure(&start(kinds, &site, "percore")?)?);
    }
    if first != Kind::Rudy {
        report.rows.iter_mut().for_each(|row| row.at_most = None);
    }
    report.print(arguments.json);
    if arguments.check && report.missed() { Err("a target was missed, see the table".into()) } else { Ok(()) }
}

/// Requests and requests per second, as wrk prints them.
pub(crate) fn counted_by_wrk(printed: &str) -> Outcome<(f64, f64)> {
    let counts = load::parse(printed).map_err(|why| format!("{why}\n{printed}"))?;
    Ok((counts.requests, counts.requests_per_second))
}

/// Builds what is measured.
pub(crate) fn build_release() -> Outcome {
    eprintln!("building the release binary");
    command::run(workspace::cargo().args(["build", "--quiet", "--release", "--locked", "--package", "rudy"]))
}

/// Both servers, fresh for every row: what one row left in memory is not the next one's.
fn start(kinds: [Kind; 2], site: &Site, engine: &str) -> Outcome<[Server; 2]> {
    Ok([Server::start(kinds[0], site, engine)?, Server::start(kinds[1], site, engine)?])
}

const fn row(
    name: &'static str,
    what: &'static str,
    file: &'static str,
    connections: u32,
    ratio_at_most: f64,
) -> Row {
    Row { name, what, file, connections, header: None, status: 200, engine: "percore", ratio_at_most }
}

fn row_names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).chain([IDLE]).collect()
}

fn require_programs() -> Outcome {
    for program in ["wrk", "nginx"] {
        if command::find(program).is_none() {
            return Err(format!(
                "{program} is not installed: `cargo xtask setup` installs it where there is apt"
            ));
        }
    }
    Ok(())
}
