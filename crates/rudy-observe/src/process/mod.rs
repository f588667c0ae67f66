//! An observed process.

mod allocation;
mod clock;
mod difference;
mod find;
mod memory;
mod run_delay;
mod several;
mod stack;
mod thread;
mod tree;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

pub use self::allocation::Allocation;
pub use self::clock::cpu_time;
pub use self::difference::{Difference, ThreadDifference};
pub use self::find::all;
pub use self::memory::Memory;
pub use self::run_delay::{RunDelay, ThreadTime, ThreadTimes};
pub use self::several::Processes;
pub use self::stack::{KernelStack, Source};
pub use self::thread::Stat;
pub use self::thread::Thread;
use self::thread::{Scheduled, switches};
pub use self::tree::{ProcessEntry, descendants, process_entry};
use crate::Error;
use crate::descriptors::{self, Descriptors};
use crate::folder::{Folder, read};
use crate::sockets::{Remotes, Sockets};

/// An observed process.
#[derive(Debug)]
pub struct Process {
    folder: Folder,
    name: String,
    /// The threads of the last sample, by id.
    known: HashMap<u32, Thread>,
    /// Remote addresses to which it had connections.
    remotes: Remotes,
    /// The read buffer.
    buffer: Vec<u8>,
}

/// A sample of a process. Times are since its start.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When it was taken.
    pub at: Instant,
    /// The time since boot, to which the starts of threads refer.
    pub since_boot: Duration,
    /// CPU time in user mode, including ended threads, in ticks of 10 ms.
    pub cpu_user: Duration,
    /// CPU time in the kernel, including ended threads, in ticks of 10 ms.
    pub cpu_system: Duration,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its memory.
    pub memory: Memory,
    /// Its descriptors.
    pub descriptors: Descriptors,
}

impl Process {
    /// Opens process `pid`. From then on, refers to this process even if its id is reused.
    ///
    /// The id of one of its threads, as `top -H` shows it, is also accepted.
    pub fn open(pid: u32) -> Result<Self, Error> {
        let mut buffer = Vec::new();
        let mut folder = Folder::open(pid)?;
        let not_there = |error: Error| if error.is_end() { Error::NoSuchProcess { pid } } else { error };
        folder.read("status", &mut buffer).map_err(not_there)?;
        let group = field(&buffer, "Tgid:").ok_or_else(|| folder.unexpected("status", "a line `Tgid:`"))?;
        if group != u64::from(pid) {
            // The folder of a thread becomes invalid when the thread ends.
            folder = Folder::open(u32::try_from(group).unwrap_or(pid))?;
        }
        folder.read("stat", &mut buffer).map_err(not_there)?;
        let stat = Stat::parse(&buffer).ok_or_else(|| folder.unexpected("stat", STAT_FIELDS))?;
        Ok(Self { folder, name: stat.name, known: HashMap::new(), remotes: Remotes::default(), buffer })
    }

    /// Opens the calling process, to measure our own overhead.
    pub fn own() -> Result<Self, Error> {
        Self::open(std::process::id())
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.folder.pid()
    }

