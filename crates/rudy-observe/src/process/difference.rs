//! The difference between two samples.

use std::collections::HashMap;
use std::time::Duration;

use super::{Sample, Thread, ticks};

/// The activity of a process between two samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    /// The time between the samples.
    pub time: Duration,
    /// CPU time of the process, including ended threads. Precise to two ticks of 10 ms.
    pub cpu: Duration,
    /// The part in user mode.
    pub cpu_user: Duration,
    /// The part in the kernel.
    pub cpu_system: Duration,
    /// The threads of the later sample. A thread that started in between is included with all its activity.
    pub threads: Vec<ThreadDifference>,
    /// Number of threads that started and still run.
    pub threads_begun: usize,
    /// Number of threads that ended. A thread that started and ended in between was never seen.
    pub threads_ended: usize,
    /// CPU time that belongs to none of `threads`, but to ended threads. Zero if it is less than the error of
    /// counting in ticks.
    pub cpu_of_ended: Duration,
}

/// The activity of a thread between two samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadDifference {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its state at the later sample; see [`Thread::state`].
    pub state: char,
    /// CPU in all.
    pub cpu: Duration,
    /// CPU since the start of the thread.
    pub cpu_since_start: Duration,
    /// The time since the start of the thread, in ticks of 10 ms.
    pub age: Duration,
    /// The part in user mode. The kernel counts user and system time in ticks, so it is an estimate for short
    /// times.
    pub cpu_user: Duration,
    /// The part in the kernel.
    pub cpu_system: Duration,
    /// Time in which it was runnable without a free core. `None` if the kernel does not count it.
    pub ready: Option<Duration>,
    /// Voluntary context switches: the thread waited for something.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the kernel gave its core to another thread.
    pub involuntary_switches: u64,
}

/// The error of counting in ticks: user and system mode, each rounded down in both samples.
const TICK_ERROR: Duration = Duration::from_millis(40);

impl Sample {
    /// The activity since `earlier`, a sample of the same process.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Difference {
        let mut before: HashMap<(u32, u64), &Thread> =
            earlier.threads.iter().map(|thread| (identity(thread), thread)).collect();
        let mut threads = Vec::with_capacity(self.threads.len());
        let mut threads_begun = 0;
        for thread in &self.threads {
            let earlier = before.remove(&identity(thread));
            threads_begun += usize::from(earlier.is_none());
            threads.push(thread.since(earlier, self.since_boot));
        }
        let cpu_user = self.cpu_user.saturating_sub(earlier.cpu_user);
        let cpu_system = self.cpu_system.saturating_sub(earlier.cpu_system);
        let cpu = cpu_user + cpu_system;
        let seen = threads.iter().map(|thread| thread.cpu).sum();
        Difference {
            time: self.at.saturating_duration_since(earlier.at),
            cpu,
            cpu_user,
            cpu_system,
            threads,
            threads_begun,
            threads_ended: before.len(),
            cpu_of_ended: Some(cpu.saturating_sub(seen)).filter(|cpu| *cpu > TICK_ERROR).unwrap_or_default(),
        }
    }
}

impl Difference {
    /// CPU time as a fraction of one core.
    #[must_use]
    pub fn share(&self, cpu: Duration) -> f64 {
        if self.time.is_zero() { 0.0 } else { cpu.as_secs_f64() / self.time.as_secs_f64() }
    }

    /// A number of events as a rate per second.
    #[must_use]
    pub fn rate(&self, count: u64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "2^53 switches in one interval are beyond any machine"
        )]
        let count = count as f64;
        if self.time.is_zero() { 0.0 } else { count / self.time.as_secs_f64() }
    }
}

impl Thread {
    /// The activity since `earlier`, or since the start of the thread.
    fn since(&self, earlier: Option<&Self>, since_boot: Duration) -> ThreadDifference {
        let less = |of: fn(&Self) -> Duration| of(self).saturating_sub(earlier.map(of).unwrap_or_default());
        let fewer = |of: fn(&Self) -> u64| of(self).saturating_sub(earlier.map_or(0, of));
        let cpu = less(|thread| thread.cpu);
        let (user, system) = (less(|thread| thread.cpu_user), less(|thread| thread.cpu_system));
        // Less than a tick: use the ratio of its whole life.
        let is_unknown = (user + system).is_zero();
        let (user, system) = if is_unknown { (self.cpu_user, self.cpu_system) } else { (user, system) };
        let cpu_user = part(cpu, user, system);
        ThreadDifference {
            tid: self.tid,
            name: self.name.clone(),
            state: self.state,
            cpu,
            cpu_since_start: self.cpu,
            age: since_boot.saturating_sub(ticks(self.began_ticks)),
            cpu_user,
            cpu_system: cpu.saturating_sub(cpu_user),
            ready: self.ready.map(|_| less(|thread| thread.ready.unwrap_or_default())),
            voluntary_switches: fewer(|thread| thread.voluntary_switches),
            involuntary_switches: fewer(|thread| thread.involuntary_switches),
        }
    }
}

/// The part of `whole` in user mode, by the ratio of the two counters. Without ticks, all of it.
fn part(whole: Duration, user: Duration, system: Duration) -> Duration {
    if system.is_zero() {
        return whole;
    }
    whole.mul_f64(user.as_secs_f64() / (user + system).as_secs_f64()).min(whole)
}

