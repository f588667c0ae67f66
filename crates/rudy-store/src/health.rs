//! Whether the disk works. After several errors in a short time, requests pass the store by, until a probe shows that it works again: each
//! of them would wait for a disk that fails, some for seconds.

use std::io;
use std::time::{Duration, Instant};

use crate::disk::{Access, Disk, read_at};
use crate::layout::TEMPORARY;
use crate::purge::list::State;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The errors within [`WINDOW`] that suspend the store.
const ERRORS: usize = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// The time between two probes of a disk that fails.
const PROBE_INTERVAL: Duration = Duration::from_mins(1);

/// What a probe writes, and reads again: two blocks, so that it is not in the metadata of the file system.
const PROBE: [u8; 8192] = [0x5a; 8192];

/// The errors of the disk of a store.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_suspended: AtomicBool,
    errors: Mutex<Errors>,
}

#[derive(Debug, Default)]
struct Errors {
    /// The times of the last ones.
    last: [Option<Instant>; ERRORS],
    /// The number of all.
    count: usize,
    /// When to probe the disk.
    probe_at: Option<Instant>,
}

impl Health {
    /// Whether requests pass the store by.
    pub(crate) fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Relaxed)
    }

    /// Counts an error, unless the disk is only full: what is stored can be read then. Returns whether it suspends the store.
    pub(crate) fn note(&self, error: &io::Error, now: Instant) -> bool {
        if !is_of_disk(error) {
            return false;
        }
        let mut errors = self.errors.lock();
        let at = errors.count % ERRORS;
        errors.count += 1;
        // The one that leaves is as many errors ago as there are places.
        errors.last[at] = Some(now);
        let oldest = errors.last[(at + 1) % ERRORS];
        let are_many = oldest.is_some_and(|oldest| now.saturating_duration_since(oldest) <= WINDOW);
        let is_new = are_many && !self.is_suspended.swap(are_many, Ordering::Relaxed);
        if is_new {
            errors.probe_at = Some(now + PROBE_INTERVAL);
        }
        is_new
    }

    /// Returns when to probe the disk, if the store is suspended.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        self.errors.lock().probe_at
    }

    /// Notes the result of a probe.
    pub(crate) fn probed(&self, works: bool, now: Instant) {
        let mut errors = self.errors.lock();
        if works {
            *errors = Errors::default();
            self.is_suspended.store(false, Ordering::Relaxed);
        } else {
            errors.probe_at = Some(now + PROBE_INTERVAL);
        }
    }
}

/// Whether an error shows that the disk fails: it is not full, nor only for reading, and this process has permissions, descriptors and memory.
fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let has_no_descriptor = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
    let others = [StorageFull, QuotaExceeded, ReadOnlyFilesystem, PermissionDenied, OutOfMemory];
    !has_no_descriptor && !others.contains(&error.kind())
}

const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();
const ENFILE: i32 = rustix::io::Errno::NFILE.raw_os_error();

/// Whether a file can be written and read, as a process that stores does. Of a full disk, what is stored can be read.
pub(crate) fn can_store(disk: &Disk) -> bool {
    let name = format!("{TEMPORARY}/probe");
    let store = || -> io::Result<bool> {
        disk.remove(&name)?;
        let file = disk.create(&name)?;
        disk.write(&file, &PROBE, 0)?;
        disk.sync(&file)?;
        let mut read = [0; PROBE.len()];
        let count = read_at(&disk.read(&name, Access::Blocking)?, &mut read, 0, Access::Blocking)?;
        disk.remove(&name)?;
        Ok(count == PROBE.len() && read == PROBE)
    };
    store().unwrap_or_else(|error| !is_of_disk(&error) && can_read(disk))
}

/// Whether the folder can be read, for a process that only does that.
pub(crate) fn can_read(disk: &Disk) -> bool {
    State::read(disk).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::purge::list;
    use crate::tests::folder_in_memory;
    use crate::{Change, Fault, Faults};

    /// Fails writes with an error, or none.
    #[derive(Debug, Default)]
    struct Writes(Mutex<Option<io::ErrorKind>>);

    impl Faults for Writes {
        fn before(&self, change: Change<'_>) -> Result<(), Fault> {
            let error = self.0.lock().filter(|_| matches!(change, Change::Write { .. }));
            error.map_or(Ok(()), |error| Err(Fault { written: 100, error: error.into() }))
        }
    }

    #[test]
    fn a_disk_that_works_and_is_full_passes_the_probe() {
        let (folder, writes) = (folder_in_memory(), Arc::new(Writes::default()));
        let disk = Disk::open(folder.path(), Some(Arc::clone(&writes) as _)).unwrap();
        disk.create_folder(TEMPORARY).unwrap();
        let State { seed, run, purges } = State::new();
        list::write(&disk, &State::encode(&seed, run, &purges)).unwrap();
        for (error, works) in [
            (None, true),
            (Some(io::ErrorKind::Other), false),
            (Some(io::ErrorKind::StorageFull), true),
            (None, true),
        ] {
            *writes.0.lock() = error;
            assert_eq!(can_store(&disk), works, "{error:?}");
        }
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant can only be had from the clock; it is never read again"
    )]
    fn ten_errors_in_ten_seconds_suspend_until_a_probe_works() {
        let (health, start) = (Health::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let fails = |second| health.note(&io::ErrorKind::Other.into(), at(second));
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!((0..20).all(|_| !health.note(&kind.into(), at(0))), "{kind}");
        }
        assert!((0..20).all(|_| !health.note(&rustix::io::Errno::MFILE.into(), at(0))));
        // One in two seconds.
        assert!((0..20).all(|number| !fails(2 * number)));
        assert!((0..4).all(|_| !fails(50)) && (0..5).all(|_| !fails(60)) && !health.is_suspended());
        assert!(fails(60) && health.is_suspended(), "the tenth since second 50");
        assert!(!fails(61), "already");
        assert_eq!(health.probe_at(), Some(at(120)));
        health.probed(false, at(120));
        assert!(health.is_suspended() && health.probe_at() == Some(at(180)));
        health.probed(true, at(180));
        assert!(!health.is_suspended() && health.probe_at().is_none());
        assert!((0..9).all(|_| !fails(181)), "the count begins again");
    }
}
