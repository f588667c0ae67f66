//! Runs the soak tests: that of the server (`rudy_tests::soak`) and that of the store of the cache. They take minutes, so
//! `cargo xtask test` does not include them.

use crate::{Outcome, command, workspace};

/// Builds the release binary and the soak test, and runs it.
pub(crate) fn run(minutes: u32, seed: u64, upgrades: bool) -> Outcome {
    command::run(workspace::cargo().args(["build", "--release", "--locked", "--package", "rudy"]))?;
    let program = ["run", "--release", "--locked", "--package", "rudy-tests", "--bin", "soak", "--"];
    let upgrades = upgrades.then_some("--upgrades");
    command::run(
        workspace::cargo().args(program).args(options(minutes, seed)).args(upgrades).env("RUDY_BUILT", "1"),
    )
}

/// Builds and runs the soak test of the store.
pub(crate) fn run_cache(minutes: u32, seed: u64) -> Outcome {
    let program = ["run", "--release", "--locked", "--package", "rudy-store", "--example", "soak", "--"];
    command::run(workspace::cargo().args(program).args(options(minutes, seed)))
}

fn options(minutes: u32, seed: u64) -> [String; 2] {
    [format!("--minutes={minutes}"), format!("--seed={seed}")]
}
