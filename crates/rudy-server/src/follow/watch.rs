//! Waits until something may have happened in a folder: woken by inotify, and by the clock where that tells nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::decide::Identity;
use super::pattern::identity;

/// How often everything is looked at although nothing was told: events can be lost, and some changes make none.
const SLOW_POLL: Duration = Duration::from_secs(5);
/// The same where events are not to be had.
const POLL: Duration = Duration::from_secs(1);
/// How long the first event waits for more. A busy file makes one for each write; reading once for many costs less, and
/// nobody sees the delay.
const GATHER_TIME: Duration = Duration::from_millis(10);
/// Most folders that are watched: the kernel gives a user some ten thousand watches, and others need some.
const FOLDERS_MAX: usize = 1000;

/// What may have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// A file was written.
    pub(super) content: bool,
    /// A name came or went.
    pub(super) names: bool,
    /// It was asked to stop.
    pub(super) stop: bool,
}

impl Change {
    fn is_some(self) -> bool {
        self.content || self.names || self.stop
    }
}

/// Ends a wait from another thread, for good.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Whoever waits returns, now and ever after.
    pub fn stop(&self) {
        self.0.note(Change { stop: true, ..Change::default() });
    }
}

#[derive(Debug, Default)]
struct Shared {
    change: Mutex<Change>,
    changed: Condvar,
    /// What was deleted or renamed since the folders were last set: a watch on it is gone, and a folder that is made anew
    /// may have the number of the old one.
    gone: Mutex<BTreeSet<PathBuf>>,
}

impl Shared {
    fn note(&self, change: Change) {
        let mut all = self.lock();
        all.content |= change.content;
        all.names |= change.names;
        all.stop |= change.stop;
        self.changed.notify_all();
    }

    /// Notes what goes, as much as there can be folders; for more there is the clock.
    fn note_gone(&self, event: &notify::Event) {
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
            let mut gone = self.gone();
            let room = FOLDERS_MAX.saturating_sub(gone.len());
            gone.extend(event.paths.iter().take(room).cloned());
        }
    }

    /// As [`Self::lock`]: a path is added in one step.
    fn gone(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic while the lock is held leaves nothing half done: these are three switches.
    fn lock(&self) -> MutexGuard<'_, Change> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folders that are watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    stopper: Stopper,
    /// Made with the first folder. An error stays: without events there is the clock.
    watcher: Option<Result<RecommendedWatcher, String>>,
    folders: BTreeMap<PathBuf, Identity>,
    /// Folders of which nothing is told, and why.
    blind: BTreeMap<PathBuf, String>,
}

impl Watch {
    pub(super) fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Watches these folders and no others. Adds a sentence to `notices` for each that newly cannot be. Says whether one
    /// is new: what happened in it before its watch was set has not been told.
    pub(super) fn set_folders(&mut self, wanted: &BTreeSet<PathBuf>, notices: &mut Vec<String>) -> bool {
        // A folder that was deleted and made anew is another one, and its watch has gone with the first.
        let wanted: BTreeMap<_, _> = wanted
            .iter()
            .filter_map(|folder| Some((folder.clone(), identity(&folder.metadata().ok()?))))
            .collect();
        let told = std::mem::take(&mut *self.stopper.0.gone());
        // Events have absolute paths.
        let is_told = |folder: &Path| path::absolute(folder).is_ok_and(|folder| told.contains(&folder));
        let gone: Vec<_> = self
            .folders
            .iter()
            .filter(|(folder, is)| wanted.get(*folder) != Some(*is) || is_told(folder))
            .map(|(f, _)| f.clone())
            .collect();
        for folder in gone {
            self.folders.remove(&folder);
            if let Some(Ok(watcher)) = &mut self.watcher {
                // Fails where the kernel has dropped the watch already, with its folder.
                let _ = watcher.unwatch(&folder);
            }
        }
        self.blind.retain(|folder, _| wanted.contains_key(folder));
        let new: Vec<_> =
            wanted.into_iter().filter(|(folder, _)| !self.folders.contains_key(folder)).collect();
        let before = self.folders.len();
        notices.extend(new.into_iter().filter_map(|(folder, is)| self.add(folder, is)));
        self.folders.len() > before
    }

