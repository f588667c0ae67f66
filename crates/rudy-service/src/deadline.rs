//! Deadlines of handlers and bodies, at the cost of a store.
//!
//! The connection that polls a handler has a timer already. A handler that waits for a time passes it to the
//! connection through a [`Deadline`], at any depth of its futures. A tokio timer would be allocated, queued
//! and removed for every request, and wakes the runtime by writing to an `eventfd`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

use crate::context;

/// A time that a handler or body waits for.
///
/// If a connection polls the handler, the connection's timer wakes it, with a resolution of 10 ms. In a
/// separate task, a tokio timer wakes it.
///
/// ```
/// use std::time::{Duration, Instant};
/// use rudy_service::Deadline;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut deadline = Deadline::at(Instant::now() + Duration::from_millis(1));
/// std::future::poll_fn(|cx| deadline.poll_passed(cx)).await;
/// # });
/// ```
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// A tokio timer, where no connection polls.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Creates a deadline.
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

    /// Ready when the time has passed. Poll it whenever the handler is polled: a connection forgets deadlines
    /// that the last poll did not await.
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
    fn a_poll_reports_its_earliest_deadline() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let cx = &mut Context::from_waker(Waker::noop());
        let (passed, due) = collect(now, false, || {
            [after(5), after(3), now, after(9)].map(|time| Deadline::at(time).poll_passed(cx).is_ready())
        });
        assert_eq!((passed, due.due), ([false, false, true, false], Some(after(3))));
        assert_eq!(collect(now, false, || ()).1.due, None, "a later poll starts without deadlines");
    }

    #[test]
    fn nested_polls_have_separate_deadlines() {
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
    fn in_a_separate_task_a_tokio_timer_wakes_it() {
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
