//! Damaged, removed and foreign files.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::store::{body, files, folder, get, key, open, put};
use super::stored;
use crate::*;

/// Returns what a check finds.
fn found(options: &Options) -> Vec<(Damage, bool)> {
    let mut dropped = Vec::new();
    let verified = verify(options, |file| dropped.push((file.reason, file.removed))).unwrap();
    assert_eq!(verified.dropped, dropped.len() as u64);
    dropped
}

/// `head` has a test with every bit.
#[test]
fn a_flipped_bit_is_a_miss() {
    let folder = folder();
    let options = Options { memory_bytes: 0, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 100));
    let file = files(&folder).remove(0);
    let intact = fs::read(&file).unwrap();
    for at in 0..intact.len() {
        fs::write(&file, &intact).unwrap();
        assert_eq!(get(&store, &key("/a")).unwrap().1, body(1, 100));
        let mut damaged = intact.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&file, &damaged).unwrap();
        assert!(get(&store, &key("/a")).is_none(), "byte {at}");
        assert!(!file.exists(), "a damaged file is removed");
        assert_eq!((store.stats().damaged, store.stats().objects), (at as u64 + 1, 0));
        // As the scan at the start would find it.
        store.add_to_index(&key("/a"));
    }
}

#[test]
fn a_flipped_bit_of_a_large_body_is_a_miss_after_a_restart() {
    let folder = folder();
    let options = Options::new(folder.path());
    for at in [0, 64, 128, 70_000, 70_127, 70_128, 70_270] {
        put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 70_000));
        let file = files(&folder).remove(0);
        let mut damaged = fs::read(&file).unwrap();
        damaged[at] ^= 4;
        fs::write(&file, &damaged).unwrap();
        assert!(get(&open(&folder), &key("/a")).is_none(), "byte {at}");
        assert!(files(&folder).is_empty());
        fs::write(&file, &damaged).unwrap();
        let reason = found(&options);
        assert!(matches!(reason[..], [(Damage::Head | Damage::Record | Damage::Body, true)]), "{reason:?}");
        assert!(files(&folder).is_empty());
    }
}

#[test]
fn a_truncated_file_is_a_miss() {
    let folder = folder();
    for size in [100, 70_000] {
        put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, size));
        let file = files(&folder).remove(0);
        let intact = fs::read(&file).unwrap();
        for length in (0..intact.len()).step_by(intact.len() / 20) {
            fs::write(&file, &intact[..length]).unwrap();
            assert!(get(&open(&folder), &key("/a")).is_none(), "{length} bytes");
        }
    }
}

#[test]
fn a_removed_file_is_a_miss() {
    let folder = folder();
    let store = Store::open(Options { memory_bytes: 0, ..Options::new(folder.path()) }).unwrap();
    store.wait_until_indexed();
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    fs::remove_file(files(&folder).remove(0)).unwrap();
    assert!(get(&store, &key("/a")).is_none());
    assert_eq!(store.stats().objects, 0);
    put(&store, &key("/a"), stored(&[], &[]), &body(2, 10));
    assert_eq!(get(&store, &key("/a")).unwrap().1, body(2, 10));
}

#[test]
fn foreign_files_are_removed() {
    let folder = folder();
    let other = super::store::folder();
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 10));
    put(&open(&folder), &key("/b"), stored(&[], &[]), &body(2, 10));
    put(&open(&other), &key("/a"), stored(&[], &[]), &body(3, 10));
    let (own, of_other) = (files(&folder), files(&other).remove(0));
    // The object of another cache at its place, under its name.
    let place = folder.path().join(of_other.strip_prefix(other.path()).unwrap());
    let make = || {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&of_other, &place).unwrap();
        fs::write(folder.path().join("objects/foreign"), "").unwrap();
        fs::write(own[0].with_file_name("0123"), "").unwrap();
        let link = own[0].with_file_name(format!("{:032x}", 1));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&own[0], link).unwrap();
        // One under the name of the other.
        fs::copy(&own[0], &own[1]).unwrap();
        fs::write(folder.path().join("temporary/1-1"), "").unwrap();
    };
    make();
    let store = open(&folder);
    let mut reasons = found(&Options::new(folder.path()));
    assert!(reasons.iter().all(|(_, removed)| !removed), "another process has the lock");
    drop(store);
    make();
    reasons = found(&Options::new(folder.path()));
    let count = |reason| reasons.iter().filter(|found| **found == (reason, true)).count();
    assert_eq!(
        (count(Damage::Foreign), count(Damage::Head), count(Damage::Unfinished)),
        (4, 1, 1),
        "{reasons:?}"
    );
    assert_eq!(found(&Options::new(folder.path())), []);
    make();
    let store = open(&folder);
    store.wait_until_indexed();
    assert!(!folder.path().join("objects/foreign").exists() && !own[0].with_file_name("0123").exists());
    assert_eq!([get(&store, &key("/a")), get(&store, &key("/b"))].iter().flatten().count(), 1);
}

