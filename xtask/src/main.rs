//! Development tasks of this repository: `cargo xtask quick | test | nightly | soak | release | tidy | setup`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

mod command;
mod nightly;
mod packages;
mod quick;
mod release;
mod reproducible;
mod setup;
mod simulation;
mod soak;
mod steps;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The outcome of a task. The error describes what happened and what to do.
type Outcome<T = ()> = Result<T, String>;

/// Development tasks of this repository
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks the changes since the last commit: format, lints, the tests that concern them
    #[command(
        after_help = "Examples:\n  cargo xtask quick\n  cargo xtask quick -- chunked        the tests with this in their names"
    )]
    Quick {
        /// Run only tests whose names contain one of these
        #[arg(last = true)]
        names: Vec<String>,
    },
    /// Runs all checks before a merge: format, rules, lints, tests. Installs the programs that the tests need
    Test,
    /// Runs the long checks: real programs, all engines, fuzzing, documentation, soaks
    #[command(after_help = "Example: cargo xtask nightly documentation fuzz")]
    Nightly {
        /// Run only these parts
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(nightly::names()))]
        parts: Vec<String>,
    },
    /// Runs the release build with random clients, kills and reloads, and checks responses and resources
    #[command(after_help = "Example: cargo xtask soak --cache --minutes 60")]
    Soak {
        /// Test the store of the cache instead: random operations, full disks, damaged files and ends of the process, against a model
        #[arg(long)]
        cache: bool,
        /// Replace the server by a new process every 50 seconds
        #[arg(long, conflicts_with = "cache")]
        upgrades: bool,
        /// Duration of the load
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        minutes: u32,
        /// Seed of the random events; the same seed gives the same events, except for timing
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Makes everything that a release has, in `target/release-files`: static programs, packages, images
    #[command(
        after_help = "Examples:\n  cargo xtask release\n  cargo xtask release debian      only this part, with the programs of an earlier run"
    )]
    Release {
        /// Make only these parts
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(release::names()))]
        parts: Vec<String>,
    },
    /// Checks project rules: layers, sockets, file lengths, words, documents
    Tidy,
    /// Installs the programs that the tests need, or lists those it cannot install
    Setup,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Quick { names } => quick::run(&names),
        Task::Test => test::run(),
        Task::Nightly { parts } => nightly::run(&parts),
        Task::Soak { cache: true, minutes, seed, .. } => soak::run_cache(minutes, seed),
        Task::Soak { cache: false, minutes, seed, upgrades } => soak::run(minutes, seed, upgrades),
        Task::Release { parts } => release::run(&parts),
        Task::Tidy => tidy::run(),
        Task::Setup => setup::run(true),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nerror: {failure}");
            ExitCode::FAILURE
        }
    }
}
