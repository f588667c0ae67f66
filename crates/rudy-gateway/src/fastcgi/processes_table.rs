//! The `processes` table of an app.

use std::collections::BTreeMap;
use std::time::Duration;

use rudy_config::{FilePath, Int, Location, Problem, Table};
use rudy_units::{Time, Timeout};

/// The processes of an app that Rudy starts.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
#[setting(default)]
pub struct ProcessesTable {
    /// Minimum number of running processes. With 0, the first request starts the first process.
    #[setting(default = Int(1))]
    pub min: Int<0, 10_000>,
    /// Maximum number of running processes. Rudy starts more than `min` when requests wait.
    #[setting(default = Int(1))]
    pub max: Int<1, 10_000>,
    /// Additional environment variables. Every process has `PATH`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR`, `HOME`, `USER`
    /// and `LOGNAME`, and `RUDY_PURGE_SOCKET`, on which it purges the cache.
    #[setting(example = { APP_ENV = "production" })]
    pub environment: BTreeMap<String, String>,
    /// User to run the processes as, with all of its groups. A user other than that of Rudy requires root. The
    /// default is the user that Rudy runs as.
    #[setting(example = "www-data")]
    pub user: Option<String>,
    /// Working directory, relative to the configuration file. The default is that of Rudy.
    #[setting(example = "/srv/app")]
    pub folder: Option<FilePath>,
    /// Time after which an idle process ends, while more than `min` are running. The default is never.
    #[setting(example = "10m")]
    pub idle_timeout: Option<Timeout>,
    /// Number of requests after which a process is replaced. Use it against memory leaks. The default is no limit.
    #[setting(example = 1000)]
    pub requests: Option<Int<1, { u64::MAX }>>,
    /// Time that a process which is being replaced has to finish its requests.
    #[setting(default = Time(Duration::from_secs(30)))]
    pub retire_timeout: Timeout,
    /// Time between SIGTERM and SIGKILL when a process is stopped.
    #[setting(default = Time(Duration::from_secs(5)), reason = "Together with `shutdown_timeout`, less than service managers wait before SIGKILL.")]
    pub stop_timeout: Timeout,
}

impl ProcessesTable {
    /// Problems that the types cannot express.
    pub(super) fn problems(&self, location: &Location, problems: &mut Vec<Problem>) {
        if self.min.0 > self.max.0 {
            let problem = Problem::value(
                &location.key("min"),
                format!("`min` is {}, and `max` {}", self.min.0, self.max.0),
            );
            problems.push(problem.label("more than `max`").help("the default of `max` is 1"));
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let problem =
                    Problem::key(&location.key("environment").key(name), "invalid environment variable");
                problems.push(
                    problem.label("a name cannot contain `=`, and name and value cannot contain a NUL byte"),
                );
            }
        }
    }
}
