//! Questions to the connections of a worker: what does each wait for?
//!
//! No report shows most exchanges, so one that waits is not observed before a report is made. It wakes the connections with such exchanges;
//! each describes them when it is polled, and then sets its timer, which is the answer.

use std::task::Waker;
use std::time::Instant;

use rudy_runtime::clock;

use super::Timers;
use super::wheel::Wheel;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

/// Whether a connection has exchanges that are not observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// All are observed.
    Observed,
    Unobserved,
    /// It has some, and was asked for them.
    Questioned,
}

impl Timers {
    /// Begins a question: wakes the connections with exchanges that are not observed.
    pub(crate) fn ask(&self) {
        self.questions.fetch_add(1, Ordering::Release);
        let wakers = self.wheel.lock().ask();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for all answers. Returns `false` if one was missing at this time.
    pub(crate) fn wait_for_answers(&self, until: Instant) -> bool {
        let time = until.saturating_duration_since(clock::now());
        let mut wheel = self.wheel.lock();
        !self.answered.wait_while_for(&mut wheel, |wheel| wheel.unanswered() > 0, time).timed_out()
    }

    /// Unlocks the wheel. Wakes who waits for answers if the last one came since `unanswered` were missing.
    pub(super) fn notify_of_answers(&self, unanswered: usize, wheel: MutexGuard<'_, Wheel>) {
        let is_last = unanswered > 0 && wheel.unanswered() == 0;
        drop(wheel);
        // A system call.
        if is_last {
            self.answered.notify_all();
        }
    }

    /// Ends a question.
    pub(crate) fn end_question(&self) {
        self.questions.fetch_sub(1, Ordering::Release);
    }

    /// Whether a question is in progress.
    pub(crate) fn has_question(&self) -> bool {
        self.questions.load(Ordering::Acquire) > 0
    }
}

impl Wheel {
    /// Asks the connections with exchanges that are not observed. Returns their wakers.
    fn ask(&mut self) -> Vec<Waker> {
        let unobserved = self.slots.iter_mut().filter(|slot| slot.watch != Watch::Observed);
        let wakers = unobserved.filter_map(|slot| {
            let waker = slot.waker.clone()?;
            self.unanswered += usize::from(slot.watch == Watch::Unobserved);
            slot.watch = Watch::Questioned;
            Some(waker)
        });
        wakers.collect()
    }

    /// Returns the number of connections that were asked and have not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Notes whether a connection has exchanges that are not observed. That it has none is an answer.
    pub(super) fn set_watch(&mut self, index: u32, is_unobserved: bool) {
        let watch = &mut self.slots[index as usize].watch;
        if is_unobserved {
            // A connection that was polled before the question has not answered it.
            if *watch == Watch::Observed {
                *watch = Watch::Unobserved;
            }
        } else {
            self.unanswered -= usize::from(*watch == Watch::Questioned);
            *watch = Watch::Observed;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::timers::Timer;

    const LONG: Duration = Duration::from_mins(1);

    /// Creates a timer as that of a connection that waits.
    fn waiting(timers: &Arc<Timers>, is_unobserved: bool) -> Timer {
        let mut timer = timers.timer(None);
        timer.is_unobserved = is_unobserved;
        timer.set(None, Waker::noop());
        timer
    }

    #[test]
    fn only_connections_with_exchanges_that_are_not_observed_are_woken() {
        let timers = Arc::<Timers>::default();
        let _observed = waiting(&timers, false);
        timers.ask();
        assert!(timers.has_question() && timers.wait_for_answers(Instant::now()));
        timers.end_question();
        assert!(!timers.has_question());
        let unobserved = waiting(&timers, true);
        timers.ask();
        assert!(!timers.wait_for_answers(Instant::now()), "it is busy");
        drop(unobserved);
        assert!(timers.wait_for_answers(Instant::now()), "it is over");
    }

    #[test]
    fn a_connection_answers_once_it_was_polled_since_the_question() {
        let timers = Arc::<Timers>::default();
        let mut timer = waiting(&timers, true);
        timers.ask();
        // Its poll had begun before.
        timer.set(None, Waker::noop());
        assert!(!timers.wait_for_answers(Instant::now()));
        // Another question meanwhile does not count it twice.
        timers.ask();
        thread::scope(|scope| {
            let waits = [(); 2].map(|()| scope.spawn(|| timers.wait_for_answers(Instant::now() + LONG)));
            timer.is_unobserved = false;
            timer.set(None, Waker::noop());
            assert!(waits.into_iter().all(|wait| wait.join().unwrap()));
        });
        let mut idle = waiting(&timers, true);
        timers.ask();
        assert!(!idle.set_idle(None, Waker::noop()));
        assert!(timers.wait_for_answers(Instant::now()), "it waits for nothing");
    }
}
