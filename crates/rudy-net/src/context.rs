//! What a handler or a body leaves with the connection that polls it: times to be polled again, interim responses.
//!
//! It is found through the thread, however deep in the handler's futures it is used, so that no handler passes anything on.

use std::cell::RefCell;
use std::time::Instant;

use http::{HeaderMap, StatusCode};

/// The poll of a handler or a body that this thread is in.
#[derive(Debug)]
struct CurrentPoll {
    now: Instant,
    /// What is effects of interim responses is sent: a handler is polled, and no body, and the client takes what it is sent.
    accepts_interim: bool,
    effects: PollEffects,
}

/// What a poll has effects behind.
#[derive(Debug, Default)]
pub(crate) struct PollEffects {
    /// The earliest deadline that is waited for.
    pub(crate) due: Option<Instant>,
    /// To be sent before the response.
    pub(crate) interim: Vec<(StatusCode, HeaderMap)>,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentPoll>> = const { RefCell::new(None) };
}

/// Polls a handler or a body at `now`, and returns what it leaves.
pub(crate) fn collect<R>(now: Instant, accepts_interim: bool, poll: impl FnOnce() -> R) -> (R, PollEffects) {
    let outer = CURRENT.replace(Some(CurrentPoll { now, accepts_interim, effects: PollEffects::default() }));
    let polled = poll();
    let effects = CURRENT.replace(outer).map(|poll| poll.effects).unwrap_or_default();
    (polled, effects)
}

/// The time of the poll that this thread is in, which the connection has asked the clock for; the clock's elsewhere.
#[must_use]
pub fn poll_time() -> Instant {
    current_time().unwrap_or_else(Instant::now)
}

/// The time of the poll that this thread is in, if a connection polls.
pub(crate) fn current_time() -> Option<Instant> {
    CURRENT.with_borrow(|current| current.as_ref().map(|poll| poll.now))
}

/// Has the connection poll the handler or the body that it polls now once more at this time, if nothing wakes it before. Without
/// effect elsewhere; see [`Deadline`](crate::Deadline) for what waits anywhere.
pub fn wake_at(time: Instant) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(CurrentPoll { effects, .. }) = current {
            effects.due = Some(effects.due.map_or(time, |due| due.min(time)));
        }
    });
}

/// Sends an interim response to the client (RFC 9110 §15.2), such as 103 Early Hints, before the response that the handler is
/// at work on. Only a future of [`Reply::Later`](crate::Reply::Later) can, while its connection polls it: `false` elsewhere,
/// for a status that is not interim, and while the client does not take what it was sent before. Clients that speak HTTP/1.0
/// do not get it.
///
/// 100 Continue is sent when the handler reads the body, and 101 Switching Protocols is a response: neither is sent by this.
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
