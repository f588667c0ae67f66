//! Runs all checks before a merge, the fast ones first.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::{Outcome, command, setup, tidy, workspace};

/// How long each fuzz target runs: enough to find new shallow bugs.
const FUZZ_SECONDS: &str = "5";

/// Fuzz targets of the server, whose build with a sanitizer takes five minutes. They run with the long checks.
const SERVER_TARGETS: &[&str] = &["access_log", "config", "proxy_header", "router"];

/// Fuzz targets that compare with another implementation. A difference may be one that is not explained yet, which is no fault.
const COMPARISONS: &[&str] = &["h2_differential", "h2_client_differential"];

/// A step, and the remedy if it fails.
struct Step {
    name: &'static str,
    run: fn(&mut Tally) -> Outcome,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "setup", run: set_up, remedy: "install the programs listed above" },
    Step { name: "format", run: format, remedy: "run `cargo fmt --all`" },
    Step { name: "tidy", run: |_| tidy::run(), remedy: "`cargo xtask tidy` runs only this step" },
    Step {
        name: "licences and bans",
        run: deny,
        remedy: "see deny.toml; `cargo deny check` runs only this step",
    },
    Step {
        name: "lints",
        run: lints,
        remedy: "`cargo clippy --workspace --all-targets` runs only this step",
    },
    Step {
        name: "documentation",
        run: documentation,
        remedy: "`cargo doc --workspace --no-deps --document-private-items` runs only this step",
    },
    Step {
        name: "tests",
        run: tests,
        remedy: "`cargo test -p CRATE NAME` runs a single test, see CONTRIBUTING.md",
    },
    Step { name: "fuzz", run: fuzz, remedy: "add a test with the failing input above, then fix the bug" },
];

/// The results of the tests.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Skipped tests and steps with the reason.
    skipped: Vec<String>,
    /// Whether the long checks with external programs run too.
    peers: bool,
}

/// Runs the steps in order, stops at the first failure, and prints the counts. Without `peers`, the long checks count as skipped.
pub(crate) fn run(peers: bool) -> Outcome {
    let mut tally = Tally { peers, ..Tally::default() };
    let total = Instant::now();
    for step in STEPS {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(&mut tally);
        println!("== {} {:.1} s", step.name, start.elapsed().as_secs_f64());
        if let Err(failure) = outcome {
            // A failed step counts as at least one failure, even without a failed test.
            tally.failed = tally.failed.max(1);
            tally.print();
            return Err(format!("{} failed: {failure}\nWhat to do: {}", step.name, step.remedy));
        }
    }
    println!("\nall steps in {:.0} s", total.elapsed().as_secs_f64());
    tally.print();
    Ok(())
}

