//! Storing, finding, updating, removing and evicting.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use rudy_cache::index::Capacity;
use rudy_cache::{Key, Stored};
use tempfile::TempDir;

use super::{fields, stored};
use crate::*;

pub(super) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn open(folder: &TempDir) -> Store {
    Store::open(Options::new(folder.path())).unwrap()
}

pub(super) fn key(path: &str) -> Key {
    Key::new(true, b"a.example", path.as_bytes())
}

/// A body of which every word depends on its position and the seed.
pub(super) fn body(seed: u64, length: usize) -> Bytes {
    let words = (1..=length as u64 / 8 + 1).map(|at| (at * (seed + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut body = words.flat_map(u64::to_be_bytes).collect::<Vec<_>>();
    body.truncate(length);
    body.into()
}

pub(super) fn put(store: &Store, key: &Key, stored: Stored, body: &Bytes) -> Arc<Object> {
    let mut fill = store.fill(key, stored, Some(body.len() as u64), store.epoch());
    body.chunks(30_000).for_each(|chunk| fill.write(Bytes::copy_from_slice(chunk)));
    match fill.finish().unwrap() {
        Finished::Stored(object) => object,
        Finished::NotStored(reason) => panic!("{reason}"),
    }
}

pub(super) fn get(store: &Store, key: &Key) -> Option<(Arc<Object>, Bytes)> {
    let object =
        store.lookup(key, &HeaderMap::new(), Access::Blocking).unwrap().objects.into_iter().next()?;
    let body = object.body().read_at(0, usize::MAX).unwrap();
    Some((object, body))
}

/// Returns the bodies of the objects that a request can use.
fn variants(store: &Store, key: &Key, request: &[(&'static str, &str)]) -> Vec<Bytes> {
    let found = store.lookup(key, &fields(request), Access::Blocking).unwrap();
    found.objects.iter().map(|object| object.body().read_at(0, usize::MAX).unwrap()).collect()
}

const SIZES: [usize; 6] = [0, 1, 8000, 65_536, 65_537, 1_000_000];

#[test]
fn an_object_is_current_until_it_is_replaced_or_purged() {
    let folder = folder();
    let (store, key) = (open(&folder), key("/a"));
    let found = |text: &'static str| {
        put(&store, &key, stored(&[], &[]), &Bytes::from(text));
        get(&store, &key).unwrap().0
    };
    let first = found("1");
    assert!(store.is_current(&first));
    let second = found("2");
    assert!(!store.is_current(&first) && store.is_current(&second));
    store.purge(&[Purge { target: Target::Prefix(b"https://a.example/".to_vec()), soft: true }]).unwrap();
    assert!(!store.is_current(&second));
    let third = found("3");
    store.invalidate(&[key]);
    assert!(!store.is_current(&third));
}

#[test]
fn a_stored_object_is_found_before_and_after_a_restart() {
    let folder = folder();
    let store = open(&folder);
    for (number, size) in (0..).zip(SIZES) {
        let object =
            put(&store, &key(&format!("/{size}")), stored(&[("etag", "\"x\"")], &[]), &body(number, size));
        assert_eq!(matches!(object.body(), Body::Memory(_)), size <= 65_536);
    }
    let check = |store: &Store| {
        for (number, size) in (0..).zip(SIZES) {
            let (object, found) = get(store, &key(&format!("/{size}"))).unwrap();
            assert_eq!(found, body(number, size));
            assert_eq!(object.key(), key(&format!("/{size}")).as_bytes());
            assert_eq!(*object.stored(), stored(&[("etag", "\"x\"")], &[]));
        }
        assert!(get(store, &key("/other")).is_none());
    };
    check(&store);
    drop(store);
    let store = open(&folder);
    check(&store);
    store.wait_until_indexed();
    check(&store);
    assert_eq!(store.stats().objects, SIZES.len() as u64);
}

#[test]
fn an_object_is_found_before_the_scan_reaches_it() {
    let folder = folder();
    put(&open(&folder), &key("/a"), stored(&[("vary", "accept")], &[]), &body(1, 100_000));
    // Without the thread that scans.
    let inner = open::open(Options::new(folder.path())).unwrap();
    let found = inner.lookup(&key("/a"), &HeaderMap::new(), Access::Blocking).unwrap();
    assert_eq!(found.objects.len(), 1);
    assert!(inner.index.usage().0 == 0);
}

#[test]
fn threads_get_whole_objects_of_one_version() {
    let folder = folder();
    let options =
        Options { capacity: Capacity { bytes: 1 << 20, objects: 10 }, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    let version = |object: &Object| {
        object.stored().fields()["etag"].to_str().unwrap().trim_matches('"').parse().unwrap()
    };
    let purged = AtomicU64::default();
    let next = AtomicU64::new(1);
    let work = &|thread: u64| {
        for step in 0..150 {
            let number = thread * 1000 + step;
            let key = key(&format!("/{}", number % 7));
            match (number * 7 + step * 3) % 5 {
                0 | 1 => {
                    let epoch = store.epoch();
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let metadata = stored(&[("etag", &format!("\"{number}\"")), ("cache-tag", "all")], &[]);
                    let mut fill = store.fill(&key, metadata, None, epoch);
                    fill.write(body(number, usize::try_from(number % 3).unwrap() * 35_000));
                    drop(fill.finish());
                }
                2 if step % 10 == 0 => {
                    // What was numbered before has an older epoch.
                    let last = next.load(Ordering::SeqCst);
                    store.purge(&[Purge { target: Target::Tag(b"all".into()), soft: false }]).unwrap();
                    purged.fetch_max(last, Ordering::SeqCst);
                }
                _ => {
                    let last_purged = purged.load(Ordering::SeqCst);
                    let Some((object, found)) = get(&store, &key) else { continue };
                    let number: u64 = version(&object);
                    assert_eq!(found, body(number, usize::try_from(number % 3).unwrap() * 35_000));
                    assert!(number >= last_purged, "{number} was purged with all before {last_purged}");
                    if step % 3 == 0 {
                        drop(store.update(&object, object.stored().clone(), store.epoch()));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
}

#[test]
fn a_lookup_on_a_worker_reads_what_the_kernel_has_cached() {
    let folder = folder();
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 100));
    let store = open(&folder);
    // Some file systems cannot report what is cached.
    let cached = store.lookup(&key("/a"), &HeaderMap::new(), Access::Cached);
    assert!(cached.is_ok_and(|found| found.objects.len() == 1) || get(&store, &key("/a")).is_some());
    // Now it is in memory.
    assert_eq!(store.stats().memory_objects, 1);
    assert_eq!(store.lookup(&key("/a"), &HeaderMap::new(), Access::Cached).unwrap().objects.len(), 1);
    store.wait_until_indexed();
    assert!(store.lookup(&key("/b"), &HeaderMap::new(), Access::Cached).unwrap().objects.is_empty());
}

#[test]
fn requests_get_the_variants_that_match() {
    let folder = folder();
    let store = open(&folder);
    let (vary, key) = (("vary", "accept-language"), key("/a"));
    let [german, english, other, default] = [1, 2, 3, 4].map(|number| body(number, 10));
    put(&store, &key, stored(&[vary], &[("accept-language", "de")]), &german);
    put(&store, &key, stored(&[vary], &[("accept-language", "en")]), &english);
    let check = |store: &Store, default: &[Bytes]| {
        let found = |request: &[_]| variants(store, &key, request);
        assert_eq!(found(&[("accept-language", "de")]), [std::slice::from_ref(&german), default].concat());
        assert_eq!(found(&[("accept-language", "en")]), [std::slice::from_ref(&english), default].concat());
        assert_eq!(found(&[("accept-language", "fr")]), default);
        assert!(store.lookup(&key, &HeaderMap::new(), Access::Blocking).unwrap().has_variants);
        assert_eq!(store.objects(&key).len(), 2 + default.len());
    };
    check(&store, &[]);
    put(&store, &key, stored(&[], &[]), &default);
    check(&store, std::slice::from_ref(&default));
    drop(store);
    let store = open(&folder);
    check(&store, std::slice::from_ref(&default));
    // Another set of names beside the first one.
    put(&store, &key, stored(&[("vary", "accept, cookie")], &[("accept", "a")]), &other);
    assert_eq!(
        variants(&store, &key, &[("accept", "a"), ("accept-language", "de")]),
        [german.clone(), other, default]
    );
    // Without the default response, its variants remain.
    let objects = store.objects(&key);
    store.remove(objects.iter().find(|object| object.stored().variant().names().is_empty()).unwrap());
    assert_eq!(variants(&store, &key, &[("accept-language", "de")]), [german]);
    assert!(variants(&store, &key, &[]).is_empty());
}

#[test]
fn an_update_replaces_the_metadata_and_no_newer_object() {
    let folder = folder();
    let store = open(&folder);
    for size in [100, 100_000] {
        let key = key(&format!("/{size}"));
        let first = put(&store, &key, stored(&[("x", "0")], &[]), &body(1, size));
        let mut last = Arc::clone(&first);
        for number in 1..20 {
            let text = "y".repeat(number * 7 % 50);
            last = store.update(&last, stored(&[("x", &text)], &[]), store.epoch()).unwrap();
            let (object, found) = get(&store, &key).unwrap();
            assert_eq!((object.stored().fields()["x"].to_str().unwrap(), found), (&*text, body(1, size)));
        }
        let late = store.update(&first, stored(&[("x", "late")], &[]), store.epoch());
        assert!(matches!(late, Err(NotUpdated::Superseded)));
        let text = last.stored().fields()["x"].clone();
        drop(last);
        let store = Store::open(Options::new(folder.path())).unwrap();
        assert!(!store.is_writer());
        assert_eq!(get(&store, &key).unwrap().0.stored().fields()["x"], text);
        let size_on_disk = std::fs::metadata(file(&folder, 0)).unwrap().len();
        assert!(size_on_disk < 128 + 100_000 + 2000, "updates reuse the space: {size_on_disk}");
    }
}

#[test]
fn an_update_to_another_variant_removes_the_object() {
    let folder = folder();
    let store = open(&folder);
    let object = put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    let other = stored(&[("vary", "accept")], &[]);
    assert!(matches!(store.update(&object, other, store.epoch()), Err(NotUpdated::Variant)));
    assert!(get(&store, &key("/a")).is_none());
}

#[test]
fn a_removal_leaves_a_newer_object() {
    let folder = folder();
    let store = open(&folder);
    let old = put(&store, &key("/a"), stored(&[], &[]), &body(1, 10));
    let new = put(&store, &key("/a"), stored(&[], &[]), &body(2, 10));
    store.remove(&old);
    assert_eq!(get(&store, &key("/a")).unwrap().1, body(2, 10));
    store.remove(&new);
    assert!(get(&store, &key("/a")).is_none());
    assert_eq!(new.body().read_at(3, 100).unwrap(), body(2, 10).slice(3..), "a body in use remains");
    assert_eq!(store.stats().objects, 0);
}

#[test]
fn objects_leave_when_the_space_is_full() {
    let folder = folder();
    let capacity = Capacity { bytes: 40 * 4096, objects: 30 };
    let options = Options { capacity, ..Options::new(folder.path()) };
    let store = Store::open(options.clone()).unwrap();
    for number in 0..100 {
        put(&store, &key(&format!("/{number}")), stored(&[], &[]), &body(number, 10));
    }
    assert_eq!((store.stats().objects, store.stats().evicted), (30, 70));
    put(&store, &key("/large"), stored(&[], &[]), &body(1, 30 * 4096));
    assert!(store.stats().bytes <= capacity.bytes);
    let count =
        |store: &Store| (0..100).filter(|number| get(store, &key(&format!("/{number}"))).is_some()).count();
    let left = count(&store);
    assert!(get(&store, &key("/large")).is_some() && left < 10);
    assert_eq!(files(&folder).len(), left + 1, "nothing else is on the disk");
    let too_large = store.fill(&key("/too-large"), stored(&[], &[]), None, store.epoch());
    let mut too_large = too_large;
    (0..41).for_each(|_| too_large.write(body(1, 4096)));
    assert!(matches!(too_large.finish(), Ok(Finished::NotStored(NotKept::TooLong))));
    drop(store);
    // A smaller capacity at the next start.
    let options = Options { capacity: Capacity { objects: 2, ..capacity }, ..options };
    let store = Store::open(options).unwrap();
    store.wait_until_indexed();
    assert_eq!((store.stats().objects, files(&folder).len()), (2, 2));
}

#[test]
fn objects_leave_when_the_space_shrinks() {
    let folder = folder();
    let store = open(&folder);
    for number in 0..100 {
        put(&store, &key(&format!("/{number}")), stored(&[], &[]), &body(number, 10));
    }
    let all = store.stats().capacity;
    store.resize(Capacity { objects: 20, ..all }, 0);
    store.wait_until(|stats| stats.evicted == 80);
    assert_eq!((store.stats().objects, store.stats().memory_objects), (20, 0));
    assert_eq!(files(&folder).len(), 20);
    store.resize(all, 1 << 20);
    // The space grows in the background: until then, objects leave.
    while store.stats().objects < 100 {
        for number in 0..100 {
            put(&store, &key(&format!("/{number}")), stored(&[], &[]), &body(number, 10));
        }
    }
    assert_eq!(store.stats().memory_objects, 100);
}

#[test]
fn the_list_has_all_responses() {
    let folder = folder();
    let store = open(&folder);
    put(&store, &key("/a"), stored(&[("vary", "accept")], &[]), &body(1, 10));
    put(&store, &key("/b"), stored(&[], &[]), &body(1, 100_000));
    let mut listed = Vec::new();
    store.for_each(|object| {
        listed.push((object.key, object.body_bytes));
        ControlFlow::Continue(())
    });
    listed.sort();
    assert_eq!(listed, [(key("/a").as_bytes().to_vec(), 10), (key("/b").as_bytes().to_vec(), 100_000)]);
}

#[test]
fn a_second_process_reads_until_the_lock_is_free() {
    let folder = folder();
    let first = open(&folder);
    put(&first, &key("/a"), stored(&[], &[]), &body(1, 10));
    let second = open(&folder);
    assert!(first.is_writer() && !second.is_writer());
    assert_eq!(get(&second, &key("/a")).unwrap().1, body(1, 10));
    let mut fill = second.fill(&key("/b"), stored(&[], &[]), None, second.epoch());
    fill.write(body(2, 10));
    assert!(matches!(fill.finish(), Ok(Finished::NotStored(NotKept::ReadOnly))));
    let purge = Purge { target: Target::Key(key("/a")), soft: false };
    assert!(matches!(second.purge(std::slice::from_ref(&purge)), Err(PurgeError::Busy)));
    // The second one notices what the first one changes.
    first.purge(std::slice::from_ref(&purge)).unwrap();
    assert!(get(&second, &key("/a")).is_none());
    put(&first, &key("/a"), stored(&[], &[]), &body(3, 10));
    assert_eq!(get(&second, &key("/a")).unwrap().1, body(3, 10));
    let mut late = first.fill(&key("/late"), stored(&[], &[]), None, first.epoch());
    first.release();
    late.write(body(4, 100_000));
    assert!(matches!(late.finish(), Ok(Finished::NotStored(NotKept::ReadOnly))));
    second.purge(&[]).unwrap();
    assert!(second.is_writer());
    put(&second, &key("/b"), stored(&[], &[]), &body(2, 10));
    assert_eq!(get(&first, &key("/b")).unwrap().1, body(2, 10));
    assert!(
        !first.is_writer()
            && first.fill(&key("/c"), stored(&[], &[]), None, first.epoch()).reader().is_some()
    );
    // The first one stores again when the second one has ended.
    first.reclaim();
    assert!(matches!(first.purge(&[]), Err(PurgeError::Busy)));
    drop(second);
    first.purge(&[purge]).unwrap();
    first.wait_until_indexed();
    assert!(get(&first, &key("/a")).is_none());
    assert_eq!((get(&first, &key("/b")).unwrap().1, first.stats().objects), (body(2, 10), 1));
}

#[test]
fn a_folder_with_other_files_is_not_used() {
    let folder = folder();
    std::fs::write(folder.path().join("thesis.tex"), "").unwrap();
    let error = Store::open(Options::new(folder.path())).unwrap_err();
    assert!(matches!(error, OpenError::NotAStore(_)), "{error}");
    let levels = Options { levels: vec![3], ..Options::new(folder.path()) };
    assert!(matches!(Store::open(levels), Err(OpenError::Levels(_))));
}

#[test]
fn a_foreign_folder_with_the_names_of_a_store_is_not_changed() {
    // The folders of Git, and of OSTree.
    for (other, is_file) in [("refs", true), ("refs", false), ("objects", false)] {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path(other)).unwrap();
        std::fs::create_dir_all(path("objects/aa")).unwrap();
        std::fs::write(path("objects/aa/x.file"), "x").unwrap();
        let state = path("state");
        if is_file { std::fs::write(state, "x") } else { std::fs::create_dir(state) }.unwrap();
        let names = || {
            let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let before = names();
        let error = Store::open(Options::new(folder.path())).unwrap_err();
        assert!(matches!(&error, OpenError::NotAStore(path) if path == folder.path()), "{error}");
        assert_eq!((names(), std::fs::read(path("objects/aa/x.file")).unwrap()), (before, b"x".to_vec()));
    }
}

#[test]
fn a_foreign_file_beside_a_valid_state_does_not_matter_and_a_damaged_state_is_recovered_without_one() {
    let folder = folder();
    put(&open(&folder), &key("/a"), stored(&[], &[]), &body(1, 10));
    let foreign = folder.path().join("thesis.tex");
    std::fs::write(&foreign, "").unwrap();
    assert!(get(&open(&folder), &key("/a")).is_some());
    std::fs::write(folder.path().join("state"), "x").unwrap();
    assert!(matches!(Store::open(Options::new(folder.path())), Err(OpenError::NotAStore(_))));
    assert_eq!(files(&folder).len(), 1);
    std::fs::remove_file(foreign).unwrap();
    let store = open(&folder);
    assert!(get(&store, &key("/a")).is_none(), "purges may be lost");
    put(&store, &key("/a"), stored(&[], &[]), &body(2, 10));
}

#[test]
fn the_memory_is_bounded() {
    let folder = folder();
    let options = Options { memory_bytes: 100_000, ..Options::new(folder.path()) };
    let store = Store::open(options).unwrap();
    for number in 0..200 {
        put(&store, &key(&format!("/{number}")), stored(&[], &[]), &body(number, 5000));
    }
    let stats = store.stats();
    assert!(stats.memory_bytes <= 100_000 && stats.memory_objects > 0, "{stats:?}");
    assert!(stats.index_bytes <= 50 * stats.objects.max(5000), "{stats:?}");
    assert!((0..200).all(|number| get(&store, &key(&format!("/{number}"))).unwrap().1 == body(number, 5000)));
}

/// Returns the files of objects.
pub(super) fn files(folder: &TempDir) -> Vec<std::path::PathBuf> {
    fn add(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                add(&entry.path(), files);
            } else {
                files.push(entry.path());
            }
        }
    }
    let mut files = Vec::new();
    add(&folder.path().join("objects"), &mut files);
    files.sort();
    files
}

fn file(folder: &TempDir, number: usize) -> std::path::PathBuf {
    files(folder).swap_remove(number)
}
