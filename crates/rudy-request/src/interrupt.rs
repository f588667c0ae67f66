//! Handles signals that interrupt a command, so that it can report its results.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Records the signal that interrupts a command.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    number: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM, each once: a second one has its default effect, which ends the process.
    ///
    /// # Errors
    ///
    /// The handler cannot be installed.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            let was_received = Arc::default();
            // Handlers run in the order of their registration. The first one must run before the second one sets
            // the flag.
            flag::register_conditional_default(signal, Arc::clone(&was_received))?;
            flag::register(signal, was_received)?;
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// Catches SIGINT, SIGTERM and SIGHUP, always. For commands that stop their child processes in a bounded time.
    ///
    /// # Errors
    ///
    /// The handler cannot be installed.
    pub fn catch_always() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// Interrupts as SIGTERM does.
    pub(crate) fn terminate(&self) {
        self.number.store(15, Ordering::Relaxed);
    }

    /// The signal that was received, if any.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }
}
