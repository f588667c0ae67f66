//! Threads that store, find and purge, and the background thread, in random orders. The files are real ones.

use std::sync::Arc;

use rudy_cache::index::Capacity;
use rudy_test_sync::{check, join, thread};

use super::store::{body, files, get, key, put};
use super::{folder_in_memory, open_in_model, options_in_model, stored};
use crate::purge::Effect;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::*;

/// Number of orders per test. Each takes about half a millisecond.
const ORDERS: usize = 1_000;

/// Runs a model on a store with a background thread. The thread forgets each purge as soon as it is applied.
fn check_store(
    options: impl Fn(Options) -> Options + Send + Sync + 'static,
    model: impl Fn(&Arc<Store>) + Send + Sync + 'static,
) {
    let folder = folder_in_memory();
    let run = move || {
        let store = Arc::new(Store::without_background(options(options_in_model(&folder))));
        let background = run_background(&store);
        model(&store);
        store.inner.signal.stop();
        join([background]);
    };
    check(run, ORDERS);
}

fn run_background(store: &Store) -> thread::JoinHandle<()> {
    let inner = Arc::clone(&store.inner);
    thread::spawn(move || background::run(&inner))
}

/// Metadata with a tag that purges name.
fn tagged() -> rudy_cache::Stored {
    stored(&[("cache-tag", "x")], &[])
}

fn purges() -> [Target; 2] {
    [Target::Tag("x".into()), Target::Key(key("/a"))]
}

/// Purges, and checks that nothing is found from then on, also when the purge is forgotten. `others` changes the store meanwhile.
fn check_purge(store: &Store, target: &Target, others: thread::JoinHandle<()>) {
    let is_gone = || get(store, &key("/a")).is_none();
    store.purge(&[Purge { target: target.clone(), soft: false }]).unwrap();
    assert!(is_gone(), "after the purge");
    join([others]);
    assert!(is_gone(), "after a change that began before");
    store.wait_for_purges(0);
    assert!(is_gone(), "after the purge was forgotten");
}

/// A search reads an object, which is then removed, and its purge forgotten, before the object is compared with the purges.
///
/// Found in the model: a search that is not repeated; a purge whose end shows before it is counted.
#[test]
fn a_search_that_outlasts_a_purge_is_repeated() {
    let folder = folder_in_memory();
    check(
        move || {
            let store = open_in_model(&folder);
            let object = put(&store, &key("/a"), tagged(), &body(1, 10));
            let purge = Purge { target: Target::Tag("x".into()), soft: false };
            let (inner, now) = (&store.inner, std::time::Instant::now());
            inner.change_purges(|purges| purges.add(purges.number(&[purge], false), now));
            let has_file = Arc::new(AtomicBool::new(true));
            let (shared, removed) = (Arc::clone(inner), Arc::clone(&has_file));
            let forgets = thread::spawn(move || {
                removed.store(false, Ordering::Release);
                shared.change_purges(|purges| purges.forget(1));
            });
            let is_found = inner.while_purges_are_known(|| {
                has_file.load(Ordering::Acquire) && inner.effect(&object) == Effect::None
            });
            assert!(!is_found);
            join([forgets]);
        },
        4 * ORDERS,
    );
}

/// Found in the model: a search that is not repeated when purges are forgotten; a removal that does not count as a change of the file, so
/// that the object is kept in memory after it.
#[test]
fn a_purged_object_is_not_found_by_a_search_that_begins_later() {
    // With and without objects in memory.
    for memory_bytes in [0, 1 << 20] {
        for target in purges() {
            check_store(
                move |options| Options { memory_bytes, ..options },
                move |store| {
                    put(store, &key("/a"), tagged(), &body(1, 10));
                    store.inner.memory.clear();
                    let shared = Arc::clone(store);
                    let finds = thread::spawn(move || {
                        get(&shared, &key("/a"));
                    });
                    check_purge(store, &target, finds);
                },
            );
        }
    }
}

/// Found in the model: a transfer that is compared with the purges before it has the lock of its key; a purge that is applied without
/// waiting for transfers that end; a transfer across a purge that is forgotten; the end of a task that notifies between a look at a
/// condition and the wait for it.
#[test]
fn a_response_that_was_requested_before_a_purge_does_not_come_back() {
    for target in purges() {
        check_store(std::convert::identity, move |store| {
            let mut fill = store.fill(&key("/a"), tagged(), None, store.epoch());
            fill.write(body(1, 10));
            let stores = thread::spawn(move || {
                fill.finish().unwrap();
            });
            check_purge(store, &target, stores);
        });
    }
}

/// Found in the model: an update that is compared with the purges before it has the lock of its key.
#[test]
fn an_update_does_not_bring_a_purged_object_back() {
    for target in purges() {
        check_store(std::convert::identity, move |store| {
            let object = put(store, &key("/a"), tagged(), &body(1, 10));
            let updates = update(store, object);
            check_purge(store, &target, updates);
        });
    }
}

fn update(store: &Arc<Store>, object: Arc<Object>) -> thread::JoinHandle<()> {
    let (store, epoch) = (Arc::clone(store), store.epoch());
    thread::spawn(move || {
        let _ = store.update(&object, tagged(), epoch);
    })
}

