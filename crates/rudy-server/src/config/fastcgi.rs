//! The table of the handler that asks an app.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::OneOrMany;
use super::values::{Size, Time};
use super::{Place, Problem, out_of_bounds};
use crate::fastcgi::Upstream;

/// An app that speaks FastCGI: php-fpm, or one in Perl, Python, Go, Rust.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastcgiTable {
    /// Where it listens: `unix:/run/php/php-fpm.sock`, `127.0.0.1:9000`, or several of these, of which the least busy one is
    /// asked.
    pub address: OneOrMany<Upstream>,
    /// The folder of its scripts, as the app sees it: `DOCUMENT_ROOT`, and the beginning of `SCRIPT_FILENAME`. Relative to the
    /// file that names it.
    #[schemars(length(min = 1))]
    pub root: Option<PathBuf>,
    /// How the names of scripts end, as in `.php`: the path up to there is `SCRIPT_NAME`, the rest `PATH_INFO`; a path
    /// without such a part is not passed on (404). If absent, `SCRIPT_NAME` is the path of the route, as `/app` of `/app/*`.
    #[schemars(length(min = 2))]
    pub split: Option<String>,
    /// Variables that the app is told in addition, or instead of what it would be told.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// Whether a body that comes in chunks, without a length, is gathered before the app is asked: most apps read as many
    /// bytes as `CONTENT_LENGTH` says. `false` passes it on as it comes.
    #[serde(default = "yes")]
    pub needs_length: bool,
    /// Where such bodies are kept beyond 64 KiB, in files without a name. The folder for temporary files if absent. Relative to
    /// the file that names it.
    #[schemars(length(min = 1))]
    pub spill_folder: Option<PathBuf>,
    /// Bytes of them on disk at once, of all requests; one more is answered 507.
    #[serde(default = "spill_bytes")]
    pub spill_bytes: Size,
    /// Connections to each address at once: as many as the app serves at once, for php-fpm its `pm.max_children`. Further
    /// requests wait.
    #[serde(default = "connections")]
    #[schemars(range(min = 1, max = 65535))]
    pub connections: u32,
    /// Requests that wait for a connection; a further one is answered 503.
    #[serde(default = "queue")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub queue: u32,
    /// How long a request waits for a connection, before it is answered 503.
    #[serde(default = "queue_time")]
    pub queue_time: Time,
    /// How long a connection may take to stand, before the answer is 502.
    #[serde(default = "connect_time")]
    pub connect_time: Time,
    /// How long the app may say nothing, before the answer is 504, or is cut.
    #[serde(default = "answer_time")]
    pub answer_time: Time,
    /// How long a connection is kept that waits for a request.
    #[serde(default = "keep_time")]
    pub keep_time: Time,
}

/// As many as an app that was set up with care for a small machine serves at once.
fn connections() -> u32 {
    16
}

fn yes() -> bool {
    true
}

/// Sixty-four times as much as one body may have.
fn spill_bytes() -> Size {
    Size(1 << 30)
}

/// Each takes some kilobytes; more people than that do not wait for so slow an answer.
fn queue() -> u32 {
    1024
}

fn queue_time() -> Time {
    Time(Duration::from_secs(10))
}

fn connect_time() -> Time {
    Time(Duration::from_secs(5))
}

/// As nginx and Apache have it, and twice what PHP lets a script compute.
fn answer_time() -> Time {
    Time(Duration::from_mins(1))
}

fn keep_time() -> Time {
    Time(Duration::from_mins(1))
}

/// The bounds of every time here.
const TIME_MIN: Duration = Duration::from_millis(1);
const TIME_MAX: Duration = Duration::from_hours(24);

impl FastcgiTable {
    /// What the schema cannot say.
    pub(crate) fn problems(&self, place: &Place) -> Vec<Problem> {
        let times = [
            ("queue_time", self.queue_time),
            ("connect_time", self.connect_time),
            ("answer_time", self.answer_time),
            ("keep_time", self.keep_time),
        ];
        let wrong = times.into_iter().filter(|(_, time)| !(TIME_MIN..=TIME_MAX).contains(&time.0));
        wrong
            .map(|(key, time)| out_of_bounds(&place.key(key), &time, &Time(TIME_MIN), &Time(TIME_MAX)))
            .collect()
    }
}
