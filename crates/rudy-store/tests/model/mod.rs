//! A store under random operations, full disks, damaged files and processes that end at any instant, against a model that knows
//! every byte.
//!
//! A miss is always right. The model has the versions that a lookup may find at each place: one, after an operation that
//! succeeded; several, after one that failed or was cut short, because it may have had its effect or not.

mod content;
mod damage;
mod faults;
mod random;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rudy_cache::index::{BLOCK_BYTES, Capacity};
use rudy_store::{Access, Fill, FillReader, Finished, Object, Options, Piece, Purge, Store, Target, verify};

use content::{Place, Version, random_target};
use damage::Copies;
use faults::Disk;
use random::Random;

/// What happened, to show that the run was not one of misses only.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) stored: u64,
    pub(crate) restarts: u64,
    pub(crate) dropped: u64,
}

/// A store and its model.
pub(crate) struct Run<'a> {
    folder: &'a Path,
    random: Random,
    disk: Arc<Disk>,
    store: Option<Store>,
    permitted: BTreeMap<Place, Vec<Version>>,
    transfers: Vec<Transfer>,
    versions: u64,
    tally: Tally,
    copies: Copies,
    log: VecDeque<String>,
}

/// The number of events that are printed after a failure.
const LOG_LINES: usize = 500;

/// A body that is being received, and one of its readers.
struct Transfer {
    fill: Fill,
    reader: Option<FillReader>,
    read: Vec<u8>,
    place: Place,
    version: Version,
    body: Bytes,
    sent: usize,
    /// Whether a purge came that concerns it.
    is_purged: bool,
    becomes_stale: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(folder: &'a Path, seed: u64) -> Self {
        let mut run = Self {
            folder,
            random: Random::new(seed),
            disk: Arc::new(Disk::new(seed)),
            store: None,
            permitted: Place::all().map(|place| (place, Vec::new())).collect(),
            transfers: Vec::new(),
            versions: 0,
            tally: Tally::default(),
            copies: Copies::new(),
            log: VecDeque::new(),
        };
        run.open();
        run
    }

    /// Does a random operation, and checks its result.
    pub(crate) fn step(&mut self) -> Tally {
        self.tally.operations += 1;
        match self.random.below(100) {
            0..40 => self.look_up(),
            40..60 => self.begin(),
            60..80 => self.transfer(),
            80..88 => self.update(),
            88..90 => self.remove(),
            90..92 => self.invalidate(),
            92..95 => self.purge(),
            95 => {
                damage::damage(self.folder, &mut self.random, &mut self.copies, true);
                self.log("damage");
            }
            96 => {
                let failures = if self.random.once_in(3) { self.random.below(400) } else { 0 };
                self.disk.fill(failures);
            }
            97 => self.disk.end_after(1 + self.random.below(30)),
            _ if self.random.once_in(4) => self.restart(),
            _ => self.look_up_everything(),
        }
        if self.disk.has_ended() {
            self.restart();
        }
        self.tally
    }

