//! Opens the folder of a store.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::disk::Disk;
use crate::failure::DiskFailure;
use crate::inner::{Inner, begin_run, try_lock};
use crate::layout::{LOCK, Layout, OBJECTS, SNAPSHOT, STATE, TEMPORARY};
use crate::options::Options;
use crate::purge::list::State;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The levels are not at most three numbers of 1 or 2.
    #[error("the folder levels of the cache are {0:?}; at most three numbers, 1 or 2, are possible")]
    Levels(Vec<u8>),
    /// The folder has other files and no valid state, or (for a check) no files.
    #[error("the folder {} is not that of a cache; choose an empty folder, or one that a cache has created and that has no other files", .0.display())]
    NotAStore(PathBuf),
    /// Another process has the lock, and has not written the state yet.
    #[error("another process is creating the cache in {}; try again", .0.display())]
    Busy(PathBuf),
    /// The folder cannot be created, read or written.
    #[error("the cache in {} cannot be opened: {error}", .0.display(), error = .1)]
    System(PathBuf, io::Error),
}

/// How often a process that only reads looks for the state, while the other one may be creating it.
const STATE_ATTEMPTS: u8 = 50;
const STATE_INTERVAL: Duration = Duration::from_millis(20);

/// Opens a folder, as the process that stores if the lock is free.
pub(crate) fn open(options: Options) -> Result<Inner, OpenError> {
    let layout = Layout::new(&options.levels).ok_or_else(|| OpenError::Levels(options.levels.clone()))?;
    let system = |error| OpenError::System(options.folder.clone(), error);
    let disk = Disk::open(&options.folder, options.faults.clone()).map_err(system)?;
    if !is_own(&disk).map_err(system)? {
        return Err(OpenError::NotAStore(options.folder));
    }
    for _ in 0..STATE_ATTEMPTS {
        let (lock, error) = match try_lock(&disk) {
            Ok(lock) => (lock, None),
            Err(error) => (None, Some(error)),
        };
        let state = State::read(&disk);
        let Some(lock) = lock else {
            match (state, error) {
                (Some(state), error) => {
                    let inner = Inner::new(options, disk, layout, state, None);
                    error.inspect(|error| inner.failed(DiskFailure::Write, error));
                    return Ok(inner);
                }
                (None, Some(error)) => return Err(OpenError::System(options.folder, error)),
                (None, None) => {}
            }
            #[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "the caller may block"))]
            thread::sleep(STATE_INTERVAL);
            continue;
        };
        let (is_known, state) = (state.is_some(), state.unwrap_or_else(State::new).next_run());
        let begun = if is_known { Ok(()) } else { set_aside(&disk) }.and_then(|()| begin_run(&disk, &state));
        return match begun {
            Ok(written) => Ok(Inner::new(options, disk, layout, state, Some((lock, written)))),
            // A full disk: what is stored can be read.
            Err(error) if is_known => {
                let inner = Inner::new(options, disk, layout, state, None);
                inner.failed(DiskFailure::Write, &error);
                Ok(inner)
            }
            Err(error) => Err(OpenError::System(options.folder, error)),
        };
    }
    Err(OpenError::Busy(options.folder))
}

/// Whether the folder has files of a store, or none. Others have the same names, such as `objects` of Git: beside a foreign name, only
/// a valid state shows that the folder is that of a store. Without one, a store with only its own names is recovered.
fn is_own(disk: &Disk) -> io::Result<bool> {
    let names = disk.names("")?;
    let is_own = |(name, is_folder): &(String, bool)| match name.as_str() {
        LOCK | STATE | SNAPSHOT => !is_folder,
        name => [OBJECTS, TEMPORARY, "lost+found"].contains(&name),
    };
    Ok(names.iter().all(is_own) || State::read(disk).is_some())
}

/// Whether a folder exists and has other files than those of a store, so that [`Store::open`](crate::Store::open) rejects it.
#[must_use]
pub fn is_foreign(folder: &Path) -> bool {
    folder.is_dir() && Disk::open(folder, None).and_then(|disk| is_own(&disk)).is_ok_and(|is_own| !is_own)
}

/// Moves objects of an unknown seed out of the way. The background thread removes them.
fn set_aside(disk: &Disk) -> io::Result<()> {
    disk.create_folder(TEMPORARY)?;
    for number in 0..u32::MAX {
        match disk.rename(OBJECTS, &format!("{TEMPORARY}/{OBJECTS}-{number}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Those of an earlier start are not removed yet.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            result => return result,
        }
    }
    Ok(())
}
