//! Everything that must hold before a change lands, step by step, the quick ones first.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::{Outcome, command, setup, tidy, workspace};

/// How long each fuzz target runs: long enough to find what a fresh mistake breaks, no more.
const FUZZ_SECONDS: &str = "5";

/// The fuzz targets of the whole server, whose build with a sanitizer takes five minutes: they run with the long checks.
const SERVER_TARGETS: &[&str] = &["access_log", "config", "proxy_header", "router"];

/// A step's name, what it does, and what to do where it fails.
struct Step {
    name: &'static str,
    run: fn(&mut Tally) -> Outcome,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "setup", run: set_up, remedy: "install what is named above" },
    Step { name: "format", run: format, remedy: "run `cargo fmt --all`" },
    Step { name: "tidy", run: |_| tidy::run(), remedy: "`cargo xtask tidy` checks this alone" },
    Step {
        name: "licences and bans",
        run: deny,
        remedy: "see deny.toml; `cargo deny check` runs this alone",
    },
    Step { name: "lints", run: lints, remedy: "`cargo clippy --workspace --all-targets` runs this alone" },
    Step {
        name: "documentation",
        run: documentation,
        remedy: "`cargo doc --workspace --no-deps --document-private-items` runs this alone",
    },
    Step {
        name: "tests",
        run: tests,
        remedy: "`cargo test -p CRATE NAME` runs one test alone, see CONTRIBUTING.md",
    },
    Step { name: "fuzz", run: fuzz, remedy: "the input that fails is named above; make it a test first" },
];

/// What the tests came to.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    /// What was not run, with the reason.
    skipped: Vec<String>,
    /// The long checks with real programs run as well.
    peers: bool,
}

/// Runs the steps in order, stops at the first that fails, and closes with the count. Without `peers` the long checks with
/// real programs count as skipped.
pub(crate) fn run(peers: bool) -> Outcome {
    let mut tally = Tally { peers, ..Tally::default() };
    let begin = Instant::now();
    for step in STEPS {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(&mut tally);
        println!("== {} {:.1} s", step.name, start.elapsed().as_secs_f64());
        if let Err(failure) = outcome {
            // A step that fails without a test to its name is a failure all the same.
            tally.failed = tally.failed.max(1);
            tally.print();
            return Err(format!("{} failed: {failure}\nWhat to do: {}", step.name, step.remedy));
        }
    }
    println!("\nall steps in {:.0} s", begin.elapsed().as_secs_f64());
    tally.print();
    Ok(())
}

impl Tally {
    /// Adds up a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; …` of cargo, or `Summary [0.3s] 14 tests
    /// run: 11 passed (1 slow), 2 failed, 1 timed out, 1 skipped` of nextest.
    fn read(&mut self, line: &str) {
        let of_nextest = || Some(line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?.1);
        let Some(counts) = line.strip_prefix("test result: ").or_else(of_nextest) else { return };
        let words: Vec<&str> = counts.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                // A program that does not start or in time end is counted on its own: `1 exec failed`, `1 timed out`.
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

    /// Notes what cannot be run here.
    fn skip(&mut self, what: &str, reason: &str) {
        println!("skipped: {what}: {reason}");
        self.skipped.push(format!("{what}: {reason}"));
    }
}

/// On a developer's machine a missing peer only skips what needs it; a build machine has to have all.
fn set_up(tally: &mut Tally) -> Outcome {
    match setup::run(tally.peers) {
        Err(failure) if !on_build_machine() => {
            tally.skip("setup", &failure);
            Ok(())
        }
        outcome => outcome,
    }
}

fn on_build_machine() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

fn format(_: &mut Tally) -> Outcome {
    command::run(workspace::cargo().args(["fmt", "--all", "--check"]))
}

/// What needs no network: whether a dependency is known to be unsafe depends on the day, not on the change.
fn deny(tally: &mut Tally) -> Outcome {
    if command::find("cargo-deny").is_none() {
        tally.skip("licences and bans", "needs cargo-deny: `cargo install cargo-deny --locked`");
        return Ok(());
    }
    command::run(workspace::cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}

fn lints(_: &mut Tally) -> Outcome {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    command::run(workspace::cargo().args(arguments))
}

fn documentation(_: &mut Tally) -> Outcome {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    command::run(workspace::cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// nextest runs the tests of all crates side by side, each in a process of its own; most of them wait most of the time.
/// They start the programs that are built first, and need not each ask cargo whether those are fresh (`RUDY_BUILT`).
fn tests(tally: &mut Tally) -> Outcome {
    if command::find("cargo-nextest").is_none() {
        return Err("cargo-nextest is not installed; `cargo xtask setup` installs it".into());
    }
    let programs = ["build", "--quiet", "--locked", "--package", "rudy", "--package", "fastcgi-info"];
    command::run(workspace::cargo().args(programs))?;
    let skipped = workspace::target().join("skipped-tests");
    // Not there yet is as good as removed.
    let _ = fs::remove_file(&skipped);
    let all = ["--workspace", "--locked", "--no-fail-fast", "--color=never"];
    let mut succeeded = true;
    // nextest has no tests of documentation.
    for runner in [&["nextest", "run"][..], &["test", "--doc"]] {
        let mut cargo = workspace::cargo();
        cargo.args(runner).args(all).env("RUDY_SKIPPED_TESTS", &skipped).env("RUDY_BUILT", "1");
        if tally.peers {
            cargo.env("RUDY_TEST_PEERS", "1");
        }
        succeeded &= command::watch(cargo, |line| tally.read(line))?;
    }
    tally.skipped.extend(fs::read_to_string(&skipped).unwrap_or_default().lines().map(String::from));
    if succeeded { Ok(()) } else { Err("the tests that failed are named above".into()) }
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
            "needs a nightly toolchain and cargo-fuzz: `cargo xtask setup` installs it beside a nightly",
        );
        return Ok(());
    }
    for target in command::output(cargo_fuzz().arg("list"))?.lines() {
        let is_of_server = SERVER_TARGETS.contains(&target);
        if is_of_server && !tally.peers {
            tally.skip(&format!("fuzz target {target}"), "a long check: `cargo xtask test --peers` runs it");
            continue;
        }
        println!("{target}");
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        // What is found goes to the first folder, which is nobody's but this machine's; the seeds stay as they are.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(workspace::root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
        let seeds = format!("fuzz/seeds/{target}");
        let features: &[&str] = if is_of_server { &["--features", "server"] } else { &[] };
        // A log's thread may still be ending when the process does, which is no leak.
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
