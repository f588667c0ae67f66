//! Purges, also across transfers, restarts and a disk that fails.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Request;
use parking_lot::{Condvar, Mutex};
use rudy_cache::{Decision, HttpDate, Policy};
use tempfile::TempDir;

use super::store::{body, files, folder, get, key, open, put};
use super::{fields, stored};
use crate::*;

fn purge(store: &Store, target: Target, soft: bool) {
    store.purge(&[Purge { target, soft }]).unwrap();
}

fn tag(tag: &str) -> Target {
    Target::Tag(tag.into())
}

fn is_fresh(object: &Object) -> bool {
    let now = HttpDate::from_unix_seconds(1_000_000_000);
    let stored = std::slice::from_ref(object.stored());
    matches!(Policy::default().lookup(&Request::new(()), stored, now), Decision::Hit(_))
}

#[test]
fn purged_objects_are_not_found_and_their_files_are_removed() {
    let folder = folder();
    let store = open(&folder);
    for size in [10, 100_000] {
        for (path, tag) in [("/a/1", "x"), ("/a/2", "y"), ("/b/1", "x"), ("/b/2", "z"), ("/c", "z")] {
            put(&store, &key(path), stored(&[("cache-tag", tag)], &[]), &body(1, size));
        }
        let left = || ["/a/1", "/a/2", "/b/1", "/b/2", "/c"].map(|path| get(&store, &key(path)).is_some());
        purge(&store, Target::Prefix(key("/a/").as_bytes().into()), false);
        assert_eq!(left(), [false, false, true, true, true]);
        purge(&store, tag("x"), false);
        assert_eq!(left(), [false, false, false, true, true]);
        purge(&store, Target::Key(key("/c")), false);
        assert_eq!(left(), [false, false, false, true, false]);
        put(&store, &key("/a/1"), stored(&[], &[]), &body(2, size));
        assert_eq!(left(), [true, false, false, true, false]);
        store.invalidate(&[key("/a/1"), key("/b/2")]);
        assert_eq!(left(), [false; 5]);
        // Small enough to notice that a file remains.
        store.wait_for_purges(usize::MAX);
        assert_eq!(files(&folder).len(), 0);
        assert_eq!(store.stats().purges_pending, 0);
    }
}

#[test]
fn a_soft_purge_requires_a_validation() {
    for target in [tag("x"), Target::Key(key("/a"))] {
        let folder = folder();
        let store = open(&folder);
        let object = put(&store, &key("/a"), stored(&[("cache-tag", "x")], &[]), &body(1, 10));
        assert!(is_fresh(&object));
        purge(&store, target, true);
        let check = |store: &Store| {
            let (object, found) = get(store, &key("/a")).unwrap();
            assert!(!is_fresh(&object));
            assert_eq!(found, body(1, 10));
            object
        };
        check(&store);
        store.wait_for_purges(usize::MAX);
        check(&store);
        drop(store);
        let store = open(&folder);
        let object = check(&store);
        let updated = store.update(&object, stored(&[], &[]), store.epoch()).unwrap();
        assert!(is_fresh(&updated) && is_fresh(&get(&store, &key("/a")).unwrap().0));
    }
}

#[test]
fn a_response_that_was_requested_before_a_purge_is_not_stored() {
    let folder = folder();
    let store = open(&folder);
    let tagged = || stored(&[("cache-tag", "x")], &[]);
    for size in [10, 100_000] {
        let epoch = store.epoch();
        let mut soft = store.fill(&key("/soft"), tagged(), None, epoch);
        let mut hard = store.fill(&key("/hard"), tagged(), None, epoch);
        let mut invalidated = store.fill(&key("/invalidated"), stored(&[], &[]), None, epoch);
        let mut other = store.fill(&key("/other"), stored(&[], &[]), None, epoch);
        for fill in [&mut soft, &mut hard, &mut invalidated, &mut other] {
            fill.write(body(1, size));
        }
        purge(&store, Target::Key(key("/soft")), true);
        let Finished::Stored(object) = soft.finish().unwrap() else {
            panic!("only a validation is required")
        };
        assert!(!is_fresh(&object));
        purge(&store, tag("x"), false);
        store.invalidate(&[key("/invalidated")]);
        assert!(matches!(hard.finish(), Ok(Finished::NotStored(NotKept::Purged))));
        assert!(matches!(invalidated.finish(), Ok(Finished::NotStored(NotKept::Purged))));
        assert!(matches!(other.finish(), Ok(Finished::Stored(_))));
        assert!(get(&store, &key("/soft")).is_none());
    }
}

