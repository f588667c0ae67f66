//! Samples of what processes write.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rudy_observe::{Error, Folder, Stat, all};

use super::files::{self, OpenFile};
use super::io::Io;

/// A sample of one process or of all.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    processes: Vec<Writer>,
    /// Number of processes that belong to other users.
    denied: usize,
}

/// A process in a sample.
#[derive(Debug)]
struct Writer {
    pid: u32,
    name: String,
    began_ticks: u64,
    io: Io,
    /// Of a single process only: those of all processes would be thousands of reads.
    threads: Vec<(u32, String, Io)>,
    files: Vec<OpenFile>,
}

/// What was written between two samples.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) time: Duration,
    /// The processes that exist, the busiest first.
    pub(super) processes: Vec<Writes>,
    pub(super) denied: usize,
    /// Whether a single process was asked for.
    pub(super) is_single: bool,
}

/// What a process has written.
#[derive(Debug)]
pub(super) struct Writes {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) io: Io,
    pub(super) io_since_start: Io,
    /// Its threads, the busiest first. Empty unless a single process was asked for.
    pub(super) threads: Vec<(u32, String, Io)>,
    /// The files that it has open for writing, with the bytes of the interval, the busiest first.
    pub(super) files: Vec<(OpenFile, u64)>,
}

impl Sample {
    /// Of process `pid`, or of all that this user may read.
    pub(super) fn take(pid: Option<u32>) -> Result<Self, Error> {
        let at = Instant::now();
        let mut buffer = Vec::new();
        if let Some(pid) = pid {
            let writer = Writer::read(pid, true, &mut buffer).map_err(|error| ended(error, pid))?;
            return Ok(Self { at, processes: vec![writer], denied: 0 });
        }
        let (mut processes, mut denied) = (Vec::new(), 0);
        for pid in all()? {
            match Writer::read(pid, false, &mut buffer) {
                Ok(writer) => processes.push(writer),
                Err(Error::Denied { .. }) => denied += 1,
                // It has ended.
                Err(Error::NoSuchProcess { .. } | Error::Ended { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { at, processes, denied })
    }
}

/// A process that was there is a process that has ended.
fn ended(error: Error, pid: u32) -> Error {
    if matches!(error, Error::NoSuchProcess { .. }) { Error::Ended { pid } } else { error }
}

impl Writer {
    fn read(pid: u32, with_threads: bool, buffer: &mut Vec<u8>) -> Result<Self, Error> {
        let folder = Folder::open(pid)?;
        folder.read("stat", buffer)?;
        let stat = Stat::parse(buffer).ok_or_else(|| folder.unexpected("stat", "22 fields"))?;
        folder.read("io", buffer)?;
        // The file of an unreaped process is readable, too.
        let io = Io::parse(buffer).ok_or_else(|| folder.unexpected("io", "three lines of written bytes"))?;
        let threads = if with_threads { threads(&folder, buffer)? } else { Vec::new() };
        let files = files::open_for_writing(&folder, buffer)?;
        Ok(Self { pid, name: stat.name, began_ticks: stat.began_ticks, io, threads, files })
    }
}

fn threads(folder: &Folder, buffer: &mut Vec<u8>) -> Result<Vec<(u32, String, Io)>, Error> {
    let mut threads = Vec::new();
    for tid in folder.list("task")? {
        if !folder.read_if_there(&format!("task/{tid}/comm"), buffer)? {
            continue;
        }
        let name = String::from_utf8_lossy(buffer).trim_end().to_owned();
        if folder.read_if_there(&format!("task/{tid}/io"), buffer)? {
            threads.extend(Io::parse(buffer).map(|io| (tid, name, io)));
        }
    }
    Ok(threads)
}

impl Activity {
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let known: HashMap<(u32, u64), &Writer> =
            before.processes.iter().map(|writer| ((writer.pid, writer.began_ticks), writer)).collect();
        let mut processes: Vec<Writes> = now
            .processes
            .iter()
            .map(|writer| Writes::since(writer, known.get(&(writer.pid, writer.began_ticks)).copied()))
            .collect();
        processes.sort_by_key(|writes| (std::cmp::Reverse(writes.io.weight()), writes.pid));
        Self {
            time: now.at.saturating_duration_since(before.at),
            processes,
            denied: now.denied,
            is_single: now.processes.first().is_some_and(|writer| !writer.threads.is_empty()),
        }
    }

    /// The sum of all processes.
    pub(super) fn total(&self) -> Io {
        let mut total = Io::default();
        self.processes.iter().for_each(|writes| total += writes.io);
        total
    }
}

impl Writes {
    /// A process that began in between is included with all that it wrote.
    fn since(now: &Writer, before: Option<&Writer>) -> Self {
        let earlier =
            |tid: u32| before.and_then(|before| before.threads.iter().find(|thread| thread.0 == tid));
        let thread = |(tid, name, io): &(u32, String, Io)| {
            (*tid, name.clone(), *io - earlier(*tid).map(|thread| thread.2).unwrap_or_default())
        };
        let mut threads: Vec<_> = now.threads.iter().map(thread).collect();
        threads.sort_by_key(|(tid, _, io)| (std::cmp::Reverse(io.weight()), *tid));
        let file = |file: &OpenFile| {
            let earlier =
                before.and_then(|before| before.files.iter().find(|old| old.descriptor == file.descriptor));
            (file.clone(), file.written_since(earlier))
        };
        let mut files: Vec<_> = now.files.iter().map(file).collect();
        files.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.path.cmp(&b.path)));
        Self {
            pid: now.pid,
            name: now.name.clone(),
            io: now.io - before.map(|before| before.io).unwrap_or_default(),
            io_since_start: now.io,
            threads,
            files,
        }
    }
}
