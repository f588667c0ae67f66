//! Parsers of flag values that several commands share.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser, UnknownArgumentValueParser};
use clap::{Arg, Args};
use rudy_admin::RunningServer;
use rudy_log::Destination;
use rudy_units::{Count, Rate, Time};

/// The flags of commands that ask a running server.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Process id of the server [default: the only `rudy serve` of the current user]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Admin socket of the server, if its configuration has `admin_socket`
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
}

impl From<ServerFlags> for RunningServer {
    fn from(ServerFlags { pid, socket }: ServerFlags) -> Self {
        Self { socket, pid }
    }
}

/// A hidden flag that other tools have and this command lacks. The error for it shows `tip`.
pub(crate) fn unsupported(name: &'static str, tip: &'static str) -> Arg {
    let error_with_tip = UnknownArgumentValueParser::suggest(tip);
    let flag = match name.strip_prefix("--") {
        Some(long) => Arg::new(name).long(long),
        None => Arg::new(name).short(name.chars().last()),
    };
    flag.num_args(0).default_missing_value("").hide(true).value_parser(error_with_tip)
}

/// Parses the destination of an access log.
pub(crate) fn log_destination() -> impl TypedValueParser<Value = Destination> {
    PathBufValueParser::new().try_map(Destination::from_flag)
}

pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "expected a number from 0 to 65535; for an address, use --listen".to_owned())
}

pub(crate) fn count(text: &str) -> Result<u64, &'static str> {
    text.parse().map(|Count(count)| count)
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    text.parse::<Time>().map(|time| time.0)
}

pub(crate) fn constant_rate(text: &str) -> Result<f64, String> {
    match text.parse()? {
        Rate::Constant(rate) => Ok(rate),
        Rate::Ramp(..) => Err("expected a constant rate, not a ramp".to_owned()),
    }
}

pub(crate) fn number(text: &str) -> Result<NonZeroU32, String> {
    let count = count(text)?;
    let number = u32::try_from(count).ok().and_then(NonZeroU32::new);
    number.ok_or_else(|| "expected an integer from 1 to 4294967295".to_owned())
}
