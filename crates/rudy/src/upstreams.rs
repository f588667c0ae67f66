//! The flags of `rudy upstreams`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rudy_admin::RunningServer;
use rudy_server::run::Exit;

use crate::running::upstreams::{Change, Options, run};

/// Print the upstreams of a running server, or drain one
///
/// Prints each upstream of the reverse proxies with its addresses and state, requests in progress, open connections, requests,
/// failures, and the average time to a response. Rudy asks the server through its admin socket, as root or as the server's user.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy upstreams
  rudy upstreams --json | jq -r '.upstreams[] | select(.state != \"up\").url'
  rudy upstreams drain http://10.0.0.1:3000    before maintenance
  rudy upstreams up http://10.0.0.1:3000       after maintenance

Exit codes: 0 done; 1 no server found, no response, or no such upstream; 2 invalid arguments.")]
pub(crate) struct Upstreams {
    #[command(subcommand)]
    command: Option<ChangeCommand>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Process id of the server [default: the only `rudy serve` of the current user]
    #[arg(long, value_name = "PID", global = true)]
    pid: Option<u32>,
    /// Admin socket of the server, if its configuration has `admin_socket`
    #[arg(long, value_name = "PATH", conflicts_with = "pid", global = true)]
    socket: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ChangeCommand {
    /// Send no more requests to an upstream, which finishes those in progress
    ///
    /// Its state is `draining` until the last request is complete, then `drained`. It stays so through reloads, until
    /// `rudy upstreams up` or a restart of the server.
    #[command(after_help = "Example: rudy upstreams drain http://10.0.0.1:3000")]
    Drain(Name),
    /// Send requests to a drained upstream again
    #[command(after_help = "Example: rudy upstreams up http://10.0.0.1:3000")]
    Up(Name),
}

#[derive(Debug, Args)]
struct Name {
    /// URL of the upstream in the configuration, or its host and port
    #[arg(value_name = "NAME")]
    name: String,
}

impl Upstreams {
    pub(crate) fn run(self) -> Exit {
        let Self { command, json, pid, socket } = self;
        let change = command.map(|command| match command {
            ChangeCommand::Drain(Name { name }) => Change::Drain(name),
            ChangeCommand::Up(Name { name }) => Change::Up(name),
        });
        run(&Options { server: RunningServer { socket, pid }, json, change })
    }
}
