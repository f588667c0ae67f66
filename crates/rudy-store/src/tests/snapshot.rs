//! Starts with the index of the last process, and without.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rudy_cache::index::Capacity;
use tempfile::TempDir;

use super::store::{body, files, folder, get, key, open, put};
use super::stored;
use crate::*;

fn snapshot(folder: &TempDir) -> PathBuf {
    folder.path().join("snapshot")
}

fn with_space(folder: &TempDir, objects: u32) -> Options {
    let capacity = Capacity { bytes: 1 << 30, objects };
    Options { capacity, memory_bytes: 0, ..Options::new(folder.path()) }
}

fn put_some(store: &Store, numbers: std::ops::Range<u64>) {
    for number in numbers {
        put(store, &key(&format!("/{number}")), stored(&[], &[]), &body(number, 10));
    }
}

/// Opens a store, and returns it with the number of objects in the index when it has scanned the folder.
fn reopen(folder: &TempDir) -> (Store, u64) {
    let store = open(folder);
    store.wait_until_indexed();
    assert!(!snapshot(folder).exists(), "it is valid once");
    let objects = store.stats().objects;
    (store, objects)
}

#[test]
fn uses_survive_a_clean_end() {
    for is_killed in [false, true] {
        let folder = folder();
        let store = Store::open(with_space(&folder, 100)).unwrap();
        put_some(&store, 0..100);
        for _ in 0..3 {
            assert!((0..50).all(|number| get(&store, &key(&format!("/{number}"))).is_some()));
        }
        drop(store);
        if is_killed {
            fs::remove_file(snapshot(&folder)).unwrap();
        }
        let store = Store::open(with_space(&folder, 100)).unwrap();
        store.wait_until_indexed();
        put_some(&store, 1000..1200);
        let left = (0..50).filter(|number| get(&store, &key(&format!("/{number}"))).is_some()).count();
        assert_eq!(left, if is_killed { 0 } else { 50 });
    }
}

#[test]
fn the_folder_decides_which_objects_there_are() {
    let folder = folder();
    let store = open(&folder);
    put_some(&store, 0..10);
    drop(store);
    let [first, second, ..] = &files(&folder)[..] else { panic!("ten files") };
    let removed = fs::read(first).unwrap();
    fs::remove_file(first).unwrap();
    let (store, objects) = reopen(&folder);
    assert_eq!(objects, 9);
    drop(store);
    // A file that is not in the snapshot.
    fs::write(first, removed).unwrap();
    fs::write(second.with_file_name("foreign"), "").unwrap();
    let (store, objects) = reopen(&folder);
    assert_eq!((objects, store.stats().damaged), (10, 1));
    assert!((0..10).all(|number| get(&store, &key(&format!("/{number}"))).is_some()));
}

#[test]
fn an_object_whose_file_is_lost_is_a_miss_before_the_scan() {
    let folder = folder();
    put_some(&open(&folder), 0..1);
    fs::remove_file(&files(&folder)[0]).unwrap();
    // Without the thread that scans.
    let inner = Arc::new(open::open(Options::new(folder.path())).unwrap());
    let run = inner.writing().unwrap().run;
    inner.snapshot(run).restore(&|evicted| assert!(evicted.is_empty()));
    assert_eq!(inner.index.usage().0, 1);
    let found = inner.lookup(&key("/0"), &http::HeaderMap::new(), Access::Blocking).unwrap();
    assert!(found.objects.is_empty() && inner.index.usage().0 == 0);
}

#[test]
fn a_snapshot_of_an_earlier_run_or_another_store_is_not_used() {
    let [one, other] = [(); 2].map(|()| folder());
    for folder in [&one, &other] {
        put_some(&open(folder), 0..1);
    }
    let old = fs::read(snapshot(&one)).unwrap();
    let store = open(&one);
    put(&store, &key("/0"), stored(&[], &[]), &body(1, 100_000));
    let bytes = store.stats().bytes;
    drop(store);
    for snapshot_of_other in [old, fs::read(snapshot(&other)).unwrap()] {
        fs::write(snapshot(&one), snapshot_of_other).unwrap();
        let (store, objects) = reopen(&one);
        assert_eq!((objects, store.stats().bytes), (1, bytes));
    }
}

#[test]
fn a_damaged_snapshot_is_not_used() {
    let folder = folder();
    let store = open(&folder);
    put_some(&store, 0..2);
    let bytes = store.stats().bytes;
    drop(store);
    let length = fs::read(snapshot(&folder)).unwrap().len();
    for at in 0..length {
        let mut damaged = fs::read(snapshot(&folder)).unwrap();
        assert_eq!(damaged.len(), length);
        if at % 2 == 0 {
            damaged[at] ^= 1;
        } else {
            damaged.truncate(at);
        }
        fs::write(snapshot(&folder), damaged).unwrap();
        let (store, objects) = reopen(&folder);
        assert_eq!((objects, store.stats().bytes), (2, bytes), "byte {at}");
    }
}

#[test]
fn a_check_of_all_files_keeps_the_snapshot() {
    let folder = folder();
    put_some(&open(&folder), 0..10);
    let before = fs::read(snapshot(&folder)).unwrap();
    assert_eq!(verify(&Options::new(folder.path()), |_| {}).unwrap().objects, 10);
    let after = fs::read(snapshot(&folder)).unwrap();
    assert!(before != after && before.len() == after.len(), "it is of the next run");
    assert_eq!(before[32..before.len() - 8], after[32..after.len() - 8]);
}

/// A disk that is full for snapshots.
#[derive(Debug)]
struct Full;

impl Faults for Full {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        match change {
            Change::Write { data, .. } if data.starts_with(b"RUDYSNP") => {
                Err(Fault { written: 10, error: std::io::ErrorKind::StorageFull.into() })
            }
            _ => Ok(()),
        }
    }
}

#[test]
fn a_full_disk_leaves_no_snapshot() {
    let folder = folder();
    let options = Options { faults: Some(Arc::new(Full)), ..Options::new(folder.path()) };
    put_some(&Store::open(options).unwrap(), 0..10);
    assert!(!snapshot(&folder).exists());
    assert_eq!(fs::read_dir(folder.path().join("temporary")).unwrap().count(), 0);
    assert_eq!(reopen(&folder).1, 10);
}

#[test]
fn a_process_that_gives_up_the_lock_leaves_a_snapshot_for_the_next_one() {
    let folder = folder();
    let (first, second) = (open(&folder), open(&folder));
    put_some(&first, 0..10);
    first.release();
    assert!(snapshot(&folder).exists());
    second.purge(&[]).unwrap();
    second.wait_until_indexed();
    assert!(!snapshot(&folder).exists());
    put_some(&second, 10..11);
    drop(second);
    first.reclaim();
    first.purge(&[]).unwrap();
    first.wait_until_indexed();
    assert_eq!(first.stats().objects, 11);
}
