//! Runs a server under clients and applications that fail at random, and looks at what it holds before and after.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: printing is what it is for"
)]

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
    /// What happens; the same for the same number, as far as the machine's timing allows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Be the application that the server starts
    #[arg(long, hide = true)]
    app: bool,
}

fn main() -> ExitCode {
    let Arguments { minutes, seed, app } = Arguments::parse();
    let result = if app {
        soak::app::run().map_err(|error| error.to_string())
    } else {
        soak::run(soak::Options { minutes, seed }, |line| println!("{line}"))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
