//! File descriptors: as many as may be had, and what to do when none is left.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors kept for what is not a connection: listeners, pollers, logs, configuration, and files being sent. Those
/// files may be more; then the descriptor limit itself is met, and [`SpareDescriptor`] helps.
const DESCRIPTOR_RESERVE: u64 = 256;

/// What an operator does where the descriptor limit is the limit.
pub(super) const HOW_TO_RAISE_DESCRIPTORS: &str = "raise `ulimit -n`, or `LimitNOFILE=` of the systemd unit";

/// Raises the soft limit of open descriptors to the hard one, which this process may do without asking anybody, and
/// returns the limit that holds then. `None` is no limit.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum)
}

/// How many connections the descriptor limit of this process leaves room for.
pub(super) fn connections_within_descriptors() -> usize {
    room(getrlimit(Resource::Nofile).current)
}

fn room(limit: Option<u64>) -> usize {
    // Where the reserve would take most of a small limit it takes half.
    let room = limit.map_or(u64::MAX, |limit| limit - DESCRIPTOR_RESERVE.min(limit / 2));
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// A descriptor held so that there is one to give up when no other is left: without it a connection that waits could
/// neither be accepted nor be sent away, and the acceptor would spin on it.
///
/// The acceptors of an engine have one in common and give it up one after the other. Still another one may accept a
/// connection with it in that moment, so each asks after every accept whether it [is held](Self::ensure_open).
#[derive(Debug)]
pub(super) struct SpareDescriptor {
    file: Mutex<Option<File>>,
    /// Whether there is no file, for those who do not want to wait for the lock.
    is_missing: AtomicBool,
}

impl SpareDescriptor {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: Mutex::new(Some(open_placeholder()?)), is_missing: AtomicBool::new(false) })
    }

    /// Gives it up while `attempt` runs, which must not block, and takes it again if there is one to be had.
    pub(super) fn close_during<T>(&self, attempt: impl FnOnce() -> T) -> T {
        let mut file = self.lock();
        // Before it is closed: whoever gets it instead of us finds that it is missing.
        self.is_missing.store(true, Ordering::SeqCst);
        drop(file.take());
        let result = attempt();
        // It may fail, and then the next one who asks tries again.
        let _ = self.reopen(&mut file);
        result
    }

    /// Takes it again if it is missing. The error says why there is none to be had.
    pub(super) fn ensure_open(&self) -> io::Result<()> {
        if self.is_missing.load(Ordering::SeqCst) { self.reopen(&mut self.lock()) } else { Ok(()) }
    }

    fn reopen(&self, file: &mut Option<File>) -> io::Result<()> {
        if file.is_none() {
            *file = Some(open_placeholder()?);
        }
        self.is_missing.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// It is there or not, whatever panicked.
    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor that nothing comes of. `/dev/null` may be missing in a chroot; the root folder is always there.
fn open_placeholder() -> io::Result<File> {
    File::open("/dev/null").or_else(|_| File::open("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_taken_off_but_never_more_than_half() {
        for (limit, expected) in [(1024, 768), (1_048_576, 1_048_320), (512, 256), (64, 32), (0, 0)] {
            assert_eq!(room(Some(limit)), expected, "{limit}");
        }
        assert_eq!(room(None), usize::MAX);
    }
}
