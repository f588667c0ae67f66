//! Which lines the error log has: by level, globally and by target.

use rudy_config::Words;
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    /// The level of all targets without one of their own.
    pub all: Level,
    /// The levels of targets, which replace the one for all.
    pub targets: Vec<(String, Level)>,
}

impl Levels {
    /// Whether a line of this level and target is logged.
    pub(super) fn allow(&self, level: tracing::Level, target: &str) -> bool {
        let own = self.targets.iter().find(|(name, _)| name == target);
        level <= LevelFilter::from(own.map_or(self.all, |(_, level)| *level))
    }

    /// Returns the level of the least severe line that may be logged.
    pub(super) fn max(&self) -> LevelFilter {
        let levels = self.targets.iter().map(|(_, level)| *level).chain([self.all]);
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
            targets: vec![("proxy".to_owned(), Level::Debug), ("fastcgi".to_owned(), Level::Off)],
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
