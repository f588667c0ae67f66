//! The error log: one line per event, with a timestamp and a severity, on stderr or elsewhere.
//!
//! Lines come from the methods of [`ErrorLog`], and from the events of `tracing`, whose targets are `route`, `proxy` and `fastcgi`.
//! Errors that peers cause are rate-limited by kind, so that no client can fill a disk.

mod kinds;
mod levels;
mod lines;
mod subscriber;
#[cfg(test)]
mod tests;

use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rudy_config::{Placeholders, Table, Words};

pub use self::kinds::Kind;
use self::kinds::Suppressed;
pub use self::levels::{Level, Levels};
use self::lines::Lines;
use crate::line_writer::{Destination, LineWriter, LogFile, LogPlace, OnLogFailure, Target};

/// The error log, for lines about a route or about the server. Clones write to the same file. Writing never blocks.
#[derive(Debug, Clone)]
pub struct ErrorLog(Arc<Inner>, Option<Arc<Origin>>);

/// The names of a route.
#[derive(Debug)]
struct Origin {
    site: String,
    route: Option<String>,
}

#[derive(Debug)]
struct Inner {
    writer: LineWriter,
    destination: Option<Destination>,
    /// Shared with the writing thread, which logs failures of the log in the log.
    lines: Arc<Lines>,
}

/// Error log: a file, or a table with a destination, a format, and levels. The default destination is stderr. A change of the
/// destination or the format needs a restart.
#[derive(Debug, Clone, Default, PartialEq, Table)]
#[setting(short = LogFile, what = "a file (\"error.log\") or a table")]
pub struct ErrorLogOptions {
    /// Where the lines go; without a destination, to stderr.
    #[setting(part)]
    pub place: LogPlace,
    /// Format of a line: `text` or `json`.
    #[setting(default)]
    pub format: LineFormat,
    /// Which lines are logged.
    #[setting(part)]
    pub levels: Levels,
}

impl From<LogFile> for ErrorLogOptions {
    fn from(file: LogFile) -> Self {
        let place = LogPlace { destination: Some(file.into()), rotation: None };
        Self { place, ..Self::default() }
    }
}

impl ErrorLogOptions {
    /// Whether lines go to the same place in the same form.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.place, self.format) == (&other.place, other.format)
    }
}

/// The format of a line in the error log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum LineFormat {
    /// Text: `TIME SEVERITY: MESSAGE [site=SITE route=ROUTE]`.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

/// What is before each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    None,
    /// `<3>`: the priority, which journald and syslog read.
    Priority,
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Everything that happens.
    Trace,
    /// What happens to a request.
    Debug,
    /// A normal event.
    Notice,
    /// An event that may become an error.
    Warning,
    /// An error of a client.
    Client,
    /// Output of an app that Rudy started.
    App,
    /// An error on this machine or in the configuration.
    Error,
    /// A bug in Rudy.
    Bug,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Client => "client",
            Self::App => "app",
            Self::Error => "error",
            Self::Bug => "bug",
        })
    }
}

impl Severity {
    fn level(self) -> tracing::Level {
        match self {
            Self::Trace => tracing::Level::TRACE,
            Self::Debug => tracing::Level::DEBUG,
            Self::Notice | Self::App => tracing::Level::INFO,
            Self::Warning | Self::Client => tracing::Level::WARN,
            Self::Error | Self::Bug => tracing::Level::ERROR,
        }
    }

    /// The priority of journald and syslog (RFC 5424 §6.2.1).
    fn priority(self) -> u8 {
        match self {
            Self::Bug => 2,
            Self::Error => 3,
            Self::Warning => 4,
            // Nothing is wrong with the server.
            Self::Client => 5,
            Self::Notice | Self::App => 6,
            Self::Debug | Self::Trace => 7,
        }
    }
}

/// What a line is about.
#[derive(Debug, Clone, Copy, Default)]
struct Context<'a> {
    /// The target of an event of `tracing`; empty for others.
    target: &'a str,
    site: Option<&'a str>,
    route: Option<&'a str>,
}

impl<'a> Context<'a> {
    fn of(origin: Option<&'a Origin>) -> Self {
        let site = origin.map(|origin| origin.site.as_str()).filter(|site| !site.is_empty());
        Self { target: "", site, route: origin.and_then(|origin| origin.route.as_deref()) }
    }
}

impl ErrorLog {
    /// Opens the log of a configuration.
    ///
    /// # Errors
    ///
    /// The destination cannot be opened. The message names it.
    pub fn open(options: &ErrorLogOptions) -> io::Result<Self> {
        Self::open_destination(options).map_err(|error| {
            let name = options
                .place
                .destination
                .as_ref()
                .map_or_else(|| "standard error".to_owned(), ToString::to_string);
            io::Error::new(error.kind(), format!("open the error log {name}: {error}"))
        })
    }

    fn open_destination(options: &ErrorLogOptions) -> io::Result<Self> {
        let Some(destination) = &options.place.destination else {
            let stderr = io::stderr().as_fd().try_clone_to_owned()?;
            let prefix =
                if is_journal(&File::from(stderr.try_clone()?)) { Prefix::Priority } else { Prefix::None };
            return Self::with(File::from(stderr), options, prefix);
        };
        let prefix = match destination {
            Destination::Syslog(_) | Destination::Journald => Prefix::Priority,
            Destination::Stdout | Destination::File(_) => Prefix::None,
        };
        Self::with(destination.open("error", options.place.rotation.as_ref())?, options, prefix)
    }

