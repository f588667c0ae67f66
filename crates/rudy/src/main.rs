//! The command line: flags to calls. No logic.

mod allocator;
mod bench;
mod conns;
mod flood;
mod get;
mod lab;
mod manual;
mod reload;
mod tail;
mod top;
mod values;

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use rudy_net::engine::Model;
use rudy_net::listen::{Address, Endpoint};
use rudy_server::access_log::Destination;
use rudy_server::run::{self, AllowedHost, Options, Source, init};

/// A web server: serves a folder, or what a rudy.toml says.
#[derive(Debug, Parser)]
#[command(name = "rudy", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Example: rudy serve public\n\nEvery command says more with --help.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    /// Print what a rudy.toml means, or everything that is wrong with it
    ///
    /// Prints which addresses are listened on and which handler answers which path, in the order in which they are
    /// tried. If anything is wrong, it prints the errors, and the exit code is 2.
    #[command(after_help = "Example: rudy check /etc/rudy/rudy.toml")]
    Check {
        /// The file
        #[arg(value_name = "FILE", default_value = "rudy.toml")]
        config: PathBuf,
    },
    /// Print the JSON Schema of rudy.toml, for editors that complete and check it
    #[command(after_help = "Example: rudy schema > rudy.schema.json")]
    Schema,
    Completions(manual::Completions),
    Manual(manual::Manual),
    Reload(reload::Reload),
    Tail(tail::Tail),
    Get(Box<get::Get>),
    Bench(Box<bench::Bench>),
    Flood(Box<flood::Flood>),
    Lab(lab::Lab),
    Top(top::Top),
    Conns(conns::Conns),
    /// Fetch URLs as http_load does, with its options of one dash and its summary
    #[command(
        name = "http_load",
        disable_help_flag = true,
        after_help = "Example: rudy http_load -parallel 20 -fetches 1000 urls"
    )]
    HttpLoad {
        /// What http_load would be given; -help lists it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
}

/// Serve a folder, or what a rudy.toml says.
///
/// Without --listen or --port it is served on 127.0.0.1:8080, where only this machine can reach it.
///
/// After SIGTERM or SIGINT (Ctrl-C) Rudy finishes requests in progress and exits with code 0. After a second one it exits at once.
///
/// SIGHUP reads the configuration again and opens the logs again. SIGUSR2 replaces the process by a
/// new one of the same command line, without losing a connection. See `rudy reload`.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  rudy serve                                  the working folder, on this machine only
  rudy serve public -p 8000                   a folder at another port
  rudy serve public --browse --listen :8080   a folder with listings, for everybody
  rudy serve rudy.toml                        what the file says; see `rudy check`"
)]
struct Serve {
    /// The folder to serve, or a configuration that ends in .toml [default: the working folder]
    #[arg(value_name = "DIR|FILE", conflicts_with = "config")]
    folder: Option<PathBuf>,
    /// Serve what this file says, whatever its name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["browse", "spa", "host"])]
    config: Option<PathBuf>,
    /// Listen on 127.0.0.1 at this port; may be given again
    #[arg(short, long, value_name = "PORT")]
    port: Vec<u16>,
    /// Listen there: 127.0.0.1:8080, :8080 (every address), unix:PATH, systemd; may be given again
    #[arg(long, value_name = "ADDR")]
    listen: Vec<Address>,
    /// List folders that have no index.html
    #[arg(long)]
    browse: bool,
    /// Answer with index.html where there is no file: for single-page applications
    #[arg(long)]
    spa: bool,
    /// Respond to this host name too: example.test, *.example.test, or '*' for all; may be given again
    #[arg(long, value_name = "NAME")]
    host: Vec<AllowedHost>,
    /// Write a line for each request to this file, or to standard output (-)
    #[arg(long, value_name = "PATH|-")]
    access_log: Option<PathBuf>,
    /// Write the access log as JSON lines instead of the combined format
    #[arg(long)]
    json_log: bool,
    /// How connections are carried: percore, task, mailbox, thread, pool:N, serial [default: percore]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Model>,
    /// Let a connection have more than one request in serial and pool:N too
    #[arg(long)]
    keep_alive: bool,
    /// Run as this user once the addresses are bound: www-data, www-data:group, or numbers
    #[arg(long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// Threads that carry connections in percore, task and mailbox [default: one for each core]
    #[arg(long, value_name = "N")]
    cores: Option<NonZeroUsize>,
}

fn on_this_machine(port: u16) -> Address {
    Endpoint::Ip((Ipv4Addr::LOCALHOST, port).into()).into()
}

fn main() -> ExitCode {
    allocator::merge_freed_chunks();
    match CommandLine::parse().command {
        Command::Serve(serve) => init::fork_if_first().unwrap_or_else(|| run::serve(serve.into()).into()),
        Command::Check { config } => run::check(&config).into(),
        Command::Schema => run::schema().into(),
        Command::Completions(completions) => completions.run().into(),
        Command::Manual(manual) => manual.run().into(),
        Command::Reload(reload) => rudy_server::reload::run(&reload.into()).into(),
        Command::Tail(tail) => rudy_server::tail::run(&tail.into()).into(),
        Command::Get(get) => rudy_load::get::get(&(*get).into()).into(),
        Command::Bench(bench) => bench.run().into(),
        Command::Flood(flood) => rudy_load::flood::flood(&(*flood).into()).into(),
        Command::Lab(lab) => lab.run().into(),
        Command::Top(top) => rudy_observe::top::run(&top.into()).into(),
        Command::Conns(conns) => rudy_observe::conns::run(&conns.into()).into(),
        Command::HttpLoad { arguments } => rudy_load::http_load(&arguments).into(),
    }
}

impl From<Serve> for Options {
    fn from(serve: Serve) -> Self {
        let source = match serve.config {
            Some(path) => Source::File(path),
            None => Source::Folder {
                path: serve.folder.unwrap_or_else(|| PathBuf::from(".")),
                browse: serve.browse,
                spa: serve.spa,
                hosts: serve.host,
            },
        };
        Self {
            source,
            listen: serve.port.into_iter().map(on_this_machine).chain(serve.listen).collect(),
            access_log: serve.access_log.map(|path| Destination::new(&path)),
            json_log: serve.json_log,
            engine: serve.engine,
            cores: serve.cores,
            keep_alive: serve.keep_alive.then_some(true),
            user: serve.user,
        }
    }
}
