//! Deadlines of many connections for the price of one timer.
//!
//! A keep-alive connection moves its deadline with every request, and almost never reaches it. So moving it later is a
//! store and nothing else: the [`Wheel`] holds a connection where it was first due, and looks again when that time comes.
//! Only a deadline that moves earlier is queued anew. A tokio `Sleep` in each connection would cost 120 bytes of it and two
//! visits to the runtime's wheel for each request; ten thousand streams that tick once a second would be as many timers.

mod eviction;
mod timer_fd;
mod wheel;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(crate) use self::eviction::{Candidate, VictimQueue};
pub(crate) use self::timer_fd::TimerFd;
use self::wheel::{NEVER, Wheel};
use crate::engine::AddressKey;

/// How exact a deadline is. Chunks of a stream should not be late by more than one sees; a shorter tick would wake an
/// otherwise idle server more often than a hundred times a second.
const TICK: Duration = Duration::from_millis(10);
const TICKS_PER_SECOND: u64 = 100;
/// Wakers that are taken in one go: the lock is not held while they are woken, nor for long before.
const BATCH: usize = 256;

/// The deadlines of one worker.
#[derive(Debug)]
pub(crate) struct Timers {
    wheel: Mutex<Wheel>,
    /// Connections that are evicted and have not heard of it yet. Changed under the lock of the wheel only.
    evicted: AtomicUsize,
    /// Wakes the ticker when there is something for it to do sooner than it knows.
    sooner: Notify,
    epoch: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            wheel: Mutex::default(),
            evicted: AtomicUsize::new(0),
            sooner: Notify::new(),
            epoch: Instant::now(),
        }
    }
}

impl Timers {
    /// A timer for one connection, not set yet. A connection of a group may be evicted while it is idle, as it is at first.
    pub(crate) fn timer(self: &Arc<Self>, group: Option<AddressKey>) -> Timer {
        Timer { slot: self.lock().allocate_slot(group), timers: self.clone(), has_had_request: false }
    }

    /// The connections that may be evicted now or later, and how many slots there are; `worker` is the place of these timers' worker.
    pub(crate) fn candidates(&self, worker: usize) -> (Vec<Candidate>, usize) {
        self.lock().candidates(worker)
    }

    /// Has a connection close, unless it has become busy since it was chosen.
    pub(crate) fn evict(&self, victim: &Candidate) -> bool {
        let mut wheel = self.lock();
        let Some(waker) = wheel.evict(victim) else { return false };
        self.evicted.fetch_add(1, Ordering::Relaxed);
        drop(wheel);
        waker.wake();
        true
    }

    /// Connections that are evicted and have neither closed yet nor turned out to have a request.
    pub(crate) fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Turns the wheel, for as long as the worker lives. It sleeps until there is somebody to look at: a server whose
    /// connections are idle does not tick.
    pub(crate) async fn run(&self, timer_fd: TimerFd) {
        loop {
            let next = self.lock().sleep();
            if let Some(tick) = next {
                timer_fd.set(self.time_of(tick));
            }
            tokio::select! {
                () = timer_fd.expired(), if next.is_some() => {}
                () = self.sooner.notified() => {}
            }
            self.advance(Instant::now());
        }
    }

    /// Wakes whoever is due at this time.
    pub(crate) fn advance(&self, now: Instant) {
        let tick = self.tick_before(now);
        let mut due = Vec::new();
        loop {
            let is_over = self.lock().advance(tick, BATCH, &mut due);
            // Outside the lock: a woken task may set its timer at once.
            due.drain(..).for_each(Waker::wake);
            if is_over {
                return;
            }
        }
    }