    /// Writes to `file`.
    ///
    /// # Errors
    ///
    /// The thread that writes cannot be started.
    pub fn to(file: File) -> io::Result<Self> {
        Self::with(file, &ErrorLogOptions::default(), Prefix::None)
    }

    fn with(target: impl Into<Target>, options: &ErrorLogOptions, prefix: Prefix) -> io::Result<Self> {
        let lines = Arc::new(Lines::new(options, prefix));
        let for_thread = lines.clone();
        let on_failure: OnLogFailure = Box::new(move |failure| for_thread.failure(failure));
        let writer = LineWriter::start("error-log", target, on_failure)?;
        let destination = options.place.destination.clone();
        Ok(Self(Arc::new(Inner { writer, destination, lines }), None))
    }

    /// Writes the events of `tracing` in this process, too. Only the first log does.
    pub fn subscribe(&self) {
        // An error means that there is another one.
        let _ = tracing::subscriber::set_global_default(subscriber::EventWriter(self.clone()));
    }

    /// Changes which lines are logged.
    pub fn set_levels(&self, levels: Levels) {
        self.0.lines.levels.store(Arc::new(levels));
        tracing::callsite::rebuild_interest_cache();
    }

    /// Opens the file again after it was renamed or removed. Has no effect for other destinations.
    ///
    /// # Errors
    ///
    /// The file cannot be opened. The message names it.
    pub fn reopen(&self) -> io::Result<()> {
        let Some(destination) = &self.0.destination else { return Ok(()) };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{destination}: {error}"));
        self.0.writer.reopen(destination).map_err(named)
    }

    /// Returns the log with the names of a site, empty for the default one, and of a route in all its lines.
    #[must_use]
    pub fn of_route(&self, site: &str, route: Option<&str>) -> Self {
        let origin = Origin { site: site.to_owned(), route: route.map(str::to_owned) };
        Self(self.0.clone(), Some(Arc::new(origin)))
    }

    /// Returns the log without the names of a route.
    #[must_use]
    pub fn of_server(&self) -> Self {
        Self(self.0.clone(), None)
    }

    /// Replaces the values of these placeholders in all later lines. Placeholders of earlier calls stay in force, because requests
    /// of an older configuration can still log its values. Their number is bounded by the environment, which does not change.
    pub fn mask(&self, placeholders: &Placeholders) {
        self.0.lines.mask(placeholders);
    }

    /// Returns a text with the values of all placeholders replaced, as in the log.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        self.0.lines.placeholders.load().mask(text).into_owned()
    }

    /// Logs a normal event.
    pub fn notice(&self, message: &str) {
        self.write(Severity::Notice, message, self.context());
    }

    /// Logs a line of an app's output. The caller limits their number.
    pub fn app(&self, line: &str) {
        self.write(Severity::App, line, self.context());
    }

    /// Logs an error on this machine or in its configuration.
    pub fn error(&self, message: &str) {
        self.write(Severity::Error, message, self.context());
    }

    /// Logs an error that can recur, once a minute for each [`Kind`], and counts the others.
    pub fn recurring_error<'a>(&self, kind: impl Into<Kind<'a>>, message: &str) {
        self.write_limited(Severity::Error, kind.into(), self.context(), || message.to_owned());
    }

    /// Logs an error of a client, once a minute for each [`Kind`], and counts the others.
    pub fn client<'a>(&self, kind: impl Into<Kind<'a>>, message: &str) {
        self.client_with(kind, || message.to_owned());
    }

    /// As [`Self::client`], with a message that is only made for the log.
    pub fn client_with<'a>(&self, kind: impl Into<Kind<'a>>, message: impl FnOnce() -> String) {
        self.write_limited(Severity::Client, kind.into(), self.context(), message);
    }

    /// Logs a bug in Rudy, once a minute for each message.
    pub fn bug(&self, message: &str) {
        self.write_limited(Severity::Bug, message.into(), self.context(), || message.to_owned());
    }

    /// Logs an error, and below it a text of several lines without escapes: the diagnostics of a configuration.
    pub fn error_with_details(&self, message: &str, text: &str) {
        self.write_line(Severity::Error, message, text.trim_end(), self.context());
    }

    /// Logs the counts of all rate-limited kinds and writes all queued lines. For the end of the process.
    pub fn close(&self) {
        for Suppressed { severity, kind, site, count } in self.0.lines.kinds.lock().take_suppressed() {
            let context = Context { site: Some(&*site).filter(|site| !site.is_empty()), ..self.context() };
            self.write(severity, &format!("{kind}: {count} more since the last line about it"), context);
        }
        // The lines that were not written cannot be reported anywhere.
        let _lost = self.0.writer.close();
    }

    fn write_limited(
        &self,
        severity: Severity,
        kind: Kind<'_>,
        context: Context<'_>,
        message: impl FnOnce() -> String,
    ) {
        if let Some(message) = self.0.lines.limited(severity, kind, context, message) {
            self.write(severity, &message, context);
        }
    }

    fn context(&self) -> Context<'_> {
        Context::of(self.1.as_deref())
    }

    fn write(&self, severity: Severity, message: &str, context: Context<'_>) {
        self.write_line(severity, message, "", context);
    }

    fn write_line(&self, severity: Severity, message: &str, details: &str, context: Context<'_>) {
        if let Some(line) = self.0.lines.format(severity, message, details, context) {
            self.0.writer.push(line.as_bytes());
        }
    }
}

/// Whether a file is the journal: systemd names the device and the inode of the socket that it has made (systemd.exec(5)).
fn is_journal(file: &File) -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    file.metadata().is_ok_and(|metadata| named == format!("{}:{}", metadata.dev(), metadata.ino()))
}
