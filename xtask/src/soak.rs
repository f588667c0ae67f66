//! Runs the soak test of `rudy_tests::soak`, which takes minutes, too long for `cargo xtask test`.

use crate::{Outcome, command, workspace};

/// Builds the release binary and the soak test, and runs it.
pub(crate) fn run(minutes: u32, seed: u64) -> Outcome {
    command::run(workspace::cargo().args(["build", "--release", "--locked", "--package", "rudy"]))?;
    let soak = ["run", "--release", "--locked", "--package", "rudy-tests", "--bin", "soak", "--"];
    let options = [format!("--minutes={minutes}"), format!("--seed={seed}")];
    command::run(workspace::cargo().args(soak).args(options).env("RUDY_BUILT", "1"))
}
