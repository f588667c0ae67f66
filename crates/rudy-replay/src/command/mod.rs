//! Runs `rudy replay`, from the source to the report.

mod crawl;
mod progress;
mod read;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use rudy_command::{CommandError, Exit, write_output};
use rudy_request::{Url, Waiter};
use rudy_units::{visible_json, visible_lines};

use crate::source::Format;
use crate::{Ended, Options, Replay, Report, Request};
use progress::Progress;

/// Where the requests come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// An access log.
    Log(PathBuf, Format),
    /// A list of URLs or paths.
    Urls(PathBuf),
    /// An HTTP archive.
    Har(PathBuf),
    /// The links from a page.
    Crawl(Url),
}

/// The options of the command.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    /// Where the requests come from.
    pub source: Source,
    /// Maximum number of requests.
    pub limit: usize,
    /// Whether each request is sent once.
    pub is_unique: bool,
    /// Whether the report is JSON.
    pub is_json: bool,
    /// The file for the page.
    pub html: Option<PathBuf>,
    /// How requests are sent and compared.
    pub replay: Options,
}

/// Replays a source and prints the report.
#[must_use]
pub fn replay(options: &CommandOptions) -> Exit {
    run(options).unwrap_or_else(|error| error.report())
}

fn run(options: &CommandOptions) -> Result<Exit, CommandError> {
    let (name, source) = read::open(&options.source, options.replay.values)?;
    let waiter = Waiter::catch()
        .map_err(|error| CommandError::Environment(format!("cannot catch Ctrl-C: {error}")))?;
    let mut replay = Replay::new(&options.replay, &name, &waiter);
    let mut progress = Progress::start();
    let ended = match source {
        read::Opened::Crawl(start) => crawl::crawl(&mut replay, &start, options.limit, &mut progress),
        read::Opened::Requests(requests) => {
            let requests = selected(options, requests, replay.report());
            send_all(&mut replay, &requests, &mut progress)
        }
    };
    progress.end();
    let report = replay.finish();
    if let Err(Ended::Unreachable(message)) = ended {
        return Err(CommandError::Environment(message));
    }
    write(options, &report)?;
    Ok(match ended {
        Err(Ended::Interrupted(signal)) => Exit::Signal(signal),
        _ if report.requests == 0 => {
            let problem = "no request was sent: see the reasons above; --methods adds methods";
            return Err(CommandError::Environment(problem.to_owned()));
        }
        _ if report.different > 0 => Exit::NotMet,
        _ => Exit::Done,
    })
}

/// The requests to send, in their order. Counts the others.
fn selected(options: &CommandOptions, source: read::Entries, report: &mut Report) -> Vec<Request> {
    let mut seen = HashSet::new();
    let mut selected = Vec::new();
    report.skip("no request", source.other_lines);
    report.skip("over the limit", source.over_limit);
    for request in source.requests {
        if !options.replay.methods.contains(&request.method) {
            report.skip(request.method.as_str(), 1);
        } else if options.is_unique
            && !seen.insert((request.method.clone(), request.host.clone(), request.target.clone()))
        {
            report.skip("repeated", 1);
        } else if selected.len() >= options.limit {
            report.skip("over the limit", 1);
        } else {
            selected.push(request);
        }
    }
    selected
}

fn send_all(replay: &mut Replay<'_>, requests: &[Request], progress: &mut Progress) -> Result<(), Ended> {
    for request in requests {
        replay.send(request)?;
        progress.show(replay.report(), Some(requests.len()));
    }
    Ok(())
}

fn write(options: &CommandOptions, report: &Report) -> Result<(), CommandError> {
    if let Some(path) = &options.html {
        fs::write(path, report.html()).map_err(|error| {
            CommandError::Environment(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    // Values are from servers, and a terminal would interpret control characters.
    let text = if options.is_json {
        visible_json(&report.json().map_err(CommandError::Environment)?)
    } else {
        visible_lines(&report.to_string())
    };
    write_output(&text).map_err(CommandError::Environment)
}
