//! Formats lines. No lock is held meanwhile: with `level = "debug"`, all workers format lines at the same time.

use std::cell::RefCell;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rudy_config::Placeholders;
use rudy_runtime::clock;
use rudy_units::visible;
use serde_json::json;

use super::kinds::{Kind, Kinds};
use super::{Context, ErrorLogOptions, Levels, LineFormat, Prefix, Severity};
use crate::line_writer::LogFailure;
use crate::local_time::LocalClock;

/// Which lines are logged, and how they look.
#[derive(Debug)]
pub(super) struct Lines {
    format: LineFormat,
    prefix: Prefix,
    pub(super) kinds: Mutex<Kinds>,
    pub(super) placeholders: ArcSwap<Placeholders>,
    pub(super) levels: ArcSwap<Levels>,
}

impl Lines {
    pub(super) fn new(options: &ErrorLogOptions, prefix: Prefix) -> Self {
        Self {
            format: options.format,
            prefix,
            kinds: Mutex::default(),
            placeholders: ArcSwap::default(),
            levels: ArcSwap::from_pointee(options.levels.clone()),
        }
    }

    /// Replaces the values of these placeholders, too.
    pub(super) fn mask(&self, placeholders: &Placeholders) {
        self.placeholders.rcu(|known| {
            let mut known = Placeholders::clone(known);
            known.extend(placeholders);
            Arc::new(known)
        });
    }

    /// Returns the line about a failure of the log itself.
    pub(super) fn failure(&self, failure: &LogFailure) -> Option<String> {
        let (kind, message) = match failure {
            LogFailure::Dropped(lines) => {
                return Some(match self.format {
                    LineFormat::Text => format!("error: {lines} lines of this log were dropped here\n"),
                    LineFormat::Json => format!("{{\"dropped_lines\":{lines}}}\n"),
                });
            }
            // A failed write cannot be reported anywhere.
            LogFailure::Failed(..) => return None,
            LogFailure::NotRotated(error) => (
                "the error log was not rotated",
                format!("cannot rotate the error log: {error}; Rudy still writes to it"),
            ),
            LogFailure::NotTidied(error) => (
                "rotated files of the error log were not tidied",
                format!("error log: {error}; Rudy tries again in a minute"),
            ),
        };
        let context = Context::default();
        let message = self.limited(Severity::Error, kind.into(), context, || message)?;
        self.format(Severity::Error, &message, "", context)
    }

    /// Returns the message with the number of suppressed ones before it, or suppresses it.
    pub(super) fn limited(
        &self,
        severity: Severity,
        kind: Kind<'_>,
        context: Context<'_>,
        message: impl FnOnce() -> String,
    ) -> Option<String> {
        let site = context.site.unwrap_or_default();
        let suppressed = self.kinds.lock().count(severity, kind, site, clock::now())?;
        let message = message();
        Some(match suppressed {
            0 => message,
            more => format!("{message} ({more} more like it since the last line)"),
        })
    }

    /// Formats a line, and the lines of its details, with their priorities. `None` if lines of this severity are not logged.
    pub(super) fn format(
        &self,
        severity: Severity,
        message: &str,
        details: &str,
        context: Context<'_>,
    ) -> Option<String> {
        let target = if context.target.is_empty() { "server" } else { context.target };
        if !self.levels.load().allow(severity.level(), target) {
            return None;
        }
        let line = match self.format {
            LineFormat::Text => self.line(severity, message, details, context),
            LineFormat::Json => self.json(severity, message, details, context),
        };
        let priority = severity.priority();
        let with_priority = |line: &str| format!("<{priority}>{line}\n");
        Some(match self.prefix {
            Prefix::None => line,
            Prefix::Priority => line.lines().map(with_priority).collect(),
        })
    }

    /// Formats a line, and the lines of its details. Escapes line breaks and control characters in the message.
    fn line(&self, severity: Severity, message: &str, details: &str, context: Context<'_>) -> String {
        let Context { target, site, route } = context;
        let target = if target.is_empty() { String::new() } else { format!("{target}: ") };
        let names = [("site", site), ("route", route)];
        let names = names.iter().filter_map(|(name, value)| Some(format!("{name}={}", visible((*value)?))));
        let names = names.collect::<Vec<_>>().join(" ");
        let names = if names.is_empty() { names } else { format!(" [{names}]") };
        let details = if details.is_empty() { String::new() } else { format!("{details}\n") };
        format!(
            "{} {severity}: {target}{}{names}\n{details}",
            now(),
            visible(&self.placeholders.load().mask(message))
        )
    }

    /// Formats a line as JSON.
    fn json(&self, severity: Severity, message: &str, details: &str, context: Context<'_>) -> String {
        let mut object = json!({
            "time": now(),
            "severity": severity.to_string(),
        });
        let placeholders = self.placeholders.load();
        let message = placeholders.mask(message);
        for (name, value) in [
            ("target", Some(context.target)),
            ("site", context.site),
            ("route", context.route),
            ("message", Some(&*message)),
            ("details", Some(details)),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                object[name] = value.into();
            }
        }
        format!("{object}\n")
    }
}

/// Returns the current time in the time zone of this machine.
fn now() -> String {
    thread_local! {
        static CLOCK: RefCell<LocalClock> = RefCell::new(LocalClock::new());
    }
    CLOCK.with_borrow_mut(|clock| clock.rfc3339(clock::utc()).to_owned())
}
