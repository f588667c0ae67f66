//! Joins the threads of a JVM with its thread dumps.

mod attach;
mod dump;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

pub(crate) use self::attach::{AttachError, Tool};
use self::dump::DumpedThread;

/// Where thread dumps come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dumps {
    /// The JVM, which `jcmd` or `jstack` asks for them.
    Attach,
    /// A file with one or several dumps.
    File(PathBuf),
}

/// Number of dumps per update. A thread that has the same top frame in ten samples is there for more than 74 % of its time, with 95 %
/// confidence (0.05 to the power of 1/10).
pub(crate) const DUMPS: u32 = 10;

/// The threads in several dumps.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// The number of dumps.
    pub(crate) dumps: usize,
    /// How long each took, if the JVM was asked.
    pub(crate) took: Vec<Duration>,
    /// Why others failed.
    pub(crate) failures: Vec<String>,
    /// By native thread id, as the JVM sees it.
    threads: HashMap<u32, JavaThread>,
}

/// A thread in several dumps.
#[derive(Debug, Default)]
pub(crate) struct JavaThread {
    /// Its name, in full.
    pub(crate) name: String,
    /// The number of dumps that contain the thread.
    seen: usize,
    /// The top frames: how often, and the rest of a stack with it, outermost last.
    tops: HashMap<String, (usize, Vec<String>)>,
}

/// The most frequent top frame of a thread.
pub(crate) struct TopFrame<'a> {
    pub(crate) method: &'a str,
    pub(crate) count: usize,
    /// The number of samples with this thread.
    pub(crate) of: usize,
    /// The callers, innermost first.
    pub(crate) callers: &'a [String],
}

impl Samples {
    /// Reads the dumps in a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut samples = Self::default();
        let bytes = fs::read(path)?;
        for dump in dump::parse(&String::from_utf8_lossy(&bytes)) {
            samples.add(dump);
        }
        if samples.dumps == 0 {
            let expected =
                "it contains no thread dump of a JVM: expected the output of `jcmd PID Thread.print`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, expected));
        }
        Ok(samples)
    }

    /// Takes a dump, or notes why that failed.
    pub(crate) fn take(&mut self, tool: &Tool) -> Result<(), AttachError> {
        let (text, took) = tool.dump().inspect_err(|error| self.failures.push(error.to_string()))?;
        for dump in dump::parse(&text) {
            self.add(dump);
        }
        self.took.push(took);
        Ok(())
    }

    fn add(&mut self, dump: Vec<DumpedThread>) {
        self.dumps += 1;
        for dumped in dump {
            let thread = self.threads.entry(dumped.nid).or_default();
            thread.name = dumped.name;
            thread.seen += 1;
            let mut frames = dumped.frames.into_iter();
            if let Some(top) = frames.next() {
                thread.tops.entry(top).or_insert_with(|| (0, frames.collect())).0 += 1;
            }
        }
    }

    /// A thread by its native id.
    pub(crate) fn thread(&self, nid: u32) -> Option<&JavaThread> {
        self.threads.get(&nid)
    }
}

impl JavaThread {
    /// The most frequent top frame; `None` for a thread without Java frames. Among equally frequent ones, the first by name.
    pub(crate) fn top_frame(&self) -> Option<TopFrame<'_>> {
        let (method, (count, callers)) =
            self.tops.iter().max_by(|(a, (m, _)), (b, (n, _))| m.cmp(n).then_with(|| b.cmp(a)))?;
        Some(TopFrame { method, count: *count, of: self.seen, callers })
    }
}

#[cfg(test)]
mod tests;
