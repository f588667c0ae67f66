//! The access log, or several: one line for each exchange, in the combined format, in one of the configuration, or as JSON.
//!
//! The worker formats a line in a reused buffer when the exchange is over, and queues it for the log's thread, so no request
//! waits for a disk. If the queue is full, lines are dropped; their number is logged here and in the error log.

mod conditions;
mod field;
mod json;
mod logs;
mod masking;
mod template;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::header::HOST;
use rudy_config::{Invalid, Problem, Setting, Shape, Table, TableInfo, TableReader, Value, written_as_text};
use rudy_log::{
    Destination, ErrorLog, LineWriter, LocalClock, LogFailure, LogFile, LogPlace, ONE_DESTINATION,
    OnLogFailure, RotationOptions,
};
use rudy_message::RequestHead;
use rudy_pipeline::digits::{write_ip, write_number};
use rudy_pipeline::exchange::{Finished, LoggedParts, Notes, RequestInfo};
use rudy_runtime::clock;
use rudy_service::{Client, ExchangeOutcome, Peer};

pub use self::conditions::{Conditions, StatusRange};
pub(crate) use self::field::ended_word;
use self::field::{Field, Source, Times};
pub use self::logs::{AccessLogs, AccessLogsOptions};
pub use self::masking::Masking;
pub use self::template::Template;

/// The format of a line in the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// A line with fields in braces; the default is [`Template::combined`].
    Line(Template),
    /// One JSON object per line.
    Json,
}

impl Default for Format {
    fn default() -> Self {
        Self::Line(Template::combined())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "combined" => Ok(Self::default()),
            "json" => Ok(Self::Json),
            template => template.parse().map(Self::Line),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Line(template) if *template == Template::combined() => f.write_str("combined"),
            Self::Line(template) => template.fmt(f),
        }
    }
}

written_as_text!(Format, "a format (\"combined\")", {
    doc: "`combined` (the format of Apache and nginx, followed by the duration, the time to the first byte, and how the exchange ended), `json` (an object per line), or a line with fields in braces.",
    examples: ["combined", "json", "{time} {client} {method} {host}{path} {status} {duration_us}"],
});

impl Format {
    /// Returns the fields that lines contain.
    fn fields(&self) -> impl Iterator<Item = &Field> {
        let (template, members) = match self {
            Self::Line(template) => (Some(template), &[][..]),
            Self::Json => (None, &json::MEMBERS[..]),
        };
        template.into_iter().flat_map(Template::fields).chain(members)
    }

    /// Returns the request fields that lines contain.
    fn request_fields(&self) -> Vec<HeaderName> {
        self.fields().filter_map(Field::request_field).collect()
    }

    /// Returns the line that replaces dropped ones.
    fn dropped(&self, lines: u64) -> String {
        let (now, mut clock) = (clock::utc(), LocalClock::new());
        match self {
            Self::Line(_) => template::dropped(lines, clock.combined(now)),
            Self::Json => json::dropped(lines, clock.rfc3339(now)),
        }
    }
}

/// An access log.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogOptions {
    /// The destination.
    pub destination: Destination,
    /// The format of a line.
    pub format: Format,
    /// Which exchanges have a line.
    pub conditions: Conditions,
    /// What lines hide.
    pub masking: Masking,
    /// The rotation of a file.
    pub rotation: Option<RotationOptions>,
}

/// The keys of the table.
#[derive(Table)]
struct Keys {
    /// Where the lines go.
    #[setting(part)]
    place: LogPlace,
    /// Format of a line: `combined`, the format of Apache and nginx, followed by the duration in microseconds, the time to the first
    /// byte of the response, and how the exchange ended; `json`, an object per line; or a line with fields in braces. The fields are
    /// listed in `docs/logs.md`.
    #[setting(default, example = "json")]
    format: Format,
    /// Which exchanges have a line.
    #[setting(part)]
    conditions: Conditions,
    /// What lines hide.
    #[setting(part)]
    masking: Masking,
}

impl Table for AccessLogOptions {
    const TABLE: &'static TableInfo = &TableInfo {
        name: "AccessLogTable",
        doc: "Access log: a file, or a table with a file, a format, and conditions. Exactly one of `path`, `syslog` and `journald` is required.",
        short: Some(&LogFile::SHAPE),
        ..*Keys::TABLE
    };

    fn read_keys(table: &TableReader<'_>) -> Result<Self, Invalid> {
        let Keys { place, format, conditions, masking } = Keys::read_keys(table)?;
        let LogPlace { destination, rotation } = place;
        let Some(destination) = destination else {
            let problem = Problem::value(table.location(), "the access log needs a destination");
            return Err(table.report(problem.label(ONE_DESTINATION)));
        };
        Ok(Self { destination, format, conditions, masking, rotation })
    }
}

impl Setting for AccessLogOptions {
    const SHAPE: Shape = Shape::Table(|| Self::TABLE);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        value.table_or::<Self, LogFile>("a file (\"access.log\") or a table")
    }
}

impl From<LogFile> for AccessLogOptions {
    fn from(file: LogFile) -> Self {
        Self::new(file.into(), Format::default())
    }
}

impl AccessLogOptions {
    /// Returns the options of a log with a line for each exchange.
    #[must_use]
    pub fn new(destination: Destination, format: Format) -> Self {
        let (conditions, masking) = (Conditions::default(), Masking::default());
        Self { destination, format, conditions, masking, rotation: None }
    }
}

/// An open access log. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Open>);

