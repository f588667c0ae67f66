//! Waits for changes in folders: by inotify, and by polling where inotify reports nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::{Condvar, Mutex};

use super::decide::Identity;
use super::pattern::identity as identity_of;

/// How often everything is polled even with inotify: events can be lost, and some changes cause none.
const SLOW_POLL: Duration = Duration::from_secs(5);
/// How often folders without events are polled.
const POLL: Duration = Duration::from_secs(1);
/// How long to wait for more events after the first. A busy file causes one for each write, and one read for
/// many is cheaper.
const DEBOUNCE_TIME: Duration = Duration::from_millis(10);
/// The maximum number of watched folders. The kernel limits the watches of a user to some ten thousand, which
/// all programs share.
const FOLDERS_MAX: usize = 1000;

/// The kinds of changes that may have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The content of a file.
    pub(super) content: bool,
    /// The name of a file or folder.
    pub(super) names: bool,
    /// A stop was requested.
    pub(super) stop: bool,
}

impl Change {
    fn is_some(self) -> bool {
        self.content || self.names || self.stop
    }
}

/// Ends [`Follower::wait`](super::Follower::wait) from another thread.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Ends the current wait and all later ones.
    pub fn stop(&self) {
        self.0.record(Change { stop: true, ..Change::default() });
    }
}

#[derive(Debug, Default)]
struct Shared {
    change: Mutex<Change>,
    changed: Condvar,
    /// Paths that were deleted or renamed since the last [`Watch::set_folders`]. The watch of such a folder
    /// is gone, and a new folder may reuse its inode.
    gone: Mutex<BTreeSet<PathBuf>>,
}

impl Shared {
    fn record(&self, change: Change) {
        let mut all = self.change.lock();
        all.content |= change.content;
        all.names |= change.names;
        all.stop |= change.stop;
        self.changed.notify_all();
    }

    /// Records deleted and renamed paths, up to the number of watched folders. Polling covers the rest.
    fn record_gone(&self, event: &notify::Event) {
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
            let mut gone = self.gone.lock();
            let room = FOLDERS_MAX.saturating_sub(gone.len());
            gone.extend(event.paths.iter().take(room).cloned());
        }
    }
}

/// The watched folders.
#[derive(Debug, Default)]
pub(super) struct Watch {
    stopper: Stopper,
    /// Created with the first folder. After an error, folders are polled.
    watcher: Option<Result<RecommendedWatcher, String>>,
    folders: BTreeMap<PathBuf, Identity>,
    /// Folders that are polled, with the reason.
    polled: BTreeMap<PathBuf, String>,
}

impl Watch {
    pub(super) fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Sets the folders to watch. Adds a message to `notices` for each folder that must be polled. Returns
    /// whether a folder was added: changes before its watch was set have caused no event.
    pub(super) fn set_folders(&mut self, wanted: &BTreeSet<PathBuf>, notices: &mut Vec<String>) -> bool {
        // A folder that was deleted and created again is another one, and its watch ended with the first.
        let wanted: BTreeMap<_, _> = wanted
            .iter()
            .filter_map(|folder| Some((folder.clone(), identity_of(&folder.metadata().ok()?))))
            .collect();
        let changed_paths = std::mem::take(&mut *self.stopper.0.gone.lock());
        // Events have absolute paths.
        let has_changed =
            |folder: &Path| path::absolute(folder).is_ok_and(|folder| changed_paths.contains(&folder));
        let gone: Vec<_> = self
            .folders
            .iter()
            .filter(|(folder, identity)| wanted.get(*folder) != Some(*identity) || has_changed(folder))
            .map(|(f, _)| f.clone())
            .collect();
        for folder in gone {
            self.folders.remove(&folder);
            if let Some(Ok(watcher)) = &mut self.watcher {
                // This fails if the kernel has removed the watch together with the folder.
                let _ = watcher.unwatch(&folder);
            }
        }
        self.polled.retain(|folder, _| wanted.contains_key(folder));
        let new: Vec<_> =
            wanted.into_iter().filter(|(folder, _)| !self.folders.contains_key(folder)).collect();
        let before = self.folders.len();
        notices.extend(new.into_iter().filter_map(|(folder, identity)| self.add(folder, identity)));
        self.folders.len() > before
    }

    /// Waits until something may have changed. At the poll interval, everything may have.
    pub(super) fn wait(&self) -> Change {
        let poll = if self.polled.is_empty() { SLOW_POLL } else { POLL };
        let shared = &self.stopper.0;
        let mut change = shared.change.lock();
        shared.changed.wait_while_for(&mut change, |change| !change.is_some(), poll);
        let current = *change;
        drop(change);
        if !current.is_some() {
            return Change { content: true, names: true, stop: false };
        }
        if !current.stop {
            #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a thread of its own"))]
            thread::sleep(DEBOUNCE_TIME);
        }
        self.take()
    }

    /// Returns the changes since the last call, without waiting.
    pub(super) fn take(&self) -> Change {
        let mut change = self.stopper.0.change.lock();
        let stop = change.stop;
        std::mem::replace(&mut *change, Change { stop, ..Change::default() })
    }