    fn log(&mut self, event: &str) {
        self.log.push_back(format!("{}: {event}", self.tally.operations));
        if self.log.len() > LOG_LINES {
            self.log.pop_front();
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn options(&self) -> Options {
        Options {
            capacity: Capacity { bytes: 500 * BLOCK_BYTES, objects: 40 },
            memory_bytes: 200_000,
            levels: vec![1],
            object_bytes_max: 100_000,
            purge_memory: std::time::Duration::from_secs(self.versions % 2),
            faults: Some(Arc::clone(&self.disk) as _),
            ..Options::new(self.folder)
        }
    }

    fn open(&mut self) {
        let store = Store::open(self.options()).expect("the disk works again");
        assert!(store.is_writer(), "the lock is free");
        if self.random.once_in(2) {
            store.wait_until_indexed();
        }
        self.store = Some(store);
    }

    /// Ends the process, damages files, and starts another one.
    fn restart(&mut self) {
        self.tally.restarts += 1;
        self.log("restart");
        if self.random.once_in(2) {
            // Without a chance to remove anything.
            self.disk.end_after(1);
        }
        self.transfers.clear();
        self.store = None;
        self.disk = Arc::new(Disk::new(self.random.next()));
        if self.random.once_in(2) {
            damage::damage(self.folder, &mut self.random, &mut self.copies, false);
        }
        if self.random.once_in(4) {
            let options = self.options();
            self.tally.dropped += verify(&options, |_| {}).expect("it can be opened").dropped;
            let again = verify(&options, |dropped| panic!("{dropped:?}")).expect("it can be opened");
            assert_eq!(again.dropped, 0);
        }
        self.open();
    }

    fn look_up(&mut self) {
        let place = Place::random(&mut self.random);
        self.look_up_at(place);
    }

    fn look_up_everything(&mut self) {
        Place::all().for_each(|place| drop(self.look_up_at(place)));
    }

    /// Returns the object at a place, after a comparison with the model.
    fn look_up_at(&mut self, place: Place) -> Option<Arc<Object>> {
        let access = if self.random.once_in(3) { Access::Cached } else { Access::Blocking };
        let (key, request) = (place.key(), place.request());
        let found = self.store().lookup(&key, &request, access);
        let found =
            found.or_else(|_| self.store().lookup(&key, &request, Access::Blocking)).expect("it may wait");
        let mut selected = None;
        for object in found.objects {
            let has_variant = !object.stored().variant().names().is_empty();
            let found_at = Place { language: place.language.filter(|_| has_variant), ..place };
            let version = Version::of(object.stored()).expect("the metadata is that of a version");
            let permitted = &self.permitted[&found_at];
            // To validate more often than necessary is right too: a purge that failed may have been written.
            let fresh = Version { is_stale: false, ..version };
            assert!(
                permitted.contains(&version) || permitted.contains(&fresh),
                "{found_at:?}: {version:?}, not one of {permitted:?}"
            );
            let body = object.body().read_at(0, usize::MAX).expect("the body can be read");
            assert!(body == version.body(), "{found_at:?}: the body is not that of {version:?}");
            assert_eq!(object.key(), key.as_bytes());
            selected = Some(object).filter(|_| found_at == place).or(selected);
        }
        if selected.is_some() {
            self.tally.hits += 1;
        } else {
            self.tally.misses += 1;
        }
        selected
    }

    /// Begins a transfer.
    fn begin(&mut self) {
        let place = Place::random(&mut self.random);
        // One transfer for a place, as a server does it.
        if self.transfers.len() == 6 || self.transfers.iter().any(|transfer| transfer.place == place) {
            return self.transfer();
        }
        self.versions += 1;
        let version = Version::new(self.versions);
        let body = version.body();
        let length = self.random.once_in(2).then_some(body.len() as u64);
        let fill = self.store().fill(&place.key(), version.stored(place), length, self.store().epoch());
        let reader = fill.reader();
        let transfer = Transfer {
            fill,
            reader,
            place,
            version,
            body,
            read: Vec::new(),
            sent: 0,
            is_purged: false,
            becomes_stale: false,
        };
        self.transfers.push(transfer);
    }

    /// Continues or ends a transfer.
    fn transfer(&mut self) {
        if self.transfers.is_empty() {
            return;
        }
        let at = self.random.index(self.transfers.len());
        let transfer = &mut self.transfers[at];
        for _ in 0..=self.random.below(6) {
            let rest = transfer.body.slice(transfer.sent..);
            let length = rest.len().min(1 + self.random.index(80_000));
            transfer.fill.write(rest.slice(..length));
            transfer.sent += length;
        }
        transfer.read();
        if self.random.once_in(20) {
            self.transfers.swap_remove(at);
        } else if transfer.sent == transfer.body.len() {
            let transfer = self.transfers.swap_remove(at);
            self.finish(transfer);
        }
    }

    fn finish(&mut self, transfer: Transfer) {
        self.disk.has_failed();
        let Transfer { fill, reader, mut read, place, mut version, body, is_purged, becomes_stale, .. } =
            transfer;
        version.is_stale = becomes_stale;
        let length = body.len();
        let finished = fill.finish().expect("the length is the declared one");
        let result =
            if let Finished::NotStored(reason) = &finished { format!("{reason:?}") } else { "stored".into() };
        self.log(&format!("finish {place:?} {version:?} of {length} B: {result}"));
        let permitted = self.permitted.get_mut(&place).expect("all places are there");
        match finished {
            Finished::Stored(object) => {
                assert!(!is_purged, "{place:?}: {version:?} was purged");
                assert_eq!(object.body().read_at(0, usize::MAX).expect("it can be read"), body);
                *permitted = vec![version];
                self.tally.stored += 1;
            }
            // It may have got its name before the failure.
            Finished::NotStored(_) if self.disk.has_failed() && !is_purged => permitted.push(version),
            Finished::NotStored(_) => {}
        }
        let mut reader = Transfer::read_all(reader, &mut read);
        assert!(read == body, "the reader got another body");
        drop(reader.take());
    }

    fn update(&mut self) {
        let place = Place::random(&mut self.random);
        let Some(object) = self.look_up_at(place) else { return };
        let Some(version) = Version::of(object.stored()) else { return };
        self.disk.has_failed();
        self.versions += 1;
        let updated = Version { update: self.versions, is_stale: false, ..version };
        let result = self.store().update(&object, updated.stored(place), self.store().epoch());
        self.log(&format!("update {place:?} {updated:?}: {:?}", result.as_ref().err()));
        let permitted = self.permitted.get_mut(&place).expect("all places are there");
        match result {
            Ok(_) => *permitted = vec![updated],
            Err(_) if self.disk.has_failed() => permitted.push(updated),
            // The file was damaged, and the object was in memory.
            Err(_) => {}
        }
    }

    fn remove(&mut self) {
        let place = Place::random(&mut self.random);
        let Some(object) = self.look_up_at(place) else { return };
        self.disk.has_failed();
        self.store().remove(&object);
        self.log(&format!("remove {place:?}"));
        if !self.disk.has_failed() {
            self.permitted.insert(place, Vec::new());
        }
    }

    fn invalidate(&mut self) {
        let key = Place::random(&mut self.random).key();
        self.disk.has_failed();
        self.store().invalidate(std::slice::from_ref(&key));
        let (is_certain, target) = (!self.disk.has_failed(), Target::Key(key));
        self.purged(&Purge { target, soft: false }, is_certain);
    }

    fn purge(&mut self) {
        let purge = Purge { target: random_target(&mut self.random), soft: self.random.once_in(3) };
        let result = self.store().purge(std::slice::from_ref(&purge));
        self.purged(&purge, result.is_ok());
    }

    /// Applies a purge to the model.
    fn purged(&mut self, purge: &Purge, is_certain: bool) {
        let Purge { target, soft } = purge;
        self.log(&format!("purge {target:?} soft: {soft} certain: {is_certain}"));
        for (place, permitted) in &mut self.permitted {
            let (concerned, others): (Vec<_>, Vec<_>) =
                permitted.iter().partition(|version| version.is_concerned(*place, target));
            let stale =
                concerned.iter().filter(|_| *soft).map(|version| Version { is_stale: true, ..*version });
            *permitted = others.into_iter().chain(stale).collect();
            if !is_certain {
                permitted.extend(concerned);
            }
        }
        for transfer in &mut self.transfers {
            if is_certain && transfer.version.is_concerned(transfer.place, target) {
                transfer.is_purged |= !soft;
                transfer.becomes_stale |= soft;
            }
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Ignore errors: the panic is printed too.
            let _ = self.log.iter().try_for_each(|line| writeln!(std::io::stderr(), "{line}"));
        }
    }
}

impl Transfer {
    /// Reads what is there.
    fn read(&mut self) {
        self.reader = Self::read_all(self.reader.take(), &mut self.read);
        assert!(self.body.starts_with(&self.read), "the reader got another body");
    }

    fn read_all(reader: Option<FillReader>, read: &mut Vec<u8>) -> Option<FillReader> {
        let mut reader = reader?;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while let std::task::Poll::Ready(Some(piece)) = reader.poll_piece(&mut context, 50_000) {
            match piece.expect("the transfer goes on") {
                Piece::Bytes(bytes) => read.extend_from_slice(&bytes),
                Piece::File { file, offset, length } => {
                    let start = read.len();
                    read.resize(start + usize::try_from(length).expect("a small piece"), 0);
                    std::os::unix::fs::FileExt::read_exact_at(&*file, &mut read[start..], offset)
                        .expect("a piece is in the file");
                }
            }
        }
        Some(reader)
    }
}
