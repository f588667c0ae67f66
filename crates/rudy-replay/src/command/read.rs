//! Reads the files of sources.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use rudy_command::CommandError;
use rudy_request::Url;

use super::Source;
use crate::source::{Format, LINE_BYTES_MAX, Line, Log, REQUESTS_MAX, SourceError, har, urls};
use crate::{Request, Values};

/// Maximum size of a list of URLs or an archive, which are in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A source that was read.
pub(super) enum Opened {
    /// All of its requests.
    Requests(Entries),
    /// A page with links.
    Crawl(Url),
}

/// The requests of a source.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) requests: Vec<Request>,
    /// Number of lines without a request.
    pub(super) other_lines: u64,
    /// Number of requests over the maximum.
    pub(super) over_limit: u64,
}

/// Returns the name of the source, and its requests.
pub(super) fn open(source: &Source, values: Values) -> Result<(String, Opened), CommandError> {
    let (path, requests) = match source {
        Source::Crawl(url) => return Ok((values.masked(&url.to_string()), Opened::Crawl(url.clone()))),
        Source::Log(path, format) => (path, log(path, format)?),
        Source::Urls(path) => (path, list(path, urls)?),
        Source::Har(path) => (path, list(path, har)?),
    };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if requests.requests.is_empty() {
        let message = format!("{}: there is no request in it", path.display());
        return Err(CommandError::Environment(message));
    }
    Ok((name, Opened::Requests(requests)))
}

fn list(
    path: &Path,
    parse: impl Fn(&str) -> Result<Vec<Request>, SourceError>,
) -> Result<Entries, CommandError> {
    let mut text = String::new();
    let file = input(path)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| cannot_read(path, &error))?;
    if text.len() as u64 == FILE_BYTES_MAX {
        let message = format!("{}: the file is larger than 256 MiB", path.display());
        return Err(CommandError::Environment(message));
    }
    let requests = parse(&text).map_err(|error| invalid(path, &error))?;
    Ok(Entries { requests, ..Entries::default() })
}

/// All lines are read before the first request is sent, so that an error in the last one does not end a long replay.
fn log(path: &Path, format: &Format) -> Result<Entries, CommandError> {
    let mut file = input(path)?;
    let mut log = Log::new(format.clone());
    let mut found = Entries::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LINE_BYTES_MAX as u64 + 2;
        let read = (&mut file).take(limit).read_until(b'\n', &mut line);
        if read.map_err(|error| cannot_read(path, &error))? == 0 {
            return Ok(found);
        }
        match log.line(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(|error| invalid(path, &error))? {
            Line::Request(_) if found.requests.len() >= REQUESTS_MAX => found.over_limit += 1,
            Line::Request(request) => found.requests.push(*request),
            Line::NoRequest => found.other_lines += 1,
        }
    }
}

/// Opens a file; `-` is standard input.
fn input(path: &Path) -> Result<Box<dyn BufRead>, CommandError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

fn cannot_read(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Environment(format!("cannot read {}: {error}", path.display()))
}

fn invalid(path: &Path, error: &SourceError) -> CommandError {
    CommandError::Arguments(format!("{}:{error}", path.display()))
}
