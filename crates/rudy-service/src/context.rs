//! Requests from a handler or body to the connection, or the task, that polls it: wake-up times and interim responses.
//!
//! A thread-local variable holds them, so nested futures need no context argument.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, StatusCode};
use rudy_runtime::clock;

use crate::Observer;

/// The current poll of a handler or body on this thread. Copied, because the time of the poll is read ten times for a proxied request.
#[derive(Debug, Clone, Copy)]
struct CurrentPoll {
    /// When the poll of a connection began. `None` in a task of its own, which has no timer for others.
    now: Option<Instant>,
    /// Whether this poll may send interim responses: only a handler may, and only while the client reads.
    accepts_interim: bool,
    /// Whether a report shows what the exchange waits for: see [`ASKING`].
    has_question: bool,
    /// The earliest wake-up time requested.
    due: Option<Instant>,
    /// How many interim responses it has sent: the last ones of [`INTERIM`].
    interim: usize,
}

/// The requests that a poll makes to its connection.
#[derive(Debug, Default)]
pub struct PollEffects {
    /// The earliest wake-up time requested.
    pub due: Option<Instant>,
    /// Interim responses to send before the response.
    pub interim: Vec<(StatusCode, HeaderMap)>,
}

thread_local! {
    static CURRENT: Cell<Option<CurrentPoll>> = const { Cell::new(None) };
    /// The interim responses of the current poll, after those of the polls around it.
    static INTERIM: RefCell<Vec<(StatusCode, HeaderMap)>> = const { RefCell::new(Vec::new()) };
    /// The observer of the exchange that a report shows.
    static ASKING: RefCell<Option<Arc<dyn Observer>>> = const { RefCell::new(None) };
}

/// Polls a handler or body at `now`, and returns its requests to the connection.
pub fn collect<R>(
    now: impl Into<Option<Instant>>,
    accepts_interim: bool,
    poll: impl FnOnce() -> R,
) -> (R, PollEffects) {
    let current =
        CurrentPoll { now: now.into(), accepts_interim, has_question: false, due: None, interim: 0 };
    let _outer = Outer(CURRENT.replace(Some(current)));
    (poll(), take_effects())
}

/// Polls a handler for a report of what it waits for: it says so to the observer, which [`asking`] returns.
pub fn ask<R>(observer: Arc<dyn Observer>, poll: impl FnOnce() -> R) -> R {
    if let Some(current) = CURRENT.get() {
        CURRENT.set(Some(CurrentPoll { has_question: true, ..current }));
    }
    ASKING.set(Some(observer));
    let _ends = EndOfReport;
    poll()
}

/// Forgets the observer after the poll, also after a panic.
struct EndOfReport;

impl Drop for EndOfReport {
    fn drop(&mut self) {
        ASKING.set(None);
    }
}

/// Returns the observer of an exchange if a report shows what it waits for. A handler that has had no observer at its first poll makes its
/// notes then.
#[must_use]
pub fn asking() -> Option<Arc<dyn Observer>> {
    if CURRENT.get()?.has_question { ASKING.with_borrow(Option::clone) } else { None }
}

/// Ends the current poll, and returns its requests.
#[inline]
fn take_effects() -> PollEffects {
    let Some(CurrentPoll { due, interim, .. }) = CURRENT.take() else { return PollEffects::default() };
    let sent = |all: &mut Vec<_>| all.split_off(all.len().saturating_sub(interim));
    PollEffects { due, interim: if interim > 0 { INTERIM.with_borrow_mut(sent) } else { Vec::new() } }
}

/// The poll around another one, which continues when this is dropped, also after a panic.
struct Outer(Option<CurrentPoll>);

impl Drop for Outer {
    #[inline]
    fn drop(&mut self) {
        take_effects();
        CURRENT.set(self.0);
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
    let accept = |accepts_interim: bool| {
        let Some(current) = CURRENT.get() else { return false };
        CURRENT.set(Some(CurrentPoll { accepts_interim, ..current }));
        current.accepts_interim
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
    current_time().unwrap_or_else(clock::now)
}

/// Returns the time of the current poll, if a connection polls on this thread.
pub(crate) fn current_time() -> Option<Instant> {
    CURRENT.get()?.now
}

/// Requests another poll of the current handler or body at this time, unless something wakes it earlier. Has
/// no effect outside of a connection; [`Deadline`](crate::Deadline) works everywhere.
pub fn wake_at(time: Instant) {
    if let Some(current) = CURRENT.get() {
        let due = current.due.map_or(time, |due| due.min(time));
        CURRENT.set(Some(CurrentPoll { due: Some(due), ..current }));
    }
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
    match CURRENT.get() {
        Some(current) if current.accepts_interim && status.is_informational() && !is_sent_otherwise => {
            INTERIM.with_borrow_mut(|interim| interim.push((status, fields)));
            CURRENT.set(Some(CurrentPoll { interim: current.interim + 1, ..current }));
            true
        }
        _ => false,
    }
}
