//! Follows log files: passes on their lines as they are written, across rotation.
//!
//! A file is identified by device and inode, not by its name, and stays open while it is followed. A renamed
//! file is read to its end before the file that takes its name is read from its start. So no line is lost or
//! read twice.
//!
//! A truncated file (`copytruncate`) is read from its start. Lines written between the last read and the
//! truncation are lost, as they are for the copy. A file that has grown beyond its old size by the next read
//! looks as if it had only grown. Rotation by renaming has neither problem.

mod decide;
mod file;
mod last;
mod pattern;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::decide::{FileEntry, Identity, Names, compare};
use self::file::FollowedFile;
use self::pattern::Listing;
pub use self::pattern::Pattern;
pub use self::watch::Stopper;
use self::watch::{Change, Watch};

/// The maximum number of open files. A pattern that matches more is probably wrong, and connections need
/// descriptors too.
const FILES_MAX: usize = 1000;

/// An event of the followed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A line was written.
    Line(Line<'a>),
    /// A file is now followed under this name.
    Name(&'a Path),
    /// Something happened to a file: a message for the log.
    Notice(&'a str),
    /// A file cannot be followed: a message with the reason for the log, reported once. It is tried again.
    Error(&'a str),
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the file.
    pub file: &'a Path,
    /// Its bytes, without the line end (LF or CR LF). They need not be UTF-8.
    pub text: &'a [u8],
    /// The line is longer than [`LINE_BYTES_MAX`](rudy_log::LINE_BYTES_MAX), and was cut there.
    pub is_cut: bool,
}

/// Receives the events.
pub type OnEvent<'a> = dyn FnMut(Event<'_>) + 'a;

/// The followed files. They are read on the thread that calls [`Follower::read`].
#[derive(Debug)]
pub struct Follower {
    patterns: Vec<Pattern>,
    /// The number of last lines to read from files that exist at the start.
    last: u64,
    files: Vec<FollowedFile>,
    /// Files that cannot be followed, with the reason that was reported.
    errors: BTreeMap<PathBuf, String>,
    /// Files that existed at the start and could not be opened yet.
    unopened: BTreeSet<Identity>,
    watch: Watch,
    /// The changes to handle in the next read.
    change: Change,
    has_started: bool,
    has_more: bool,
}

impl Follower {
    /// Follows the files that match these patterns: files that exist now from their last `last` lines on,
    /// files that appear later from their start.
    #[must_use]
    pub fn new(patterns: Vec<Pattern>, last: u64) -> Self {
        Self {
            patterns,
            last,
            files: Vec::new(),
            errors: BTreeMap::new(),
            unopened: BTreeSet::new(),
            watch: Watch::default(),
            change: Change { content: true, names: true, stop: false },
            has_started: false,
            has_more: false,
        }
    }

    /// Returns a handle that ends [`Self::wait`] from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Returns whether any file could not be followed when that was last tried.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Waits until there may be more to [read](Self::read). Returns `false` after [`Stopper::stop`].
    pub fn wait(&mut self) -> bool {
        // While a large file is being read, stops and rotations of other files must not wait.
        self.change = if self.has_more { self.watch.take() } else { self.watch.wait() };
        !self.change.stop
    }

    /// Passes on what was written since the last call, up to a limit for each file.
    pub fn read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) {
        if self.change.names {
            let mut notices = Vec::new();
            let mut listing = self.list(on_event);
            while self.watch.set_folders(&listing.folders, &mut notices) {
                listing = self.list(on_event);
            }
            for sentence in &notices {
                on_event(Event::Notice(sentence));
            }
        }
        self.read_files(now, on_event);
    }

    /// Passes on the last lines of each file, including an unfinished one, for a caller that does not follow.
    /// Reads up to a limit for each file, and returns whether there is more.
    pub fn read_to_end(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> bool {
        if !self.has_started {
            self.list(on_event);
        }
        if self.last == 0 {
            // An unfinished line is read only because its end is to come, which does not matter here.
            return false;
        }
        self.read_files(now, on_event);
        if !self.has_more {
            self.files.iter_mut().for_each(|file| file.finish(on_event));
        }
        self.has_more
    }

    /// Lists the files: opens new ones, and marks those that have no name any more.
    fn list(&mut self, on_event: &mut OnEvent<'_>) -> Listing {
        let mut listing = Listing::default();
        self.patterns.iter().for_each(|pattern| pattern.find(&mut listing));
        let identities: Vec<_> = self.files.iter().map(FollowedFile::identity).collect();
        let Names { open, new, duplicates } = compare(&identities, &listing.files);
        for (file, name) in self.files.iter_mut().zip(open) {
            match name {
                Some(number) => file.set_name(&listing.files[number].name, on_event),
                None if listing.may_contain(file.name()) => {}
                None => file.mark_unlisted(),
            }
        }
        let mut errors = std::mem::take(&mut listing.errors);
        for (name, known) in duplicates {
            let why = format!("it is the same file as {}", listing.files[known].name.display());
            errors.push((listing.files[name].name.clone(), why));
        }
        self.open_new(&new, &listing.files, &mut errors, on_event);
        self.report_errors(errors, on_event);
        self.has_started = true;
        listing
    }

    /// Opens new files, up to [`FILES_MAX`].
    fn open_new(
        &mut self,
        new: &[usize],
        files: &[FileEntry],
        errors: &mut Vec<(PathBuf, String)>,
        on_event: &mut OnEvent<'_>,
    ) {
        if !self.unopened.is_empty() {
            // The inode of a deleted file may be reused by a new one.
            let listed: BTreeSet<_> = files.iter().map(|listed| listed.identity).collect();
            self.unopened.retain(|identity| listed.contains(identity));
        }
        for (nth, number) in new.iter().enumerate() {
            let FileEntry { name, identity } = &files[*number];
            if self.files.len() >= FILES_MAX {
                let why = format!(
                    "the limit of {FILES_MAX} files is reached, so later ones are not followed either"
                );
                errors.push((name.clone(), why));
                if !self.has_started {
                    self.unopened.extend(new[nth..].iter().map(|number| files[*number].identity));
                }
                return;
            }
            if let Err(why) = self.open(name, *identity, on_event) {
                errors.push((name.clone(), why));
            }
        }
    }

    fn open(&mut self, name: &Path, identity: Identity, on_event: &mut OnEvent<'_>) -> Result<(), String> {
        let existed = !self.has_started || self.unopened.contains(&identity);
        let file = match FollowedFile::open(name, existed.then_some(self.last)) {
            Ok(file) => file,
            Err(why) => {
                if !self.has_started {
                    self.unopened.insert(identity);
                }
                return Err(why);
            }
        };
        if self.files.iter().any(|open| open.identity() == file.identity()) {
            // A file that is open has taken the name since the listing; the next listing handles that.
            return Ok(());
        }
        on_event(Event::Name(name));
        if !existed {
            on_event(Event::Notice(&format!("{} is new: reading it from the start", name.display())));
        }
        self.unopened.remove(&identity);
        self.files.push(file);
        Ok(())
    }

    /// Reports each error once, until it is resolved.
    fn report_errors(&mut self, errors: Vec<(PathBuf, String)>, on_event: &mut OnEvent<'_>) {
        let before = std::mem::take(&mut self.errors);
        for (name, why) in errors {
            if before.get(&name) != Some(&why) {
                on_event(Event::Error(&format!("cannot follow {}: {why}", name.display())));
            }
            self.errors.insert(name, why);
        }
    }

    fn read_files(&mut self, now: Instant, on_event: &mut OnEvent<'_>) {
        self.has_more = false;
        // In the order in which they were opened: a renamed file comes before the one that has its name now.
        self.files.retain_mut(|file| {
            let status = file.read(now, on_event);
            self.has_more |= status.has_more;
            !status.is_done
        });
    }
}

#[cfg(test)]
mod tests;