    /// The name of its main thread when it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its folder in `/proc`.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Takes a sample. Fast enough for ten per second: a thread that did not run since the last sample costs
    /// one small read, and most of three thousand threads did not.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let (at, since_boot) = (Instant::now(), since_boot());
        let threads = self.threads(at)?;
        let (folder, buffer) = (&self.folder, &mut self.buffer);
        folder.read("stat", buffer)?;
        let stat = Stat::parse(buffer).ok_or_else(|| folder.unexpected("stat", STAT_FIELDS))?;
        folder.read("status", buffer)?;
        let memory = Memory::parse(buffer);
        Ok(Sample {
            at,
            since_boot,
            cpu_user: ticks(stat.user_ticks),
            cpu_system: ticks(stat.system_ticks),
            threads,
            memory,
            descriptors: Descriptors::read(folder, buffer)?,
        })
    }

    /// Its descriptors only.
    pub fn descriptors(&mut self) -> Result<Descriptors, Error> {
        self.check_runs()?;
        Descriptors::read(&self.folder, &mut self.buffer)
    }

    /// Finds its sockets. The cost grows with the sockets of the network namespace and with its descriptors:
    /// about 160 ms for twenty thousand.
    ///
    /// Descriptors and tables are not read atomically; a socket that appears or disappears in between may be
    /// missing.
    pub fn sockets(&mut self) -> Result<Sockets, Error> {
        let limit = self.descriptors()?.limit;
        let sockets = Sockets::find(&[&self.folder], limit, &mut self.remotes)?;
        // The process may have ended meanwhile, so the descriptors may be incomplete.
        self.check_runs()?;
        Ok(sockets)
    }

    /// The proportional set size: private pages, and a share of the shared ones. Expensive, because the
    /// kernel walks all pages: some milliseconds per gigabyte, in which the process cannot map memory.
    pub fn pss_bytes(&mut self) -> Result<u64, Error> {
        self.folder.read("smaps_rollup", &mut self.buffer)?;
        let kib = field(&self.buffer, "Pss:");
        kib.map(|kib| kib * 1024).ok_or_else(|| self.folder.unexpected("smaps_rollup", "a line `Pss:`"))
    }

    /// The proportional set size without copies of files: allocated pages, and a share of those that other
    /// processes have too. The sum over a tree of processes counts each page once. As expensive as
    /// [`pss_bytes`](Self::pss_bytes).
    pub fn allocated_pss_bytes(&mut self) -> Result<u64, Error> {
        self.folder.read("smaps_rollup", &mut self.buffer)?;
        let kib = |name| field(&self.buffer, name);
        let all = (kib("Pss_Anon:"), kib("Pss_Shmem:"), kib("SwapPss:"));
        let (Some(anonymous), Some(shared), Some(swap)) = all else {
            return Err(self
                .folder
                .unexpected("smaps_rollup", "lines `Pss_Anon:`, `Pss_Shmem:` and `SwapPss:`"));
        };
        Ok((anonymous + shared + swap) * 1024)
    }

    /// Its memory and the number of its open descriptors: two reads, which do not depend on the number of threads or
    /// pages.
    pub fn memory(&mut self) -> Result<(Memory, Option<u64>), Error> {
        self.folder.read("status", &mut self.buffer)?;
        Ok((Memory::parse(&self.buffer), descriptors::open(&self.folder)?))
    }

    /// Fails if the process has ended. Reads of an unreaped process return empty data without an error.
    pub fn check_runs(&mut self) -> Result<(), Error> {
        self.folder.read("stat", &mut self.buffer)?;
        let has_ended = Stat::parse(&self.buffer).is_none_or(|stat| is_end(stat.state));
        // A process can continue without its main thread.
        if has_ended { self.threads(Instant::now()).map(drop) } else { Ok(()) }
    }

    fn threads(&mut self, at: Instant) -> Result<Vec<Thread>, Error> {
        let mut threads = Vec::with_capacity(self.known.len());
        let is_crowded = is_crowded(&mut self.buffer);
        for tid in self.folder.list("task")? {
            threads.extend(self.thread(tid, at, is_crowded)?);
        }
        // An unreaped process still exists, with an ended thread.
        if threads.iter().all(|thread| is_end(thread.state)) {
            return Err(Error::Ended { pid: self.pid() });
        }
        self.known = threads.iter().map(|thread| (thread.tid, thread.clone())).collect();
        Ok(threads)
    }

    /// Samples a thread. `None` if it has ended meanwhile.
    fn thread(&mut self, tid: u32, at: Instant, is_crowded: bool) -> Result<Option<Thread>, Error> {
        let (folder, buffer) = (&self.folder, &mut self.buffer);
        let path = |file| format!("task/{tid}/{file}");
        if !folder.read_if_there(&path("schedstat"), buffer)? {
            buffer.clear();
        }
        let scheduled = Scheduled::parse(buffer);
        let known = self.known.get(&tid).filter(|known| known.scheduled == scheduled);
        if let (Some(known), Some(_)) = (known, scheduled) {
            let mut thread = known.clone();
            // It has not run, but may wait for a core.
            if (is_crowded || thread.starved_since.is_some())
                && folder.read_if_there(&path("stat"), buffer)?
                && let Some(stat) = Stat::parse(buffer)
            {
                thread.has_not_run(stat.state, at);
            }
            return Ok(Some(thread));
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

/// Whether this is the state of an ended thread: zombie or dead.
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
            starved_since: None,
        }
    }
}

/// The number after `name` at the start of a line.
#[must_use]
pub fn field(text: &[u8], name: &str) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether more threads of the machine are runnable than there are cores: only then can one be runnable and not run for a whole interval. Unknown
/// counts as true.
fn is_crowded(buffer: &mut Vec<u8>) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runnable = read("/proc/loadavg", buffer).ok().and_then(|()| runnable(buffer));
    runnable.is_none_or(|runnable| runnable > cores)
}

/// Parses `0.20 0.18 0.12 3/80 11206`: proc(5).
fn runnable(loadavg: &[u8]) -> Option<usize> {
    let field = std::str::from_utf8(loadavg).ok()?.split_ascii_whitespace().nth(3)?;
    field.split_once('/')?.0.parse().ok()
}

/// The time since boot, including the time in which the machine was suspended.
fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The unit of CPU time in `stat`: a hundredth of a second on all supported systems.
pub(crate) fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_secs(count / per_second)
        + Duration::from_nanos(count % per_second * 1_000_000_000 / per_second)
}

#[cfg(test)]
mod tests;
