//! Checks that take longer than a merge can wait for: real programs, all engines, fuzzing, documentation, random load for minutes.

use std::fs;
use std::process::Command;

use crate::steps::{Run, Step};
use crate::{Outcome, command, packages, reproducible, simulation, soak, test, workspace};

/// How long each fuzz target runs: enough to find new shallow bugs.
const FUZZ_SECONDS: &str = "5";

/// Fuzz targets of the server, whose build with a sanitizer takes five minutes.
const SERVER_TARGETS: &[&str] = &["access_log", "config", "proxy_header", "router"];

/// The duration of each soak.
const SOAK_MINUTES: u32 = 5;

const PARTS: &[Step] = &[
    Step {
        name: "lints",
        budget_s: 240,
        run: lints,
        remedy: "`cargo clippy -p rudy` shows the lints of the program as users build it",
    },
    Step {
        name: "documentation",
        budget_s: 180,
        run: documentation,
        remedy: "`cargo doc --workspace --no-deps --document-private-items` runs only this part",
    },
    Step {
        name: "tests",
        budget_s: 1800,
        run: tests,
        remedy: "`RUDY_TEST_LONG=1 cargo xtask quick -- NAME` runs a single test",
    },
    Step {
        name: "packages",
        budget_s: 3000,
        run: packages::run,
        remedy: "`RUDY_TEST_LONG=1 RUDY_RELEASE=target/release-files cargo xtask quick -- NAME` runs a single test",
    },
    Step {
        name: "reproducible",
        // A release from a clean clone takes most of it.
        budget_s: 2700,
        run: reproducible::run,
        remedy: "commit all changes; `diffoscope` shows how two files differ",
    },
    Step {
        name: "instructions",
        budget_s: 900,
        run: instructions,
        remedy: "`cargo xtask nightly instructions` runs only this part; the bounds are in tests/src/bin/instructions.rs",
    },
    Step {
        name: "fuzz",
        budget_s: 1200,
        run: fuzz,
        remedy: "add the failing input above to `fuzz/seeds`, then fix the bug",
    },
    Step {
        name: "simulation",
        budget_s: 1500,
        run: |_| simulation::run(),
        remedy: "`cargo run -p rudy-sim -- SEED --shrink` tells what happened",
    },
    Step {
        name: "soak",
        budget_s: 1200,
        run: |_| soak::run(SOAK_MINUTES, 1, false),
        remedy: "`cargo xtask soak` runs only this part",
    },
    Step {
        name: "soak with upgrades",
        budget_s: 600,
        run: |_| soak::run(SOAK_MINUTES, 1, true),
        remedy: "`cargo xtask soak --upgrades` runs only this part",
    },
    Step {
        name: "soak of the cache",
        budget_s: 600,
        run: |_| soak::run_cache(SOAK_MINUTES, 1),
        remedy: "`cargo xtask soak --cache` runs only this part",
    },
    Step {
        name: "advisories",
        budget_s: 60,
        run: advisories,
        remedy: "update the crate, or name the reason to ignore it in deny.toml",
    },
];

/// Returns the names of the parts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name)
}

/// Runs these parts, or all. A failure does not stop the others.
pub(crate) fn run(parts: &[String]) -> Outcome {
    let mut run = Run::new(true);
    run.each(PARTS.iter().filter(|part| parts.is_empty() || parts.iter().any(|name| name == part.name)))
}

/// The program as users build it: the tests enable its optional features.
fn lints(_: &mut Run) -> Outcome {
    let of_users = ["clippy", "--quiet", "--package", "rudy", "--locked", "--", "-D", "warnings"];
    command::run(workspace::cargo().args(of_users))
}

fn documentation(_: &mut Run) -> Outcome {
    let mut cargo = workspace::cargo();
    cargo.args(["doc", "--quiet", "--no-deps", "--document-private-items"]).args(workspace::SELECTION);
    command::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs all tests, with the long ones and on all engines.
fn tests(run: &mut Run) -> Outcome {
    test::start_setup(run);
    (test::BUILD.run)(run)?;
    (test::PROGRAMS.run)(run)?;
    test::tests(run, &[])
}

/// Counts the instructions that requests cost the program with which figures are measured.
fn instructions(_: &mut Run) -> Outcome {
    command::run(workspace::cargo().args(["build", "--profile", "dist", "--locked", "--package", "rudy"]))?;
    let mut count = workspace::cargo();
    count.args(["run", "--quiet", "--locked", "--package", "rudy-tests", "--bin", "instructions"]);
    command::run(count.env("RUDY_BINARY", workspace::target().join("dist/rudy")))
}

fn fuzz(run: &mut Run) -> Outcome {
    let cargo_fuzz = || {
        let mut command = Command::new("rustup");
        command.current_dir(workspace::root()).args(["run", "nightly", "cargo", "fuzz"]);
        command
    };
    if !command::succeeds(cargo_fuzz().arg("--version")) {
        let reason = "needs a nightly toolchain and cargo-fuzz, which `cargo xtask setup` installs if there is a nightly";
        run.skip("fuzz", reason);
        return Ok(());
    }
    let mut failures = Vec::new();
    for target in command::output(cargo_fuzz().arg("list"))?.lines() {
        println!("{target}");
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        // New inputs go to the first folder, which is not committed. The seeds do not change.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(workspace::root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
        let seeds = format!("fuzz/seeds/{target}");
        let features: &[&str] =
            if SERVER_TARGETS.contains(&target) { &["--features", "server"] } else { &[] };
        // The thread of a log can still run when the process exits, which is no leak.
        let options = [&limit, "-verbosity=0", "-detect_leaks=0"];
        let arguments = ["run", target, &corpus, &seeds];
        match command::run(cargo_fuzz().args(arguments).args(features).arg("--").args(options)) {
            Ok(()) => run.passed += 1,
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Security advisories depend on the day, not on the change, and their database on the network.
fn advisories(run: &mut Run) -> Outcome {
    let mut fetch = workspace::cargo();
    if !command::succeeds(fetch.args(["deny", "fetch", "db"])) {
        run.skip("advisories", "needs cargo-deny (`cargo install cargo-deny --locked`) and the network");
        return Ok(());
    }
    command::run(workspace::cargo().args(["deny", "check", "advisories"]))
}
