//! The chores of this repository: `cargo xtask test | tidy | setup | bench | scale | generator | fastcgi`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool: printing is what it is for"
)]

mod bench;
mod command;
mod fastcgi;
mod generator;
mod process;
mod scale;
mod setup;
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
    Test,
    /// The rules that no compiler knows: floors, sockets, file lengths, documents.
    Tidy,
    /// Installs what the tests and benchmarks need; says what is missing where it may not.
    Setup,
    /// Rudy beside nginx: CPU per request, memory per idle connection. Needs wrk and nginx, takes four minutes.
    Bench(bench::Arguments),
    /// Ten thousand streams, broadcasts and slow answers, engine by engine: memory, CPU, lateness, beside Go.
    Scale(scale::Arguments),
    /// The generator beside wrk: CPU per request, rate, lateness, memory. Needs wrk and nginx, takes three minutes.
    Generator(generator::Arguments),
    /// The gateway beside nginx, before php-fpm: CPU per request, memory of requests that wait. Takes a minute.
    Fastcgi(fastcgi::Arguments),
    /// The server that `bench --floor` measures.
    #[command(hide = true)]
    Floor { address: std::net::SocketAddrV4 },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Test => test::run(),
        Chore::Tidy => tidy::run(),
        Chore::Setup => setup::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Scale(arguments) => scale::run(&arguments),
        Chore::Generator(arguments) => generator::run(&arguments),
        Chore::Fastcgi(arguments) => fastcgi::run(&arguments),
        Chore::Floor { address } => bench::floor::serve(address),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nerror: {failure}");
            ExitCode::FAILURE
        }
    }
}
