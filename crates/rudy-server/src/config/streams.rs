//! The tables of handlers whose answers go on.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::{Audience, OneOrMany};
use super::values::{Size, Time};

/// A stream that ticks: a welcome, then a chunk at each interval, each sent as it is due.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamTable {
    /// The time from chunk to chunk, from 10 ms to 1 h. Streams that are opened at once have their ticks spread over it.
    pub interval: Time,
    /// A chunk. `{n}` is its number, from 1; `{path}` the path that was asked for, as it was written. Braces around anything
    /// but a name are text.
    pub text: String,
    /// What comes first, at once; `""` leaves it out. `{path}` as in `text`; `{n}` is 0.
    pub welcome: String,
    /// After how many chunks it ends. It does not if absent.
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// How it is written.
    pub format: StreamFormat,
    /// Chunks that may be due and wait for a client that does not read; with so many it is dropped.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub queue: u32,
}

/// How a stream is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamFormat {
    /// Lines of text.
    #[default]
    Plain,
    /// Server-Sent Events, which browsers read with `EventSource`; each has the number of its chunk as its id.
    Sse,
}

impl Default for StreamTable {
    fn default() -> Self {
        Self {
            interval: Time(Duration::from_secs(1)),
            text: "Chunk {n} for id {path}".to_owned(),
            welcome: "Goconntest welcomes you! Your Id: {path}".to_owned(),
            count: None,
            format: StreamFormat::default(),
            // At a chunk a second, half of `send_stall_timeout`: so it is this that decides, and that is counted, and a phone
            // may lose its network for as long.
            queue: 16,
        }
    }
}

/// One source, many listeners: lines that are sent to a path with POST or PUT go as Server-Sent Events to everybody who
/// listens there with GET. Each path of the route is a topic of its own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BroadcastTable {
    /// Who may publish; others are told 403. Behind a proxy on this machine, everybody comes from this machine.
    pub publish: Audience,
    /// Who may listen; others are told 403.
    pub allow: Audience,
    /// How many of the latest messages a client gets that comes for the first time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub last: u32,
    /// Messages that are kept for a client that comes back (`Last-Event-ID`), or does not read as fast as others. One that
    /// falls behind them is dropped if it does not read at all, and told of the gap if it does.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub history: u32,
    /// The bytes of a topic's messages that are kept at most, as they are sent.
    pub history_bytes: Size,
    /// A topic to which nobody listens is forgotten when nothing was published to it for so long.
    pub history_timeout: Time,
    /// Topics of one site that were published to; publishing to a further one is rejected with 503. Listening alone makes
    /// no topic that counts.
    #[schemars(range(min = 1, max = 100_000))]
    pub topics: u32,
    /// How long nothing is sent before a comment shows that the connection lives. `"0s"`: no such comment.
    pub heartbeat: Time,
    /// How long a client is asked to wait before it comes back after its connection was lost.
    pub retry: Time,
}

impl Default for BroadcastTable {
    fn default() -> Self {
        Self {
            publish: Audience::Loopback,
            allow: Audience::Anyone,
            last: 0,
            history: 1000,
            // A hundred topics take 25 MiB at most.
            history_bytes: Size(256 * 1024),
            history_timeout: Time(Duration::from_hours(1)),
            topics: 100,
            heartbeat: heartbeat(),
            retry: retry(),
        }
    }
}

/// The lines of files as they are written: one look at the files, whatever the number of clients.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TailTable {
    /// The files, each as a path whose parts may have `*`, `?`, `[ab]` and `{a,b}`: `/var/log/app/*.log`. Files that appear
    /// later are found. Relative to the file that names them.
    pub files: OneOrMany<PathBuf>,
    /// Who may read them; others are told 403.
    #[serde(default)]
    pub allow: Audience,
    /// Lines to begin with: of each file for the client that comes first, the latest of all files for those who join it.
    #[serde(default = "last")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub last: u32,
    /// How it is written.
    #[serde(default)]
    pub format: StreamFormat,
    /// Whether the name of its file stands before each line. If absent, where there may be several files.
    pub names: Option<bool>,
    /// Lines that are kept for a client that comes back or does not read as fast as others, as in `broadcast`.
    #[serde(default = "history")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub history: u32,
    /// The bytes of the lines that are kept at most, as they are sent.
    #[serde(default = "history_bytes")]
    pub history_bytes: Size,
    /// As in `broadcast`; with `format = "plain"` there is none.
    #[serde(default = "heartbeat")]
    pub heartbeat: Time,
    /// As in `broadcast`.
    #[serde(default = "retry")]
    pub retry: Time,
}

fn last() -> u32 {
    10
}

fn history() -> u32 {
    1000
}

fn history_bytes() -> Size {
    Size(1024 * 1024)
}

/// As the HTML standard (§9.2.7) advises against proxies that close what is silent.
fn heartbeat() -> Time {
    Time(Duration::from_secs(15))
}

fn retry() -> Time {
    Time(Duration::from_secs(2))
}
