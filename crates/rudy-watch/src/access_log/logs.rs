//! The access logs of a configuration: that of the server, and those of sites with logs of their own.

use std::io;
use std::sync::Arc;

use http::HeaderName;
use rudy_log::ErrorLog;
use rudy_pipeline::exchange::{Finished, LoggedParts, Recorder, RouteName};
use rudy_service::{Client, ExchangeOutcome};

use super::{AccessLog, AccessLogOptions};

/// Open access logs. Clones write to the same files.
#[derive(Debug, Clone)]
pub struct AccessLogs(Arc<Open>);

#[derive(Debug)]
struct Open {
    /// Each destination once.
    logs: Vec<AccessLog>,
    /// The place of the log of the server.
    server: Option<usize>,
    /// The places of those of the sites, in their order.
    sites: Vec<Option<usize>>,
    request_fields: Box<[HeaderName]>,
}

/// Which logs there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AccessLogsOptions {
    /// The log of the server: of requests without a site, too.
    pub server: Option<AccessLogOptions>,
    /// Those of the sites, in their order. `None` for a site that is not logged.
    pub sites: Vec<Option<AccessLogOptions>>,
}

impl AccessLogs {
    /// Opens the logs, and starts a thread for each. `None` if there are none.
    ///
    /// # Errors
    ///
    /// A destination cannot be opened. The message names it.
    pub fn open(options: &AccessLogsOptions, errors: &ErrorLog) -> io::Result<Option<Self>> {
        let mut logs: Vec<AccessLog> = Vec::new();
        let mut place = |options: &Option<AccessLogOptions>| -> io::Result<Option<usize>> {
            let Some(options) = options else { return Ok(None) };
            let known = logs.iter().position(|log| log.destination() == &options.destination);
            if known.is_some() {
                return Ok(known);
            }
            let cannot = |error: io::Error| {
                io::Error::new(error.kind(), format!("open the access log {}: {error}", options.destination))
            };
            logs.push(AccessLog::open(options.clone(), errors).map_err(cannot)?);
            Ok(Some(logs.len() - 1))
        };
        let server = place(&options.server)?;
        let sites = options.sites.iter().map(&mut place).collect::<io::Result<Vec<_>>>()?;
        if logs.is_empty() {
            return Ok(None);
        }
        let request_fields = distinct(logs.iter().flat_map(AccessLog::request_fields)).into();
        Ok(Some(Self(Arc::new(Open { logs, server, sites, request_fields }))))
    }

    /// Returns what must be noted for the lines.
    #[must_use]
    pub fn logged_parts(&self) -> LoggedParts {
        let mut logged = LoggedParts::default();
        self.0.logs.iter().for_each(|log| log.add_to(&mut logged));
        logged
    }

    /// Returns the log of the exchanges with a route; without a route, that of the server.
    fn of(&self, route: Option<&RouteName>) -> Option<&AccessLog> {
        if route.is_some_and(|route| route.is_unlogged) {
            return None;
        }
        let site = route.and_then(|route| route.site_number);
        let place = site.map_or(self.0.server, |site| self.0.sites.get(site).copied().flatten());
        place.map(|place| &self.0.logs[place])
    }

    /// Opens the files again after they were renamed or removed. Returns the errors.
    #[must_use]
    pub fn reopen(&self) -> Vec<(&AccessLog, io::Error)> {
        self.0.logs.iter().filter_map(|log| Some((log, log.reopen().err()?))).collect()
    }

    /// Writes all queued lines. For the end of the process: later lines are lost.
    pub fn close(&self) {
        self.0.logs.iter().for_each(AccessLog::close);
    }
}

/// Returns each name once.
fn distinct<'a>(names: impl Iterator<Item = &'a HeaderName>) -> Vec<HeaderName> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
}

impl Recorder for AccessLogs {
    fn request_fields(&self) -> Option<&[HeaderName]> {
        Some(&self.0.request_fields)
    }

    fn finished(&self, exchange: &Finished<'_>) {
        if let Some(log) = self.of(exchange.notes.route.as_deref()) {
            log.finished(exchange);
        }
    }

    fn rejected(&self, client: &Client<'_>, reason: &str, outcome: &ExchangeOutcome) {
        if let Some(log) = self.of(None) {
            log.rejected(client, reason, outcome);
        }
    }
}
