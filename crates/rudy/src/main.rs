//! The command line. Each command turns its flags into the options of a library call, or does work that no library has: `precompress`,
//! `tail`, `trust`, and what running servers are asked.

mod allocator;
mod bench;
mod cache;
mod certificates;
mod check;
mod conns;
mod flood;
mod get;
mod hash_password;
mod import;
mod lab;
mod limits;
mod manual;
mod metrics;
mod mirror;
mod precompress;
mod reload;
mod replay;
mod running;
mod status;
mod tail;
mod tls;
mod top;
mod trust;
mod upstreams;
mod values;
mod version;

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use rudy_log::Destination;
use rudy_net::engine::Model;
use rudy_server::config::{AcmeTable, CertificateSource, TlsTable};
use rudy_server::run::{self, AllowedHost, Options, Source, init};
use rudy_server::{HostPattern, UpstreamUrl};
use rudy_service::listen_address::{Address, Endpoint};

use crate::values::unsupported;

/// A web server with built-in load testing and benchmarking
#[derive(Debug, Parser)]
#[command(name = "rudy", arg_required_else_help = true, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true)]
#[command(override_usage = "rudy <COMMAND>\n       rudy --version [--verbose]")]
#[command(after_help = "Examples:
  rudy serve public                       serve a folder on http://127.0.0.1:8080/
  rudy serve rudy.toml                    serve the sites of a configuration file
  rudy bench http://127.0.0.1:8080/       measure throughput and latency

Run `rudy COMMAND --help` for the options and examples of a command.")]
#[command(
    arg(unsupported("-s", "reload with `rudy reload`, and stop with `kill PID`")),
    arg(unsupported("-t", "check a configuration with `rudy check FILE`")),
    arg(unsupported("-v", "print the version with --version"))
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// With --version, print the commit, the target, the features, the compiler and the libraries too
    #[arg(long, requires = "version")]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Serve),
    Mirror(mirror::Mirror),
    Check(check::Check),
    Import(import::Import),
    Replay(Box<replay::Replay>),
    Precompress(precompress::Precompress),
    Reload(reload::Reload),
    HashPassword(hash_password::HashPassword),
    Certificates(certificates::Certificates),
    Status(Box<status::Status>),
    Upstreams(upstreams::Upstreams),
    Limits(limits::Limits),
    Metrics(metrics::Metrics),
    Cache(cache::Cache),
    Tail(tail::Tail),
    Get(Box<get::Get>),
    Bench(Box<bench::Bench>),
    Flood(Box<flood::Flood>),
    Tls(Box<tls::Tls>),
    Lab(lab::Lab),
    Top(top::Top),
    Conns(conns::Conns),
    /// Measure a server with the options and the output of http_load
    #[command(
        name = "http_load",
        disable_help_flag = true,
        after_help = "Example: rudy http_load -parallel 20 -fetches 1000 urls"
    )]
    HttpLoad {
        /// Options of http_load; -help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Print the JSON Schema of rudy.toml, for completion and validation in editors
    #[command(after_help = "Example: rudy schema > rudy.schema.json")]
    Schema,
    Completions(manual::Completions),
    Manual(manual::Manual),
}

const LISTINGS: &str = "list the files of folders with --browse";
const HIDDEN_FILES: &str = "serve hidden files with `serve_hidden = true` in `files` of a configuration";

const HTTP2: &str = "HTTP/2 is on by default over TLS (`http2` in the configuration file); without TLS, \
                     allow it with `--listen 127.0.0.1:8080,h2c`";
const H2C: &str = "allow HTTP/2 without TLS with `--listen 127.0.0.1:8080,h2c`";

/// Flags of other servers, with the equivalent.
const FLAGS_OF_OTHER_SERVERS: [(&str, &str); 13] = [
    ("-c", "name the configuration without a flag, `rudy serve rudy.toml`, or with --config"),
    ("-t", "check a configuration with `rudy check FILE`"),
    ("--autoindex", LISTINGS),
    ("--bind", "set the address with --listen"),
    ("--directory-listing", LISTINGS),
    ("--dotfiles", HIDDEN_FILES),
    ("--h2c", H2C),
    ("--hidden", HIDDEN_FILES),
    ("--http1", "write `http2 = false` into the configuration file; over TLS, HTTP/2 is on by default"),
    ("--http2", HTTP2),
    ("--list", LISTINGS),
    ("--root", "name the folder without a flag: `rudy serve public`"),
    ("--serve-hidden", HIDDEN_FILES),
];

