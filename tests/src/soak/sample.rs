//! Samples of the server's resources, and detection of leaks.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rudy_observe::{Error, Process, State, by_state};

use super::tally::Counts;

/// Number of descriptors allowed at the end in addition to those of the idle server at the start: each of two workers keeps two
/// pipes with two ends for the proxy, and the folder of the files.
pub(super) const DESCRIPTORS_GROWTH_MAX: u64 = 10;
/// Number of threads allowed at the end in addition to those of the idle server at the start.
pub(super) const THREADS_GROWTH_MAX: usize = 0;
/// Memory allowed at the end in addition to that after the first minute, for what the allocator retains.
pub(super) const ALLOCATED_GROWTH_MAX: u64 = 8 << 20;

/// The server's resources at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) descriptors: u64,
    pub(super) threads: usize,
    /// Memory that is not of files: pages of the binary count differently as soon as `rudy conns`, the same file, ends.
    pub(super) allocated_bytes: u64,
    pub(super) rss_bytes: u64,
    /// Number of buffer files, including files without a name.
    pub(super) files: usize,
    /// TCP connections by state.
    pub(super) connections: BTreeMap<State, usize>,
    /// Number of Unix sockets: connections to applications, and their listening sockets.
    pub(super) unix: usize,
}

/// Takes samples of the server.
pub(super) struct Sampler {
    process: Process,
    buffers: PathBuf,
}

impl Sampler {
    pub(super) fn new(pid: u32, buffers: PathBuf) -> Result<Self, Error> {
        Ok(Self { process: Process::open(pid)?, buffers })
    }

    /// Takes the samples of another process from now on.
    pub(super) fn follow(&mut self, pid: u32) -> Result<(), Error> {
        if self.process.pid() != pid {
            self.process = Process::open(pid)?;
        }
        Ok(())
    }

    pub(super) fn sample(&mut self) -> Result<Sample, Error> {
        let now = self.process.sample()?;
        let sockets = self.process.sockets()?;
        let states = by_state(&sockets.with_descriptor);
        Ok(Sample {
            descriptors: now.descriptors.open.unwrap_or_default(),
            threads: now.threads.len(),
            allocated_bytes: self.process.allocated_pss_bytes()?,
            rss_bytes: now.memory.rss_bytes,
            files: self.files(),
            connections: states.into_iter().map(|(state, tally)| (state, tally.sockets)).collect(),
            unix: sockets.unix,
        })
    }

    /// Number of files in the buffer folder, plus open files without a name.
    pub(super) fn files(&self) -> usize {
        let named = fs::read_dir(&self.buffers).map_or(0, Iterator::count);
        named + self.links().iter().filter(|link| link.starts_with(&self.buffers)).count()
    }

    /// The targets of the descriptors.
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

    /// Lists the resources that have leaked since the sample of the idle server at the start.
    pub(super) fn leaks(&self, start: &Self) -> Vec<String> {
        let mut leaks = Vec::new();
        if self.descriptors > start.descriptors + DESCRIPTORS_GROWTH_MAX {
            leaks.push(format!("{} descriptors, {} at the start", self.descriptors, start.descriptors));
        }
        if self.threads > start.threads + THREADS_GROWTH_MAX {
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

    /// Compares memory with `early`, the sample after the first minute.
    pub(super) fn memory_leak(&self, early: &Self) -> Option<String> {
        (self.allocated_bytes > early.allocated_bytes + ALLOCATED_GROWTH_MAX).then(|| {
            let (now, then) = (Mebibytes(self.allocated_bytes), Mebibytes(early.allocated_bytes));
            format!(
                "memory {now}, {then} after the first minute, maximum growth {}",
                Mebibytes(ALLOCATED_GROWTH_MAX)
            )
        })
    }
}

/// The heading of the table.
pub(super) const HEADER: &str = "    time  requests  failed  descriptors  threads   alloc MiB   RSS MiB  files (most)  ESTAB  CLOSE_WAIT  other  unix";

/// A line of the table.
pub(super) struct Row<'a> {
    pub(super) time: Duration,
    pub(super) counts: &'a Counts,
    pub(super) sample: &'a Sample,
    /// Maximum number of buffer files since the last row.
    pub(super) files_max: usize,
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, counts, sample, files_max } = self;
        let (requests, failed) = (counts.responses(), counts.failures);
        write!(f, "{:>6} s  {requests:>8}  {failed:>6}", time.as_secs())?;
        write!(f, "  {:>11}  {:>7}", sample.descriptors, sample.threads)?;
        write!(f, "  {:>10}  {:>8}", Mebibytes(sample.allocated_bytes), Mebibytes(sample.rss_bytes))?;
        write!(f, "  {:>12}", format!("{} ({files_max})", sample.files))?;
        let (established, closing) = (sample.in_state(State::Established), sample.in_state(State::CloseWait));
        let all: usize = sample.connections.values().sum();
        let other = all - established - closing - sample.in_state(State::Listen);
        write!(f, "  {established:>5}  {closing:>10}  {other:>5}  {:>4}", sample.unix)
    }
}

/// Formats a number of bytes as MiB with one decimal place.
pub(super) struct Mebibytes(pub(super) u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10 + (1 << 19)) >> 20;
        f.pad(&format!("{}.{}", tenths / 10, tenths % 10))
    }
}
