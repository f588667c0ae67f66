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

/// Returns the values of `--minutes=N` and `--seed=N`.
fn arguments() -> Result<[u64; 2], Box<dyn std::error::Error>> {
    let mut values = [10, 1];
    for argument in std::env::args().skip(1) {
        let option = argument.split_once('=');
        let at =
            ["--minutes", "--seed"].iter().position(|name| option.is_some_and(|(given, _)| given == *name));
        let (Some(at), Some((_, value))) = (at, option) else {
            return Err(format!("{argument} is unknown; use --minutes=N or --seed=N").into());
        };
        values[at] = value.parse()?;
    }
    Ok(values)
}