/// Serve a folder, an application, or the sites of a configuration file
///
/// Without --listen or --port, Rudy listens on 127.0.0.1:8080, which only this machine can reach.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy serve                                  serve the current folder on 127.0.0.1:8080
  rudy serve public -p 8000                   serve a folder on another port
  rudy serve public --browse --listen :8080   list folders, accept connections from other machines
  rudy serve public --tls self-signed         serve https://localhost:8443/
  rudy serve public --domain example.org      serve https://example.org/ on ports 80 and 443
  rudy serve --proxy http://127.0.0.1:3000    pass requests to an application (reverse proxy)
  rudy serve rudy.toml                        serve the sites of a configuration; see `rudy check`

Signals:
  SIGTERM, SIGINT  finish requests in progress, then exit; a second signal exits at once
  SIGHUP           reload the configuration and reopen the access log; see `rudy reload`
  SIGUSR1          reopen the access log
  SIGUSR2          replace the process by a new one without losing connections

Exit codes: 0 stopped, 1 failed to run, 2 invalid arguments or settings.")]
#[command(args(FLAGS_OF_OTHER_SERVERS.map(|(name, tip)| unsupported(name, tip))))]
struct Serve {
    /// Folder to serve, or a configuration file with the extension .toml [default: the current folder]
    #[arg(value_name = "DIR|FILE", conflicts_with = "config")]
    folder: Option<PathBuf>,
    /// Pass requests to the application at this URL, or at unix:PATH, instead (repeatable: to the least busy one)
    #[arg(long, value_name = "URL", conflicts_with_all = ["folder", "config", "browse", "spa"])]
    proxy: Vec<UpstreamUrl>,
    /// Configuration file, with any extension
    #[arg(long, value_name = "FILE", conflicts_with_all = ["browse", "spa", "host"])]
    config: Option<PathBuf>,
    /// Port to listen on at 127.0.0.1 (repeatable)
    #[arg(short, long, value_name = "PORT", value_parser = values::port, help_heading = "Listening")]
    port: Vec<u16>,
    /// Address to listen on: 127.0.0.1:8080, :8080 (all interfaces), unix:PATH or systemd (repeatable)
    #[arg(long, value_name = "ADDR", help_heading = "Listening")]
    listen: Vec<Address>,
    /// Host name to accept besides the defaults: example.test, *.example.test, or '*' for any (repeatable)
    #[arg(long, value_name = "NAME", help_heading = "Listening")]
    host: Vec<AllowedHost>,
    /// Serve HTTPS for this name on ports 80 and 443, with a certificate from Let's Encrypt that is renewed in time (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["tls", "tls_cert", "config", "host"],
        help_heading = "HTTPS"
    )]
    domain: Vec<HostPattern>,
    /// E-mail address that the authority may write to
    #[arg(long, value_name = "ADDRESS", requires = "domain", help_heading = "HTTPS")]
    email: Option<String>,
    /// Get test certificates, which browsers reject, to try the setup
    #[arg(long, requires = "domain", conflicts_with = "acme_directory", help_heading = "HTTPS")]
    staging: bool,
    /// Directory URL of another ACME authority
    #[arg(long, value_name = "URL", requires = "domain", help_heading = "HTTPS")]
    acme_directory: Option<String>,
    /// PEM file with the certificates that the ACME authority's own server is trusted by
    #[arg(long, value_name = "FILE", requires = "domain", help_heading = "HTTPS")]
    acme_authority: Option<PathBuf>,
    /// Serve HTTPS with a certificate made on the spot [default address: 127.0.0.1:8443]
    #[arg(long, value_name = "SOURCE", value_enum, conflicts_with_all = ["tls_cert", "config"], help_heading = "HTTPS")]
    tls: Option<TlsSource>,
    /// Serve HTTPS with the certificate in this PEM file
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "config",
        help_heading = "HTTPS"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "HTTPS")]
    tls_key: Option<PathBuf>,
    /// Write the secrets of TLS sessions to the file in the variable SSLKEYLOGFILE, for Wireshark: its readers can decrypt all traffic
    #[arg(long, help_heading = "HTTPS")]
    tls_key_log: bool,
    /// List the files of folders without an index.html
    #[arg(long, help_heading = "Files")]
    browse: bool,
    /// Serve index.html for paths that do not exist (single-page application)
    #[arg(long, help_heading = "Files")]
    spa: bool,
    /// Access log file, or - for standard output
    #[arg(long, value_name = "PATH|-", value_parser = values::log_destination(), value_hint = ValueHint::FilePath, help_heading = "Logging")]
    access_log: Option<Destination>,
    /// Write the access log as JSON lines instead of the combined format
    #[arg(long, help_heading = "Logging")]
    json_log: bool,
    /// Run as this user after binding the addresses: www-data, www-data:group, or numeric ids
    #[arg(long, value_name = "USER[:GROUP]", help_heading = "Process")]
    user: Option<String>,
    /// Concurrency model: percore, task, mailbox, thread, pool:N or serial [default: percore]
    #[arg(long, value_name = "ENGINE", help_heading = "Process")]
    engine: Option<Model>,
    /// Number of worker threads of percore, task and mailbox [default: one per core]
    #[arg(long, value_name = "N", help_heading = "Process")]
    cores: Option<NonZeroUsize>,
    /// Enable keep-alive connections in serial and pool:N
    #[arg(long, help_heading = "Process")]
    keep_alive: bool,
}

