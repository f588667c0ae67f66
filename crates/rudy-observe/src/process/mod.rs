//! A process, looked at from outside.

mod descriptors;
mod difference;
mod folder;
mod memory;
mod thread;

use std::collections::HashMap;
use std::time::{Duration, Instant};

pub use self::descriptors::Descriptors;
pub use self::difference::{Difference, ThreadDifference};
pub(crate) use self::folder::{Folder, read};
pub use self::memory::Memory;
pub use self::thread::Thread;
use self::thread::{Scheduled, Stat, switches};
use crate::Error;
use crate::sockets::Remotes;

/// A process that is looked at.
#[derive(Debug)]
pub struct Process {
    pub(crate) folder: Folder,
    name: String,
    /// The threads of the last sample, by number.
    known: HashMap<u32, Thread>,
    /// To whom it was seen to have connections.
    pub(crate) remotes: Remotes,
    /// What was read last.
    buffer: Vec<u8>,
}

/// A process at one moment. Times are those since it began.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When it was taken.
    pub at: Instant,
    /// CPU in user mode, with that of threads that have ended, in ticks of 10 ms.
    pub cpu_user: Duration,
    /// CPU in the kernel, with that of threads that have ended, in ticks of 10 ms.
    pub cpu_system: Duration,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its memory.
    pub memory: Memory,
    /// Its descriptors.
    pub descriptors: Descriptors,
}

impl Process {
    /// Begins to look at process `pid`. From then on it is this process and no later one of the same number.
    ///
    /// The number of one of its threads, as `top -H` shows it, stands for the process too.
    pub fn open(pid: u32) -> Result<Self, Error> {
        let mut buffer = Vec::new();
        let mut folder = Folder::open(pid)?;
        let not_there = |error: Error| if error.is_end() { Error::NoSuchProcess { pid } } else { error };
        folder.read("status", &mut buffer).map_err(not_there)?;
        let group = field(&buffer, "Tgid:").ok_or_else(|| folder.unexpected("status", "a line `Tgid:`"))?;
        if group != u64::from(pid) {
            // What a thread's folder shows ends with the thread.
            folder = Folder::open(u32::try_from(group).unwrap_or(pid))?;
        }
        folder.read("stat", &mut buffer).map_err(not_there)?;
        let stat = Stat::parse(&buffer).ok_or_else(|| folder.unexpected("stat", STAT_FIELDS))?;
        Ok(Self { folder, name: stat.name, known: HashMap::new(), remotes: Remotes::default(), buffer })
    }

    /// Looks at the process that asks: how much of the work is our own.
    pub fn own() -> Result<Self, Error> {
        Self::open(std::process::id())
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.folder.pid()
    }

    /// Its name when it was opened: that of its first thread.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has now. Made to be asked for ten times a second: of a thread that has not run since the last time one small
    /// file is read, and of three thousand threads most have not.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let at = Instant::now();
        let threads = self.threads()?;
        let (folder, buffer) = (&self.folder, &mut self.buffer);
        folder.read("stat", buffer)?;
        let stat = Stat::parse(buffer).ok_or_else(|| folder.unexpected("stat", STAT_FIELDS))?;
        folder.read("status", buffer)?;
        let memory = Memory::parse(buffer);
        Ok(Sample {
            at,
            cpu_user: ticks(stat.user_ticks),
            cpu_system: ticks(stat.system_ticks),
            threads,
            memory,
            descriptors: Descriptors::read(folder, buffer)?,
        })
    }

    /// Its descriptors alone.
    pub fn descriptors(&mut self) -> Result<Descriptors, Error> {
        self.check_runs()?;
        Descriptors::read(&self.folder, &mut self.buffer)
    }

    /// Its proportional set size: what it has for itself, and its share of what it shares. Costly, because the kernel walks
    /// through all of its pages: some milliseconds for each gigabyte, in which the process cannot map memory.
    pub fn pss_bytes(&mut self) -> Result<u64, Error> {
        self.folder.read("smaps_rollup", &mut self.buffer)?;
        let kib = field(&self.buffer, "Pss:");
        kib.map(|kib| kib * 1024).ok_or_else(|| self.folder.unexpected("smaps_rollup", "a line `Pss:`"))
    }

    /// Fails if it has ended. What is read of one that has ended and was not waited for is empty, and no error.
    pub(crate) fn check_runs(&mut self) -> Result<(), Error> {
        self.folder.read("stat", &mut self.buffer)?;
        let has_ended = Stat::parse(&self.buffer).is_none_or(|stat| is_end(stat.state));
        // A process goes on without its first thread.
        if has_ended { self.threads().map(drop) } else { Ok(()) }
    }

    fn threads(&mut self) -> Result<Vec<Thread>, Error> {
        let mut threads = Vec::with_capacity(self.known.len());
        for tid in self.folder.list("task")? {
            threads.extend(self.thread(tid)?);
        }
        // One that was not waited for is still there, with a thread that has ended.
        if threads.iter().all(|thread| is_end(thread.state)) {
            return Err(Error::Ended { pid: self.pid() });
        }
        self.known = threads.iter().map(|thread| (thread.tid, thread.clone())).collect();
        Ok(threads)
    }

    /// A thread as it is now. Nothing where it has ended in the meantime, as it may at any time.
    fn thread(&mut self, tid: u32) -> Result<Option<Thread>, Error> {
        let (folder, buffer) = (&self.folder, &mut self.buffer);
        let path = |file| format!("task/{tid}/{file}");
        if !folder.read_if_there(&path("schedstat"), buffer)? {
            buffer.clear();
        }
        let scheduled = Scheduled::parse(buffer);
        let known = self.known.get(&tid).filter(|known| known.scheduled == scheduled);
        if let (Some(known), Some(_)) = (known, scheduled) {
            return Ok(Some(known.clone()));
        }
        if !folder.read_if_there(&path("stat"), buffer)? {
            return Ok(None);
        }
        let stat = Stat::parse(buffer).ok_or_else(|| folder.unexpected(&path("stat"), STAT_FIELDS))?;
        if !folder.read_if_there(&path("status"), buffer)? {
            return Ok(None);
        }
        let switches = switches(buffer)
            .ok_or_else(|| folder.unexpected(&path("status"), "two lines of context switches"))?;
        Ok(Some(Thread::new(tid, stat, switches, scheduled)))
    }
}

/// Whether it is the state of a thread that has ended: zombie, dead.
fn is_end(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

const STAT_FIELDS: &str = "22 fields";

impl Thread {
    fn new(tid: u32, stat: Stat, switches: (u64, u64), scheduled: Option<Scheduled>) -> Self {
        let (cpu_user, cpu_system) = (ticks(stat.user_ticks), ticks(stat.system_ticks));
        Self {
            tid,
            name: stat.name,
            state: stat.state,
            cpu: scheduled.map_or(cpu_user + cpu_system, |scheduled| scheduled.ran),
            cpu_user,
            cpu_system,
            ready: scheduled.map(|scheduled| scheduled.ready),
            voluntary_switches: switches.0,
            involuntary_switches: switches.1,
            began_ticks: stat.began_ticks,
            scheduled,
        }
    }
}

/// The number behind `name` at the beginning of a line.
fn field(text: &[u8], name: &str) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// The kernel counts CPU in these for whoever reads `stat`: a hundredth of a second on every system we build for.
pub(crate) fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs(count / per_second)
        + Duration::from_nanos(count % per_second * 1_000_000_000 / per_second)
}

#[cfg(test)]
mod tests;
