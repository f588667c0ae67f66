//! The run delay of threads: of the calling one, and of all of some processes.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::thread::Scheduled;
use crate::folder::Folder;

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

/// Adds up the CPU time and the run delay of all threads of some processes since the first poll.
///
/// A thread that ended keeps what it had at its last poll, so the part after that is missing.
#[derive(Debug, Default)]
pub struct ThreadTimes {
    first_and_last: Option<(Instant, Instant)>,
    /// By process and thread: the counters at the last poll, and their growth since the first.
    threads: HashMap<(u32, u32), (Scheduled, ThreadTime)>,
}

/// The times of a thread between the first and the last poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// CPU time.
    pub cpu: Duration,
    /// Time in which it was ready to run and had no core.
    pub run_delay: Duration,
}

impl ThreadTimes {
    /// Reads the counters of these processes. One that has ended, or a kernel that does not count, adds nothing.
    pub fn poll(&mut self, pids: impl IntoIterator<Item = u32>) {
        let now = Instant::now();
        let is_first = self.first_and_last.is_none();
        let mut buffer = Vec::new();
        for pid in pids {
            let Ok(folder) = Folder::open(pid) else { continue };
            for tid in folder.list("task").unwrap_or_default() {
                let has_read = folder.read_if_there(&format!("task/{tid}/schedstat"), &mut buffer);
                if let (Ok(true), Some(scheduled)) = (has_read, Scheduled::parse(&buffer)) {
                    self.add((pid, tid), scheduled, is_first);
                    self.first_and_last = Some((self.first_and_last.map_or(now, |(first, _)| first), now));
                }
            }
        }
    }

    /// A thread that was not there at the first poll has all of its time since then. The same is assumed of counters
    /// that went back, because another thread has the id.
    fn add(&mut self, thread: (u32, u32), now: Scheduled, is_first: bool) {
        let none = Scheduled::default();
        let (last, time) =
            self.threads.entry(thread).or_insert((if is_first { now } else { none }, ThreadTime::default()));
        let since = if now.ran < last.ran { none } else { *last };
        time.cpu += now.ran.saturating_sub(since.ran);
        time.run_delay += now.ready.saturating_sub(since.ready);
        *last = now;
    }

    /// The threads, including ended ones.
    pub fn threads(&self) -> impl Iterator<Item = ThreadTime> {
        self.threads.values().map(|(_, time)| *time)
    }

    /// The time between the first and the last poll that found a thread.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.first_and_last.map(|(first, last)| last - first).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduled(ran_ms: u64, ready_ms: u64) -> Scheduled {
        Scheduled {
            ran: Duration::from_millis(ran_ms),
            ready: Duration::from_millis(ready_ms),
            ..Scheduled::default()
        }
    }

    #[test]
    fn times_count_from_the_first_poll_or_from_the_start_of_a_later_thread() {
        let mut times = ThreadTimes::default();
        times.add((1, 1), scheduled(100, 50), true);
        times.add((1, 1), scheduled(130, 70), false);
        times.add((1, 2), scheduled(5, 3), false);
        // Another thread has the id of an ended one.
        times.add((1, 2), scheduled(2, 1), false);
        let mut all: Vec<_> =
            times.threads().map(|time| [time.cpu, time.run_delay].map(|time| time.as_millis())).collect();
        all.sort_unstable();
        assert_eq!(all, [[7, 4], [30, 20]]);
    }

    #[test]
    fn a_poll_reads_all_threads_and_an_ended_one_keeps_its_time() {
        let mut times = ThreadTimes::default();
        times.poll([std::process::id()]);
        let before = times.threads().count();
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                barrier.wait();
            });
            barrier.wait();
            times.poll([std::process::id(), u32::MAX]);
            barrier.wait();
        });
        assert!(times.threads().count() > before && times.elapsed() > Duration::ZERO);
        let all = times.threads().count();
        times.poll([std::process::id()]);
        assert!(times.threads().count() >= all);
    }

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
