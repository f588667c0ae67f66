//! The run delay of the calling thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::thread::Scheduled;

/// Reads how long the thread that created it was ready to run and had no core.
///
/// The file stays open, so that a read costs a few microseconds and allocates nothing.
#[derive(Debug)]
pub struct RunDelay {
    schedstat: Option<File>,
}

impl RunDelay {
    /// Opens the counters of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// The run delay since the start of the thread. `None` if the kernel does not count it
    /// (`CONFIG_SCHED_INFO`) or `/proc` is not mounted.
    #[must_use]
    pub fn read(&self) -> Option<Duration> {
        // Three numbers of 64 bits.
        let mut text = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        Scheduled::parse(&text[..length]).map(|scheduled| scheduled.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_delay_grows_while_a_thread_has_to_share_its_core() {
        let delay = RunDelay::of_this_thread();
        let before = delay.read().expect("Linux counts it");
        let mut one = rustix::thread::CpuSet::new();
        let all = rustix::thread::sched_getaffinity(None).expect("a thread knows its cores");
        one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("it has a core"));
        rustix::thread::sched_setaffinity(None, &one).expect("a subset of its cores is allowed");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Inherits the core.
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while delay.read().expect("Linux counts it") <= before {}
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
