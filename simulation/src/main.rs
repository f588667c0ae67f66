//! Runs seeds of the simulation.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rudy_sim::{Options, Outcome, Reduction, run, shrink};

/// Simulates the whole server: one thread, virtual time, and a seed that decides everything.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seeds, as in `0..500`, or one seed, whose story is printed
    #[arg(default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// Leaves out of a seed that fails what it does not need, and prints the story of what is left
    #[arg(long)]
    shrink: bool,
    /// Plants one fault after the other in the server, each until a seed finds it
    #[cfg(planted)]
    #[arg(long)]
    planted: bool,
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
    if arguments.planted {
        return find_planted(&arguments.seeds);
    }
    let Arguments { seeds, twice, shrink: shrinks, first, .. } = arguments;
    let keeps_story = seeds.end - seeds.start == 1;
    let (begin, mut requests, mut failed) = (Instant::now(), 0.0, 0_u64);
    let mut hours = 0.0;
    for seed in seeds.clone() {
        let mut outcome = run(Options { seed, keeps_story, reduction: Reduction::default() });
        requests += f64::from(u32::try_from(outcome.counts.requests).unwrap_or(u32::MAX));
        hours += outcome.time.as_secs_f64() / 3600.0;
        if shrinks && !outcome.faults.is_empty() {
            outcome = shrink(Options { seed, keeps_story: true, reduction: Reduction::default() });
        }
        outcome.story.iter().for_each(|line| println!("{line}"));
        let again = twice.then(|| run(Options { seed, keeps_story, reduction: Reduction::default() }));
        if !outcome.faults.is_empty() {
            failed += 1;
            println!("seed {seed}: {}", outcome.faults.join("; "));
            if first {
                break;
            }
        }
        if let Some(Outcome { hash, events, .. }) = again
            && hash != outcome.hash
        {
            failed += 1;
            println!("seed {seed}: two runs differ: {} and {events} events", outcome.events);
        }
    }
    let time = begin.elapsed().as_secs_f64();
    println!(
        "{} seeds, {failed} failed; {requests} requests in {hours:.1} simulated hours and {time:.1} s: {:.0} requests per second",
        seeds.end - seeds.start,
        requests / time
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Looks for each planted fault. Prints the first seed that finds it.
#[cfg(planted)]
#[expect(clippy::print_stdout, reason = "it is a command")]
fn find_planted(seeds: &Range<u64>) -> ExitCode {
    let mut missed = 0;
    for fault in rudy_runtime::FAULTS {
        rudy_runtime::plant(fault);
        let found = seeds.clone().find_map(|seed| {
            let outcome = run(Options { seed, keeps_story: false, reduction: Reduction::default() });
            outcome.faults.first().map(|first| format!("seed {seed}: {first}"))
        });
        missed += u32::from(found.is_none());
        println!("{fault}: {}", found.as_deref().unwrap_or("not found"));
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
