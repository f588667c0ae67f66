//! Ctrl-C: what runs comes to its end, and what was measured is kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Which signal has come.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    number: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on, each once: at a second one they do what they do to every process.
    ///
    /// # Errors
    ///
    /// The system has no room for a handler.
    pub fn catch() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            let has_come = Arc::default();
            // In this order: what stands first runs first, and must not see what the second has set.
            flag::register_conditional_default(signal, Arc::clone(&has_come))?;
            flag::register(signal, has_come)?;
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// Catches SIGINT, SIGTERM and SIGHUP from now on, however often they come: for whom to end at once would leave programs
    /// running, and who stops them in a bounded time.
    ///
    /// # Errors
    ///
    /// The system has no room for a handler.
    pub fn catch_always() -> io::Result<Self> {
        let interrupt = Self::default();
        for (signal, number) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
            flag::register_usize(signal, Arc::clone(&interrupt.number), number)?;
        }
        Ok(interrupt)
    }

    /// The signal that has come, if one has.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }
}
