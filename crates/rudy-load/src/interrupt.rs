//! Ctrl-C: the first ends the run, the second the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Which signal has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    number: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on, each once: at a second one they do what they do to every process.
    pub(crate) fn catch() -> io::Result<Self> {
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

    /// The signal that has come, if one has.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|number| *number != 0)
    }
}
