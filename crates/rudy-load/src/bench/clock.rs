//! The waiting of a generator thread for the next request, and its CPU usage.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rudy_observe::RunDelay;
use rustix::time::{ClockId, clock_gettime};

use super::plan::Plan;
use super::request_schedule::Next;
use super::run::ThreadTime;
use super::worker::SLEEP_MAX;

/// The time before a request is due from which on the thread polls the clock (spins) instead of sleeping, because a
/// sleep may end late.
const SPIN_TIME: Duration = Duration::from_micros(60);

/// Time between checks whether the thread shares its core.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum run delay, as a fraction of the elapsed time, of a thread with a core of its own. A thread that shares its
/// core does not spin, because that would take CPU time from the server.
const RUN_DELAY_SHARE_MAX: f64 = 0.05;

/// Decides how a thread waits, and measures its CPU time, run delay and spin time.
pub(super) struct ThreadClock {
    start: Instant,
    cpu: Duration,
    run_delay: RunDelay,
    run_delay_at_start: Duration,
    /// Whether to poll the clock shortly before a request is due.
    may_spin: bool,
    /// The start of the current spin, if the last iteration ended with one.
    spin_start: Option<Instant>,
    spin: Duration,
    next_check: Instant,
    run_delay_at_check: Duration,
}

impl ThreadClock {
    /// Starts to measure the calling thread.
    pub(super) fn new(plan: &Plan, start: Instant) -> Self {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        let run_delay = RunDelay::of_this_thread();
        let run_delay_at_start = run_delay.read().unwrap_or_default();
        Self {
            start,
            cpu: thread_cpu(),
            run_delay,
            run_delay_at_start,
            may_spin: has_spare_core(plan.threads.get(), cores),
            spin_start: None,
            spin: Duration::ZERO,
            next_check: start + CHECK_INTERVAL,
            run_delay_at_check: run_delay_at_start,
        }
    }

    /// Starts an iteration of the event loop. Adds the spin before it, and checks at intervals whether to spin on.
    pub(super) fn start_iteration(&mut self, now: Instant) {
        if let Some(since) = self.spin_start.take() {
            self.spin += now.saturating_duration_since(since);
        }
        if self.may_spin && now >= self.next_check {
            let run_delay = self.run_delay.read().unwrap_or_default();
            let since_check = run_delay.saturating_sub(self.run_delay_at_check);
            let elapsed = now.saturating_duration_since(self.next_check) + CHECK_INTERVAL;
            self.may_spin = !is_core_shared(since_check, elapsed);
            (self.next_check, self.run_delay_at_check) = (now + CHECK_INTERVAL, run_delay);
        }
    }

    /// The time to sleep until the next request is due or the next report is. Zero starts a spin.
    pub(super) fn sleep_time(&mut self, next: Next, next_report: Instant, now: Instant) -> Duration {
        let sleep_max = next_report.saturating_duration_since(now).min(SLEEP_MAX);
        let Next::Wait(due) = next else { return sleep_max };
        let until_due = due.saturating_duration_since(now);
        let sleep = if self.may_spin { until_due.saturating_sub(SPIN_TIME) } else { until_due };
        self.spin_start = (self.may_spin && sleep.is_zero()).then_some(now);
        sleep_max.min(sleep)
    }

    /// Discards the current spin, because the iteration handled an event.
    pub(super) fn discard_spin(&mut self) {
        self.spin_start = None;
    }

    /// The CPU usage of the thread from the start until `now`.
    pub(super) fn thread_time(&self, now: Instant) -> ThreadTime {
        ThreadTime {
            cpu: thread_cpu().saturating_sub(self.cpu),
            spin: self.spin,
            run_delay: self.run_delay.read().unwrap_or_default().saturating_sub(self.run_delay_at_start),
            wall: now.saturating_duration_since(self.start),
        }
    }
}

/// Whether the machine has more cores than the generator has threads, so that a server on it has a core. For a server
/// on another machine, a thread that does not spin sends a few microseconds later.
fn has_spare_core(threads: u32, cores: usize) -> bool {
    cores > threads as usize
}

/// Whether the run delay of a thread shows that it shares its core.
fn is_core_shared(run_delay: Duration, elapsed: Duration) -> bool {
    run_delay > elapsed.mul_f64(RUN_DELAY_SHARE_MAX)
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    // The CPU time of a thread is never negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(may_spin: bool) -> ThreadClock {
        let start = Instant::now();
        ThreadClock {
            start,
            cpu: Duration::ZERO,
            run_delay: RunDelay::of_this_thread(),
            run_delay_at_start: Duration::ZERO,
            may_spin,
            spin_start: None,
            spin: Duration::ZERO,
            next_check: start + Duration::from_secs(1),
            run_delay_at_check: Duration::ZERO,
        }
    }

    #[test]
    fn a_thread_on_a_shared_core_sleeps_until_a_request_is_due() {
        for (may_spin, sleep_us, spin_us) in [(true, 0, 40), (false, 40, 0)] {
            let mut clock = clock(may_spin);
            let now = clock.start;
            let due = now + Duration::from_micros(40);
            let sleep = clock.sleep_time(Next::Wait(due), now + SLEEP_MAX, now);
            clock.start_iteration(due);
            assert_eq!((sleep.as_micros(), clock.spin.as_micros()), (sleep_us, spin_us));
        }
    }

    #[test]
    fn a_run_delay_above_five_percent_means_a_shared_core() {
        assert!(!is_core_shared(CHECK_INTERVAL / 20, CHECK_INTERVAL));
        assert!(is_core_shared(CHECK_INTERVAL / 19, CHECK_INTERVAL));
    }

    #[test]
    fn a_generator_with_as_many_threads_as_cores_leaves_no_spare_core() {
        assert!(has_spare_core(1, 2) && !has_spare_core(1, 1) && !has_spare_core(2, 2));
    }
}
