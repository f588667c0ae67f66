//! The table of an app's processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::Time;
use super::{Place, Problem, out_of_bounds};

/// The processes of an app that Rudy starts.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessesTable {
    /// So many run always; 0: the first is started with the first request.
    #[schemars(range(min = 0, max = 10_000))]
    pub min: u32,
    /// So many run at most. With 1 it is always the same process.
    #[schemars(range(min = 1, max = 10_000))]
    pub max: u32,
    /// What they find in their environment beside `PATH`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR`, `HOME`, `USER` and `LOGNAME`.
    pub environment: BTreeMap<String, String>,
    /// The user they run as, with all of that user's groups. To be another one needs root. As Rudy if absent.
    #[schemars(length(min = 1))]
    pub user: Option<String>,
    /// The folder they run in. Relative to the file that names it; Rudy's own if absent.
    #[schemars(length(min = 1))]
    pub folder: Option<PathBuf>,
    /// One that had nothing to do for so long ends, as long as `min` are left. If absent none does.
    pub idle_timeout: Option<Time>,
    /// Requests after which one is replaced. If absent none is.
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// How long one that is to be replaced may take for what it has under way.
    pub retire_timeout: Time,
    /// How long one may take to end after SIGTERM; SIGKILL comes next.
    pub stop_timeout: Time,
}

impl Default for ProcessesTable {
    fn default() -> Self {
        Self {
            min: 1,
            max: 1,
            environment: BTreeMap::new(),
            user: None,
            folder: None,
            idle_timeout: None,
            requests: None,
            retire_timeout: Time(Duration::from_secs(30)),
            // With the grace of the server's own end, less than what service managers wait before they kill.
            stop_timeout: Time(Duration::from_secs(5)),
        }
    }
}

/// The bounds of every time here.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_hours(24);

impl ProcessesTable {
    /// What the schema cannot say.
    pub(super) fn problems(&self, place: &Place, problems: &mut Vec<Problem>) {
        if self.min > self.max {
            let problem =
                Problem::value(&place.key("min"), format!("`min` is {}, and `max` {}", self.min, self.max));
            problems.push(problem.label("more than there may be").help("`max` is 1 if it is not given"));
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let problem = Problem::key(&place.key("environment").key(name), "this is no variable");
                problems.push(problem.label("a name has no `=`, and neither it nor its value a NUL"));
            }
        }
        let times = [
            ("idle_timeout", self.idle_timeout),
            ("retire_timeout", Some(self.retire_timeout)),
            ("stop_timeout", Some(self.stop_timeout)),
        ];
        for (key, time) in times {
            if let Some(time) = time
                && !(TIME_MIN..=TIME_MAX).contains(&time.0)
            {
                problems.push(out_of_bounds(&place.key(key), &time, &Time(TIME_MIN), &Time(TIME_MAX)));
            }
        }
    }
}
