//! Deadlines of handlers and bodies, for the price of a store.
//!
//! The connection that polls a handler has a timer anyway. A handler that waits until some time leaves that time with the
//! connection ([`Deadline`]), however deep in its futures it waits, and the connection's timer has it polled again. A timer of
//! tokio's in each would be allocated, queued and removed for every request, and wakes its runtime by a write to an `eventfd`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

use crate::context;

/// A time that a handler or a body waits for.
///
/// Where a connection polls the handler, the connection's timer wakes it, exact to its tick of 10 ms; in a task of its own, a
/// timer of tokio's does.
///
/// ```
/// use std::time::{Duration, Instant};
/// use rudy_net::Deadline;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut deadline = Deadline::at(Instant::now() + Duration::from_millis(1));
/// std::future::poll_fn(|cx| deadline.poll_passed(cx)).await;
/// # });
/// ```
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// The timer, where no connection's is used.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// A deadline that passes at this time.
    #[must_use]
    pub fn at(time: Instant) -> Self {
        Self { at: time, timer: None }
    }

    /// Moves the deadline.
    pub fn set(&mut self, time: Instant) {
        self.at = time;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(time.into());
        }
    }

    /// Ready when the time has passed. It has to be polled whenever the handler is: a connection forgets deadlines that the
    /// last poll did not name.
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match context::current_time() {
            Some(now) if now >= self.at => Poll::Ready(()),
            Some(_) => {
                context::wake_at(self.at);
                Poll::Pending
            }
            None => {
                let timer = || Box::pin(tokio::time::sleep_until(self.at.into()));
                self.timer.get_or_insert_with(timer).as_mut().poll(cx)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::context::collect;

    #[test]
    fn the_connection_learns_the_earliest_of_the_deadlines_of_a_poll() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let cx = &mut Context::from_waker(Waker::noop());
        let (passed, due) = collect(now, false, || {
            [after(5), after(3), now, after(9)].map(|time| Deadline::at(time).poll_passed(cx).is_ready())
        });
        assert_eq!((passed, due.due), ([false, false, true, false], Some(after(3))));
        assert_eq!(collect(now, false, || ()).1.due, None, "a later poll begins without any");
    }

    #[test]
    fn a_poll_within_a_poll_keeps_its_deadlines_to_itself() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let wait = |time| Deadline::at(time).poll_passed(&mut Context::from_waker(Waker::noop()));
        let (inner, outer) = collect(now, false, || {
            let _ = wait(after(5));
            collect(now, false, || wait(after(3))).1.due
        });
        assert_eq!((inner, outer.due), (Some(after(3)), Some(after(5))));
    }

    #[test]
    fn in_a_task_of_its_own_a_timer_of_the_runtime_wakes_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let mut deadline = Deadline::at(start + Duration::from_hours(1));
            let is_passed = std::future::poll_fn(|cx| Poll::Ready(deadline.poll_passed(cx).is_ready())).await;
            assert!(!is_passed);
            deadline.set(start + Duration::from_millis(1));
            std::future::poll_fn(|cx| deadline.poll_passed(cx)).await;
            assert!(start.elapsed() >= Duration::from_millis(1));
        });
    }
}
