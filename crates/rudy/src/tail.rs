//! The flags of `rudy tail`.

use std::path::PathBuf;

use clap::Args;
use rudy_server::tail::{Options, Regex};

/// Follow files: write their last lines, and then every line as it is written.
///
/// A file that is renamed (log rotation) is read to its end, and then the one that takes its name from its start. One that
/// is emptied or made anew is read from its start, and one that is not there yet is waited for. What is not followed is
/// said on stderr, with the reason.
///
/// A FILE may have *, ? and {a,b}. In quotes, so that the shell does not expand it, it also finds files that appear
/// later. With several files, each line has the name of its file before it.
///
/// Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy tail access.log                          the last 10 lines, and what comes
  rudy tail '/var/log/app/*.log'                every log of a folder, those of tomorrow too
  rudy tail -n 0 --grep ' 50[0-9] ' access.log  server errors, from now on
  rudy tail --no-follow -n 100 error.log        100 lines and no more
  rudy tail --json '*.log' | jq .line           for a program")]
pub(crate) struct Tail {
    /// The files to follow
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Begin with the last N lines of each file that is there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = last_lines)]
    lines: u64,
    /// Only lines in which REGEX is found; (?i) before it ignores case
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Write an object for each line, with `time`, `file` and `line`
    #[arg(long)]
    json: bool,
    /// End after the last lines
    #[arg(long, conflicts_with = "follow")]
    no_follow: bool,
    /// As in other tails; it follows anyway
    #[arg(short, long, short_alias = 'F')]
    follow: bool,
}

impl From<Tail> for Options {
    fn from(tail: Tail) -> Self {
        Self {
            files: tail.files,
            last: tail.lines,
            follows: !tail.no_follow,
            grep: tail.grep,
            json: tail.json,
        }
    }
}

/// Elsewhere `+5` is the fifth line and all after it: not the last five, for which a number with a sign would be taken.
fn last_lines(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.ok_or_else(|| "expected how many of the last lines, as in 10".to_owned())
}