/// Who signs the certificate of `--tls`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TlsSource {
    /// The certificate itself; browsers warn about it
    SelfSigned,
    /// A local authority, which `rudy certificates trust` installs
    Internal,
}

fn loopback(port: u16) -> Address {
    Endpoint::Ip((Ipv4Addr::LOCALHOST, port).into()).into()
}

fn main() -> ExitCode {
    allocator::merge_freed_chunks();
    let line = CommandLine::parse();
    let Some(command) = line.command else { return version::print(line.verbose).into() };
    match command {
        Command::Serve(serve) => init::fork_if_first().unwrap_or_else(|| run::serve(serve.into()).into()),
        Command::Mirror(mirror) => init::fork_if_first().unwrap_or_else(|| mirror.run().into()),
        Command::Check(check) => check.run().into(),
        Command::Import(import) => import.run().into(),
        Command::Replay(replay) => replay.run().into(),
        Command::HashPassword(hash_password) => hash_password.run().into(),
        Command::Schema => run::schema().into(),
        Command::Completions(completions) => completions.run().into(),
        Command::Manual(manual) => manual.run().into(),
        Command::Precompress(precompress) => precompress.run().into(),
        Command::Reload(reload) => running::reload::run(&reload.into()).into(),
        Command::Certificates(certificates) => certificates.run().into(),
        Command::Status(status) => status.run().into(),
        Command::Upstreams(upstreams) => upstreams.run().into(),
        Command::Limits(limits) => limits.run().into(),
        Command::Metrics(metrics) => metrics.run().into(),
        Command::Cache(cache) => cache.run().into(),
        Command::Tail(tail) => tail::run(&tail.into()).into(),
        Command::Get(get) => rudy_load::get::get(&(*get).into()).into(),
        Command::Bench(bench) => bench.run().into(),
        Command::Flood(flood) => rudy_load::flood::flood(&(*flood).into()).into(),
        Command::Tls(tls) => tls.run().into(),
        Command::Lab(lab) => lab.run().into(),
        Command::Top(top) => top.run(),
        Command::Conns(conns) => conns.run(),
        Command::HttpLoad { arguments } => rudy_load::http_load(&arguments).into(),
    }
}

impl From<Serve> for Options {
    fn from(serve: Serve) -> Self {
        let tls = match (serve.tls, serve.tls_cert, serve.tls_key) {
            (Some(source), ..) => {
                let source = Some(match source {
                    TlsSource::SelfSigned => CertificateSource::SelfSigned,
                    TlsSource::Internal => CertificateSource::Internal,
                });
                Some(TlsTable { source, ..TlsTable::default() })
            }
            (None, None, None) => None,
            (None, certificate, key) => {
                let (certificate, key) = (certificate.map(Into::into), key.map(Into::into));
                Some(TlsTable { certificate, key, ..TlsTable::default() })
            }
        };
        let source = match serve.config {
            Some(path) => Source::File(path),
            None if !serve.proxy.is_empty() => Source::Proxy { upstreams: serve.proxy, hosts: serve.host },
            None => Source::Folder {
                path: serve.folder.unwrap_or_else(|| PathBuf::from(".")),
                browse: serve.browse,
                spa: serve.spa,
                hosts: serve.host,
            },
        };
        Self {
            source,
            listen: serve.port.into_iter().map(loopback).chain(serve.listen).collect(),
            access_log: serve.access_log,
            json_log: serve.json_log,
            engine: serve.engine,
            cores: serve.cores,
            keep_alive: serve.keep_alive.then_some(true),
            tls,
            domains: serve.domain,
            acme: AcmeTable {
                email: serve.email,
                directory: serve.acme_directory,
                staging: serve.staging,
                authority: serve.acme_authority.map(Into::into),
                ..AcmeTable::default()
            },
            tls_key_log: serve.tls_key_log,
            user: serve.user,
        }
    }
}
