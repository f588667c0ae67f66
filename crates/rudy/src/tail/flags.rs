//! The flags of `rudy tail`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::{Options, Regex};

/// Print the last lines of files and follow them as they grow
///
/// Handles log rotation: reads a renamed file to its end, then reads its replacement from the start. Reads a truncated or
/// recreated file from the start, and waits for files that do not exist yet. Reports files that it cannot follow on
/// standard error.
///
/// FILE may contain the wildcards *, ? and {a,b}. Quote a pattern to also follow matching files that appear later.
/// With several files, each line is prefixed with the file name.
///
/// FILE is a local file. To follow a log of a server with a `tail` route, use `curl -N URL`.
///
/// Press Ctrl-C to stop.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy tail access.log                          the last 10 lines, then new lines
  rudy tail '/var/log/app/*.log'                all logs of a folder, new files included
  rudy tail -n 0 --grep ' 50[0-9] ' access.log  new lines with a server error
  rudy tail --no-follow -n 100 error.log        the last 100 lines, then exit
  rudy tail --json '*.log' | jq .line           JSON lines for other programs

Exit codes: 0 done, 1 a file cannot be read, 2 invalid arguments.")]
pub(crate) struct Tail {
    /// Files or quoted patterns to follow
    #[arg(value_name = "FILE", required = true, value_parser = PathBufValueParser::new().try_map(local_file))]
    files: Vec<PathBuf>,
    /// Number of lines to print from the end of each existing file
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = last_lines)]
    lines: u64,
    /// Print only lines that match REGEX; prefix it with (?i) to ignore case
    #[arg(long, value_name = "REGEX")]
    grep: Option<Regex>,
    /// Print each line as a JSON object with `time`, `file` and `line`
    #[arg(long)]
    json: bool,
    /// Exit after the last lines instead of following
    #[arg(long, conflicts_with = "follow")]
    no_follow: bool,
    /// Accepted for compatibility with tail(1); following is the default
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

/// Rejects a URL, which would be waited for as a file.
fn local_file(path: PathBuf) -> Result<PathBuf, String> {
    let text = path.to_string_lossy();
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(format!(
            "expected a local file; if this is a `tail` route of a server, follow it with `curl -N {}`",
            text.escape_debug()
        ));
    }
    Ok(path)
}

/// Rejects a sign: in tail(1), `+5` means "from the fifth line on", not "the last five".
fn last_lines(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|_| !text.starts_with('+'));
    number.ok_or_else(|| "expected a number of lines, such as 10".to_owned())
}
