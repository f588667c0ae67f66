//! The chores of this repository: `cargo xtask test [--peers] | soak | tidy | setup`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: printing is what it is for"
)]

mod command;
mod setup;
mod soak;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a chore comes to: nothing, or a sentence that says what happened and what to do about it.
type Outcome<T = ()> = Result<T, String>;

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that must hold before a change lands: setup, format, tidy, lints, documentation, tests, fuzz smoke.
    Test {
        /// Long checks with real programs as well: other web servers, wikis, redbot, slowhttptest
        #[arg(long)]
        peers: bool,
    },
    /// The release build under random clients, kills and reloads: responses, descriptors, files, threads, memory. Long.
    Soak {
        /// Duration of the load
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        minutes: u32,
        /// What happens; the same for the same number, as far as the machine's timing allows
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The rules that no compiler knows: layers, sockets, file lengths, documents.
    Tidy,
    /// Installs what the tests need; says what is missing where it may not.
    Setup,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Test { peers } => test::run(peers),
        Chore::Soak { minutes, seed } => soak::run(minutes, seed),
        Chore::Tidy => tidy::run(),
        Chore::Setup => setup::run(true),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nerror: {failure}");
            ExitCode::FAILURE
        }
    }
}
