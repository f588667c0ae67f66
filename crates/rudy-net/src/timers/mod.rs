//! The deadlines of many connections, with one timer.
//!
//! A keep-alive connection moves its deadline with every request, and almost never reaches it. So moving a
//! deadline later only stores it: the [`Wheel`] visits the connection at the earlier time, and queues it
//! again. Only a deadline that moves earlier is queued at once. A tokio `Sleep` in each connection would cost
//! 120 bytes, and two operations on the runtime's wheel for each request. Ten thousand streams that tick once
//! a second would be as many timers.

mod eviction;
mod questions;
#[cfg(test)]
mod races;
mod timer_fd;
mod wheel;

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use rudy_runtime::{clock, is_planted};
use tokio::sync::Notify;

pub(crate) use self::eviction::{Candidate, VictimQueue};
pub(crate) use self::timer_fd::TimerFd;
use self::wheel::{NEVER, Wheel};
use crate::address_key::AddressKey;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// Resolution of a deadline. It must not delay a stream visibly; a shorter tick would wake a server with
/// streams more often than a hundred times a second.
const TICK: Duration = Duration::from_millis(10);
const TICKS_PER_SECOND: u64 = 100;
/// Maximum number of wakers taken at once. The lock is released while they are woken.
const BATCH: usize = 256;

/// The timers of a worker.
#[derive(Debug)]
pub(crate) struct Timers {
    wheel: Mutex<Wheel>,
    /// Number of evicted connections that have not noticed yet. Changed only under the lock of the wheel.
    evicted: AtomicUsize,
    /// The number of questions in progress.
    questions: AtomicUsize,
    /// Wakes who waits for answers.
    answered: Condvar,
    /// Wakes the timer task when a deadline is earlier than its current one.
    sooner: Notify,
    epoch: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            wheel: Mutex::default(),
            evicted: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
            answered: Condvar::new(),
            sooner: Notify::new(),
            epoch: clock::now(),
        }
    }
}

impl Timers {
    /// Creates a timer for a connection, not set yet. A connection with a group may be evicted while it is
    /// idle, which it is at first.
    pub(crate) fn timer(self: &Arc<Self>, group: Option<AddressKey>) -> Timer {
        let slot = self.wheel.lock().allocate_slot(group);
        Timer { slot, timers: self.clone(), has_had_request: false, is_unobserved: false }
    }

    /// Returns the connections that may be evicted now or later, and the number of slots. `worker` is the
    /// index of the worker.
    pub(crate) fn candidates(&self, worker: usize) -> (Vec<Candidate>, usize) {
        self.wheel.lock().candidates(worker)
    }

    /// Returns the number of idle connections.
    pub(crate) fn idle(&self) -> usize {
        self.wheel.lock().idle()
    }

    /// Evicts a connection, unless it has become busy since it was chosen.
    pub(crate) fn evict(&self, victim: &Candidate) -> bool {
        let mut wheel = self.wheel.lock();
        let Some(waker) = wheel.evict(victim) else { return false };
        self.evicted.fetch_add(1, Ordering::Relaxed);
        drop(wheel);
        waker.wake();
        true
    }

