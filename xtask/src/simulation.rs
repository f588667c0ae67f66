//! Runs many seeds of the simulation, and shows that it finds planted faults.

use std::process::Command;

use crate::{Outcome, command, workspace};

/// The seeds of a night.
const SEEDS: usize = 30_000;

/// The seeds of a process: a world is never freed, and has half a megabyte.
const SEEDS_OF_A_PROCESS: usize = 3_000;

/// How many seeds may pass before a planted fault is found.
const PLANTED_SEEDS: &str = "0..10000";

/// Runs the seeds of a night, and then those that look for planted faults.
pub(crate) fn run() -> Outcome {
    for first in (0..SEEDS).step_by(SEEDS_OF_A_PROCESS) {
        command::run(simulation().arg(format!("{first}..{}", first + SEEDS_OF_A_PROCESS)))?;
    }
    let mut planted = simulation();
    planted.args(["--planted", PLANTED_SEEDS]).env("RUSTFLAGS", "--cfg planted");
    // Other flags would compile everything again in the usual folder.
    command::run(planted.env("CARGO_TARGET_DIR", workspace::target().join("planted")))
}

fn simulation() -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["run", "--quiet", "--release", "--locked", "--package", "rudy-sim", "--"]);
    cargo
}
