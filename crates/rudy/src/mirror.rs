//! The flags of `rudy mirror`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Command, CommandFactory as _, ValueHint};
use rudy_log::Destination;
use rudy_server::run::{AllowedHost, Options, Source, serve};
use rudy_server::{MirrorTable, Preset, RepositoryUrl, Wildcard};
use rudy_service::listen_address::Address;
use rudy_units::Time;

use crate::{CommandLine, loopback, values};

/// Mirror a package repository: store what clients download, and keep it available
///
/// Packages are stored forever, and metadata is validated before each use. What is stored remains available while the repository is
/// not. Without --listen or --port, Rudy listens on 127.0.0.1:8080, which only this machine can reach.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  rudy mirror maven https://repo.example/maven2 -p 8081
  rudy mirror npm \"$(npm config get registry)\" -p 8082 --cache /srv/mirror
  rudy mirror go \"$(go env GOPROXY | cut -d, -f1)\" --listen :8083 --host mirror.example

The output names the setting for clients. A configuration file can have several mirrors: see `mirror` in docs/mirror.md.

Exit codes: 0 stopped, 1 failed to run, 2 invalid arguments or settings."
)]
pub(crate) struct Mirror {
    /// Kind of the repository: maven, npm, pypi, crates, apt or go
    #[arg(value_name = "PRESET")]
    preset: Preset,
    /// URL of the repository: the one that its clients use now
    #[arg(value_name = "URL")]
    url: Option<RepositoryUrl>,
    /// Port to listen on at 127.0.0.1 (repeatable)
    #[arg(short, long, value_name = "PORT", value_parser = values::port)]
    port: Vec<u16>,
    /// Address to listen on: 127.0.0.1:8080, :8080 (all interfaces), unix:PATH or systemd (repeatable)
    #[arg(long, value_name = "ADDR")]
    listen: Vec<Address>,
    /// Host name to accept besides the defaults: mirror.example, *.mirror.example, or '*' for any (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<AllowedHost>,
    /// Folder for what is stored [default: /var/cache/rudy for root, or ~/.cache/rudy]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Other host whose files the mirror fetches, if the index links to them: files.example or *.cdn.example (repeatable) [default: all
    /// with a public name and a public address]
    #[arg(long, value_name = "HOST")]
    hosts: Vec<Wildcard>,
    /// How long metadata is used without asking the repository [default: 0]
    #[arg(long, value_name = "TIME")]
    metadata_freshness: Option<Time>,
    /// Verify each new file by the checksum that the repository declares: .sha1 of Maven, integrity of npm
    #[arg(long)]
    verify: bool,
    /// Access log file, or - for standard output
    #[arg(long, value_name = "PATH|-", value_parser = values::log_destination(), value_hint = ValueHint::FilePath)]
    access_log: Option<Destination>,
}

impl Mirror {
    pub(crate) fn run(self) -> rudy_server::run::Exit {
        let Some(url) = self.url else {
            let Self { preset, .. } = self;
            let message = format!(
                "the URL of the repository is missing\n\nIt is the one that clients use now: {}.\n\
                 Then write `rudy mirror {preset} URL`.",
                preset.url_setting()
            );
            let command = Self::augment_args(Command::new("mirror").bin_name("rudy mirror"));
            command
                .styles(CommandLine::command().get_styles().clone())
                .error(ErrorKind::MissingRequiredArgument, message)
                .exit()
        };
        let table = MirrorTable {
            preset: Some(self.preset),
            hosts: (!self.hosts.is_empty()).then(|| self.hosts.into_iter().collect()),
            metadata_freshness: self.metadata_freshness,
            verify: self.verify,
            ..url.into()
        };
        serve(Options {
            listen: self.port.into_iter().map(loopback).chain(self.listen).collect(),
            access_log: self.access_log,
            ..Options::new(Source::Mirror { table: Box::new(table), cache: self.cache, hosts: self.host })
        })
    }
}
