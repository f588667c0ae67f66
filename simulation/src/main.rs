//! Runs seeds of the simulation.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rudy_sim::judge::Kind;
use rudy_sim::{Options, Outcome, Reduction, run, shrink};
use rustix::time::{ClockId, clock_gettime};

/// Within this number of seeds, each pair of kinds of events occurs in one run.
const SEEDS_FOR_ALL_PAIRS: u32 = 1000;

/// Simulates the whole server: one thread, virtual time, and a seed that decides everything.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seeds, as in `0..500`, or one seed, whose story is printed
    #[arg(default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// Leaves out of a seed that fails what it does not need, and prints the story of what is left
    #[arg(long)]
    shrink: bool,
    /// Plants one fault after the other in the server, each until a seed finds it; only those that contain this text
    #[cfg(planted)]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    planted: Option<String>,
    /// Stops at the first seed that fails
    #[arg(long)]
    first: bool,
    /// Runs each seed twice, and compares the hashes
    #[arg(long)]
    twice: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    match text.split_once("..") {
        Some((first, end)) => Ok(number(first)?..number(end)?),
        None => number(text).map(|seed| seed..seed + 1),
    }
}

#[expect(clippy::print_stdout, reason = "it is a command")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(planted)]
    if let Some(text) = &arguments.planted {
        return find_planted(&arguments.seeds, text);
    }
    let mut total = Total::default();
    for seed in arguments.seeds.clone() {
        let is_good = run_one(seed, &arguments, &mut total);
        total.failed += u64::from(!is_good);
        if arguments.first && !is_good {
            break;
        }
    }
    let seconds = cpu_seconds();
    println!(
        "{} seeds, {} failed; {} requests in {:.0} simulated hours and {seconds:.1} s of CPU time: {:.0} requests per second",
        total.seeds,
        total.failed,
        total.requests,
        total.time.as_secs_f64() / 3600.0,
        f64::from(total.requests) / seconds
    );
    let missing = total.missing_pairs();
    if total.seeds >= SEEDS_FOR_ALL_PAIRS && !missing.is_empty() {
        println!("these have not occurred in one run: {missing:?}");
        return ExitCode::FAILURE;
    }
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a seed, and prints what it tells. Returns whether it shows no fault.
#[expect(clippy::print_stdout, reason = "it is a command")]
fn run_one(seed: u64, arguments: &Arguments, total: &mut Total) -> bool {
    let Arguments { seeds, shrink: shrinks, twice, .. } = arguments;
    let keeps_story = seeds.end - seeds.start == 1;
    let options = Options { seed, keeps_story, reduction: Reduction::default() };
    let mut outcome = run(options);
    total.add(&outcome);
    if *twice {
        let again = run(options);
        if again.hash != outcome.hash {
            println!("seed {seed}: two runs differ: {} and {} events", outcome.events, again.events);
            return false;
        }
    }
    if *shrinks && !outcome.faults.is_empty() {
        outcome = shrink(options);
    }
    outcome.story.iter().for_each(|line| println!("{line}"));
    if !outcome.faults.is_empty() {
        println!("seed {seed}: {}", outcome.faults.join("; "));
    }
    outcome.faults.is_empty()
}

/// What several seeds have in sum.
#[derive(Default)]
struct Total {
    seeds: u32,
    failed: u64,
    requests: u32,
    time: Duration,
    pairs: BTreeSet<(Kind, Kind)>,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.requests += u32::try_from(outcome.counts.requests).unwrap_or(u32::MAX);
        self.time += outcome.time;
        let kinds = &outcome.kinds;
        self.pairs.extend(kinds.iter().flat_map(|first| kinds.iter().map(|second| (*first, *second))));
    }

    fn missing_pairs(&self) -> Vec<(Kind, Kind)> {
        let pairs = Kind::ALL.iter().flat_map(|first| Kind::ALL.map(|second| (*first, second)));
        pairs.filter(|pair| pair.0 < pair.1 && !self.pairs.contains(pair)).collect()
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds).as_secs_f64()
}

/// Looks for each planted fault that contains a text, each in a process of its own: a world is never freed. Prints the first seed that
/// finds it: one that shows no fault without it.
#[cfg(planted)]
#[expect(clippy::print_stdout, reason = "it is a command")]
fn find_planted(seeds: &Range<u64>, text: &str) -> ExitCode {
    let is_meant =
        |fault: &&&str| **fault == text || !rudy_runtime::FAULTS.contains(&text) && fault.contains(text);
    let faults: Vec<_> = rudy_runtime::FAULTS.iter().filter(is_meant).collect();
    let [fault] = faults[..] else {
        let program = std::env::current_exe().expect("a program has a path");
        let finds = |fault: &str| {
            let mut process = std::process::Command::new(&program);
            process.arg(format!("--planted={fault}")).arg(format!("{}..{}", seeds.start, seeds.end));
            process.status().is_ok_and(|status| status.success())
        };
        let missed = faults.into_iter().filter(|fault| !finds(fault)).count();
        return if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    let faults_of = |seed, fault| {
        rudy_runtime::plant(fault);
        run(Options { seed, keeps_story: false, reduction: Reduction::default() }).faults
    };
    // First without it: what a fault leaves behind in the process would show in the next world.
    let found = seeds
        .clone()
        .filter(|seed| faults_of(*seed, "").is_empty())
        .find_map(|seed| faults_of(seed, fault).first().map(|first| format!("seed {seed}: {first}")));
    println!("{fault}: {}", found.as_deref().unwrap_or("not found"));
    if found.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
