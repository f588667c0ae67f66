//! Deadlines of many connections for the price of one timer.
//!
//! A keep-alive connection moves its deadline with every request, and almost never reaches it. So moving it later is a
//! store and nothing else: the wheel holds a connection at the tick where it was first due, and looks again when that
//! tick comes. Only a deadline that moves earlier is queued anew. A tokio `Sleep` in each connection would cost 120 bytes
//! of it and two visits to the runtime's wheel for each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How exact a deadline is. Everything that is timed here is counted in seconds.
const TICK: Duration = Duration::from_millis(100);
const TICKS_PER_SECOND: u64 = 10;
/// Ticks in one turn of the wheel: 51 s. A later deadline is looked at once a turn.
const BUCKETS: u32 = 512;
/// The tick of a deadline that is not set, or of a place in the wheel that is not taken.
const NEVER: u32 = u32::MAX;

/// The deadlines of one worker.
#[derive(Debug)]
pub(crate) struct Timers {
    wheel: Mutex<Wheel>,
    /// Wakes the ticker when the first timer is made: an idle server has no tick.
    started: Notify,
    epoch: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        let wheel = Wheel { slots: Vec::new(), free: Vec::new(), buckets, now: 0 };
        Self { wheel: Mutex::new(wheel), started: Notify::new(), epoch: Instant::now() }
    }
}

impl Timers {
    /// A timer for one connection, not set yet.
    pub(crate) fn timer(self: &Arc<Self>) -> Timer {
        let mut wheel = self.lock();
        if wheel.in_use() == 0 {
            // The ticks of an idle time need not be walked through one by one.
            wheel.restart(self.tick_before(Instant::now()));
            self.started.notify_one();
        }
        Timer { slot: wheel.take_slot(), timers: self.clone() }
    }

    /// Turns the wheel, for as long as the worker lives.
    pub(crate) async fn run(&self) {
        loop {
            if self.lock().in_use() == 0 {
                self.started.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.advance(Instant::now());
        }
    }

    /// Wakes whoever is due at this time.
    pub(crate) fn advance(&self, now: Instant) {
        let tick = self.tick_before(now);
        loop {
            // Wakers run outside the lock: a woken task may set its timer at once.
            let due = {
                let mut wheel = self.lock();
                if wheel.now >= tick {
                    return;
                }
                wheel.now += 1;
                wheel.take_due()
            };
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes everybody, to look at the world anew.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<_> = self.lock().slots.iter().filter_map(|slot| slot.waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Wheel> {
        // A panic while the lock is held can only come from a failed allocation; the wheel is whole between its steps.
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick_before(&self, time: Instant) -> u32 {
        let since = time.saturating_duration_since(self.epoch);
        // Not `as_millis`, whose 128 bits cost more to divide than everything else here.
        let ticks =
            since.as_secs() * TICKS_PER_SECOND + u64::from(since.subsec_nanos() / TICK.subsec_nanos());
        u32::try_from(ticks).unwrap_or(NEVER - 1)
    }

    /// The first tick that does not lie before this time: a deadline is never early.
    fn tick_after(&self, time: Instant) -> u32 {
        self.tick_before(time).saturating_add(1).min(NEVER - 1)
    }
}

/// One connection's timer. Dropping it gives its place back.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Arc<Timers>,
    slot: u32,
}

impl Timer {
    /// Has `waker` woken once `deadline` has passed; `None` for never. Replaces what was set before.
    pub(crate) fn set(&self, deadline: Option<Instant>, waker: &Waker) {
        let tick = deadline.map_or(NEVER, |deadline| self.timers.tick_after(deadline));
        self.timers.lock().set(self.slot, tick, waker);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.timers.lock().give_back(self.slot);
    }
}

#[derive(Debug)]
struct Wheel {
    slots: Vec<Slot>,
    /// Slots that nobody uses.
    free: Vec<u32>,
    /// Slots by the tick at which they are to be looked at, modulo the number of buckets.
    buckets: Vec<Vec<u32>>,
    now: u32,
}

#[derive(Debug, Clone)]
struct Slot {
    waker: Option<Waker>,
    deadline: u32,
    /// Where the slot waits in the wheel. An entry at any other tick is stale and passed over.
    queued: u32,
}

impl Wheel {
    fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins anew at this tick; nothing is queued that anybody waits for.
    fn restart(&mut self, tick: u32) {
        self.now = self.now.max(tick);
        self.buckets.iter_mut().for_each(Vec::clear);
    }

    fn take_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.slots.push(Slot { waker: None, deadline: NEVER, queued: NEVER });
        // Connections are bounded by descriptors, of which there are fewer than 2^31.
        u32::try_from(self.slots.len() - 1).unwrap_or(NEVER)
    }

    fn give_back(&mut self, index: u32) {
        self.slots[index as usize] = Slot { waker: None, deadline: NEVER, queued: NEVER };
        self.free.push(index);
    }

    fn set(&mut self, index: u32, deadline: u32, waker: &Waker) {
        let slot = &mut self.slots[index as usize];
        if !slot.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            slot.waker = Some(waker.clone());
        }
        slot.deadline = deadline;
        if deadline < slot.queued {
            self.queue(index, deadline);
        }
    }

    fn queue(&mut self, index: u32, deadline: u32) {
        let tick = deadline.clamp(self.now + 1, self.now + BUCKETS - 1);
        self.slots[index as usize].queued = tick;
        self.buckets[(tick % BUCKETS) as usize].push(index);
    }

    /// The wakers of those whose deadline has come; the others that waited at this tick are queued again.
    fn take_due(&mut self) -> Vec<Waker> {
        let mut due = Vec::new();
        for index in std::mem::take(&mut self.buckets[(self.now % BUCKETS) as usize]) {
            let slot = &mut self.slots[index as usize];
            if slot.queued != self.now {
                continue;
            }
            slot.queued = NEVER;
            if slot.deadline <= self.now {
                slot.deadline = NEVER;
                due.extend(slot.waker.clone());
            } else if slot.deadline != NEVER {
                let deadline = slot.deadline;
                self.queue(index, deadline);
            }
        }
        due
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
        let timer = timers.timer();
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
        let timer = timers.timer();
        let start = timers.epoch;
        for second in 1..300 {
            timer.set(Some(start + Duration::from_secs(second + 75)), &waker);
            timers.advance(start + Duration::from_secs(second));
        }
        assert_eq!(woken(&count), 0);
        let queued: usize = timers.lock().buckets.iter().map(Vec::len).sum();
        assert_eq!(queued, 1, "one place in the wheel, however often the deadline moves");
        timers.advance(start + Duration::from_secs(375));
        assert_eq!(woken(&count), 1);
    }

    #[test]
    fn moving_earlier_wakes_at_the_new_time_only() {
        let (timers, count, waker) = fixture();
        let timer = timers.timer();
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
        let timer = timers.timer();
        timer.set(Some(start + Duration::from_secs(1)), &waker);
        drop(timer);
        let next = timers.timer();
        timers.advance(start + Duration::from_mins(1));
        assert_eq!(woken(&count), 0);
        next.set(None, &waker);
        timers.wake_all();
        assert_eq!(woken(&count), 1);
    }
}