/// The purge does not concern the object as it was.
///
/// Found in the model: an update across a purge that is forgotten.
#[test]
fn an_update_that_was_requested_before_a_purge_is_purged() {
    check_store(std::convert::identity, |store| {
        let object = put(store, &key("/a"), stored(&[], &[]), &body(1, 10));
        let updates = update(store, object);
        store.purge(&[Purge { target: Target::Tag("x".into()), soft: false }]).unwrap();
        join([updates]);
        assert!(get(store, &key("/a")).is_none());
        store.wait_for_purges(0);
        assert!(get(store, &key("/a")).is_none());
    });
}

/// Found in the model: an invalidation that does not wait for transfers that end.
#[test]
fn a_response_that_was_requested_before_an_invalidation_does_not_come_back() {
    check_store(std::convert::identity, |store| {
        let fill = store.fill(&key("/a"), tagged(), None, store.epoch());
        let stores = thread::spawn(move || {
            fill.finish().unwrap();
        });
        store.invalidate(&[key("/a")]);
        assert!(get(store, &key("/a")).is_none());
        join([stores]);
        store.wait_for_purges(0);
        assert!(get(store, &key("/a")).is_none());
    });
}

/// Found in the model: an object that is kept in memory although its file was replaced meanwhile; a file that is replaced and does not
/// count as changed.
#[test]
fn the_object_in_memory_is_that_on_the_disk() {
    for seeds in [&[1][..], &[1, 2]] {
        check_store(std::convert::identity, move |store| {
            put(store, &key("/a"), tagged(), &body(0, 10));
            store.inner.memory.clear();
            let fills = seeds.iter().map(|seed| {
                let mut fill = store.fill(&key("/a"), tagged(), None, store.epoch());
                fill.write(body(*seed, 10));
                thread::spawn(move || assert!(matches!(fill.finish(), Ok(Finished::Stored(_)))))
            });
            let fills: Vec<_> = fills.collect();
            let (_, found) = get(store, &key("/a")).expect("it is replaced, and never removed");
            assert!((0..3).any(|seed| found == body(seed, 10)));
            join(fills);
            let in_memory = get(store, &key("/a")).map(|(_, body)| body);
            store.inner.memory.clear();
            assert_eq!(get(store, &key("/a")).map(|(_, body)| body), in_memory);
        });
    }
}

/// Found in the model: an eviction that removes the file of an object which was stored again.
#[test]
fn the_index_has_the_objects_that_have_files() {
    let capacity = Capacity { bytes: 1 << 20, objects: 1 };
    check(
        move || {
            let folder = folder_in_memory();
            let options = Options { capacity, memory_bytes: 0, ..options_in_model(&folder) };
            let store = Arc::new(Store::without_background(options));
            let puts = ["/a", "/b", "/a"].map(|path| {
                let mut fill = store.fill(&key(path), tagged(), None, store.epoch());
                fill.write(body(1, 10));
                thread::spawn(move || assert!(matches!(fill.finish(), Ok(Finished::Stored(_)))))
            });
            join(puts);
            let stats = store.stats();
            assert_eq!((stats.objects, files(&folder).len()), (1, 1));
            let left = ["/a", "/b"].iter().filter(|path| get(&store, &key(path)).is_some()).count();
            assert_eq!(left, 1);
        },
        ORDERS,
    );
}

/// Found in the model: a scan that is requested after its notification; a stop without one.
#[test]
fn threads_that_wait_for_the_index_are_woken() {
    for stops in [false, true] {
        check_store(std::convert::identity, move |store| {
            let waits = [(); 2].map(|()| {
                let store = Arc::clone(store);
                thread::spawn(move || {
                    store.wait_until_indexed();
                    assert!(stops || store.is_indexed());
                })
            });
            store.inner.signal.scan();
            if stops {
                store.inner.signal.stop();
            }
            join(waits);
        });
    }
}

/// Found in the model: a transfer that ends without the permission to write until its file has its name.
#[test]
fn a_process_that_gave_up_the_lock_changes_no_file() {
    check(
        || {
            let folder = folder_in_memory();
            let store = open_in_model(&folder);
            let mut fill = store.fill(&key("/a"), tagged(), None, store.epoch());
            fill.write(body(1, 10));
            let stores = thread::spawn(move || {
                fill.finish().unwrap();
            });
            store.release();
            let before = files(&folder);
            join([stores]);
            assert_eq!(files(&folder), before);
        },
        8 * ORDERS,
    );
}

/// Found in the model: a search that keeps an object in memory after the process gave up the lock.
#[test]
fn a_process_that_takes_the_lock_again_knows_no_object_from_before() {
    let folder = folder_in_memory();
    check(
        move || {
            let (first, second) = (Arc::new(open_in_model(&folder)), open_in_model(&folder));
            put(&first, &key("/a"), tagged(), &body(1, 10));
            first.inner.memory.clear();
            let shared = Arc::clone(&first);
            let finds = thread::spawn(move || {
                get(&shared, &key("/a"));
            });
            first.release();
            let background = run_background(&second);
            check_purge(&second, &Target::Key(key("/a")), finds);
            second.inner.signal.stop();
            join([background]);
            drop(second);
            first.reclaim();
            first.purge(&[]).unwrap();
            assert!(get(&first, &key("/a")).is_none());
        },
        ORDERS,
    );
}
