use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use rudy_cache::{Exchange, HttpDate, Key, Policy, Stored};
use rudy_runtime::Entered;
use rudy_store::{Finished, OnDisk, Options, Purge, Store, Target};
use tokio::time::{Instant, sleep};

use super::*;
use crate::content::content;
use crate::process::{ClockError, Process};

/// A machine with a disk, and a process on it.
struct Machine {
    disk: &'static SimDisk,
    random: fastrand::Rng,
    folder: tempfile::TempDir,
    _on_disk: OnDisk,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let (mut random, folder) = (fastrand::Rng::with_seed(seed), tempfile::tempdir().unwrap());
        let disk = SimDisk::new(random.fork(), folder.path().join("cache"), Arc::new(Trace::new(false)));
        let on_disk = OnDisk::enter(Box::leak(Box::new(disk)));
        Self { disk, random, folder, _on_disk: on_disk }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Starts a process.
    fn start(&mut self) -> (Store, &'static Process) {
        let start = (Instant::now().into_std(), std::time::SystemTime::UNIX_EPOCH);
        let process = Process::new(self.random.fork(), start, Box::leak(Box::new(ClockError::new(0))));
        let _inside = Entered::new(process);
        let store = Store::open(Options { memory_bytes: 0, ..Options::new(self.cache()) }).unwrap();
        assert!(store.is_writer());
        (store, process)
    }

    /// Ends a process, and starts another one.
    fn restart(
        &mut self,
        (store, process): (Store, &'static Process),
        death: Death,
    ) -> (Store, &'static Process) {
        self.disk.die(death);
        process.kill();
        drop(store);
        self.disk.set(DiskConditions::default());
        self.start()
    }
}

fn key(number: u64) -> Key {
    Key::new(false, b"a", format!("/{number}").as_bytes())
}

fn metadata() -> Stored {
    let time = HttpDate::from_unix_seconds(1_000_000_000);
    let response = Response::builder().header("cache-control", "max-age=60").body(()).unwrap();
    let exchange = Exchange { requested_at: time, received_at: time };
    Policy::default().store(&Request::new(()), &response, exchange).unwrap()
}

/// Stores a body. Returns whether it is stored.
fn put(store: &Store, number: u64, body: &[u8]) -> bool {
    let mut fill = store.fill(&key(number), metadata(), Some(body.len() as u64), store.epoch());
    let reader = fill.reader();
    fill.write(Bytes::copy_from_slice(body));
    drop(reader);
    matches!(fill.finish(), Ok(Finished::Stored(_)))
}

fn get(store: &Store, number: u64) -> Option<Bytes> {
    let found = store.lookup(&key(number), &HeaderMap::new(), Access::Blocking).unwrap();
    found.objects.first().map(|object| object.body().read_at(0, usize::MAX).unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

const LENGTHS: [usize; 4] = [0, 700, 5_000, 70_000];

/// Every body is whole or missing after a power failure, and what a purge has removed stays away.
fn power_failures(seed: u64) -> (u64, u64) {
    let mut machine = Machine::new(seed);
    let mut running = machine.start();
    let (mut kept, mut lost) = (0, 0);
    for round in 0..8 {
        let bodies: Vec<_> =
            (0..8).map(|number| content(number + round * 100, 0, LENGTHS[(number % 4) as usize])).collect();
        for (number, body) in (0..).zip(&bodies) {
            assert!(put(&running.0, number, body));
        }
        let purged = machine.random.u64(..8);
        running.0.purge(&[Purge { target: Target::Key(key(purged)), soft: false }]).unwrap();
        let death = if machine.random.bool() { Death::PowerFailure } else { Death::Killed };
        running = machine.restart(running, death);
        for number in 0..8 {
            let found = get(&running.0, number);
            match &found {
                Some(_) if number == purged => panic!("seed {seed}: a purged object is back"),
                Some(body) => {
                    // A power failure may leave an older version.
                    let of_round = |round| content(number + round * 100, 0, LENGTHS[(number % 4) as usize]);
                    assert!(
                        (0..=round).any(|round| of_round(round) == *body),
                        "seed {seed}: {number} is damaged"
                    );
                    kept += 1;
                }
                None if death == Death::Killed && number != purged => panic!("seed {seed}: {number} is lost"),
                None => lost += 1,
            }
        }
    }
    (kept, lost)
}

#[test]
fn a_store_survives_power_failures() {
    let results = (0..10).map(|seed| runtime().block_on(async { power_failures(seed) }));
    let (kept, lost) = results.fold((0, 0), |(all, none), (kept, lost)| (all + kept, none + lost));
    assert!(kept > 50 && lost > 100, "{kept} objects kept, {lost} lost");
}

#[test]
fn a_full_disk_stores_what_it_has_room_for() {
    runtime().block_on(async {
        let mut machine = Machine::new(1);
        let (store, process) = machine.start();
        let _inside = Entered::new(process);
        machine.disk.set(DiskConditions { capacity: Some(150_000), ..DiskConditions::default() });
        assert!(put(&store, 1, &vec![1; 100_000]));
        assert!(!put(&store, 2, &vec![2; 100_000]));
        assert_eq!((get(&store, 1).map(|body| body.len()), get(&store, 2)), (Some(100_000), None));
        assert!(machine.disk.faults().contains_key("no space"));
        store.remove(&store.objects(&key(1))[0]);
        assert!(put(&store, 2, &vec![2; 100_000]));
    });
}

#[test]
fn a_purge_of_a_tag_is_applied_by_a_task() {
    runtime().block_on(async {
        let mut machine = Machine::new(2);
        let (store, process) = machine.start();
        let _inside = Entered::new(process);
        // The task waits then.
        sleep(std::time::Duration::from_secs(1)).await;
        assert!(store.is_indexed());
        assert!(put(&store, 1, &[1; 700]));
        assert_eq!(files(&machine.cache().join("objects")), 1);
        store.purge(&[Purge { target: Target::Prefix(b"http://a/".to_vec()), soft: false }]).unwrap();
        sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(store.stats().purges_pending, 0);
        assert_eq!(files(&machine.cache().join("objects")), 0);
    });
}

/// Returns the number of files below a folder.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}
