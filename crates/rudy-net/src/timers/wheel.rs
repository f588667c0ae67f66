//! A timing wheel with two levels (Varghese and Lauck, 1987), without a clock: ticks go in, wakers come out.
//!
//! The first level has a bucket for each of the next ticks, the second one for each of the next turns of the
//! first. A far deadline waits in the second level, and is visited at least twice: at its turn, and at its
//! tick.

use std::task::Waker;

use super::eviction::Candidate;
use super::questions::Watch;
use crate::address_key::AddressKey;

/// The tick of a deadline that is not set.
pub(super) const NEVER: u64 = u64::MAX;

/// Number of buckets of a level: the width of the bit set of non-empty buckets.
const BUCKETS: u64 = 128;
/// Number of buckets of both levels.
const HEADS: usize = 256;
/// The bucket of a slot that is not queued.
const UNQUEUED: u16 = u16::MAX;
/// The end of a list of slots.
const END: u32 = u32::MAX;

/// The stamp of a slot whose connection is busy.
const BUSY: u32 = 0;
/// The stamp of a slot whose connection is evicted.
const EVICTED: u32 = u32::MAX;

/// The deadlines of a worker's connections.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) slots: Vec<Slot>,
    /// The number of connections that were asked what they wait for, and have not answered.
    pub(super) unanswered: usize,
    /// Unused slots.
    free: Vec<u32>,
    /// The first slot in each bucket's list: first level, then second level.
    heads: [u32; HEADS],
    /// The non-empty buckets of each level.
    occupied: [u128; 2],
    now: u64,
    /// When the timer task wakes up next.
    asleep_until: u64,
    /// Number of calls of [`Self::all_wakers`].
    wake_ups: u8,
    /// The newest stamp; stamps count up as connections become idle.
    newest: u32,
    /// The number of idle connections.
    idle: usize,
}

/// 48 bytes for each connection. The slots of a bucket form a linked list, so that no tick allocates, and a
/// slot that moves leaves nothing behind.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) waker: Option<Waker>,
    deadline: u64,
    /// The group of the connection; `None` for a free slot, and for a connection that is never evicted.
    group: Option<AddressKey>,
    previous: u32,
    next: u32,
    /// When the connection became idle, or [`BUSY`], or [`EVICTED`].
    stamp: u32,
    /// The last wake-up of all that this slot has seen.
    wake_ups: u8,
    pub(super) watch: Watch,
    bucket: u16,
}

const FREE: Slot = Slot {
    waker: None,
    deadline: NEVER,
    group: None,
    previous: END,
    next: END,
    stamp: BUSY,
    wake_ups: 0,
    watch: Watch::Observed,
    bucket: UNQUEUED,
};

impl Default for Wheel {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            unanswered: 0,
            free: Vec::new(),
            heads: [END; HEADS],
            occupied: [0; 2],
            now: 0,
            asleep_until: NEVER,
            wake_ups: 0,
            newest: BUSY,
            idle: 0,
        }
    }
}

