//! The access log: one line for each exchange, in the combined format or as JSON.
//!
//! The worker formats a line in a reused buffer when the exchange is over, and queues it for the log's thread, so no request
//! waits for a disk. If the queue is full, lines are dropped; their number is logged here and in the error log.

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
use crate::line_writer::{LineWriter, LinesLost, OnLinesLost};
use crate::local_time::LocalClock;

/// The format of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The combined format of Apache and nginx, with three more columns: the duration in microseconds, the time to the first
    /// byte of the response in microseconds, and how the exchange ended.
    #[default]
    Combined,
    /// One JSON object per line.
    Json,
}

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// `-`: standard output.
    Stdout,
    /// A file. It is created if it is missing, and appended to otherwise.
    File(PathBuf),
}

impl Destination {
    /// Parses a destination: `-` is standard output, everything else a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdout } else { Self::File(path.to_owned()) }
    }

    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            // IP addresses are personal data: by default, other users of this machine cannot read them.
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
    /// Opens the log and starts the thread that writes it. Lost lines are reported in `errors` and in the log itself.
    pub fn open(destination: Destination, format: Format, errors: &ErrorLog) -> io::Result<Self> {
        let on_lines_lost = report_lost_lines(format!("access log {destination}"), format, errors.clone());
        let writer = LineWriter::start("access-log", destination.open()?, on_lines_lost)?;
        Ok(Self(Arc::new(Open { destination, format, writer })))
    }

    /// Returns the destination of the log.
    #[must_use]
    pub fn destination(&self) -> &Destination {
        &self.0.destination
    }

    /// Opens the file again after it was renamed or removed. Lines queued so far go to the old file.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.writer.replace(self.0.destination.open()?);
        Ok(())
    }

    /// Writes all queued lines. For the end of the process: later lines are lost.
    pub fn close(&self) {
        self.0.writer.close();
    }

    /// Returns an observer that holds the client and the request until the exchange is over, and then writes the line.
    #[must_use]
    pub fn observe(&self, head: &RequestHead<'_>, client: &Client) -> Box<dyn Observer> {
        Box::new(Exchange {
            log: self.clone(),
            request: RequestInfo::new(head),
            client: Client {
                forwarded: client.forwarded.clone(),
                tls: client.tls.clone(),
                ..Client::new(client.peer, client.connection_number, client.request_number)
            },
        })
    }

    /// Writes the line of a peer that was rejected before its request could be parsed.
    pub fn rejected(&self, client: &Client, reason: &str, outcome: &ExchangeOutcome) {
        self.write(&Record { client, request: None, rejection: Some(reason), outcome });
    }

    fn write(&self, record: &Record<'_>) {
        thread_local! {
            static SCRATCH: RefCell<(LocalClock, Vec<u8>)> = RefCell::new((LocalClock::new(), Vec::new()));
        }
        SCRATCH.with_borrow_mut(|(clock, line)| {
            line.clear();
            let now = SystemTime::now();
            // The timestamp is the arrival of the request, as in Apache.
            let time = now.checked_sub(record.outcome.duration).unwrap_or(now);
            match self.0.format {
                Format::Combined => combined::write(record, clock.combined(time), line),
                Format::Json => json::write(record, &clock.rfc3339(time), line),
            }
            self.0.writer.push(line);
        });
    }
}

/// The content of a line.
struct Record<'a> {
    client: &'a Client<'a>,
    /// `None` if the request could not be parsed.
    request: Option<&'a RequestInfo>,
    /// Why the request did not reach a handler.
    rejection: Option<&'a str>,
    outcome: &'a ExchangeOutcome,
}

/// A copy of the parts of a request's head that a line shows. The head is gone when the line is written.
struct RequestInfo {
    method: Method,
    version: Version,
    /// The target, the path and the fields, concatenated.
    bytes: Box<[u8]>,
    target_end: usize,
    path_end: usize,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

impl RequestInfo {
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

    /// Returns the target as the client sent it.
    fn target(&self) -> &[u8] {
        &self.bytes[..self.target_end]
    }

    fn path(&self) -> &[u8] {
        &self.bytes[self.target_end..self.path_end]
    }

    fn value(&self, range: Option<&Range<usize>>) -> Option<&[u8]> {
        range.map(|range| &self.bytes[range.clone()])
    }
}

/// An exchange in progress.
struct Exchange {
    log: AccessLog,
    request: RequestInfo,
    client: Client<'static>,
}

impl Observer for Exchange {
    fn finished(self: Box<Self>, outcome: &ExchangeOutcome) {
        let record = Record { client: &self.client, request: Some(&self.request), rejection: None, outcome };
        self.log.write(&record);
    }
}

/// Returns the word for how an exchange ended.
fn ended_word(end_reason: EndReason) -> &'static str {
    match end_reason {
        EndReason::Completed => "complete",
        EndReason::PeerGone => "peer_gone",
        EndReason::PeerStalled => "peer_stalled",
        EndReason::Aborted => "cut",
        EndReason::ServerStopped => "stopped",
    }
}

/// Returns the version as in a request line.
fn version_text(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// Returns the duration in microseconds, capped at 584,000 years.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Reports lost lines in the error log, and dropped ones in the access log too.
fn report_lost_lines(name: String, format: Format, errors: ErrorLog) -> OnLinesLost {
    Box::new(move |lost| match lost {
        LinesLost::Dropped(lines) => {
            let message =
                format!("{name}: {lines} lines dropped, because writing is too slow or the disk was full");
            errors.recurring_error("lines of the access log were dropped", &message);
            let now = SystemTime::now();
            let mut clock = LocalClock::new();
            Some(match format {
                Format::Combined => combined::dropped(*lines, clock.combined(now)),
                Format::Json => json::dropped(*lines, &clock.rfc3339(now)),
            })
        }
        LinesLost::Failed(error, lines) => {
            let message = format!("{name}: cannot write: {error}; lines lost so far: {lines}");
            errors.recurring_error("lines of the access log were lost", &message);
            None
        }
    })
}

#[cfg(test)]
mod tests;
