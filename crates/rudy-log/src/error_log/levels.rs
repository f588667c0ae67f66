//! Which lines the error log has: by level, globally and by target.

use std::collections::BTreeMap;

use rudy_config::{Table, Words};
use tracing::level_filters::LevelFilter;

/// The least severe lines that are logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Words)]
pub enum Level {
    /// None.
    Off,
    /// Errors on this machine or in the configuration, and bugs.
    Error,
    /// Errors of clients, too.
    Warn,
    /// Normal events and the output of apps, too.
    #[default]
    Info,
    /// What happens to each request, too.
    Debug,
    /// Everything.
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The levels of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct Levels {
    /// Least severe lines that are logged: `off`, `error`, `warn` (also errors of clients), `info` (also notices and the output of
    /// apps), `debug` (also each request), or `trace`.
    #[setting(name = "level")]
    pub all: Level,
    /// Levels of targets, instead of `level`: `route`, `proxy` and `fastcgi` are about requests, `server` is everything else.
    #[setting(name = "levels", example = { proxy = "debug" })]
    pub targets: BTreeMap<LogTarget, Level>,
}

/// What lines of the error log are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Words)]
pub enum LogTarget {
    /// The route of each request.
    Route,
    /// Requests to upstreams.
    Proxy,
    /// Requests to FastCGI apps.
    Fastcgi,
    /// Everything else.
    Server,
}

impl Levels {
    /// Whether a line of this level and target is logged.
    pub(super) fn allow(&self, level: tracing::Level, target: &str) -> bool {
        let own = self.targets.iter().find(|(name, _)| name.word() == target);
        level <= LevelFilter::from(own.map_or(self.all, |(_, level)| *level))
    }

    /// Returns the level of the least severe line that may be logged.
    pub(super) fn max(&self) -> LevelFilter {
        let levels = self.targets.values().copied().chain([self.all]);
        levels.map(LevelFilter::from).max().unwrap_or(LevelFilter::OFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_have_a_level_of_its_own() {
        let levels = Levels {
            all: Level::Warn,
            targets: [(LogTarget::Proxy, Level::Debug), (LogTarget::Fastcgi, Level::Off)].into(),
        };
        for (level, target, is_logged) in [
            (tracing::Level::ERROR, "server", true),
            (tracing::Level::WARN, "server", true),
            (tracing::Level::INFO, "server", false),
            (tracing::Level::DEBUG, "proxy", true),
            (tracing::Level::TRACE, "proxy", false),
            (tracing::Level::ERROR, "fastcgi", false),
        ] {
            assert_eq!(levels.allow(level, target), is_logged, "{level} {target}");
        }
        assert_eq!(levels.max(), LevelFilter::DEBUG);
    }
}