impl Wheel {
    /// Allocates a slot for a connection of `group`, which is idle at first.
    pub(super) fn allocate_slot(&mut self, group: Option<AddressKey>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(FREE);
            // The descriptor limit bounds the number of connections: fewer than 2^31.
            u32::try_from(self.slots.len() - 1).unwrap_or(END)
        });
        let slot = &mut self.slots[index as usize];
        slot.group = group;
        // A new connection has seen the state after earlier wake-ups.
        slot.wake_ups = self.wake_ups;
        self.set_idle(index, true);
        index
    }

    pub(super) fn free_slot(&mut self, index: u32) {
        self.unlink(index);
        self.leave_idle(index);
        self.set_watch(index, false);
        self.slots[index as usize] = FREE;
        self.free.push(index);
    }

    /// Marks the connection as idle, from now on or still. Returns `true` if it was evicted.
    pub(super) fn set_idle(&mut self, index: u32, from_now_on: bool) -> bool {
        let stamp = &mut self.slots[index as usize].stamp;
        if *stamp != EVICTED && (from_now_on || *stamp == BUSY) {
            self.idle += usize::from(*stamp == BUSY);
            // Skips the two special stamps.
            self.newest = if self.newest == EVICTED - 1 { BUSY + 1 } else { self.newest + 1 };
            *stamp = self.newest;
        }
        *stamp == EVICTED
    }

    /// Marks the connection as busy.
    pub(super) fn set_busy(&mut self, index: u32) {
        self.leave_idle(index);
        self.slots[index as usize].stamp = BUSY;
    }

    /// Returns the number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.idle
    }

    /// Counts a connection as idle no longer, if it is idle.
    fn leave_idle(&mut self, index: u32) {
        self.idle -= usize::from(!matches!(self.slots[index as usize].stamp, BUSY | EVICTED));
    }

    pub(super) fn is_evicted(&self, index: u32) -> bool {
        self.slots[index as usize].stamp == EVICTED
    }

    /// Returns all connections that may be evicted now or later, and the number of slots.
    pub(super) fn candidates(&self, worker: usize) -> (Vec<Candidate>, usize) {
        let candidate = |(index, slot): (usize, &Slot)| {
            let is_idle = slot.stamp != BUSY && slot.stamp != EVICTED;
            let age = is_idle.then(|| self.newest.wrapping_sub(slot.stamp));
            let slot_index = u32::try_from(index).ok()?;
            Some(Candidate { worker, group: slot.group?, age, stamp: slot.stamp, slot: slot_index })
        };
        (self.slots.iter().enumerate().filter_map(candidate).collect(), self.slots.len())
    }

    /// Evicts a connection if it has been idle ever since it became a candidate. Returns its waker.
    pub(super) fn evict(&mut self, candidate: &Candidate) -> Option<Waker> {
        let is_same = self.slots[candidate.slot as usize].stamp == candidate.stamp;
        is_same.then(|| {
            self.leave_idle(candidate.slot);
            let slot = &mut self.slots[candidate.slot as usize];
            slot.stamp = EVICTED;
            // A connection without a waker checks before it waits.
            slot.waker.clone().unwrap_or_else(|| Waker::noop().clone())
        })
    }

    /// Sets the deadline of a slot. Returns `true` if the timer task must wake up earlier for it.
    pub(super) fn set(&mut self, index: u32, deadline: u64, waker: &Waker) -> bool {
        let slot = &mut self.slots[index as usize];
        if !slot.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            slot.waker = Some(waker.clone());
            if slot.wake_ups != self.wake_ups {
                slot.wake_ups = self.wake_ups;
                waker.wake_by_ref();
            }
        }
        slot.deadline = deadline;
        let bucket = slot.bucket;
        if deadline == NEVER || bucket != UNQUEUED && self.next_visit(bucket) <= deadline {
            return false;
        }
        self.unlink(index);
        let next_visit = self.queue(index, deadline);
        let is_sooner = next_visit < self.asleep_until;
        self.asleep_until = self.asleep_until.min(next_visit);
        is_sooner
    }

    /// Returns when the timer task must wake up next.
    pub(super) fn sleep(&mut self) -> Option<u64> {
        let next = self.next_tick();
        self.asleep_until = next.unwrap_or(NEVER);
        next
    }

    /// Advances to `tick`, and collects the wakers that are due, up to `most` at a time. Returns `true` when
    /// done.
    pub(super) fn advance(&mut self, tick: u64, most: usize, due: &mut Vec<Waker>) -> bool {
        loop {
            // The second level comes first: a deadline in it may be due at the first tick of its turn.
            for bucket in [second_level(self.now / BUCKETS), first_level(self.now)] {
                let turns_now = bucket == first_level(self.now) || self.now.is_multiple_of(BUCKETS);
                while turns_now && self.heads[bucket as usize] != END {
                    if due.len() == most {
                        return false;
                    }
                    self.visit(self.heads[bucket as usize], due);
                }
            }
            match self.next_tick() {
                Some(next) if next <= tick => self.now = next,
                _ => break,
            }
        }
        self.now = self.now.max(tick);
        true
    }

    /// Returns all wakers. A slot without a waker is woken when its timer is first set.
    pub(super) fn all_wakers(&mut self) -> Vec<Waker> {
        self.wake_ups = self.wake_ups.wrapping_add(1);
        let wake_ups = self.wake_ups;
        let with_waker = self.slots.iter_mut().filter_map(|slot| {
            let waker = slot.waker.clone()?;
            slot.wake_ups = wake_ups;
            Some(waker)
        });
        with_waker.collect()
    }

    /// Returns the waker of a slot. A slot without a waker is woken when its timer is first set.
    pub(super) fn waker(&mut self, index: u32) -> Option<Waker> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.waker.is_none() {
            slot.wake_ups = self.wake_ups.wrapping_sub(1);
        }
        slot.waker.clone()
    }

    /// Handles a slot in a bucket whose time has come: its deadline has passed, or has moved.
    fn visit(&mut self, index: u32, due: &mut Vec<Waker>) {
        self.unlink(index);
        let slot = &mut self.slots[index as usize];
        if slot.deadline <= self.now {
            slot.deadline = NEVER;
            due.extend(slot.waker.clone());
        } else if slot.deadline != NEVER {
            let deadline = slot.deadline;
            self.queue(index, deadline);
        }
    }

    /// Returns the tick of the next non-empty bucket.
    fn next_tick(&self) -> Option<u64> {
        let ahead = |occupied: u128, now: u64| {
            // Bit 0 is the bucket after the current one.
            let first = u32::try_from((now + 1) % BUCKETS).unwrap_or(0);
            (occupied != 0).then(|| now + 1 + u64::from(occupied.rotate_right(first).trailing_zeros()))
        };
        let tick = ahead(self.occupied[0], self.now);
        let turn = ahead(self.occupied[1], self.now / BUCKETS);
        [tick, turn.map(|turn| turn * BUCKETS)].into_iter().flatten().min()
    }

    /// Returns when the wheel visits a bucket next.
    fn next_visit(&self, bucket: u16) -> u64 {
        let after = |now: u64, bucket: u64| now + 1 + (bucket + BUCKETS - (now + 1) % BUCKETS) % BUCKETS;
        match u64::from(bucket) {
            first if first < BUCKETS => after(self.now, first),
            second => after(self.now / BUCKETS, second - BUCKETS) * BUCKETS,
        }
    }

    /// Queues a slot in a bucket that is visited by its deadline. Returns the tick of that visit.
    fn queue(&mut self, index: u32, deadline: u64) -> u64 {
        let deadline = deadline.max(self.now + 1);
        let bucket = if deadline - self.now < BUCKETS {
            first_level(deadline)
        } else {
            second_level((deadline / BUCKETS).min(self.now / BUCKETS + BUCKETS - 1))
        };
        let head = std::mem::replace(&mut self.heads[bucket as usize], index);
        if head != END {
            self.slots[head as usize].previous = index;
        }
        let slot = &mut self.slots[index as usize];
        (slot.bucket, slot.previous, slot.next) = (bucket, END, head);
        self.occupied[level(bucket)] |= bit(bucket);
        self.next_visit(bucket)
    }

    fn unlink(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let (bucket, previous, next) = (slot.bucket, slot.previous, slot.next);
        if bucket == UNQUEUED {
            return;
        }
        slot.bucket = UNQUEUED;
        if next != END {
            self.slots[next as usize].previous = previous;
        }
        if previous != END {
            self.slots[previous as usize].next = next;
            return;
        }
        self.heads[bucket as usize] = next;
        if next == END {
            self.occupied[level(bucket)] &= !bit(bucket);
        }
    }
}