#[test]
fn what_a_process_that_only_reads_invalidates_does_not_come_back() {
    let folder = folder();
    let first = open(&folder);
    for size in [10, 100_000] {
        for path in ["/a", "/b", "/c"] {
            put(&first, &key(path), stored(&[], &[]), &body(1, size));
        }
        put(&first, &key("/a"), stored(&[("vary", "accept")], &[("accept", "x")]), &body(1, size));
        let second = open(&folder);
        assert!(!second.is_writer());
        second.invalidate(&[key("/a"), key("/b")]);
        let left = |store: &Store| ["/a", "/b", "/c"].map(|path| get(store, &key(path)).is_some());
        assert_eq!((left(&first), left(&second)), ([true; 3], [false, false, true]));
        assert!(second.objects(&key("/a")).is_empty());
        // The second one reads the list of purges again.
        purge(&first, tag("other"), false);
        assert_eq!(left(&second), [false, false, true]);
        put(&first, &key("/a"), stored(&[("vary", "cookie")], &[("cookie", "y")]), &body(3, size));
        assert_eq!(left(&second), [false, false, true], "another variant has changed the file");
        put(&first, &key("/a"), stored(&[], &[]), &body(2, size));
        assert_eq!(get(&second, &key("/a")).unwrap().1, body(2, size));
        first.release();
        second.purge(&[]).unwrap();
        second.wait_for_purges(usize::MAX);
        assert_eq!(left(&second), [true, false, true]);
        drop(second);
        assert_eq!(left(&first), [true, false, true], "its file is gone");
        first.reclaim();
        first.purge(&[]).unwrap();
    }
}

#[test]
fn an_update_does_not_bring_a_purged_object_back() {
    let folder = folder();
    let store = open(&folder);
    let object = put(&store, &key("/a"), stored(&[("cache-tag", "x")], &[]), &body(1, 10));
    purge(&store, tag("x"), false);
    let late = store.update(&object, stored(&[("cache-tag", "x")], &[]), store.epoch());
    assert!(matches!(late, Err(NotUpdated::Superseded)), "{late:?}");
    assert!(get(&store, &key("/a")).is_none());
}

#[test]
fn a_transfer_across_a_forgotten_purge_is_not_stored() {
    let folder = folder();
    let options = Options { purge_memory: Duration::ZERO, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    let mut fill = store.fill(&key("/a"), stored(&[], &[]), None, store.epoch());
    fill.write(body(1, 10));
    purge(&store, tag("x"), false);
    store.wait_for_purges(0);
    assert!(
        matches!(fill.finish(), Ok(Finished::NotStored(NotKept::Purged))),
        "the purge is not known any more"
    );
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
}

/// Fails removals after a number of them, and counts the failures.
#[derive(Debug)]
struct Removals {
    left: AtomicU32,
    failed: (Mutex<u32>, Condvar),
}

impl Removals {
    /// Waits until this many have failed.
    fn wait_for(&self, failures: u32) {
        let mut failed = self.failed.0.lock();
        while *failed < failures {
            self.failed.1.wait(&mut failed);
        }
    }
}

impl Faults for Removals {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        let count = |left: u32| left.checked_sub(1);
        if !matches!(change, Change::Remove(_) | Change::RemoveFolder(_))
            || self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
        {
            return Ok(());
        }
        *self.failed.0.lock() += 1;
        self.failed.1.notify_all();
        Err(Fault { written: 0, error: io::ErrorKind::ReadOnlyFilesystem.into() })
    }
}

/// A disk whose removals fail, and a store on it with purges of the tag `x` and of a key that are not applied. Another process has begun
/// with it.
fn with_a_pending_purge(folder: &TempDir) -> (Arc<Removals>, Store) {
    let faults = Arc::new(Removals { left: AtomicU32::new(u32::MAX), failed: Default::default() });
    let options = || Options {
        purge_memory: Duration::ZERO,
        faults: Some(Arc::clone(&faults) as _),
        ..Options::new(folder.path())
    };
    let store = Store::open(options()).unwrap();
    for path in ["/a", "/b"] {
        put(&store, &key(path), stored(&[("cache-tag", "x")], &[]), &body(1, 10));
    }
    let purges =
        [Purge { target: tag("x"), soft: false }, Purge { target: Target::Key(key("/b")), soft: false }];
    faults.left.store(0, Ordering::Relaxed);
    store.purge(&purges).unwrap();
    // The purge itself, and the background thread.
    faults.wait_for(2);
    drop(store);
    assert_eq!(files(folder).len(), 2);
    // The start of a process removes an older file of the list.
    faults.left.store(1, Ordering::Relaxed);
    let store = Store::open(options()).unwrap();
    faults.wait_for(3);
    (faults, store)
}