impl Tally {
    /// Adds the counts of a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; …` of cargo, or `Summary [0.3s] 14
    /// tests run: 11 passed (1 slow), 2 failed, 1 timed out, 1 skipped` of nextest.
    fn read(&mut self, line: &str) {
        let of_nextest = || Some(line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1);
        let Some(counts) = line.strip_prefix("test result: ").or_else(of_nextest) else { return };
        let words: Vec<&str> = counts.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                // Failed starts and timeouts have separate counts: `1 exec failed`, `1 timed out`.
                "failed" | "exec" | "timed" => self.failed += count,
                "ignored" | "skipped" if count > 0 => {
                    self.skipped.push(format!("{count} tests marked #[ignore]"));
                }
                _ => {}
            }
        }
    }

    fn print(&self) {
        for what in &self.skipped {
            println!("skipped: {what}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
    }

    /// Records a step that cannot run on this machine.
    fn skip(&mut self, what: &str, reason: &str) {
        println!("skipped: {what}: {reason}");
        self.skipped.push(format!("{what}: {reason}"));
    }
}

/// Installs programs. On a developer's machine, tests that need missing programs are skipped; CI requires all of them.
fn set_up(tally: &mut Tally) -> Outcome {
    match setup::run(tally.peers) {
        Err(failure) if !is_ci() => {
            tally.skip("setup", &failure);
            Ok(())
        }
        outcome => outcome,
    }
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

fn format(_: &mut Tally) -> Outcome {
    command::run(workspace::cargo().args(["fmt", "--all", "--check"]))
}

/// Checks dependencies without the network. Security advisories depend on the day, not on the change, so they are not checked here.
fn deny(tally: &mut Tally) -> Outcome {
    if command::find("cargo-deny").is_none() {
        tally.skip("licences and bans", "needs cargo-deny: `cargo install cargo-deny --locked`");
        return Ok(());
    }
    command::run(workspace::cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}

fn lints(_: &mut Tally) -> Outcome {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    command::run(workspace::cargo().args(arguments))?;
    // The program as users build it: the tests enable its optional features.
    let of_users = ["clippy", "--quiet", "--package", "rudy", "--locked", "--", "-D", "warnings"];
    command::run(workspace::cargo().args(of_users))
}

fn documentation(_: &mut Tally) -> Outcome {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    command::run(workspace::cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs the tests. nextest runs those of all crates in parallel, each in its own process; most of them mainly wait. The binaries
/// are built first, so that not every test runs cargo (`RUDY_BUILT`).
fn tests(tally: &mut Tally) -> Outcome {
    if command::find("cargo-nextest").is_none() {
        return Err("cargo-nextest is not installed; `cargo xtask setup` installs it".into());
    }
    // Together with the tests, so that the programs and the tests have dependencies with the same features, which are built once.
    let targets = ["--bins", "--tests", "--examples"];
    command::run(workspace::cargo().args(["build", "--quiet", "--locked", "--workspace"]).args(targets))?;
    let skipped = workspace::target().join("skipped-tests");
    // The file may be missing.
    let _ = fs::remove_file(&skipped);
    let all = ["--workspace", "--locked", "--no-fail-fast", "--color=never"];
    let mut succeeded = true;
    // nextest does not run documentation tests.
    for runner in [&["nextest", "run"][..], &["test", "--doc"]] {
        let mut cargo = workspace::cargo();
        cargo.args(runner).args(all).env("RUDY_SKIPPED_TESTS", &skipped).env("RUDY_BUILT", "1");
        if tally.peers {
            cargo.env("RUDY_TEST_PEERS", "1");
        }
        succeeded &= command::watch(cargo, |line| tally.read(line))?;
    }
    tally.skipped.extend(fs::read_to_string(&skipped).unwrap_or_default().lines().map(String::from));
    if succeeded { Ok(()) } else { Err("the failed tests are listed above".into()) }
}

fn fuzz(tally: &mut Tally) -> Outcome {
    let cargo_fuzz = || {
        let mut command = Command::new("rustup");
        command.current_dir(workspace::root()).args(["run", "nightly", "cargo", "fuzz"]);
        command
    };
    if !command::succeeds(cargo_fuzz().arg("--version")) {
        tally.skip(
            "fuzz",
            "needs a nightly toolchain and cargo-fuzz, which `cargo xtask setup` installs if there is a nightly",
        );
        return Ok(());
    }
    for target in command::output(cargo_fuzz().arg("list"))?.lines() {
        let is_of_server = SERVER_TARGETS.contains(&target);
        if (is_of_server || COMPARISONS.contains(&target)) && !tally.peers {
            tally.skip(&format!("fuzz target {target}"), "a long check: `cargo xtask test --peers` runs it");
            continue;
        }
        println!("{target}");
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        // New inputs go to the first folder, which is not committed. The seeds do not change.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(workspace::root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
        let seeds = format!("fuzz/seeds/{target}");
        let features: &[&str] = if is_of_server { &["--features", "server"] } else { &[] };
        // The thread of a log can still run when the process exits, which is no leak.
        let options = [&limit, "-verbosity=0", "-detect_leaks=0"];
        let run = ["run", target, &corpus, &seeds];
        command::run(cargo_fuzz().args(run).args(features).arg("--").args(options))?;
        tally.passed += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_over_all_results() {
        let mut tally = Tally::default();
        tally.read("running 3 tests");
        tally.read(
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        );
        tally.read("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out");
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (15, 2, 1));
        tally.read(
            "     Summary [   0.123s] 14 tests run: 11 passed (1 slow), 1 failed, 1 timed out, 2 skipped",
        );
        tally.read("     Summary [   0.123s] 1 test run: 0 passed, 1 exec failed, 0 skipped");
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (26, 5, 2));
    }
}