fn identity(thread: &Thread) -> (u32, u64) {
    (thread.tid, thread.began_ticks)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::descriptors::Descriptors;
    use crate::process::Memory;
    use crate::process::Scheduled;

    fn thread(tid: u32, cpu_ms: u64, user_ms: u64, system_ms: u64) -> Thread {
        Thread {
            tid,
            name: format!("thread-{tid}"),
            state: 'S',
            cpu: Duration::from_millis(cpu_ms),
            cpu_user: Duration::from_millis(user_ms),
            cpu_system: Duration::from_millis(system_ms),
            ready: Some(Duration::from_millis(cpu_ms / 2)),
            voluntary_switches: cpu_ms,
            involuntary_switches: cpu_ms * 2,
            began_ticks: 100,
            scheduled: None,
            starved_since: None,
        }
    }

    fn sample(at: Instant, cpu_ms: u64, threads: Vec<Thread>) -> Sample {
        let descriptors = Descriptors { open: Some(3), limit: None };
        let cpu_user = Duration::from_millis(cpu_ms);
        Sample {
            at,
            since_boot: Duration::ZERO,
            cpu_user,
            cpu_system: Duration::ZERO,
            threads,
            memory: Memory::default(),
            descriptors,
        }
    }

    #[test]
    fn a_thread_has_its_share_of_a_core() {
        let now = Instant::now();
        let before = sample(now, 1000, vec![thread(1, 1000, 800, 200)]);
        let after = sample(now + Duration::from_secs(2), 2000, vec![thread(1, 2000, 1550, 450)]);
        let difference = after.since(&before);
        let done = &difference.threads[0];
        assert_eq!(format!("{:.3}", difference.share(done.cpu)), "0.500");
        assert_eq!((done.cpu_user.as_millis(), done.cpu_system.as_millis()), (750, 250));
        assert_eq!(done.ready, Some(Duration::from_millis(500)));
        assert_eq!(
            (difference.rate(done.voluntary_switches), difference.rate(done.involuntary_switches)),
            (500.0, 1000.0)
        );
        assert_eq!((difference.threads_begun, difference.threads_ended), (0, 0));
    }

    #[test]
    fn less_than_a_tick_is_split_as_the_thread_has_always_been() {
        let before = thread(1, 1000, 600, 200);
        let done = thread(1, 1004, 600, 200).since(Some(&before), Duration::from_secs(5));
        assert_eq!((done.cpu_since_start.as_millis(), done.age.as_secs()), (1004, 4));
        assert_eq!((done.cpu_user.as_micros(), done.cpu_system.as_micros()), (3000, 1000));
    }

    #[test]
    fn a_thread_that_gets_no_core_waits_and_its_time_counts_once() {
        let (at, second) = (Instant::now(), Duration::from_secs(1));
        let scheduled = |ready| Some(Scheduled { ran: second, ready, turns: 7 });
        let before = Thread { ready: Some(second), scheduled: scheduled(second), ..thread(1, 1000, 1000, 0) };
        let mut waits = before.clone();
        waits.has_not_run('R', at);
        let mut starved = waits.clone();
        starved.has_not_run('R', at + second);
        let ready = |now: &Thread, before: &Thread| now.since(Some(before), Duration::ZERO).ready;
        assert_eq!((ready(&waits, &before), waits.state), (Some(Duration::ZERO), 'R'));
        assert_eq!(ready(&starved, &waits), Some(second));
        // The kernel counts all of it when the thread runs.
        let runs = Thread { ready: Some(second * 3), scheduled: scheduled(second * 3), ..before.clone() };
        assert_eq!(ready(&runs, &starved), Some(second));
        let mut sleeps = before.clone();
        sleeps.has_not_run('S', at);
        assert_eq!((ready(&sleeps, &before), sleeps.starved_since), (Some(Duration::ZERO), None));
    }

    #[test]
    fn a_new_thread_counts_whole_and_an_ended_one_is_reported() {
        let now = Instant::now();
        let before = sample(now, 1000, vec![thread(1, 500, 500, 0), thread(2, 500, 500, 0)]);
        let after =
            sample(now + Duration::from_secs(1), 1700, vec![thread(1, 600, 600, 0), thread(3, 300, 300, 0)]);
        let difference = after.since(&before);
        let cpu: Vec<_> =
            difference.threads.iter().map(|thread| (thread.tid, thread.cpu.as_millis())).collect();
        assert_eq!(cpu, [(1, 100), (3, 300)]);
        assert_eq!((difference.threads_begun, difference.threads_ended), (1, 1));
        assert_eq!(difference.cpu_of_ended, Duration::from_millis(300));
    }

    #[test]
    fn a_number_that_is_given_again_is_another_thread() {
        let now = Instant::now();
        let before = sample(now, 500, vec![thread(1, 500, 500, 0)]);
        let again = Thread { began_ticks: 200, ..thread(1, 20, 20, 0) };
        let difference = sample(now + Duration::from_secs(1), 520, vec![again]).since(&before);
        assert_eq!(difference.threads[0].cpu, Duration::from_millis(20));
        assert_eq!((difference.threads_begun, difference.threads_ended), (1, 1));
    }

    #[test]
    fn what_ticks_may_be_wrong_by_is_not_blamed_on_threads_that_have_ended() {
        let now = Instant::now();
        let before = sample(now, 500, vec![thread(1, 500, 500, 0)]);
        let after = sample(now + Duration::from_secs(1), 630, vec![thread(1, 600, 600, 0)]);
        assert_eq!(after.since(&before).cpu_of_ended, Duration::ZERO);
    }

    #[test]
    fn two_samples_at_the_same_time_have_no_rates() {
        let now = Instant::now();
        let difference = sample(now, 500, vec![]).since(&sample(now, 500, vec![]));
        assert_eq!(format!("{} {}", difference.share(Duration::from_secs(1)), difference.rate(5)), "0 0");
    }
}