    /// Waits until something may have changed. Everything may have when the time is over.
    pub(super) fn wait(&self) -> Change {
        let poll = if self.blind.is_empty() { SLOW_POLL } else { POLL };
        let shared = &self.stopper.0;
        let (change, _) = shared
            .changed
            .wait_timeout_while(shared.lock(), poll, |change| !change.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        let told = *change;
        drop(change);
        if !told.is_some() {
            return Change { content: true, names: true, stop: false };
        }
        if !told.stop {
            thread::sleep(GATHER_TIME);
        }
        self.take()
    }

    /// What has been told since this was last asked, without waiting.
    pub(super) fn take(&self) -> Change {
        let mut change = self.stopper.0.lock();
        let stop = change.stop;
        std::mem::replace(&mut *change, Change { stop, ..Change::default() })
    }

    /// Watches one more folder, or says why only the clock does.
    fn add(&mut self, folder: PathBuf, is: Identity) -> Option<String> {
        let why = match self.start(&folder) {
            Ok(()) => {
                self.folders.insert(folder.clone(), is);
                remote(&folder)?.to_owned()
            }
            Err(why) => why,
        };
        let sentence = format!("{} is looked at every second: {why}", folder.display());
        self.blind.insert(folder, why.clone()).is_none_or(|before| before != why).then_some(sentence)
    }

    fn start(&mut self, folder: &Path) -> Result<(), String> {
        if self.folders.len() >= FOLDERS_MAX {
            return Err(format!("{FOLDERS_MAX} folders are watched already"));
        }
        let shared = self.stopper.0.clone();
        let watcher = self.watcher.get_or_insert_with(|| {
            let watcher = notify::recommended_watcher(move |event: notify::Result<_>| {
                if let Ok(event) = &event {
                    shared.note_gone(event);
                }
                shared.note(change_of(&event));
            });
            watcher.map_err(|error| error.to_string())
        });
        match watcher {
            Ok(watcher) => {
                let watched = watcher.watch(folder, RecursiveMode::NonRecursive);
                watched.map_err(|error| notify::Error { paths: Vec::new(), ..error }.to_string())
            }
            Err(why) => Err(why.clone()),
        }
    }
}

/// What an event says. Opening and reading are no change, and we do both.
fn change_of(event: &notify::Result<notify::Event>) -> Change {
    let everything = Change { content: true, names: true, stop: false };
    match event {
        Ok(event) if event.need_rescan() => everything,
        Ok(event) => match event.kind {
            EventKind::Access(_) => Change::default(),
            EventKind::Modify(ModifyKind::Data(_)) => Change { content: true, ..Change::default() },
            _ => everything,
        },
        Err(_) => everything,
    }
}

/// Why a folder's file system does not tell what changes in it, where that is known: what another machine writes makes
/// no event here.
fn remote(folder: &Path) -> Option<&'static str> {
    // statfs(2) and linux/magic.h.
    match rustix::fs::statfs(folder).ok()?.f_type & 0xffff_ffff {
        0x6969 => Some("what others write to it over NFS is not told"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("what others write to it over SMB is not told"),
        0x0102_1997 => Some("what others write to it over 9P is not told"),
        0x6573_5546 => Some("what happens behind a FUSE file system is not told"),
        0x00c3_6400 => Some("what others write to it over Ceph is not told"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn set(watch: &mut Watch, folder: &Path) {
        let mut troubles = Vec::new();
        assert!(watch.set_folders(&BTreeSet::from([folder.to_owned()]), &mut troubles));
        assert!(!watch.set_folders(&BTreeSet::from([folder.to_owned()]), &mut troubles));
        assert_eq!(troubles, [""; 0]);
    }

    fn watch(folder: &Path) -> Watch {
        let mut watch = Watch::default();
        set(&mut watch, folder);
        watch
    }

    /// Waits for a change that has this; the clock alone does not end it within a test's patience.
    fn wait_for(watch: &Watch, has: impl Fn(Change) -> bool) {
        while !has(watch.wait()) {}
    }

    #[test]
    fn a_write_and_a_new_name_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(folder.path().join("a")).unwrap();
        let watch = watch(folder.path());
        file.write_all(b"x").unwrap();
        assert_eq!(watch.wait(), Change { content: true, ..Change::default() });
        fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert!(watch.wait().names);
    }

    #[test]
    fn reading_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let watch = watch(folder.path());
        fs::read(folder.path().join("a")).unwrap();
        fs::read_dir(folder.path()).unwrap().count();
        watch.stopper().stop();
        assert_eq!(watch.wait(), Change { stop: true, ..Change::default() });
    }

    #[test]
    fn a_folder_made_anew_is_watched_anew() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let mut watch = watch(&folder);
        fs::rename(&folder, outside.path().join("old")).unwrap();
        // It is told by another thread, and must not be taken for a second change.
        wait_for(&watch, |change| change.names);
        fs::create_dir(&folder).unwrap();
        set(&mut watch, &folder);
        fs::write(folder.join("a"), "x").unwrap();
        wait_for(&watch, |change| change.names);
        assert_eq!(watch.folders.len(), 1);
    }

    #[test]
    fn a_folder_made_anew_as_the_same_inode_is_watched_anew() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let mut watch = watch(&folder);
        fs::remove_dir(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        // As if it had the number of the old one, which not every file system gives to the next folder.
        watch.folders.insert(folder.clone(), identity(&folder.metadata().unwrap()));
        wait_for(&watch, |change| change.names);
        set(&mut watch, &folder);
        fs::write(folder.join("a"), "x").unwrap();
        wait_for(&watch, |change| change.names);
    }

    #[test]
    fn a_folder_too_many_is_looked_at_by_the_clock_and_that_is_said_once() {
        let outside = tempfile::tempdir().unwrap();
        let folders = (0..=FOLDERS_MAX).map(|number| outside.path().join(format!("{number:04}")));
        let folders: BTreeSet<_> = folders.inspect(|folder| fs::create_dir(folder).unwrap()).collect();
        let (mut watch, mut notices) = (Watch::default(), Vec::new());
        watch.set_folders(&folders, &mut notices);
        watch.set_folders(&folders, &mut notices);
        let last = folders.last().unwrap().display();
        let expected = format!("{last} is looked at every second: {FOLDERS_MAX} folders are watched already");
        assert_eq!(notices, [expected]);
    }

    #[test]
    fn why_a_folder_is_not_watched_is_said_without_its_name_again() {
        let outside = tempfile::tempdir().unwrap();
        let why = Watch::default().start(&outside.path().join("missing")).unwrap_err();
        assert!(!why.contains("missing"), "{why}");
    }

    #[test]
    fn a_stop_ends_every_wait() {
        let watch = Watch::default();
        watch.stopper().stop();
        assert!(watch.wait().stop && watch.wait().stop);
    }
}
