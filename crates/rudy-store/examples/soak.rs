//! Random operations, full disks, damaged files and ends of the process for minutes, against a model that knows every byte.
//!
//! `cargo xtask soak --cache` runs it.

#![expect(clippy::print_stdout, reason = "a command-line tool prints")]

#[path = "../tests/model/mod.rs"]
mod model;

use std::time::{Duration, Instant};

use model::Run;

/// Operations on a folder before the next one.
const OPERATIONS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [minutes, mut seed] = arguments()?;
    let end = Instant::now() + Duration::from_mins(minutes);
    while Instant::now() < end {
        let folder = tempfile::tempdir()?;
        println!("seed {seed}");
        let mut run = Run::new(folder.path(), seed);
        let tally = (0..OPERATIONS).map(|_| run.step()).take_while(|_| Instant::now() < end).last();
        println!("  {tally:?}");
        seed += 1;
    }
    println!("ok: no lookup found a wrong byte");
    Ok(())
}

/// Returns the values of `--minutes N` and `--seed N`.
fn arguments() -> Result<[u64; 2], Box<dyn std::error::Error>> {
    let mut values = [10, 1];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let at = ["--minutes", "--seed"].iter().position(|name| *name == argument);
        let at = at.ok_or_else(|| format!("{argument} is unknown; use --minutes N or --seed N"))?;
        values[at] = arguments.next().ok_or("a number is missing")?.parse()?;
    }
    Ok(values)
}
