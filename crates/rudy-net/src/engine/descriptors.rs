//! File descriptors: the limit, and what to do when it is reached.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

/// Descriptors reserved for everything but connections: listeners, pollers, logs, configuration, files being
/// sent. If those files exceed the reserve, the process reaches its descriptor limit; see
/// [`SpareDescriptor`].
const DESCRIPTOR_RESERVE: u64 = 256;

/// The advice to an operator when the descriptor limit is reached.
pub(super) const HOW_TO_RAISE_DESCRIPTORS: &str = "raise `ulimit -n`, or `LimitNOFILE=` of the systemd unit";

/// Returns how many connections fit within the descriptor limit of this process.
pub(super) fn connections_within_descriptors() -> usize {
    room(getrlimit(Resource::Nofile).current)
}

fn room(limit: Option<u64>) -> usize {
    // Half of a small limit stays available for connections.
    let room = limit.map_or(u64::MAX, |limit| limit - DESCRIPTOR_RESERVE.min(limit / 2));
    usize::try_from(room).unwrap_or(usize::MAX)
}

/// A descriptor to close when no other is left. Without it a queued connection could neither be accepted nor
/// rejected, and the acceptor would spin.
///
/// The acceptors of an engine share one and close it in turn. Another thread may take the freed descriptor,
/// so each acceptor calls [`Self::ensure_open`] after each accept.
#[derive(Debug)]
pub(super) struct SpareDescriptor {
    file: Mutex<Option<File>>,
    /// Whether the file is closed; read without the lock.
    is_missing: AtomicBool,
}

impl SpareDescriptor {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: Mutex::new(Some(open_placeholder()?)), is_missing: AtomicBool::new(false) })
    }

    /// Closes the descriptor while `attempt` runs, which must not block, and then tries to reopen it.
    pub(super) fn close_during<T>(&self, attempt: impl FnOnce() -> T) -> T {
        let mut file = self.file.lock();
        // Set before the file is closed, so that a thread that takes the descriptor notices.
        self.is_missing.store(true, Ordering::SeqCst);
        drop(file.take());
        let result = attempt();
        // If it fails, the next call of `ensure_open` tries again.
        let _ = self.reopen(&mut file);
        result
    }

    /// Reopens the descriptor if it is closed.
    pub(super) fn ensure_open(&self) -> io::Result<()> {
        if self.is_missing.load(Ordering::SeqCst) { self.reopen(&mut self.file.lock()) } else { Ok(()) }
    }

    fn reopen(&self, file: &mut Option<File>) -> io::Result<()> {
        if file.is_none() {
            *file = Some(open_placeholder()?);
        }
        self.is_missing.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// Opens a file that is never read. `/dev/null` may be missing in a chroot; `/` always exists.
fn open_placeholder() -> io::Result<File> {
    File::open("/dev/null").or_else(|_| File::open("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_subtracted_but_at_most_half_of_the_limit() {
        for (limit, expected) in [(1024, 768), (1_048_576, 1_048_320), (512, 256), (64, 32), (0, 0)] {
            assert_eq!(room(Some(limit)), expected, "{limit}");
        }
        assert_eq!(room(None), usize::MAX);
    }
}
