//! A disk under the stores of simulated processes: what a kernel permits, decided by a seed.
//!
//! The contents are real files in a temporary folder, because responses are sent from open files. This module decides what fails, how
//! much room there is and what is cached, and it knows what a power failure may leave. It is stricter than the file systems in use:
//!
//! - What was written to a file since its last sync may be lost, each sector for itself. Sectors that are lost are zero if they are new,
//!   and the length of the file is any in between.
//! - A name is what it was when the names were last synced, or anything that it has been since, each name for itself. Folders have no
//!   durability of their own: a name that is kept has its folders.
//!
//! Reads of a body that is being sent do not fail: a response whose head was sent could only be aborted.

mod durability;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rudy_store::{Access, Change, Fault, Faults, SimulatedDisk};

use self::durability::Contents;
use crate::trace::Trace;

/// What a disk does.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskConditions {
    /// The share of changes that fail, of 1,000.
    pub failing_changes_per_mille: u32,
    /// The share of opened files and folders that cannot be read, of 1,000.
    pub failing_reads_per_mille: u32,
    /// The share of opened files that are not cached, of 1,000.
    pub cold_per_mille: u32,
    /// The bytes that files can have together. `None`: any number.
    pub capacity: Option<u64>,
}

impl DiskConditions {
    /// Chooses what goes wrong.
    fn random(random: &mut fastrand::Rng) -> Self {
        let calm = Self { cold_per_mille: random.u32(..500), ..Self::default() };
        match random.u32(..5) {
            0 => Self { capacity: Some(random.u64(..500_000)), ..calm },
            1 => Self { failing_changes_per_mille: random.u32(1..300), ..calm },
            2 => Self { failing_reads_per_mille: random.u32(1..300), ..calm },
            3 => Self { failing_changes_per_mille: 1000, failing_reads_per_mille: 1000, ..calm },
            _ => calm,
        }
    }
}

/// A disk with one folder. The stores that open it are processes of one machine.
pub struct SimDisk {
    state: Mutex<State>,
    trace: Arc<Trace>,
}

struct State {
    random: fastrand::Rng,
    conditions: DiskConditions,
    contents: Contents,
    /// How often processes have died: what was opened before changes nothing any more.
    deaths: u64,
    /// The injected faults, by their name.
    faults: BTreeMap<&'static str, u64>,
}

/// What a death leaves on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Of all processes: the kernel keeps everything.
    Killed,
    /// Of the machine: of what was not synced, any part may be lost.
    PowerFailure,
}

impl SimDisk {
    /// Creates a disk whose files are in a folder that does not exist yet.
    #[must_use]
    pub fn new(random: fastrand::Rng, folder: PathBuf, trace: Arc<Trace>) -> &'static Self {
        let (contents, conditions) = (Contents::new(folder), DiskConditions::default());
        let state = State { random, conditions, contents, deaths: 0, faults: BTreeMap::new() };
        // Never freed: stores refer to it, and a run has one.
        Box::leak(Box::new(Self { state: Mutex::new(state), trace }))
    }

    /// Whether reads fail now and then.
    pub(crate) fn fails_reads(&self) -> bool {
        self.state.lock().conditions.failing_reads_per_mille > 0
    }

    /// Changes what the disk does from now on.
    pub fn set(&self, conditions: DiskConditions) {
        self.trace.tell(&format!("disk: {conditions:?}"));
        self.state.lock().conditions = conditions;
    }

    /// Changes it by chance.
    pub(crate) fn change(&self, random: &mut fastrand::Rng) {
        self.set(DiskConditions::random(random));
    }

    /// Lets nothing fail any more, but for a lack of space: a server does not open a cache that it cannot read.
    pub(crate) fn repair(&self) {
        let mut state = self.state.lock();
        state.conditions.failing_changes_per_mille = 0;
        state.conditions.failing_reads_per_mille = 0;
    }

    /// Ends all processes that use the disk. What they do later has no effect.
    ///
    /// # Panics
    ///
    /// The real files cannot be changed.
    pub fn die(&self, death: Death) {
        let mut state = self.state.lock();
        state.deaths += 1;
        let State { random, contents, .. } = &mut *state;
        if death == Death::PowerFailure {
            contents.lose(random).expect("the folder is that of the simulation");
        }
        drop(state);
        self.trace.tell(&format!("disk: {death:?}"));
    }

    /// Returns how often each kind of fault was injected.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.state.lock().faults.clone()
    }

    fn note(&self, state: &mut State, fault: &'static str, what: &dyn fmt::Debug) {
        *state.faults.entry(fault).or_default() += 1;
        self.trace.tell(&format!("disk: {fault}, {what:?}"));
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimulatedDisk for &'static SimDisk {
    fn open(&self, folder: &Path) -> Arc<dyn Faults> {
        let state = self.state.lock();
        assert_eq!(state.contents.folder(), folder, "the disk has one folder");
        Arc::new(Handle { disk: self, deaths: state.deaths })
    }
}

/// The disk as one process sees it.
#[derive(Debug)]
struct Handle {
    disk: &'static SimDisk,
    deaths: u64,
}

const EIO: i32 = 5;

impl Faults for Handle {
    fn before(&self, change: Change<'_>) -> Result<(), Fault> {
        let mut state = self.disk.state.lock();
        let State { random, conditions, contents, deaths, .. } = &mut *state;
        if *deaths != self.deaths {
            return Err(Fault { written: 0, error: io::Error::from_raw_os_error(EIO) });
        }
        contents.find_created();
        let (length, room) = match change {
            Change::Write { file, data, offset } => {
                let capacity = conditions.capacity.unwrap_or(u64::MAX);
                (data.len(), contents.room(file, data.len(), offset, capacity))
            }
            _ => (0, usize::MAX),
        };
        if room < length {
            contents.note(change, Some(room));
            self.disk.note(&mut state, "no space", &summary(&change));
            return Err(Fault { written: room, error: io::ErrorKind::StorageFull.into() });
        }
        if random.u32(..1000) < conditions.failing_changes_per_mille {
            let written = random.usize(..=length);
            contents.note(change, Some(written));
            self.disk.note(&mut state, "a failed change", &summary(&change));
            return Err(Fault { written, error: io::Error::from_raw_os_error(EIO) });
        }
        contents.note(change, None);
        drop(state);
        self.disk.trace.event(0, "disk", summary(&change));
        Ok(())
    }

    fn before_read(&self, name: &str, access: Access) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let State { random, conditions, .. } = &mut *state;
        if access == Access::Cached {
            let is_cold = random.u32(..1000) < conditions.cold_per_mille;
            return if is_cold { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) };
        }
        if random.u32(..1000) < conditions.failing_reads_per_mille {
            self.disk.note(&mut state, "a failed read", &name);
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }
}

/// Describes a change without what differs between two runs.
fn summary(change: &Change<'_>) -> String {
    match change {
        Change::Write { data, offset, .. } => format!("write {} bytes at {offset}", data.len()),
        Change::Sync(_) => "sync a file".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Removes all that is in a folder.
fn empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    }
}

#[cfg(test)]
mod tests;
