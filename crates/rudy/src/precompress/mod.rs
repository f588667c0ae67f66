//! `rudy precompress`: writes `name.br`, `name.zst` and `name.gz` beside the files of a folder, for `files` with `precompressed`.
//!
//! 1. [`files`] lists the files whose media type compresses well, without hidden ones and symbolic links.
//! 2. [`sibling`] writes a sibling, if it is smaller, under a hidden name, and renames it. It has the modification time of its file,
//!    which shows later whether the file has changed.
//! 3. [`made`] records which siblings the command has made. It replaces a newer sibling and removes an orphan only if they are its own:
//!    `dump.sql.gz` may be a download.

mod files;
mod flags;
mod made;
mod sibling;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use rudy_message::semantics::negotiation::Coding;
use rudy_server::run::Exit;
use rudy_units::visible;

pub(crate) use self::flags::Precompress;
use self::made::Made;
use self::sibling::{Outcome, Sibling};

/// The options of `rudy precompress`.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// The codings, without duplicates.
    pub(crate) codings: Vec<Coding>,
    /// The level of all codings, limited to the highest of each; `None` for the highest.
    pub(crate) level: Option<u8>,
    /// The number of threads; `None` for one per core.
    pub(crate) jobs: Option<usize>,
    /// Only print what would be done.
    pub(crate) dry_run: bool,
    /// Remove siblings made earlier whose files are gone.
    pub(crate) prune: bool,
}

/// Returns the coding with this name in `Content-Encoding`.
pub(crate) fn coding(name: &str) -> Option<Coding> {
    Coding::COMPRESSED.into_iter().find(|coding| coding.name() == name)
}

/// Compresses the files of the folder, and prints a summary.
pub(crate) fn run(options: &Options) -> Exit {
    match precompress(options) {
        Ok(totals) => {
            let _ = writeln!(io::stdout(), "{}", totals.summary(options));
            if totals.failed > 0 { Exit::CannotRun } else { Exit::Done }
        }
        Err(error) => {
            print(&format!("error: {}: {error}", visible(&options.folder.to_string_lossy())));
            Exit::CannotRun
        }
    }
}

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    written: usize,
    plain_bytes: u64,
    coded_bytes: u64,
    current: usize,
    not_smaller: usize,
    removed: usize,
    failed: usize,
}

impl Totals {
    fn add(&mut self, sibling: &Sibling, outcome: &io::Result<Outcome>) {
        match outcome {
            Ok(Outcome::Written(bytes)) => {
                self.written += 1;
                self.plain_bytes += sibling.file.size;
                self.coded_bytes += bytes;
            }
            Ok(Outcome::Current) => self.current += 1,
            Ok(Outcome::NotSmaller { removed }) => {
                self.not_smaller += 1;
                self.removed += usize::from(*removed);
            }
            Err(_) => self.failed += 1,
        }
    }

    fn summary(&self, options: &Options) -> String {
        let verb = if options.dry_run { "would write" } else { "wrote" };
        let mut text = format!("{verb} {} compressed files", self.written);
        if self.written > 0 {
            let _ = write!(
                text,
                ": {} became {}",
                rudy_units::bytes(self.plain_bytes),
                rudy_units::bytes(self.coded_bytes)
            );
        }
        let others = [
            (self.current, "current already"),
            (self.not_smaller, "not smaller"),
            (self.removed, if options.dry_run { "would be removed" } else { "removed" }),
            (self.failed, "failed"),
        ];
        for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, "; {count} {what}");
        }
        text
    }
}

/// The state that all threads share.
struct Progress {
    totals: Totals,
    made: Made,
    done: usize,
    has_line: bool,
}

fn precompress(options: &Options) -> io::Result<Totals> {
    let made = Made::read(&options.folder)?;
    let mut totals = Totals::default();
    let files = files::list(&options.folder, |path, error| {
        totals.failed += 1;
        print(&format!("error: cannot read {}: {error}", visible(&path.to_string_lossy())));
    })?;
    let siblings: Vec<_> = files
        .iter()
        .flat_map(|file| options.codings.iter().map(|coding| Sibling::new(file, *coding, options.level)))
        .collect();
    let progress = Mutex::new(Progress { totals, made, done: 0, has_line: false });
    let next = AtomicUsize::new(0);
    let jobs = options.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, siblings.len().max(1)) {
            scope.spawn(|| {
                while let Some(sibling) = siblings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_own = progress.lock().made.contains(&sibling.path);
                    let outcome = sibling.write(is_own, options.dry_run);
                    progress.lock().finished(sibling, &outcome, siblings.len());
                }
            });
        }
    });
    let Progress { mut totals, mut made, has_line, .. } = progress.into_inner();
    if has_line {
        eprint_raw("\r\x1b[K");
    }
    if options.prune {
        totals.removed += made.prune(&options.folder, options.dry_run)?;
    }
    if !options.dry_run {
        made.save(&options.folder)?;
    }
    Ok(totals)
}

impl Progress {
    fn finished(&mut self, sibling: &Sibling, outcome: &io::Result<Outcome>, all: usize) {
        self.totals.add(sibling, outcome);
        self.done += 1;
        match outcome {
            Ok(Outcome::Written(_)) => self.made.insert(&sibling.path),
            Ok(Outcome::NotSmaller { removed: true }) => self.made.remove(&sibling.path),
            Ok(_) => {}
            Err(error) => {
                print(&format!("error: cannot write {}: {error}", visible(&sibling.path.to_string_lossy())));
            }
        }
        if io::stderr().is_terminal() {
            self.has_line = true;
            let Totals { plain_bytes, coded_bytes, .. } = self.totals;
            let (plain, coded) = (rudy_units::bytes(plain_bytes), rudy_units::bytes(coded_bytes));
            eprint_raw(&format!("\r\x1b[K{} of {all} files, {plain} became {coded}", self.done));
        }
    }
}

fn print(line: &str) {
    eprint_raw(&format!("{line}\n"));
}

/// Writes to standard error. Without a reader, there is nothing to report to.
fn eprint_raw(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
