//! The gateway beside nginx, each before a php-fpm of its own with as many processes and the same scripts: CPU per request, and
//! memory of the requests that wait.

mod cpu;
mod fpm;
mod gateway;
mod waiting;

use clap::Args;

use crate::bench::report::table;
use crate::bench::server::Kind;
use crate::bench::{build_release, machine};
use crate::{Outcome, command};
use gateway::Gateway;

/// Processes of php-fpm, and connections that a gateway keeps to it.
const CHILDREN: u32 = 8;

/// Requests that wait at once.
const WAITING: u32 = 1000;

/// What to measure and how long.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Rounds; each measures both gateways.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of load on each gateway in a round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only this one.
    #[arg(long, value_enum)]
    only: Option<Figure>,
    /// Exit 1 where a target is missed.
    #[arg(long)]
    check: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Figure {
    Cpu,
    Memory,
}

/// A line of the table.
struct Line {
    what: String,
    figures: [String; 2],
    measured: String,
    target: String,
    /// `None` where there is no target.
    is_met: Option<bool>,
}

/// Measures and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    require_programs()?;
    build_release()?;
    let wanted = |figure| arguments.only.is_none_or(|only| only == figure);
    let mut lines = Vec::new();
    if wanted(Figure::Cpu) {
        let gateways = start()?;
        lines.extend(cpu::measure(&gateways, arguments.rounds, arguments.seconds)?);
        lines.push(complaints(&gateways)?);
    }
    if wanted(Figure::Memory) {
        // Fresh ones: what load has left in memory is not the waiting requests'.
        lines.extend(waiting::measure(&start()?)?);
    }
    print(&lines);
    let is_missed = lines.iter().any(|line| line.is_met == Some(false));
    if arguments.check && is_missed { Err("a target was missed, see the table".into()) } else { Ok(()) }
}

fn start() -> Outcome<[Gateway; 2]> {
    Ok([Gateway::start(Kind::Rudy)?, Gateway::start(Kind::Nginx)?])
}

/// php-fpm's side of the load. Answers other than 2xx have failed it already.
fn complaints(gateways: &[Gateway; 2]) -> Outcome<Line> {
    let complaints = [gateways[0].fpm.complaints()?, gateways[1].fpm.complaints()?];
    for line in complaints.iter().flatten() {
        eprintln!("php-fpm says: {line}");
    }
    let counts = complaints.map(|complaints| complaints.len());
    Ok(Line {
        what: "answers other than 2xx; complaints of php-fpm".into(),
        figures: counts.map(|count| format!("0; {count}")),
        measured: format!("0; {}", counts[0]),
        target: "0; 0".into(),
        is_met: Some(counts[0] == 0),
    })
}

fn print(lines: &[Line]) {
    for (name, value) in machine::describe_machine() {
        println!("{name}: {value}");
    }
    println!();
    let mut rows = vec![["before php-fpm", "rudy", "nginx", "measured", "target", ""].map(String::from)];
    rows.extend(lines.iter().map(|line| {
        let [rudy, nginx] = line.figures.clone();
        let verdict = line.is_met.map_or("", |is_met| if is_met { "met" } else { "MISSED" });
        [line.what.clone(), rudy, nginx, line.measured.clone(), line.target.clone(), verdict.into()]
    }));
    for line in table(&rows) {
        println!("{line}");
    }
}

fn require_programs() -> Outcome {
    let mut missing = ["wrk", "nginx"].into_iter().filter(|program| command::find(program).is_none());
    let absent = missing.next().or_else(|| command::php_fpm().is_none().then_some("php-fpm"));
    absent.map_or(Ok(()), |program| {
        Err(format!("{program} is not installed: `cargo xtask setup` installs it where there is apt"))
    })
}
