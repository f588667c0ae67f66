//! What the server holds: samples, their table, and whether the end is like the start.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rudy_observe::{Error, Process, State, by_state};

use super::tally::Counts;

/// Descriptors beyond those of the idle server after its start.
pub(super) const DESCRIPTORS_MORE: u64 = 0;
/// Threads beyond those of the idle server after its start.
pub(super) const THREADS_MORE: usize = 0;
/// Memory beyond that after the first minute: what an allocator keeps of the most that was in use.
pub(super) const PSS_MORE: u64 = 8 << 20;

/// The server at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) descriptors: u64,
    pub(super) threads: usize,
    pub(super) pss_bytes: u64,
    pub(super) rss_bytes: u64,
    /// Files of the buffers, those without a name among them.
    pub(super) files: usize,
    /// TCP connections by state.
    pub(super) connections: BTreeMap<State, usize>,
    /// Unix sockets: connections to applications, and the sockets on which these listen.
    pub(super) unix: usize,
}

/// Looks at the server.
pub(super) struct Sampler {
    process: Process,
    buffers: PathBuf,
}

impl Sampler {
    pub(super) fn new(pid: u32, buffers: PathBuf) -> Result<Self, Error> {
        Ok(Self { process: Process::open(pid)?, buffers })
    }

    pub(super) fn sample(&mut self) -> Result<Sample, Error> {
        let now = self.process.sample()?;
        let sockets = self.process.sockets()?;
        let states = by_state(&sockets.held);
        Ok(Sample {
            descriptors: now.descriptors.open.unwrap_or_default(),
            threads: now.threads.len(),
            pss_bytes: self.process.pss_bytes()?,
            rss_bytes: now.memory.rss_bytes,
            files: self.files(),
            connections: states.into_iter().map(|(state, tally)| (state, tally.sockets)).collect(),
            unix: sockets.unix,
        })
    }

    /// Files in the folder of the buffers, and open ones without a name.
    pub(super) fn files(&self) -> usize {
        let named = fs::read_dir(&self.buffers).map_or(0, Iterator::count);
        named + self.links().iter().filter(|link| link.starts_with(&self.buffers)).count()
    }

    /// What the descriptors lead to.
    pub(super) fn links(&self) -> Vec<PathBuf> {
        let folder = Path::new("/proc").join(self.process.pid().to_string()).join("fd");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
    }
}

impl Sample {
    fn in_state(&self, state: State) -> usize {
        self.connections.get(&state).copied().unwrap_or_default()
    }

    /// What this has more than the idle server had after its start.
    pub(super) fn leaks(&self, start: &Self) -> Vec<String> {
        let mut leaks = Vec::new();
        if self.descriptors > start.descriptors + DESCRIPTORS_MORE {
            leaks.push(format!("{} descriptors, {} at the start", self.descriptors, start.descriptors));
        }
        if self.threads > start.threads + THREADS_MORE {
            leaks.push(format!("{} threads, {} at the start", self.threads, start.threads));
        }
        if self.files > 0 {
            leaks.push(format!("{} files of the buffers", self.files));
        }
        let closing = self.in_state(State::CloseWait);
        if closing > 0 {
            leaks.push(format!("{closing} connections in CLOSE_WAIT"));
        }
        leaks
    }

    /// The same for memory, `early` being the sample after the first minute.
    pub(super) fn memory_leak(&self, early: &Self) -> Option<String> {
        (self.pss_bytes > early.pss_bytes + PSS_MORE).then(|| {
            let (now, then) = (Mebibytes(self.pss_bytes), Mebibytes(early.pss_bytes));
            format!("PSS {now}, {then} after the first minute, {} more are allowed", Mebibytes(PSS_MORE))
        })
    }
}

/// The heading of the table.
pub(super) const HEADING: &str = "    time  requests  failed  descriptors  threads   PSS MiB   RSS MiB  files (most)  ESTAB  CLOSE_WAIT  other  unix";

/// A line of the table.
pub(super) struct Row<'a> {
    pub(super) time: Duration,
    pub(super) counts: &'a Counts,
    pub(super) sample: &'a Sample,
    /// The most files of the buffers since the last row.
    pub(super) files_most: usize,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, counts, sample, files_most } = self;
        let (requests, failed) = (counts.responses(), counts.failures);
        write!(f, "{:>6} s  {requests:>8}  {failed:>6}", time.as_secs())?;
        write!(f, "  {:>11}  {:>7}", sample.descriptors, sample.threads)?;
        write!(f, "  {:>8}  {:>8}", Mebibytes(sample.pss_bytes), Mebibytes(sample.rss_bytes))?;
        write!(f, "  {:>12}", format!("{} ({files_most})", sample.files))?;
        let (established, closing) = (sample.in_state(State::Established), sample.in_state(State::CloseWait));
        let all: usize = sample.connections.values().sum();
        let other = all - established - closing - sample.in_state(State::Listen);
        write!(f, "  {established:>5}  {closing:>10}  {other:>5}  {:>4}", sample.unix)
    }
}

/// A number of bytes, written as MiB with one digit behind the point.
pub(super) struct Mebibytes(pub(super) u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10 + (1 << 19)) >> 20;
        f.pad(&format!("{}.{}", tenths / 10, tenths % 10))
    }
}
