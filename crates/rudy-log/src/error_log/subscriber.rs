//! Writes the events of `tracing` to the error log. There are no spans: a request may move between threads, and its events name its
//! site and route themselves.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::{Context, ErrorLog, Severity};

/// Writes events to an error log.
#[derive(Debug)]
pub(super) struct EventWriter(pub(super) ErrorLog);

impl Subscriber for EventWriter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && self.0.0.lines.levels.load().allow(*metadata.level(), metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.0.lines.levels.load().max())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let target = event.metadata().target();
        let severity = match *event.metadata().level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Notice,
            Level::DEBUG => Severity::Debug,
            Level::TRACE => Severity::Trace,
        };
        let Fields { message, site, route } = fields;
        let context = Context { target, site: site.as_deref(), route: route.as_deref() };
        // Errors that a peer can cause again and again: what happened, to what, and why.
        if severity >= Severity::Warning {
            let mut parts = message.splitn(3, ": ");
            let kind = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            return self.0.write_limited(severity, kind.into(), context, || message.clone());
        }
        self.0.write(severity, &message, context);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    site: Option<String>,
    route: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "site" => self.site = Some(value.to_owned()),
            "route" => self.route = Some(value.to_owned()),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => {
                // Other fields may have come before it.
                let others = std::mem::take(&mut self.message);
                write!(self.message, "{value:?}{others}")
            }
            name => write!(self.message, " {name}={value:?}"),
        };
        written.expect("writing to a String cannot fail");
    }
}
