//! Follows files: hands out their lines as they are written, whatever becomes of the files meanwhile.
//!
//! A file is what it is by device and inode, not by its name, and it is held open while it is followed: so a file that is
//! renamed is read to its end before the one that takes its name is read from its start, and no line is lost or comes
//! twice. A file that is emptied (`copytruncate`) is read again from its start. What was written between the last look and
//! the emptying is lost, to us as to the copy; and a file that has grown beyond the old length by the next look is taken
//! for one that only grew. Rename where you can.

mod decide;
mod file;
mod last;
mod lines;
mod pattern;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::decide::{Identity, Listed, Names, compare};
use self::file::Followed;
pub use self::lines::LINE_BYTES_MAX;
pub(crate) use self::lines::Lines;
use self::pattern::Found;
pub use self::pattern::Pattern;
pub use self::watch::Stopper;
use self::watch::{Change, Watch};

/// Most files that are held open. A pattern that meets more has met the wrong folder; and descriptors are for peers.
const FILES_MAX: usize = 1000;

/// What following has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A line was written.
    Line(Line<'a>),
    /// A file is followed under this name from now on.
    Name(&'a Path),
    /// Something happened to a file; a sentence.
    Notice(&'a str),
    /// Something is not followed, and why; a sentence, told once. It is tried again all the same.
    Trouble(&'a str),
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the file.
    pub file: &'a Path,
    /// Its bytes, without the newline and a carriage return before it. Nothing says that they are UTF-8.
    pub text: &'a [u8],
    /// The line is longer than [`LINE_BYTES_MAX`], and what is beyond was left out.
    pub is_cut: bool,
}

/// Is told what happens.
pub type OnEvent<'a> = dyn FnMut(Event<'_>) + 'a;

/// The files that are followed, read by whoever calls [`Follower::read`].
#[derive(Debug)]
pub struct Follower {
    patterns: Vec<Pattern>,
    /// Lines of the files that are there at the start to begin with.
    last: u64,
    files: Vec<Followed>,
    /// What was told not to be followed, and why.
    troubles: BTreeMap<PathBuf, String>,
    /// Files that have been there since the start and could not be opened yet.
    unopened: BTreeSet<Identity>,
    watch: Watch,
    /// What to look at next.
    change: Change,
    has_begun: bool,
    has_more: bool,
}

impl Follower {
    /// Follows what these patterns stand for, now and later: files that are there now from their last `last` lines on,
    /// those that appear later from their start.
    #[must_use]
    pub fn new(patterns: Vec<Pattern>, last: u64) -> Self {
        Self {
            patterns,
            last,
            files: Vec::new(),
            troubles: BTreeMap::new(),
            unopened: BTreeSet::new(),
            watch: Watch::default(),
            change: Change { content: true, names: true, stop: false },
            has_begun: false,
            has_more: false,
        }
    }

    /// Ends [`Self::wait`] from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.watch.stopper()
    }

    /// Whether anything stood in the way of reading a file when that was last tried.
    #[must_use]
    pub fn has_trouble(&self) -> bool {
        !self.troubles.is_empty()
    }

    /// Waits until there may be more to [read](Self::read). False after [`Stopper::stop`].
    pub fn wait(&mut self) -> bool {
        // A file that takes long to read keeps no stop and no rotation of another waiting.
        self.change = if self.has_more { self.watch.take() } else { self.watch.wait() };
        !self.change.stop
    }

    /// Hands out what has been written since the last call, a bounded part of it where it is much.
    pub fn read(&mut self, now: Instant, on_event: &mut OnEvent<'_>) {
        if self.change.names {
            let mut notices = Vec::new();
            let mut found = self.list(on_event);
            while self.watch.set_folders(&found.folders, &mut notices) {
                found = self.list(on_event);
            }
            for sentence in &notices {
                on_event(Event::Notice(sentence));
            }
        }
        self.read_files(now, on_event);
    }

    /// Hands out what there is, for whoever does not wait for more: the last lines of each file, an unfinished one among
    /// them. A bounded part of it where it is much; says whether there is more.
    pub fn read_to_end(&mut self, now: Instant, on_event: &mut OnEvent<'_>) -> bool {
        if !self.has_begun {
            self.list(on_event);
        }
        if self.last == 0 {
            // A line that is begun is read because its end is to come, and here nothing is.
            return false;
        }
        self.read_files(now, on_event);
        if !self.has_more {
            self.files.iter_mut().for_each(|file| file.finish(on_event));
        }
        self.has_more
    }

    /// Looks at the names: opens what is new, and notes what no name leads to any more.
    fn list(&mut self, on_event: &mut OnEvent<'_>) -> Found {
        let mut found = Found::default();
        self.patterns.iter().for_each(|pattern| pattern.find(&mut found));
        let held: Vec<_> = self.files.iter().map(Followed::identity).collect();
        let Names { of_held, fresh, further } = compare(&held, &found.files);
        for (file, name) in self.files.iter_mut().zip(of_held) {
            match name {
                Some(number) => file.is_called(&found.files[number].name, on_event),
                None if found.may_have(file.name()) => {}
                None => file.has_lost_its_name(),
            }
        }
        let mut troubles = std::mem::take(&mut found.troubles);
        for (name, known) in further {
            let why = format!("it is the same file as {}", found.files[known].name.display());
            troubles.push((found.files[name].name.clone(), why));
        }
        self.open_fresh(&fresh, &found.files, &mut troubles, on_event);
        self.tell_troubles(troubles, on_event);
        self.has_begun = true;
        found
    }

    /// Opens what is new, as many as may be.
    fn open_fresh(
        &mut self,
        fresh: &[usize],
        files: &[Listed],
        troubles: &mut Vec<(PathBuf, String)>,
        on_event: &mut OnEvent<'_>,
    ) {
        if !self.unopened.is_empty() {
            // The number of one that is gone is free for a new file.
            let listed: BTreeSet<_> = files.iter().map(|listed| listed.identity).collect();
            self.unopened.retain(|identity| listed.contains(identity));
        }
        for (nth, number) in fresh.iter().enumerate() {
            let Listed { name, identity } = &files[*number];
            if self.files.len() >= FILES_MAX {
                let why = format!("{FILES_MAX} files are followed already; nor are those after it");
                troubles.push((name.clone(), why));
                if !self.has_begun {
                    self.unopened.extend(fresh[nth..].iter().map(|number| files[*number].identity));
                }
                return;
            }
            if let Err(why) = self.open(name, *identity, on_event) {
                troubles.push((name.clone(), why));
            }
        }
    }

    fn open(&mut self, name: &Path, identity: Identity, on_event: &mut OnEvent<'_>) -> Result<(), String> {
        let was_there = !self.has_begun || self.unopened.contains(&identity);
        let file = match Followed::open(name, was_there.then_some(self.last)) {
            Ok(file) => file,
            Err(why) => {
                if !self.has_begun {
                    self.unopened.insert(identity);
                }
                return Err(why);
            }
        };
        if self.files.iter().any(|held| held.identity() == file.identity()) {
            // A file that is held has taken the name since it was listed: the next listing says so.
            return Ok(());
        }
        on_event(Event::Name(name));
        if !was_there {
            on_event(Event::Notice(&format!("{} is new: it is read from its start", name.display())));
        }
        self.unopened.remove(&identity);
        self.files.push(file);
        Ok(())
    }

    /// Each once, until it is over.
    fn tell_troubles(&mut self, troubles: Vec<(PathBuf, String)>, on_event: &mut OnEvent<'_>) {
        let before = std::mem::take(&mut self.troubles);
        for (name, why) in troubles {
            if before.get(&name) != Some(&why) {
                on_event(Event::Trouble(&format!("{} is not followed: {why}", name.display())));
            }
            self.troubles.insert(name, why);
        }
    }

    fn read_files(&mut self, now: Instant, on_event: &mut OnEvent<'_>) {
        self.has_more = false;
        // In the order in which they were opened: a file that lost its name comes before the one that has it now.
        self.files.retain_mut(|file| {
            let looked_at = file.read(now, on_event);
            self.has_more |= looked_at.has_more;
            !looked_at.is_over
        });
    }
}

#[cfg(test)]
mod tests;
