//! The flags of `rudy cache`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use rudy_admin::{PurgedBy, RunningServer};
use rudy_server::run::Exit;

use crate::running::cache::{Action, Options, run};

/// Purge, list or check the stored responses of a server
///
/// Rudy asks the running server through its admin socket, as root or as the server's user. `verify` reads the folder itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy cache stats
  rudy cache purge https://example.org/news --soft
  rudy cache purge --tag product-17 --tag category-3
  rudy cache list --prefix https://example.org/ --json | jq '.objects | length'

Exit codes: 0 done; 1 no server found, or no response; 2 invalid arguments; 3 `verify` found damaged files.")]
pub(crate) struct Cache {
    #[command(subcommand)]
    command: Command,
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
enum Command {
    /// Remove stored responses
    ///
    /// Returns when the purge is on the disk and every later request sees it. A purged response never comes back.
    #[command(
        group = ArgGroup::new("what").required(true).multiple(true),
        after_help = "Example: rudy cache purge https://example.org/news https://example.org/"
    )]
    Purge {
        /// URLs to purge, with all variants by `Vary`
        #[arg(value_name = "URL", group = "what")]
        urls: Vec<String>,
        /// Purge all URLs that begin so
        #[arg(long, value_name = "URL", group = "what")]
        prefix: Vec<String>,
        /// Purge all responses with this tag in `Cache-Tag` or `Surrogate-Key`
        #[arg(long, value_name = "TAG", group = "what")]
        tag: Vec<String>,
        /// Make responses stale instead of removing them: the next request validates them
        #[arg(long)]
        soft: bool,
        /// Wait until the files are gone, and print how many responses that were: it reads all of them
        #[arg(long)]
        wait: bool,
    },
    /// Print how much is stored
    #[command(after_help = "Example: rudy cache stats --json")]
    Stats,
    /// Print the stored responses, in the order of their URLs
    #[command(after_help = "Example: rudy cache list --prefix https://example.org/images/")]
    List {
        /// Only URLs that begin so
        #[arg(long, value_name = "URL")]
        prefix: Option<String>,
        /// Maximum number of responses
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
    },
    /// Print what is stored for a URL, with the header fields
    #[command(after_help = "Example: rudy cache get https://example.org/")]
    Get {
        /// URL of the responses
        #[arg(value_name = "URL")]
        url: String,
    },
    /// Check every stored response, and remove what is damaged
    ///
    /// While a server uses the folder, damaged files are reported only.
    #[command(after_help = "Example: rudy cache verify /etc/rudy/rudy.toml")]
    Verify {
        /// Configuration file with the folder
        #[arg(value_name = "FILE", default_value = "rudy.toml")]
        config: PathBuf,
    },
}

impl Cache {
    pub(crate) fn run(self) -> Exit {
        let Self { command, json, pid, socket } = self;
        let action = match command {
            Command::Purge { urls, prefix, tag, soft, wait } => {
                let by = urls.into_iter().map(PurgedBy::Url);
                let by = by.chain(prefix.into_iter().map(PurgedBy::Prefix));
                Action::Purge { by: by.chain(tag.into_iter().map(PurgedBy::Tag)).collect(), soft, wait }
            }
            Command::Stats => Action::Stats,
            Command::List { prefix, limit } => Action::List { prefix, limit },
            Command::Get { url } => Action::Get { url },
            Command::Verify { config } => Action::Verify { config },
        };
        run(&Options { server: RunningServer { socket, pid }, json, action })
    }
}
