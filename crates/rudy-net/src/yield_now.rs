//! Yields from a poll.

use std::pin::pin;
use std::task::{Context, Poll};

/// Yields to the other connections of the core.
///
/// Not `wake_by_ref`: the runtime polls a task that wakes itself up to 61 times before it checks its sockets,
/// and new requests would wait. After `yield_now` the task continues behind that check.
pub(crate) fn yield_now<R>(cx: &mut Context<'_>) -> Poll<R> {
    // The first poll is always pending, and registers the waker with the runtime.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}
