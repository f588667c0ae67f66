//! The access log: one line for each exchange, in the combined format or as JSON.
//!
//! A line is formatted when its exchange is over, on the thread that served it and in a buffer that stays, and then queued
//! for the log's own thread: no request waits for a disk, and what a peer sends does not pile up behind a slow one. When
//! the queue is full lines are dropped; how many is said in the log and on stderr.

mod combined;
mod json;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Version};
use rudy_http::h1::RequestHead;
use rudy_http::semantics::field::{FieldLines, KnownField};
use rudy_net::{Client, EndReason, ExchangeOutcome, Observer};

use crate::error_log::ErrorLog;
use crate::line_writer::{LineWriter, OnTrouble, Trouble};
use crate::local_time::LocalClock;

/// How a line of the access log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The combined format of Apache and nginx, with three columns more at its end: the microseconds the exchange took,
    /// those of them before the answer's first byte, and how it ended.
    #[default]
    Combined,
    /// One JSON object a line.
    Json,
}

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `-`: standard output.
    Stdout,
    /// A file, appended to, created if it is not there.
    File(PathBuf),
}

impl Destination {
    /// Takes `-` for standard output and everything else for a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdout } else { Self::File(path.to_owned()) }
    }

    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            // Addresses are personal data: others on this machine do not get to read them unless the file says so.
            Self::File(path) => File::options().append(true).create(true).mode(0o640).open(path),
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// An open access log. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Open>);

#[derive(Debug)]
struct Open {
    destination: Destination,
    format: Format,
    writer: LineWriter,
}

impl AccessLog {
    /// Opens the log and starts the thread that writes it. Trouble with writing goes to `errors`, and into the log.
    pub fn open(destination: Destination, format: Format, errors: &ErrorLog) -> io::Result<Self> {
        let on_trouble = tell_trouble(format!("access log {destination}"), format, errors.clone());
        let writer = LineWriter::start("access-log", destination.open()?, on_trouble)?;
        Ok(Self(Arc::new(Open { destination, format, writer })))
    }

    /// Where it goes.
    #[must_use]
    pub fn destination(&self) -> &Destination {
        &self.0.destination
    }

    /// Opens the file again under its name, after it was renamed or removed. Lines up to now go to the old one.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.writer.replace(self.0.destination.open()?);
        Ok(())
    }

    /// Writes what still waits, at the end of the process; lines that come later are lost.
    pub fn close(&self) {
        self.0.writer.close();
    }

    /// Notes who asks for what; the line is written when the observer hears how it went.
    #[must_use]
    pub fn observe(&self, head: &RequestHead<'_>, client: &Client) -> Box<dyn Observer> {
        Box::new(Exchange {
            log: self.clone(),
            asked: Asked::new(head),
            client: Client {
                forwarded: client.forwarded.clone(),
                ..Client::new(client.peer, client.connection_number, client.request_number)
            },
        })
    }

    /// Writes the line of a peer that was refused before there was a request.
    pub fn refused(&self, client: &Client, reason: &str, outcome: &ExchangeOutcome) {
        self.write(&Record { client, asked: None, refused: Some(reason), outcome });
    }

    fn write(&self, record: &Record<'_>) {
        thread_local! {
            static SCRATCH: RefCell<(LocalClock, Vec<u8>)> = RefCell::new((LocalClock::new(), Vec::new()));
        }
        SCRATCH.with_borrow_mut(|(clock, line)| {
            line.clear();
            let now = SystemTime::now();
            // The time of a line is when its request was there, as with other servers.
            let time = now.checked_sub(record.outcome.duration).unwrap_or(now);
            match self.0.format {
                Format::Combined => combined::write(record, clock.combined(time), line),
                Format::Json => json::write(record, &clock.rfc3339(time), line),
            }
            self.0.writer.push(line);
        });
    }
}

/// What a line tells.
struct Record<'a> {
    client: &'a Client<'a>,
    /// `None` where nothing was asked that could be understood.
    asked: Option<&'a Asked>,
    /// Why nobody was asked for an answer.
    refused: Option<&'a str>,
    outcome: &'a ExchangeOutcome,
}

/// What was asked: a copy of what a line tells of the request's head, which is gone by the time of the line.
struct Asked {
    method: Method,
    version: Version,
    /// One behind the other: the target, the path, the fields.
    bytes: Box<[u8]>,
    target_end: usize,
    path_end: usize,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

impl Asked {
    fn new(head: &RequestHead<'_>) -> Self {
        let fields = [KnownField::Host, KnownField::Referer, KnownField::UserAgent];
        let values = fields.map(|field| head.lines(field).next());
        let lengths = values.iter().flatten().map(|value| value.len());
        let (target, path) = (head.target(), head.path());
        let mut bytes = Vec::with_capacity(target.len() + path.len() + lengths.sum::<usize>());
        let mut copy = |part: &[u8]| {
            bytes.extend_from_slice(part);
            bytes.len() - part.len()..bytes.len()
        };
        let (target_end, path_end) = (copy(target).end, copy(path).end);
        let [host, referer, user_agent] = values.map(|value| value.map(&mut copy));
        let (method, version) = (head.method().clone(), head.version());
        Self { method, version, bytes: bytes.into(), target_end, path_end, host, referer, user_agent }
    }

    /// As it was sent.
    fn target(&self) -> &[u8] {
        &self.bytes[..self.target_end]
    }

    fn path(&self) -> &[u8] {
        &self.bytes[self.target_end..self.path_end]
    }

    fn value(&self, place: Option<&Range<usize>>) -> Option<&[u8]> {
        place.map(|place| &self.bytes[place.clone()])
    }
}

/// An exchange under way, for the log.
struct Exchange {
    log: AccessLog,
    asked: Asked,
    client: Client<'static>,
}

impl Observer for Exchange {
    fn finished(self: Box<Self>, outcome: &ExchangeOutcome) {
        self.log.write(&Record { client: &self.client, asked: Some(&self.asked), refused: None, outcome });
    }
}

/// How an exchange ended, in one word.
fn ended_word(end_reason: EndReason) -> &'static str {
    match end_reason {
        EndReason::Completed => "complete",
        EndReason::PeerGone => "peer_gone",
        EndReason::PeerStalled => "peer_stalled",
        EndReason::Aborted => "cut",
        EndReason::ServerStopped => "stopped",
    }
}

/// The version as it stands in a request line.
fn version_text(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// Microseconds, as many as there are: a duration beyond 584,000 years does not occur.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Says what could not be written: to the error log, and where lines were dropped also in the log itself.
fn tell_trouble(name: String, format: Format, errors: ErrorLog) -> OnTrouble {
    Box::new(move |trouble| match trouble {
        Trouble::Dropped(lines) => {
            let message = format!(
                "{name}: lines dropped, because they came faster than they could be written or had no room: {lines}"
            );
            errors.recurring_error("lines of the access log were dropped", &message);
            let now = SystemTime::now();
            let mut clock = LocalClock::new();
            Some(match format {
                Format::Combined => combined::dropped(*lines, clock.combined(now)),
                Format::Json => json::dropped(*lines, &clock.rfc3339(now)),
            })
        }
        Trouble::Failed(error, lines) => {
            let message = format!("{name}: {error}; lines lost so far: {lines}");
            errors.recurring_error("lines of the access log were lost", &message);
            None
        }
    })
}

#[cfg(test)]
mod tests;
