//! Handles Ctrl-C, so that a command can end and report its results.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The signal that was received.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    number: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on, each once: a second one has its default effect.
    ///
    /// # Errors
    ///
    /// The handler cannot be installed.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            let has_come = Arc::default();
            // The order matters: the first registered handler runs first and must not see the effect of the
            // second.
            flag::register_conditional_default(signal, Arc::clone(&has_come))?;
            flag::register(signal, has_come)?;
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// Catches SIGINT, SIGTERM and SIGHUP from now on, without limit. For commands that have child processes
    /// to stop, and stop them in a bounded time.
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

    /// The signal that was received, if any.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }
}
