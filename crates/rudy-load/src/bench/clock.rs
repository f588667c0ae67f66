//! How a generator thread waits for the next request, and where its time went.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rudy_observe::RunDelay;
use rustix::time::{ClockId, clock_gettime};

use super::plan::Plan;
use super::request_schedule::Next;
use super::run::ThreadTime;
use super::worker::NAP;

/// A sleep may end late, so the thread sleeps until this time before a request is due and then polls the
/// clock.
const SPIN: Duration = Duration::from_micros(60);

/// Time between checks whether the thread still has a core of its own.
const CHECK: Duration = Duration::from_millis(100);

/// A thread that waits for a core for more than this fraction of the time shares it, and then does not spin:
/// the time would be taken from the server.
const SHARES: f64 = 0.05;

/// Measures the CPU time, the run delay and the spinning of a thread.
pub(super) struct Clock {
    start: Instant,
    cpu: Duration,
    delay: RunDelay,
    delay_at_start: Duration,
    /// Whether to poll the clock shortly before a request is due.
    spins: bool,
    /// Since when the thread polls the clock.
    spins_since: Option<Instant>,
    spin: Duration,
    next_check: Instant,
    delay_at_check: Duration,
}

impl Clock {
    /// Starts to measure the calling thread.
    pub(super) fn new(plan: &Plan, start: Instant) -> Self {
        let delay = RunDelay::of_this_thread();
        let delay_at_start = delay.read().unwrap_or_default();
        Self {
            start,
            cpu: thread_cpu(),
            delay,
            delay_at_start,
            spins: leaves_a_core(plan.threads.get(), available_parallelism().map_or(1, NonZeroUsize::get)),
            spins_since: None,
            spin: Duration::ZERO,
            next_check: start + CHECK,
            delay_at_check: delay_at_start,
        }
    }

    /// Called for each round of the loop.
    pub(super) fn pass(&mut self, now: Instant) {
        if let Some(since) = self.spins_since.take() {
            self.spin += now.saturating_duration_since(since);
        }
        if self.spins && now >= self.next_check {
            let delay = self.delay.read().unwrap_or_default();
            let waited = delay.saturating_sub(self.delay_at_check);
            let passed = now.saturating_duration_since(self.next_check) + CHECK;
            self.spins = !shares_its_core(waited, passed);
            (self.next_check, self.delay_at_check) = (now + CHECK, delay);
        }
    }

    /// Time until the next action.
    pub(super) fn sleep(&mut self, next: Next, next_report: Instant, now: Instant) -> Duration {
        let most = next_report.saturating_duration_since(now).min(NAP);
        let Next::Wait(due) = next else { return most };
        let left = due.saturating_duration_since(now);
        let sleep = if self.spins { left.saturating_sub(SPIN) } else { left };
        self.spins_since = (self.spins && sleep.is_zero()).then_some(now);
        most.min(sleep)
    }

    /// The round had something to do, so it was not spent on the clock.
    pub(super) fn has_event(&mut self) {
        self.spins_since = None;
    }

    /// Where the time went until now.
    pub(super) fn time(&self, now: Instant) -> ThreadTime {
        ThreadTime {
            cpu: thread_cpu().saturating_sub(self.cpu),
            spin: self.spin,
            run_delay: self.delay.read().unwrap_or_default().saturating_sub(self.delay_at_start),
            wall: now.saturating_duration_since(self.start),
        }
    }
}

/// Whether the machine has a core for the server besides those of the generator. A server on another machine
/// needs none, but loses nothing except a few microseconds of punctuality.
fn leaves_a_core(threads: u32, cores: usize) -> bool {
    cores > threads as usize
}

/// Whether a thread that waited this long for a core has to share it.
fn shares_its_core(waited: Duration, passed: Duration) -> bool {
    waited > passed.mul_f64(SHARES)
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    // The elapsed time of a thread is never negative.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(spins: bool) -> Clock {
        let start = Instant::now();
        Clock {
            start,
            cpu: Duration::ZERO,
            delay: RunDelay::of_this_thread(),
            delay_at_start: Duration::ZERO,
            spins,
            spins_since: None,
            spin: Duration::ZERO,
            next_check: start + Duration::from_secs(1),
            delay_at_check: Duration::ZERO,
        }
    }

    #[test]
    fn a_thread_that_shares_its_core_sleeps_until_a_request_is_due() {
        for (spins, sleep_us, spin_us) in [(true, 0, 40), (false, 40, 0)] {
            let mut clock = clock(spins);
            let now = clock.start;
            let due = now + Duration::from_micros(40);
            let sleep = clock.sleep(Next::Wait(due), now + NAP, now);
            clock.pass(due);
            assert_eq!((sleep.as_micros(), clock.spin.as_micros()), (sleep_us, spin_us));
        }
    }

    #[test]
    fn a_wait_above_a_twentieth_of_the_time_is_that_of_a_shared_core() {
        assert!(!shares_its_core(CHECK / 20, CHECK) && shares_its_core(CHECK / 19, CHECK));
    }

    #[test]
    fn as_many_threads_as_cores_leave_none_for_the_server() {
        assert!(leaves_a_core(1, 2) && !leaves_a_core(1, 1) && !leaves_a_core(2, 2));
    }
}