#[test]
fn a_purged_object_whose_file_cannot_be_removed_does_not_come_back() {
    let folder = folder();
    let (faults, store) = with_a_pending_purge(&folder);
    assert!(["/a", "/b"].iter().all(|path| get(&store, &key(path)).is_none()));
    faults.left.store(u32::MAX, Ordering::Relaxed);
    store.purge(&[]).unwrap();
    store.wait_for_purges(0);
    assert_eq!(files(&folder).len(), 0);
}

/// A search that has read an object before the purge was applied would compare it with the purges after that.
#[test]
fn a_search_is_repeated_when_a_purge_of_an_earlier_process_is_forgotten() {
    let folder = folder();
    let (faults, store) = with_a_pending_purge(&folder);
    let searches = Cell::new(0);
    let pending = store.inner.while_purges_are_known(|| {
        searches.set(searches.get() + 1);
        let purges = store.inner.purges.read();
        let pending = purges.pending() + purges.unswept_tags();
        drop(purges);
        if pending > 0 {
            faults.left.store(u32::MAX, Ordering::Relaxed);
            store.purge(&[]).unwrap();
            store.wait_for_purges(0);
        }
        pending
    });
    assert_eq!((searches.get(), pending), (2, 0));
}

/// Counts the changes and reads of the disk.
#[derive(Debug, Default)]
struct Counted {
    changes: AtomicU32,
    reads: AtomicU32,
}

impl Counted {
    fn take(&self) -> (u32, u32) {
        (self.changes.swap(0, Ordering::Relaxed), self.reads.swap(0, Ordering::Relaxed))
    }
}

impl Faults for Counted {
    fn before(&self, _: Change<'_>) -> Result<(), Fault> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn before_read(&self, _: &str, _: Access) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn the_cost_of_a_purge_of_a_tag_does_not_depend_on_the_number_of_objects() {
    for count in [10, 300] {
        let folder = folder();
        let disk = Arc::new(Counted::default());
        let store =
            Store::open(Options { faults: Some(Arc::clone(&disk) as _), ..Options::new(folder.path()) })
                .unwrap();
        store.wait_until_indexed();
        let paths: Vec<_> = (0..count).map(|number| format!("/{number}")).collect();
        for path in &paths {
            put(&store, &key(path), stored(&[("cache-tag", "x")], &[]), &body(1, 10));
        }
        disk.take();
        purge(&store, tag("x"), false);
        // The purge, its sync, and up to where all are confirmed.
        assert_eq!(disk.take(), (3, 0));
        assert!(paths.iter().all(|path| get(&store, &key(path)).is_none()));
        let stats = store.stats();
        assert_eq!((stats.tags_unswept, stats.objects >= 1), (1, true));
        assert!(store.sweep());
        assert_eq!((store.stats().objects, store.stats().tags_unswept, files(&folder).len()), (0, 1, 0));
        assert_eq!(store.stats().purged, count);
    }
}

#[test]
fn a_purged_object_that_is_met_leaves_without_a_sweep() {
    let folder = folder();
    let store = open(&folder);
    for path in ["/a", "/b"] {
        put(&store, &key(path), stored(&[("cache-tag", "x")], &[]), &body(1, 10));
    }
    purge(&store, tag("x"), false);
    assert!(get(&store, &key("/a")).is_none());
    store.wait_until(|stats| stats.objects == 1);
    assert_eq!(files(&folder).len(), 1);
}

#[test]
fn purges_of_tags_outlive_their_process_in_a_file_that_does_not_grow_without_bound() {
    let folder = folder();
    let options = || Options { purge_memory: Duration::ZERO, ..Options::new(folder.path()) };
    let store = Store::open(options()).unwrap();
    put(&store, &key("/a"), stored(&[("cache-tag", "tag-1")], &[]), &body(1, 10));
    for round in 0..50 {
        for number in 0..20 {
            purge(&store, tag(&format!("tag-{number}")), round % 2 == 0);
        }
    }
    drop(store);
    let length = || std::fs::metadata(folder.path().join("state")).unwrap().len();
    assert!(length() < 40_000, "{}", length());
    let store = Store::open(options()).unwrap();
    assert_eq!(store.stats().tags_unswept, 20);
    assert!(get(&store, &key("/a")).is_none());
    store.wait_for_purges(0);
    drop(store);
    assert!(length() < 100, "{}", length());
}

#[test]
fn a_purge_that_was_written_in_part_does_not_matter() {
    let folder = folder();
    let store = open(&folder);
    for path in ["/a", "/b"] {
        put(&store, &key(path), stored(&[("cache-tag", path)], &[]), &body(1, 10));
    }
    purge(&store, tag("/a"), false);
    let state = std::fs::OpenOptions::new().append(true).open(folder.path().join("state")).unwrap();
    let write_in_part = || io::Write::write_all(&mut &state, &[1; 300]).unwrap();
    write_in_part();
    let left = |store: &Store| ["/a", "/b"].map(|path| get(store, &key(path)).is_some());
    let reader = open(&folder);
    assert!(!reader.is_writer());
    assert_eq!((left(&store), left(&reader)), ([false, true], [false, true]));
    // The next one replaces its beginning.
    purge(&store, tag("/b"), false);
    assert_eq!(left(&reader), [false, false]);
    drop((store, reader));
    write_in_part();
    assert_eq!(left(&open(&folder)), [false, false]);
}

/// Lets writes fail after some of their bytes.
#[derive(Debug)]
struct FailingWrites {
    /// How many succeed before.
    left: AtomicU32,
    written: usize,
}

impl Faults for FailingWrites {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        let count = |left: u32| left.checked_sub(1);
        if !matches!(change, Change::Write { .. })
            || self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
        {
            return Ok(());
        }
        Err(Fault { written: self.written, error: io::ErrorKind::ReadOnlyFilesystem.into() })
    }
}