    /// Wakes the connection with this slot.
    pub(crate) fn wake(&self, slot: u32) {
        let waker = self.wheel.lock().waker(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the number of evicted connections that have neither closed nor received a request yet.
    pub(crate) fn evicted(&self) -> usize {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Runs the timers for as long as the worker lives. Sleeps until the next visit, so a server with idle
    /// connections only does not tick.
    pub(crate) async fn run(&self, timer_fd: TimerFd) {
        loop {
            let next = self.wheel.lock().sleep();
            if let Some(tick) = next {
                timer_fd.set(self.time_of(tick));
            }
            tokio::select! {
                biased;
                () = timer_fd.expired(), if next.is_some() => {}
                () = self.sooner.notified() => {}
            }
            self.advance(clock::now());
        }
    }

    /// Wakes the connections whose deadline has passed.
    pub(crate) fn advance(&self, now: Instant) {
        let tick = self.tick_before(now);
        let mut due = Vec::new();
        loop {
            let is_over = self.wheel.lock().advance(tick, BATCH, &mut due);
            // Outside of the lock, because a woken task may set its timer at once.
            due.drain(..).for_each(Waker::wake);
            if is_over {
                return;
            }
        }
    }

    /// Wakes every connection to check whether it must close. A connection that has not set its timer yet is
    /// woken when it does, because its check may have been earlier.
    pub(crate) fn wake_all(&self) {
        let wakers = self.wheel.lock().all_wakers();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn tick_before(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.epoch);
        // Not `as_millis`, whose 128-bit division costs more than the rest of the function.
        since.as_secs() * TICKS_PER_SECOND + u64::from(since.subsec_nanos() / TICK.subsec_nanos())
    }

    /// Returns the first tick after this time, so that a deadline is never early.
    fn tick_after(&self, time: Instant) -> u64 {
        self.tick_before(time) + 1
    }

    fn time_of(&self, tick: u64) -> Instant {
        let since = Duration::new(
            tick / TICKS_PER_SECOND,
            u32::try_from(tick % TICKS_PER_SECOND).unwrap_or(0) * TICK.subsec_nanos(),
        );
        // A time beyond the clock's range is visited at the next notification.
        self.epoch.checked_add(since).unwrap_or(self.epoch)
    }
}

/// The timer of a connection. Dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Arc<Timers>,
    slot: u32,
    /// Whether a request has arrived since the connection was last idle.
    has_had_request: bool,
    /// Whether the connection has exchanges that wait and are not observed.
    pub(crate) is_unobserved: bool,
}

impl Timer {
    /// Returns the slot, for [`Timers::wake`].
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Wakes `waker` once `deadline` has passed; `None` means never. Replaces the previous deadline. Marks
    /// the connection as busy, which cancels an eviction.
    pub(crate) fn set(&self, deadline: Option<Instant>, waker: &Waker) {
        self.set_with(deadline, waker, |wheel| {
            self.end_eviction(wheel);
            wheel.set_busy(self.slot);
            wheel.set_watch(self.slot, self.is_unobserved);
        });
    }

    /// Like [`Self::set`], for an idle connection, which has received no part of a request. Returns `true` if
    /// it was evicted, and must close unless a request has arrived now.
    pub(crate) fn set_idle(&mut self, deadline: Option<Instant>, waker: &Waker) -> bool {
        let from_now_on = std::mem::take(&mut self.has_had_request);
        self.is_unobserved = false;
        self.set_with(deadline, waker, |wheel| {
            wheel.set_watch(self.slot, false);
            wheel.set_idle(self.slot, from_now_on)
        })
    }

    /// Marks the start of a request. Returns `true` if the connection was evicted just before, so that this
    /// is its last request.
    pub(crate) fn begin_request(&mut self) -> bool {
        self.has_had_request = true;
        // Without the lock: this is the whole cost for a request.
        self.timers.evicted() > 0 && self.end_eviction(&mut self.timers.wheel.lock())
    }

    fn set_with<R>(&self, deadline: Option<Instant>, waker: &Waker, mark: impl FnOnce(&mut Wheel) -> R) -> R {
        let tick = deadline.map_or(NEVER, |deadline| self.timers.tick_after(deadline));
        let mut wheel = self.timers.wheel.lock();
        let unanswered = wheel.unanswered();
        let result = mark(&mut wheel);
        let is_sooner = wheel.set(self.slot, tick, waker);
        self.timers.notify_of_answers(unanswered, wheel);
        if is_sooner && !is_planted("a timer that is not told of an earlier deadline") {
            self.timers.sooner.notify_one();
        }
        result
    }

    /// Ends an eviction, because the connection closes or has a request. Returns whether it was evicted.
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
        let mut wheel = self.timers.wheel.lock();
        let unanswered = wheel.unanswered();
        self.end_eviction(&mut wheel);
        wheel.free_slot(self.slot);
        self.timers.notify_of_answers(unanswered, wheel);
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
    fn a_timer_wakes_once_and_never_early() {
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
    fn moving_a_deadline_later_does_not_wake_at_the_old_time() {
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
    fn moving_a_deadline_earlier_wakes_at_the_new_time_only() {
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
    fn a_freed_slot_does_not_wake_its_next_owner() {
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

    /// A connection checks whether it must close, and then sets its timer. Another thread may notify it in
    /// between.
    #[test]
    fn a_timer_set_after_wake_all_is_woken_at_once() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer(None);
        timers.wake_all();
        timer.set(None, &waker);
        assert_eq!(woken(&count), 1);
        timer.set(Some(timers.epoch + Duration::from_secs(1)), &waker);
        assert_eq!(woken(&count), 1, "it has checked since");
        timers.timer(None).set(None, &waker);
        assert_eq!(woken(&count), 1, "a later connection sees the current state");
    }

    #[test]
    fn one_connection_can_be_woken_before_and_after_it_sets_its_timer() {
        let (timers, count, waker) = fixture();
        let (timer, _other) = (timers.timer(None), timers.timer(None));
        timers.wake(timer.slot());
        timer.set(None, &waker);
        assert_eq!(woken(&count), 1);
        timer.set(None, &waker);
        assert_eq!(woken(&count), 1);
        timers.wake(timer.slot());
        assert_eq!(woken(&count), 2);
    }

    #[test]
    fn connections_are_idle_until_they_wait_for_something_else() {
        let (timers, _, waker) = fixture();
        let mut timer = timers.timer(Some(group()));
        assert_eq!(timers.idle(), 1);
        timer.set(None, &waker);
        assert_eq!(timers.idle(), 0);
        timer.set_idle(None, &waker);
        assert_eq!(timers.idle(), 1);
        drop(timer);
        assert_eq!(timers.idle(), 0);
    }

    fn group() -> AddressKey {
        std::net::IpAddr::from([192, 0, 2, 1]).into()
    }

    fn evict(timers: &Timers) -> bool {
        let victim = VictimQueue::default().next(0, || timers.candidates(0));
        victim.is_some_and(|victim| timers.evict(&victim))
    }

    #[test]
    fn an_eviction_wakes_the_longest_idle_connection() {
        let (timers, count, waker) = fixture();
        let [mut first, mut second] = [timers.timer(Some(group())), timers.timer(Some(group()))];
        let deadline = Some(timers.epoch);
        assert!(!second.set_idle(deadline, Waker::noop()) && !first.set_idle(deadline, &waker));
        // Idle since the accept, whenever it checks; checking again changes nothing.
        assert!(!first.set_idle(deadline, &waker));
        assert!(evict(&timers));
        assert_eq!((woken(&count), timers.evicted()), (1, 1));
        assert!(first.set_idle(deadline, &waker) && !second.set_idle(deadline, Waker::noop()));
        drop(first);
        assert_eq!(timers.evicted(), 0);
    }

    #[test]
    fn a_request_makes_its_connection_the_last_candidate() {
        let (timers, ..) = fixture();
        let [mut first, mut second] = [timers.timer(Some(group())), timers.timer(Some(group()))];
        assert!(!first.begin_request() && !first.set_idle(None, Waker::noop()));
        assert!(evict(&timers));
        assert!(second.begin_request(), "its last request");
        assert!(!first.begin_request());
        assert_eq!(timers.evicted(), 0);
    }

    #[test]
    fn busy_connections_and_those_without_a_group_are_not_evicted() {
        let (timers, _, waker) = fixture();
        let [mut timer, mut without_group] = [timers.timer(Some(group())), timers.timer(None)];
        without_group.set_idle(None, &waker);
        timer.set(None, &waker);
        assert!(!evict(&timers));
        timer.set_idle(None, &waker);
        assert!(evict(&timers) && !evict(&timers));
        // A part of a request has arrived meanwhile.
        timer.set(None, &waker);
        assert_eq!(timers.evicted(), 0);
        assert!(!timer.set_idle(None, &waker) && evict(&timers));
    }
}