    /// Watches a folder. Returns a message if it must be polled, unless that was reported before.
    fn add(&mut self, folder: PathBuf, identity: Identity) -> Option<String> {
        let why = match self.start(&folder) {
            Ok(()) => {
                self.folders.insert(folder.clone(), identity);
                missing_events(&folder)?.to_owned()
            }
            Err(why) => why,
        };
        let sentence = format!("polling {} every second: {why}", folder.display());
        self.polled.insert(folder, why.clone()).is_none_or(|before| before != why).then_some(sentence)
    }

    fn start(&mut self, folder: &Path) -> Result<(), String> {
        if self.folders.len() >= FOLDERS_MAX {
            return Err(format!("the limit of {FOLDERS_MAX} watched folders is reached"));
        }
        let shared = self.stopper.0.clone();
        let watcher = self.watcher.get_or_insert_with(|| {
            let watcher = notify::recommended_watcher(move |event: notify::Result<_>| {
                if let Ok(event) = &event {
                    shared.record_gone(event);
                }
                shared.record(change_of(&event));
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

/// Converts an event. Opening and reading, which following itself does, are no changes.
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

/// Returns why a file system reports no events: changes by other machines cause none here.
fn missing_events(folder: &Path) -> Option<&'static str> {
    // statfs(2) and linux/magic.h.
    match rustix::fs::statfs(folder).ok()?.f_type & 0xffff_ffff {
        0x6969 => Some("inotify reports no changes by other NFS clients"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("inotify reports no changes by other SMB clients"),
        0x0102_1997 => Some("inotify reports no changes by other 9P clients"),
        0x6573_5546 => Some("inotify reports no changes behind a FUSE file system"),
        0x00c3_6400 => Some("inotify reports no changes by other Ceph clients"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn set(watch: &mut Watch, folder: &Path) {
        let mut errors = Vec::new();
        assert!(watch.set_folders(&BTreeSet::from([folder.to_owned()]), &mut errors));
        assert!(!watch.set_folders(&BTreeSet::from([folder.to_owned()]), &mut errors));
        assert_eq!(errors, [""; 0]);
    }

    fn watch(folder: &Path) -> Watch {
        let mut watch = Watch::default();
        set(&mut watch, folder);
        watch
    }

    /// Waits until `has` returns `true`. Polling alone would be too slow for the test.
    fn wait_for(watch: &Watch, has: impl Fn(Change) -> bool) {
        while !has(watch.wait()) {}
    }

    #[test]
    fn a_write_and_a_rename_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(folder.path().join("a")).unwrap();
        let watch = watch(folder.path());
        file.write_all(b"x").unwrap();
        assert_eq!(watch.wait(), Change { content: true, ..Change::default() });
        fs::rename(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert!(watch.wait().names);
    }

    #[test]
    fn a_read_is_not_a_change() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let watch = watch(folder.path());
        fs::read(folder.path().join("a")).unwrap();
        fs::read_dir(folder.path()).unwrap().count();
        watch.stopper().stop();
        assert_eq!(watch.wait(), Change { stop: true, ..Change::default() });
    }

    #[test]
    fn a_folder_that_is_created_again_is_watched_again() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let mut watch = watch(&folder);
        fs::rename(&folder, outside.path().join("old")).unwrap();
        // The event comes from another thread, and must not count as a second change.
        wait_for(&watch, |change| change.names);
        fs::create_dir(&folder).unwrap();
        set(&mut watch, &folder);
        fs::write(folder.join("a"), "x").unwrap();
        wait_for(&watch, |change| change.names);
        assert_eq!(watch.folders.len(), 1);
    }

    #[test]
    fn a_folder_that_is_created_again_with_the_same_inode_is_watched_again() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let mut watch = watch(&folder);
        fs::remove_dir(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        // Simulates the same inode as before, which not every file system gives to the next folder.
        watch.folders.insert(folder.clone(), identity_of(&folder.metadata().unwrap()));
        wait_for(&watch, |change| change.names);
        set(&mut watch, &folder);
        fs::write(folder.join("a"), "x").unwrap();
        wait_for(&watch, |change| change.names);
    }

    #[test]
    fn a_folder_over_the_limit_is_polled_and_reported_once() {
        let outside = tempfile::tempdir().unwrap();
        let folders = (0..=FOLDERS_MAX).map(|number| outside.path().join(format!("{number:04}")));
        let folders: BTreeSet<_> = folders.inspect(|folder| fs::create_dir(folder).unwrap()).collect();
        let (mut watch, mut notices) = (Watch::default(), Vec::new());
        watch.set_folders(&folders, &mut notices);
        watch.set_folders(&folders, &mut notices);
        let last = folders.last().unwrap().display();
        let expected =
            format!("polling {last} every second: the limit of {FOLDERS_MAX} watched folders is reached");
        assert_eq!(notices, [expected]);
    }

    #[test]
    fn the_reason_does_not_repeat_the_name_of_the_folder() {
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
