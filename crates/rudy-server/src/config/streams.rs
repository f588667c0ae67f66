//! The tables of handlers whose answers go on.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::Time;

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
            // At a chunk a second, half of `send_stall_time`: so it is this that decides, and that is counted, and a phone
            // may lose its network for as long.
            queue: 16,
        }
    }
}
