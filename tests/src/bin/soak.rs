//! Runs a server with clients and applications that fail at random, and compares its resources before and after.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints")]

use std::process::ExitCode;

use clap::Parser;
use rudy_tests::soak;

/// Runs the release build of rudy under random clients, kills, and reloads, and checks responses, descriptors, files and
/// memory.
#[derive(Parser)]
#[command(name = "soak")]
struct Arguments {
    /// Duration of the load
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Seed of the random events; the same seed gives the same events, except for timing
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace the server by a new process every 50 seconds
    #[arg(long)]
    upgrades: bool,
    /// Run as the application that the server starts
    #[arg(long, hide = true)]
    app: bool,
}

fn main() -> ExitCode {
    let Arguments { minutes, seed, upgrades, app } = Arguments::parse();
    let result = if app {
        soak::app::run().map_err(|error| error.to_string())
    } else {
        soak::run(soak::Options { minutes, seed, upgrades }, |line| println!("{line}"))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
