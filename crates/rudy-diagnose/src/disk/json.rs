//! An interval as JSON.

use rudy_units::visible_json;
use serde::Serialize;

use super::Options;
use super::io::Io;
use super::sample::{Activity, Writes};
use crate::text::unix_ms;

/// A line with one object.
pub(super) fn line(activity: &Activity, options: &Options) -> String {
    let is_shown = |writes: &&Writes| options.shows_idle || activity.is_single || !writes.io.is_idle();
    let most = options.rows.unwrap_or(usize::MAX);
    let update = Update {
        time_ms: unix_ms(),
        interval_ms: activity.time.as_secs_f64() * 1000.0,
        processes_of_other_users: activity.denied,
        processes: activity.processes.iter().filter(is_shown).take(most).map(Process::new).collect(),
    };
    // Structs of numbers and strings can always be serialized.
    visible_json(&serde_json::to_string(&update).unwrap_or_default()) + "\n"
}

#[derive(Serialize)]
struct Update<'a> {
    time_ms: u64,
    interval_ms: f64,
    processes_of_other_users: usize,
    processes: Vec<Process<'a>>,
}

/// The bytes are those of the interval.
#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    name: &'a str,
    #[serde(flatten)]
    io: Io,
    since_start: Io,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Thread<'a>>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Thread<'a> {
    tid: u32,
    name: &'a str,
    #[serde(flatten)]
    io: Io,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    written_bytes: u64,
    size_bytes: u64,
}

impl<'a> Process<'a> {
    fn new(writes: &'a Writes) -> Self {
        let thread = |(tid, name, io): &'a (u32, String, Io)| Thread { tid: *tid, name, io: *io };
        let file = |(file, written): &'a (super::files::OpenFile, u64)| File {
            path: &file.path,
            written_bytes: *written,
            size_bytes: file.size,
        };
        Self {
            pid: writes.pid,
            name: &writes.name,
            io: writes.io,
            since_start: writes.io_since_start,
            threads: writes.threads.iter().map(thread).collect(),
            files: writes.files.iter().map(file).collect(),
        }
    }
}