fn first_level(tick: u64) -> u16 {
    (tick % BUCKETS) as u16
}

fn second_level(turn: u64) -> u16 {
    first_level(turn) | 128
}

fn level(bucket: u16) -> usize {
    usize::from(u64::from(bucket) >= BUCKETS)
}

fn bit(bucket: u16) -> u128 {
    1 << (u64::from(bucket) % BUCKETS)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A small random number generator (Marsaglia's xorshift), with the same sequence in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, most: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % most
        }
    }

    /// Compares the wheel with a naive model: a list of all deadlines, searched at every step.
    #[test]
    fn exactly_the_due_timers_are_woken_once() {
        let mut random = Random(0x2545_F491_4F6C_DD1D);
        let mut wheel = Wheel::default();
        let timers: Vec<_> =
            (0..200).map(|_| (wheel.allocate_slot(None), Arc::new(Count::default()))).collect();
        let mut deadlines = vec![NEVER; timers.len()];
        let mut woken = vec![0; timers.len()];
        let mut now = 0;
        for _ in 0..20_000 {
            for _ in 0..random.below(8) {
                let at = usize::try_from(random.below(200)).unwrap();
                let (slot, count) = &timers[at];
                let reach = [3, 130, 1000, 20_000, 40_000][usize::try_from(random.below(5)).unwrap()];
                deadlines[at] = if random.below(10) == 0 { NEVER } else { now + random.below(reach) };
                wheel.set(*slot, deadlines[at], &Waker::from(count.clone()));
            }
            let step = [0, 1, 2, 50, 127, 128, 129, 3000][usize::try_from(random.below(8)).unwrap()];
            // A deadline that has passed already is due at the next tick.
            let late = step > 0;
            now += step;
            let mut due = Vec::new();
            while !wheel.advance(now, 5, &mut due) {
                due.drain(..).for_each(Waker::wake);
            }
            due.drain(..).for_each(Waker::wake);
            for (at, (_, count)) in timers.iter().enumerate() {
                if late && deadlines[at] <= now {
                    deadlines[at] = NEVER;
                    woken[at] += 1;
                }
                assert_eq!(count.0.load(Ordering::Relaxed), woken[at], "timer {at} at {now}");
            }
        }
    }

    #[test]
    fn no_timer_is_due_while_the_timer_task_sleeps() {
        let mut random = Random(7);
        let mut wheel = Wheel::default();
        let slots: Vec<_> = (0..50).map(|_| wheel.allocate_slot(None)).collect();
        let mut now = 0;
        let mut deadlines = vec![NEVER; slots.len()];
        for _ in 0..5_000 {
            let at = usize::try_from(random.below(50)).unwrap();
            deadlines[at] = now + 1 + random.below(30_000);
            wheel.set(slots[at], deadlines[at], Waker::noop());
            let next = wheel.sleep().unwrap();
            let first = *deadlines.iter().min().unwrap();
            assert!(next > now && next <= first, "at {now} sleeps until {next}, and {first} is due");
            now = next.min(now + random.below(2000));
            let mut due = Vec::new();
            assert!(wheel.advance(now, usize::MAX, &mut due));
            deadlines.iter_mut().filter(|deadline| **deadline <= now).for_each(|it| *it = NEVER);
        }
    }

    #[test]
    fn a_far_timer_is_visited_twice_and_not_at_every_turn() {
        let mut wheel = Wheel::default();
        let slot = wheel.allocate_slot(None);
        wheel.set(slot, 7_500, Waker::noop());
        let mut visits = 0;
        let mut due = Vec::new();
        while due.is_empty() {
            let next = wheel.sleep().unwrap();
            wheel.advance(next, usize::MAX, &mut due);
            visits += 1;
        }
        assert_eq!(visits, 2);
        assert_eq!(wheel.sleep(), None);
    }

    #[test]
    fn only_an_earlier_deadline_wakes_the_timer_task() {
        let mut wheel = Wheel::default();
        let (one, two) = (wheel.allocate_slot(None), wheel.allocate_slot(None));
        assert!(wheel.set(one, 50, Waker::noop()), "nothing was set before");
        assert_eq!(wheel.sleep(), Some(50));
        assert!(!wheel.set(two, 60, Waker::noop()));
        assert!(!wheel.set(one, 70, Waker::noop()), "a later deadline is only stored");
        assert!(wheel.set(two, 40, Waker::noop()));
        assert_eq!(wheel.sleep(), Some(40));
    }

    #[test]
    fn a_slot_has_48_bytes() {
        assert_eq!(size_of::<Slot>(), 48);
    }
}
