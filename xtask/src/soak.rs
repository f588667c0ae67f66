//! Runs the soak test (`rudy_tests::soak`). It takes minutes, so `cargo xtask test` does not include it.

use crate::{Outcome, command, workspace};

/// Builds the release binary and the soak test, and runs it.
pub(crate) fn run(minutes: u32, seed: u64) -> Outcome {
    command::run(workspace::cargo().args(["build", "--release", "--locked", "--package", "rudy"]))?;
    let program = ["run", "--release", "--locked", "--package", "rudy-tests", "--bin", "soak", "--"];
    let options = [format!("--minutes={minutes}"), format!("--seed={seed}")];
    command::run(workspace::cargo().args(program).args(options).env("RUDY_BUILT", "1"))
}
