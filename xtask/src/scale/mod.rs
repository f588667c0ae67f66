//! What waiting costs: ten thousand streams, listeners to a broadcast, answers that take their time; engine by engine, and
//! beside Go.
//!
//! The client stands in the same machine and takes its share of it; it says how much.

mod broadcast;
mod client;
mod delay;
mod server;
mod streams;

use clap::Args;

use crate::bench::report::{Spread, table};
use crate::bench::{build_release, machine};
use crate::{Outcome, command};

/// Connections held at once.
const STREAMS: u32 = 9000;

/// What to measure and how long.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Rounds of the streams; each measures both servers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds for which the streams are held in a round.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(3..))]
    seconds: u32,
    /// Only this part; may be given again.
    #[arg(long, value_name = "PART", value_parser = PARTS)]
    only: Vec<String>,
    /// The engine that carries streams and broadcasts.
    #[arg(long, default_value = "percore")]
    engine: String,
    /// Exit 1 where a target is missed.
    #[arg(long)]
    check: bool,
}

const PARTS: [&str; 3] = ["streams", "broadcast", "delay"];

/// A line of the table.
struct Line {
    what: String,
    rudy: String,
    peer: String,
    measured: String,
    at_most: String,
    is_met: bool,
}

/// Measures every part that was asked for and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let wanted = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == part);
    if wanted("streams") && command::find("go").is_none() {
        return Err("Go is not installed, which the peer of the streams needs: https://go.dev/dl, or --only broadcast --only delay".into());
    }
    build_release()?;
    let mut lines = Vec::new();
    if wanted("streams") {
        lines.extend(streams::measure(&arguments.engine, arguments.rounds, arguments.seconds)?);
    }
    if wanted("broadcast") {
        lines.push(broadcast::measure(&arguments.engine, arguments.seconds)?);
    }
    if wanted("delay") {
        lines.extend(delay::measure()?);
    }
    for (name, value) in machine::describe_machine() {
        println!("{name}: {value}");
    }
    println!();
    print(&lines);
    let is_missed = lines.iter().any(|line| !line.is_met);
    if arguments.check && is_missed { Err("a target was missed, see the table".into()) } else { Ok(()) }
}

fn print(lines: &[Line]) {
    let head = ["", "rudy", "go", "measured", "at most", ""].map(String::from);
    let cells = |line: &Line| {
        let verdict = if line.is_met { "met" } else { "missed" };
        [&*line.what, &line.rudy, &line.peer, &line.measured, &line.at_most, verdict].map(String::from)
    };
    let rows: Vec<_> = std::iter::once(head).chain(lines.iter().map(cells)).collect();
    for line in table(&rows) {
        println!("{line}");
    }
}

/// A figure of a round, of several rounds: the middle, the smallest and the largest.
fn shown(figures: &[f64], decimals: usize) -> String {
    let Spread { median, min, max } = Spread::of(figures.iter().copied());
    format!("{median:.decimals$} ({min:.decimals$} to {max:.decimals$})")
}
