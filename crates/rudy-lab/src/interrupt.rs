//! Ctrl-C: what runs is stopped, and what was measured is kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Which signal has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    number: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on, however often they come: to end at once would leave servers running,
    /// and to stop them takes a bounded time.
    pub(crate) fn catch() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }
}