#[test]
fn a_check_reports_a_lost_state_and_creates_no_store() {
    let folder = folder();
    let options = Options::new(folder.path());
    assert!(matches!(verify(&options, |_| {}), Err(OpenError::NotAStore(_))));
    let missing = Options::new(folder.path().join("missing"));
    assert!(matches!(verify(&missing, |_| {}), Err(OpenError::NotAStore(_))));
    assert!(!missing.folder.exists() && folder.path().read_dir().unwrap().count() == 0);
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 10));
    fs::write(folder.path().join("state"), "x").unwrap();
    assert_eq!(found(&options), [(Damage::Head, true), (Damage::Foreign, true)]);
    assert_eq!(found(&options), []);
}

#[derive(Debug)]
struct FullDisk;

impl Faults for FullDisk {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        match change {
            Change::Write { data, .. } => {
                Err(Fault { written: data.len() / 2, error: io::ErrorKind::StorageFull.into() })
            }
            _ => Ok(()),
        }
    }
}

/// Counts errors of reads and of writes, and keeps when the store was suspended.
#[derive(Debug, Default)]
struct Log(Mutex<[u64; 2]>, Mutex<Vec<bool>>);

impl DiskLog for Log {
    fn failed(&self, failure: DiskFailure, _: &io::Error) {
        self.0.lock()[usize::from(failure == DiskFailure::Write)] += 1;
    }

    fn suspended(&self, is_suspended: bool) {
        self.1.lock().push(is_suspended);
    }
}

#[test]
fn errors_of_the_disk_are_counted_and_logged() {
    let folder = folder();
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 10));
    let file = files(&folder).remove(0);
    // The folder of the file is none any more: ENOTDIR.
    let parent = file.parent().unwrap();
    fs::remove_dir_all(parent).unwrap();
    fs::write(parent, "").unwrap();
    let log = Arc::new(Log::default());
    let options = Options { log: Some(Arc::clone(&log) as _), ..Options::new(folder.path()) };
    let store = Store::open(Options { faults: Some(Arc::new(FullDisk)), ..options }).unwrap();
    assert!(get(&store, &key("/a")).is_none());
    // The lookup, and the state at the start, which is tried again.
    let Stats { read_errors, write_errors, .. } = store.stats();
    assert!(read_errors > 0 && write_errors > 0, "{read_errors} {write_errors}");
    let logged = *log.0.lock();
    assert!(logged[0] == read_errors && logged[1] > 0, "{logged:?}");
}

/// Fails to write while this is set.
#[derive(Debug, Default)]
struct FailingDisk(AtomicBool);

impl Faults for FailingDisk {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        match change {
            Change::Write { .. } if self.0.load(Ordering::Relaxed) => {
                Err(Fault { written: 0, error: rustix::io::Errno::IO.into() })
            }
            _ => Ok(()),
        }
    }
}

#[test]
fn a_disk_that_fails_suspends_the_store_until_a_probe_works() {
    let (folder, disk, log) = (folder(), Arc::new(FailingDisk::default()), Arc::new(Log::default()));
    let options = Options {
        log: Some(Arc::clone(&log) as _),
        faults: Some(Arc::clone(&disk) as _),
        ..Options::new(folder.path())
    };
    let store = Store::open(options).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    for number in 0..10 {
        assert!(!store.is_suspended(), "{number} errors");
        let mut fill = store.fill(&key("/a"), stored(&[], &[]), Some(1), store.epoch());
        fill.write(bytes::Bytes::from_static(b"x"));
        assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::System(_)))));
    }
    assert!(store.is_suspended());
    store.inner.probe();
    assert!(store.is_suspended(), "it fails still");
    disk.0.store(false, Ordering::Relaxed);
    store.inner.probe();
    assert!(!store.is_suspended());
    assert_eq!(*log.1.lock(), [true, false]);
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    assert_eq!(files(&folder).len(), 1);
}

#[test]
fn on_a_full_disk_responses_are_streamed_and_stored_ones_found() {
    let folder = folder();
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 10));
    let options = Options { faults: Some(Arc::new(FullDisk)), ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    assert_eq!(get(&store, &key("/a")).unwrap().1, body(1, 10));
    for size in [10, 300_000] {
        let mut fill = store.fill(&key("/b"), stored(&[], &[]), Some(size as u64), store.epoch());
        let mut reader = fill.reader().unwrap();
        body(2, size).chunks(50_000).for_each(|chunk| fill.write(bytes::Bytes::copy_from_slice(chunk)));
        assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::ReadOnly | NotKept::System(_)))));
        let mut read = Vec::new();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while let std::task::Poll::Ready(Some(Ok(piece))) = reader.poll_piece(&mut context, 10_000) {
            let Piece::Bytes(bytes) = piece else { panic!("nothing is in a file") };
            read.extend_from_slice(&bytes);
        }
        assert_eq!(read, body(2, size));
        assert!(get(&store, &key("/b")).is_none());
    }
    let empty = super::store::folder();
    let options = Options { faults: Some(Arc::new(FullDisk)), ..Options::new(empty.path()) };
    assert!(matches!(Store::open(options), Err(OpenError::System(..))), "an empty store cannot be created");
}

/// Without the file of the state, the number of a run is that of an earlier one. The soak found it.
#[test]
fn a_file_that_an_earlier_run_with_the_same_number_left_does_not_matter() {
    let folder = folder();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    fs::write(temporary.join("1-0"), "").unwrap();
    let store = open(&folder);
    put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    assert!(get(&store, &key("/a")).is_some());
}