#[test]
fn writes_that_fail_leave_a_list_that_can_be_read() {
    let paths = ["/a", "/b", "/c"];
    for (number, written) in (0..6).flat_map(|number| [0, 1, 2, 7, 8, 20].map(|written| (number, written))) {
        let folder = folder();
        let disk = Arc::new(FailingWrites { left: AtomicU32::new(u32::MAX), written });
        let options = Options { faults: Some(disk.clone() as _), ..Options::new(folder.path()) };
        let store = Store::open(options).unwrap();
        for path in paths {
            put(&store, &key(path), stored(&[("cache-tag", path)], &[]), &body(1, 10));
        }
        // So long that its end is beyond 256, the next ones of different lengths.
        purge(&store, tag(&"x".repeat(150)), false);
        disk.left.store(number, Ordering::Relaxed);
        let texts = [format!("/a{}", "x".repeat(70)), "/b".to_owned(), "/c".to_owned()];
        let purged = [tag("/a"), tag(&texts[0]), tag("/b")].map(|target| {
            let is_purged = store.purge(&[Purge { target, soft: false }]).is_ok();
            assert!(!open(&folder).is_writer(), "it reads the list");
            is_purged
        });
        drop(store);
        let store = open(&folder);
        let left = paths.map(|path| get(&store, &key(path)).is_some());
        // An error does not mean that it does not hold; one that succeeded holds.
        let is_used = (purged[0] && left[0]) || (purged[2] && left[1]);
        assert!(!is_used, "{number} {written} {purged:?} {left:?}");
        assert!(left[2], "the store is not new: {number} {written} {purged:?} {left:?}");
    }
}

#[test]
fn without_the_list_of_purges_the_store_is_empty() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    drop(store);
    std::fs::remove_file(folder.path().join("state")).unwrap();
    let store = open(&folder);
    assert!(get(&store, &key("/a")).is_none());
    store.wait_until_indexed();
    assert_eq!((store.stats().objects, files(&folder).len()), (0, 0));
    assert_eq!(std::fs::read_dir(folder.path().join("temporary")).unwrap().count(), 0);
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
}

#[test]
fn tags_are_those_of_the_response() {
    let folder = folder();
    let store = open(&folder);
    let tagged = stored(&[("cache-tag", "a, b"), ("surrogate-key", "c d")], &[]);
    assert_eq!(tagged.fields(), &{
        let mut expected =
            fields(&[("cache-tag", "a, b"), ("surrogate-key", "c d"), ("cache-control", "max-age=60")]);
        expected.insert("date", tagged.fields()["date"].clone());
        expected
    });
    for name in ["a", "b", "c", "d"] {
        put(&store, &key("/a"), tagged.clone(), &body(1, 10));
        purge(&store, tag(name), false);
        assert!(get(&store, &key("/a")).is_none(), "{name}");
    }
}