#[derive(Debug)]
struct Open {
    options: AccessLogOptions,
    request_fields: Box<[HeaderName]>,
    writer: LineWriter,
    errors: ErrorLog,
}

impl AccessLog {
    /// Opens the log and starts the thread that writes it. Lost lines are reported in `errors` and in the log itself.
    pub fn open(options: AccessLogOptions, errors: &ErrorLog) -> io::Result<Self> {
        let AccessLogOptions { destination, format, .. } = &options;
        let on_failure = report_failure(format!("access log {destination}"), format.clone(), errors.clone());
        let writer = LineWriter::open("access", destination, options.rotation.as_ref(), on_failure)?;
        let mut request_fields = format.request_fields();
        // For `rudy status`, which shows the same copy of the head.
        if !request_fields.contains(&HOST) {
            request_fields.push(HOST);
        }
        let (request_fields, errors) = (request_fields.into(), errors.clone());
        Ok(Self(Arc::new(Open { options, request_fields, writer, errors })))
    }

    /// Returns the destination of the log.
    #[must_use]
    pub fn destination(&self) -> &Destination {
        &self.0.options.destination
    }

    /// Returns the request fields that lines contain.
    #[must_use]
    pub fn request_fields(&self) -> &[HeaderName] {
        &self.0.request_fields
    }

    /// Adds what must be noted for the lines.
    fn add_to(&self, logged: &mut LoggedParts) {
        self.0.options.format.fields().for_each(|field| field.add_to(logged));
    }

    /// Opens the file again after it was renamed or removed. Lines queued so far go to the old file.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.writer.reopen(self.destination())
    }

    /// Writes all queued lines, and reports those that were not written in time. For the end of the process: later lines are lost.
    pub fn close(&self) {
        let lost = self.0.writer.close();
        if lost > 0 {
            let name = self.destination();
            let message =
                format!("access log {name}: {lost} lines lost at the end, because writing is too slow");
            self.0.errors.error(&message);
        }
    }

    /// Writes the line of a request that had nothing but a head and an outcome.
    pub fn write(&self, head: &RequestHead<'_>, client: &Client<'_>, outcome: &ExchangeOutcome) {
        let request = RequestInfo::new(head, self.request_fields());
        let (request, notes) = (Some(&request), &Notes::default());
        let (id, rejection, request_body_bytes, trace) = (None, None, 0, None);
        self.finished(&Finished {
            client,
            request,
            id,
            rejection,
            notes,
            request_body_bytes,
            outcome,
            trace,
        });
    }

    /// Writes the line of a peer that was rejected before its request could be parsed.
    pub fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome) {
        let (rejection, notes) = (Some(reason), &Notes::default());
        let (request, id, request_body_bytes, trace) = (None, None, 0, None);
        self.finished(&Finished {
            client,
            request,
            id,
            rejection,
            notes,
            request_body_bytes,
            outcome,
            trace,
        });
    }

    /// Writes the line of an exchange, if it has one.
    pub fn finished(&self, exchange: &Finished<'_>) {
        thread_local! {
            static SCRATCH: RefCell<(LocalClock, Vec<u8>)> = RefCell::new((LocalClock::new(), Vec::new()));
        }
        let weight = self.0.options.conditions.weight(exchange);
        if weight == 0 {
            return;
        }
        SCRATCH.with_borrow_mut(|(clock, line)| {
            line.clear();
            let now = clock::utc();
            // The timestamp is the arrival of the request, as in Apache.
            let time = now.checked_sub(exchange.outcome.duration).unwrap_or(now);
            let (local, rfc3339) = clock.both(time);
            let (options, times) = (&self.0.options, Times { local, rfc3339 });
            let source = Source { exchange, times, masking: &options.masking };
            match &options.format {
                Format::Line(template) => template.write(&source, line),
                Format::Json => json::write(&source, weight, line),
            }
            self.0.writer.push(line);
        });
    }
}

/// Appends a number.
fn put_number(number: u64, line: &mut Vec<u8>) {
    write_number(number, line).expect("writing to a Vec cannot fail");
}

/// Appends the address of a client or proxy.
fn put_address(peer: Peer, line: &mut Vec<u8>) {
    match peer.ip() {
        Some(ip) => write_ip(ip, line).expect("writing to a Vec cannot fail"),
        None => line.extend_from_slice(b"unix:"),
    }
}

/// Returns the duration in microseconds, capped at 584,000 years.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Reports failures in the error log, and dropped lines in the access log too.
fn report_failure(name: String, format: Format, errors: ErrorLog) -> OnLogFailure {
    Box::new(move |failure| match failure {
        LogFailure::Dropped(lines) => {
            let message =
                format!("{name}: {lines} lines dropped, because writing is too slow or the disk was full");
            errors.recurring_error(("lines of the access log were dropped", &*name), &message);
            Some(format.dropped(*lines))
        }
        LogFailure::Failed(error, lines) => {
            let message = format!("{name}: cannot write: {error}; lines lost so far: {lines}");
            errors.recurring_error(("lines of the access log were lost", &*name), &message);
            None
        }
        LogFailure::NotRotated(error) => {
            let message = format!("{name}: cannot rotate it: {error}; Rudy still writes to it");
            errors.recurring_error(("the access log was not rotated", &*name), &message);
            None
        }
        LogFailure::NotTidied(error) => {
            let message = format!("{name}: {error}; Rudy tries again in a minute");
            errors.recurring_error(("rotated files of the access log were not tidied", &*name), &message);
            None
        }
    })
}

#[cfg(test)]
mod tests;
