//! The static programs.

use std::fs;
use std::path::PathBuf;

use super::facts;
use crate::steps::Run;
use crate::{Outcome, command, workspace};

/// The C compiler and linker for both processors. It contains the C library, so that no library of the machine is used.
const ZIG: &[&str] = &["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// What is built: the name in file names, and the target of Rust.
pub(super) const TARGETS: &[(&str, &str)] =
    &[("x86_64", "x86_64-unknown-linux-musl"), ("aarch64", "aarch64-unknown-linux-musl")];

/// Returns the path of the program for a processor.
pub(super) fn program(processor: &str) -> PathBuf {
    facts::folder().join("programs").join(processor).join("rudy")
}

/// Builds the programs.
pub(super) fn run(_: &mut Run) -> Outcome {
    let tools = workspace::environment("zig");
    crate::setup::python(&tools, ZIG)?;
    for (processor, target) in TARGETS {
        build(target, &tools)?;
        let program = program(processor);
        let folder = program.parent().expect("the program is in a folder");
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let built = workspace::target().join(target).join("dist/rudy");
        fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
    }
    Ok(())
}

fn build(target: &str, tools: &std::path::Path) -> Outcome {
    let mut cargo = workspace::cargo();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&paths));
    cargo.env("PATH", std::env::join_paths(paths).map_err(|error| format!("PATH: {error}"))?);
    cargo.env("RUDY_COMMIT", facts::commit()?).env("SOURCE_DATE_EPOCH", facts::time()?);
    cargo.args(["zigbuild", "--profile", "dist", "--locked", "--package", "rudy"]);
    command::run(cargo.args(["--features", "rudy/resolver", "--target", target]))
}