    /// Wakes every connection to look again whether it is to end. One that has no timer set yet is woken when it sets it: it may
    /// have looked before.
    pub(crate) fn wake_all(&self) {
        let wakers = self.lock().all_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Wheel> {
        // A panic while the lock is held can only come from a failed allocation; the wheel is whole between its steps.
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick_before(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.epoch);
        // Not `as_millis`, whose 128 bits cost more to divide than everything else here.
        since.as_secs() * TICKS_PER_SECOND + u64::from(since.subsec_nanos() / TICK.subsec_nanos())
    }

    /// The first tick that does not lie before this time: a deadline is never early.
    fn tick_after(&self, time: Instant) -> u64 {
        self.tick_before(time) + 1
    }

    fn time_of(&self, tick: u64) -> Instant {
        let since = Duration::new(
            tick / TICKS_PER_SECOND,
            u32::try_from(tick % TICKS_PER_SECOND).unwrap_or(0) * TICK.subsec_nanos(),
        );
        // Later than any clock shows: looked at again when the ticker is told so.
        self.epoch.checked_add(since).unwrap_or(self.epoch)
    }
}

/// One connection's timer. Dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Arc<Timers>,
    slot: u32,
    /// Since it was idle last.
    has_had_request: bool,
}

impl Timer {
    /// Has `waker` woken once `deadline` has passed; `None` for never. Replaces what was set before. The connection is busy: it
    /// is not evicted, even if it was chosen just now.
    pub(crate) fn set(&self, deadline: Option<Instant>, waker: &Waker) {
        self.set_with(deadline, waker, |wheel| {
            self.end_eviction(wheel);
            wheel.set_busy(self.slot);
        });
    }

    /// The same for a connection that is idle: nothing of a request has come. `true`: it was evicted, and closes unless it finds
    /// a request now.
    pub(crate) fn set_idle(&mut self, deadline: Option<Instant>, waker: &Waker) -> bool {
        let from_now_on = std::mem::take(&mut self.has_had_request);
        self.set_with(deadline, waker, |wheel| wheel.set_idle(self.slot, from_now_on))
    }

    /// The connection has received a request. `true`: it was evicted just before, so this is its last request.
    pub(crate) fn begin_request(&mut self) -> bool {
        self.has_had_request = true;
        // Without the lock: this is all that a request costs.
        self.timers.evicted() > 0 && self.end_eviction(&mut self.timers.lock())
    }

    fn set_with<R>(&self, deadline: Option<Instant>, waker: &Waker, mark: impl FnOnce(&mut Wheel) -> R) -> R {
        let tick = deadline.map_or(NEVER, |deadline| self.timers.tick_after(deadline));
        let mut wheel = self.timers.lock();
        let result = mark(&mut wheel);
        let is_sooner = wheel.set(self.slot, tick, waker);
        drop(wheel);
        if is_sooner {
            self.timers.sooner.notify_one();
        }
        result
    }

    /// The connection closes, or has a request: whether it was evicted.
    fn end_eviction(&self, wheel: &mut Wheel) -> bool {
        let was_evicted = wheel.is_evicted(self.slot);
        if was_evicted {
            wheel.set_busy(self.slot);
            self.timers.evicted.fetch_sub(1, Ordering::Relaxed);
        }
        was_evicted
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut wheel = self.timers.lock();
        self.end_eviction(&mut wheel);
        wheel.free_slot(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fixture() -> (Arc<Timers>, Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::new(Timers::default()), count.clone(), Waker::from(count))
    }

    fn woken(count: &Count) -> u32 {
        count.0.load(Ordering::Relaxed)
    }

    #[test]
    fn wakes_once_and_never_early() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer(None);
        let start = timers.epoch;
        timer.set(Some(start + Duration::from_secs(2)), &waker);
        timers.advance(start + Duration::from_secs(2));
        assert_eq!(woken(&count), 0);
        timers.advance(start + Duration::from_millis(2200));
        assert_eq!(woken(&count), 1);
        timers.advance(start + Duration::from_secs(200));
        assert_eq!(woken(&count), 1);
    }

