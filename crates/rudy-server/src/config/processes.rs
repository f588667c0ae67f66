//! The table of an app's processes.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{FilePath, Int, Time, Timeout};
use super::{Place, Problem};

/// The processes of an app that Rudy starts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessesTable {
    /// So many run always; 0: the first is started with the first request.
    pub min: Int<0, 10_000>,
    /// So many run at most. With 1 it is always the same process.
    pub max: Int<1, 10_000>,
    /// What they find in their environment beside `PATH`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR`, `HOME`, `USER` and `LOGNAME`.
    #[schemars(extend("examples" = [{ "APP_ENV": "production" }]))]
    pub environment: BTreeMap<String, String>,
    /// The user they run as, with all of that user's groups. To be another one needs root. As Rudy if absent.
    #[schemars(extend("examples" = ["www-data"]))]
    pub user: Option<String>,
    /// The folder they run in. Relative to the file that names it; Rudy's own if absent.
    #[schemars(extend("examples" = ["/srv/app"]))]
    pub folder: Option<FilePath>,
    /// One that had nothing to do for so long ends, as long as `min` are left. If absent none does.
    #[schemars(extend("examples" = ["10m"]))]
    pub idle_timeout: Option<Timeout>,
    /// Requests after which one is replaced. If absent none is.
    #[schemars(extend("examples" = [1000]))]
    pub requests: Option<Int<1, { u64::MAX }>>,
    /// How long one that is to be replaced may take for what it has under way.
    pub retire_timeout: Timeout,
    /// How long one may take to end after SIGTERM; SIGKILL comes next.
    pub stop_timeout: Timeout,
}

impl Default for ProcessesTable {
    fn default() -> Self {
        Self {
            min: Int(1),
            max: Int(1),
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

impl ProcessesTable {
    /// What the schema cannot say.
    pub(super) fn problems(&self, place: &Place, problems: &mut Vec<Problem>) {
        if self.min.0 > self.max.0 {
            let problem = Problem::value(
                &place.key("min"),
                format!("`min` is {}, and `max` {}", self.min.0, self.max.0),
            );
            problems.push(problem.label("more than there may be").help("`max` is 1 if it is not given"));
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let problem = Problem::key(&place.key("environment").key(name), "this is no variable");
                problems.push(problem.label("a name has no `=`, and neither it nor its value a NUL"));
            }
        }
    }
}
