//! Runs all checks before a merge, the fast ones first. What takes longer is in [`crate::nightly`].

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::steps::{Run, Step};
use crate::{Outcome, command, setup, tidy, workspace};

pub(crate) const FORMAT: Step =
    Step { name: "format", budget_s: 10, run: format, remedy: "run `cargo fmt --all`" };

pub(crate) const TIDY: Step = Step {
    name: "tidy",
    budget_s: 10,
    run: |_| tidy::run(),
    remedy: "`cargo xtask tidy` runs only this step; licences and banned crates are in deny.toml",
};

pub(crate) const BUILD: Step = Step {
    name: "build and lints",
    budget_s: 420,
    run: build,
    remedy: "`cargo clippy --workspace --all-targets` shows the same lints",
};

pub(crate) const PROGRAMS: Step =
    Step { name: "programs", budget_s: 60, run: programs, remedy: "install the programs listed above" };

pub(crate) const TESTS: Step = Step {
    name: "tests",
    budget_s: 220,
    run: |run| tests(run, &[]),
    remedy: "`cargo xtask quick -- NAME` runs a single test, see CONTRIBUTING.md",
};

const DOCUMENTATION_TESTS: Step = Step {
    name: "documentation tests",
    budget_s: 60,
    run: documentation_tests,
    remedy: "`cargo test --doc -p CRATE` runs those of a crate",
};

/// Runs the steps in order, and stops at the first failure.
pub(crate) fn run() -> Outcome {
    let mut run = Run::new(false);
    start_setup(&mut run);
    run.all([&FORMAT, &TIDY, &BUILD, &PROGRAMS, &TESTS, &DOCUMENTATION_TESTS])
}

/// Installs programs while cargo compiles.
pub(crate) fn start_setup(run: &mut Run) {
    let is_nightly = run.is_nightly;
    run.setup = Some(thread::spawn(move || setup::run(is_nightly)));
}

/// Waits for the programs. On a developer's machine, tests that need missing programs are skipped; CI requires all of them.
fn programs(run: &mut Run) -> Outcome {
    let Some(setup) = run.setup.take() else { return Ok(()) };
    match setup.join().map_err(|_| "the installation of programs panicked")? {
        Err(failure) if !is_ci() => {
            run.skip("programs", &failure);
            Ok(())
        }
        outcome => outcome,
    }
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

fn format(_: &mut Run) -> Outcome {
    command::run(workspace::cargo().args(["fmt", "--all", "--check"]))
}

/// Builds programs and tests with clippy as the compiler of the workspace: `cargo clippy` would compile every dependency a second time.
fn build(_: &mut Run) -> Outcome {
    let mut cargo = linting(&["build", "--quiet", "--bins", "--tests", "--examples"]);
    command::run(&mut cargo)
}

/// Returns cargo with one selection of packages and features for all commands, so that no dependency is compiled twice. It
/// lints as it compiles.
pub(crate) fn linting(arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(arguments).args(workspace::SELECTION);
    // As `cargo clippy` does: the driver's arguments, each with this separator after it.
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    cargo.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    cargo
}

/// Runs the tests that match the arguments of nextest: those of all crates in parallel, each in its own process; most of them mainly
/// wait. The binaries are built before, so that not every test runs cargo (`RUDY_BUILT`).
pub(crate) fn tests(run: &mut Run, arguments: &[&str]) -> Outcome {
    let mut cargo = linting(&["nextest", "run", "--no-fail-fast", "--color=never"]);
    cargo.args(arguments);
    nextest(run, cargo)
}

/// Runs the tests of the files of a release, which are in this folder.
pub(crate) fn release_tests(run: &mut Run, folder: &Path) -> Outcome {
    let mut cargo = linting(&["nextest", "run", "--no-fail-fast", "--color=never", "--test=packages"]);
    // The tests print how long users wait.
    cargo.arg("--success-output=immediate").env("RUDY_RELEASE", folder);
    nextest(run, cargo)
}

fn nextest(run: &mut Run, mut cargo: Command) -> Outcome {
    if command::find("cargo-nextest").is_none() {
        return Err("cargo-nextest is not installed; `cargo xtask setup` installs it".into());
    }
    let skipped = workspace::target().join("skipped-tests");
    // The file may be missing.
    let _ = fs::remove_file(&skipped);
    cargo.env("RUDY_SKIPPED_TESTS", &skipped).env("RUDY_BUILT", "1");
    if run.is_nightly {
        cargo.env("RUDY_TEST_LONG", "1");
    }
    let succeeded = command::watch(cargo, |line| run.read(line))?;
    run.skipped.extend(fs::read_to_string(&skipped).unwrap_or_default().lines().map(String::from));
    if succeeded { Ok(()) } else { Err("the failed tests are listed above".into()) }
}

/// nextest does not run documentation tests.
fn documentation_tests(run: &mut Run) -> Outcome {
    let cargo = linting(&["test", "--quiet", "--doc"]);
    let succeeded = command::watch(cargo, |line| run.read(line))?;
    if succeeded { Ok(()) } else { Err("the failed tests are listed above".into()) }
}