    #[test]
    fn moving_later_does_not_wake_at_the_old_time() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer(None);
        let start = timers.epoch;
        for second in 1..300 {
            timer.set(Some(start + Duration::from_secs(second + 75)), &waker);
            timers.advance(start + Duration::from_secs(second));
        }
        assert_eq!(woken(&count), 0);
        timers.advance(start + Duration::from_secs(375));
        assert_eq!(woken(&count), 1);
    }

    #[test]
    fn moving_earlier_wakes_at_the_new_time_only() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer(None);
        let start = timers.epoch;
        timer.set(Some(start + Duration::from_secs(40)), &waker);
        timer.set(Some(start + Duration::from_secs(10)), &waker);
        timers.advance(start + Duration::from_millis(10_100));
        assert_eq!(woken(&count), 1);
        timers.advance(start + Duration::from_secs(41));
        assert_eq!(woken(&count), 1);
    }

    #[test]
    fn a_slot_given_back_does_not_wake_its_next_owner() {
        let (timers, count, waker) = fixture();
        let start = timers.epoch;
        let timer = timers.timer(None);
        timer.set(Some(start + Duration::from_secs(1)), &waker);
        drop(timer);
        let next = timers.timer(None);
        timers.advance(start + Duration::from_mins(1));
        assert_eq!(woken(&count), 0);
        next.set(None, &waker);
        timers.wake_all();
        assert_eq!(woken(&count), 1);
    }

    /// A connection looks whether it is to end, and then sets its timer; on another thread it may be told in between.
    #[test]
    fn who_waits_only_after_everybody_was_woken_is_woken_at_once() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer(None);
        timers.wake_all();
        timer.set(None, &waker);
        assert_eq!(woken(&count), 1);
        timer.set(Some(timers.epoch + Duration::from_secs(1)), &waker);
        assert_eq!(woken(&count), 1, "it has looked since");
        timers.timer(None).set(None, &waker);
        assert_eq!(woken(&count), 1, "one that begins later finds the world as it is");
    }

    fn group() -> AddressKey {
        std::net::IpAddr::from([192, 0, 2, 1]).into()
    }

    fn evict(timers: &Timers) -> bool {
        let victim = VictimQueue::default().next(0, || timers.candidates(0));
        victim.is_some_and(|victim| timers.evict(&victim))
    }

    #[test]
    fn the_longest_idle_connection_is_woken_and_told_that_it_is_evicted() {
        let (timers, count, waker) = fixture();
        let [mut first, mut second] = [timers.timer(Some(group())), timers.timer(Some(group()))];
        let deadline = Some(timers.epoch);
        assert!(!second.set_idle(deadline, Waker::noop()) && !first.set_idle(deadline, &waker));
        // Idle since it was accepted, whenever it looked; looking again changes nothing.
        assert!(!first.set_idle(deadline, &waker));
        assert!(evict(&timers));
        assert_eq!((woken(&count), timers.evicted()), (1, 1));
        assert!(first.set_idle(deadline, &waker) && !second.set_idle(deadline, Waker::noop()));
        drop(first);
        assert_eq!(timers.evicted(), 0);
    }

    #[test]
    fn a_request_makes_its_connection_the_last_to_be_evicted() {
        let (timers, ..) = fixture();
        let [mut first, mut second] = [timers.timer(Some(group())), timers.timer(Some(group()))];
        assert!(!first.begin_request() && !first.set_idle(None, Waker::noop()));
        assert!(evict(&timers));
        assert!(second.begin_request(), "its last one");
        assert!(!first.begin_request());
        assert_eq!(timers.evicted(), 0);
    }

    #[test]
    fn busy_connections_are_not_evicted_nor_those_without_a_group() {
        let (timers, _, waker) = fixture();
        let [mut timer, mut without_group] = [timers.timer(Some(group())), timers.timer(None)];
        without_group.set_idle(None, &waker);
        timer.set(None, &waker);
        assert!(!evict(&timers));
        timer.set_idle(None, &waker);
        assert!(evict(&timers) && !evict(&timers));
        // A part of a request has come meanwhile.
        timer.set(None, &waker);
        assert_eq!(timers.evicted(), 0);
        assert!(!timer.set_idle(None, &waker) && evict(&timers));
    }
}
