//! The logs: the access logs of the main file and of sites, and the error log. Traces beside them.

use rudy_config::{Location, Problem};
use rudy_log::Destination;
use rudy_watch::access_log::AccessLogsOptions;

use super::{AccessLogOptions, Config, Site};

impl Config {
    /// Returns the access logs with the places of their settings: that of the server, then those of sites.
    pub(crate) fn located_access_logs(&self) -> impl Iterator<Item = (&AccessLogOptions, Location)> {
        let of_server = self.access_log().map(|log| (log, Location::file(0).key("access_log")));
        let of_sites = self.sites.iter().filter_map(|site| {
            let log = site.access_log.as_ref()?.on()?;
            Some((log, site.location.key("access_log")))
        });
        of_server.into_iter().chain(of_sites)
    }

    /// Returns the destinations of all logs, each with the name of the log and the place of its settings. The default of the error log,
    /// stderr, is always open.
    pub(crate) fn located_logs(&self) -> impl Iterator<Item = (&'static str, &Destination, Location)> {
        let access_logs = self.located_access_logs();
        let access_logs = access_logs.map(|(log, location)| ("access log", &log.destination, location));
        let error_log = self.error_log.place.destination.iter();
        access_logs.chain(error_log.map(|log| ("error log", log, Location::file(0).key("error_log"))))
    }

    /// Returns which access logs there are.
    pub(crate) fn access_logs(&self) -> AccessLogsOptions {
        let of_site = |site: &Site| match &site.access_log {
            Some(log) => log.on().cloned(),
            None => self.access_log().cloned(),
        };
        AccessLogsOptions {
            server: self.access_log().cloned(),
            sites: self.sites.iter().map(of_site).collect(),
        }
    }

    /// Reports what traces cannot be exported with.
    pub(crate) fn tracing_problems(&self) -> Vec<Problem> {
        let location = Location::file(0).key("tracing");
        self.tracing.iter().flat_map(|table| table.problems(&location)).collect()
    }

    /// Reports logs with the same destination and different settings: each has its own thread, queue and rotation.
    pub(crate) fn conflicting_access_logs(&self) -> Vec<Problem> {
        let logs: Vec<_> = self.located_access_logs().collect();
        let conflict = |(number, (log, location)): (usize, &(&AccessLogOptions, Location))| {
            let (_, other) = logs[..number]
                .iter()
                .find(|(other, _)| other.destination == log.destination && other != log)?;
            let title = format!(
                "another access log with other settings has the same destination, {}",
                log.destination
            );
            let problem =
                Problem::key(location, title).label("expected the same settings, or another destination");
            Some(problem.also(other, "the other one"))
        };
        logs.iter().enumerate().filter_map(conflict).collect()
    }
}
