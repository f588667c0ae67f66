//! Requests from a handler or body to the connection, or the task, that polls it: wake-up times and interim responses.
//!
//! A thread-local variable holds them, so nested futures need no context argument.

use std::cell::RefCell;
use std::time::Instant;

use http::{HeaderMap, StatusCode};

/// The current poll of a handler or body on this thread.
#[derive(Debug)]
struct CurrentPoll {
    /// When the poll of a connection began. `None` in a task of its own, which has no timer for others.
    now: Option<Instant>,
    /// Whether this poll may send interim responses: only a handler may, and only while the client reads.
    accepts_interim: bool,
    effects: PollEffects,
}

/// The requests that a poll makes to its connection.
#[derive(Debug, Default)]
pub(crate) struct PollEffects {
    /// The earliest wake-up time requested.
    pub(crate) due: Option<Instant>,
    /// Interim responses to send before the response.
    pub(crate) interim: Vec<(StatusCode, HeaderMap)>,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentPoll>> = const { RefCell::new(None) };
}

/// Polls a handler or body at `now`, and returns its requests to the connection.
pub(crate) fn collect<R>(
    now: impl Into<Option<Instant>>,
    accepts_interim: bool,
    poll: impl FnOnce() -> R,
) -> (R, PollEffects) {
    let now = now.into();
    let outer = CURRENT.replace(Some(CurrentPoll { now, accepts_interim, effects: PollEffects::default() }));
    let _outer = Outer(outer);
    let polled = poll();
    let effects = CURRENT.take().map(|poll| poll.effects).unwrap_or_default();
    (polled, effects)
}

/// The poll around another one, which continues when this is dropped, also after a panic.
struct Outer(Option<CurrentPoll>);

impl Drop for Outer {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Polls a future in a task of its own, and returns the interim responses that it sends. The task passes them to the handler that waits
/// for it, which sends them again.
pub fn collect_interim<R>(poll: impl FnOnce() -> R) -> (R, Vec<(StatusCode, HeaderMap)>) {
    let (polled, effects) = collect(None, true, poll);
    (polled, effects.interim)
}

/// Polls a future of a handler whose interim responses are not for the client.
pub fn without_interim<R>(poll: impl FnOnce() -> R) -> R {
    let accept = |accepts: bool| {
        CURRENT.with_borrow_mut(|current| {
            current.as_mut().is_some_and(|poll| std::mem::replace(&mut poll.accepts_interim, accepts))
        })
    };
    let accepted = accept(false);
    let polled = poll();
    accept(accepted);
    polled
}

/// Returns the time at which the current poll of a connection began, to avoid reading the clock again.
/// Outside of a connection it returns the current time.
#[must_use]
pub fn poll_time() -> Instant {
    current_time().unwrap_or_else(Instant::now)
}

/// Returns the time of the current poll, if a connection polls on this thread.
pub(crate) fn current_time() -> Option<Instant> {
    CURRENT.with_borrow(|current| current.as_ref().and_then(|poll| poll.now))
}

/// Requests another poll of the current handler or body at this time, unless something wakes it earlier. Has
/// no effect outside of a connection; [`Deadline`](crate::Deadline) works everywhere.
pub fn wake_at(time: Instant) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(CurrentPoll { effects, .. }) = current {
            effects.due = Some(effects.due.map_or(time, |due| due.min(time)));
        }
    });
}

/// Sends an interim response (RFC 9110 §15.2), such as 103 Early Hints, before the final response.
///
/// Works only in a future of [`Reply::Later`](crate::Reply::Later), while its connection polls it, or in
/// [`collect_interim`]. Returns `false` elsewhere, for a status that is not interim, and while the client does not read. HTTP/1.0 clients
/// do not receive it.
///
/// 100 Continue is sent when the handler reads the body, and 101 Switching Protocols is a final response:
/// this function rejects both.
#[must_use]
pub fn send_interim(status: StatusCode, fields: HeaderMap) -> bool {
    let is_sent_otherwise = matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
    CURRENT.with_borrow_mut(|current| match current {
        Some(CurrentPoll { accepts_interim: true, effects, .. })
            if status.is_informational() && !is_sent_otherwise =>
        {
            effects.interim.push((status, fields));
            true
        }
        _ => false,
    })
}
