//! The end of a handshake, for requests that arrived in early data.

use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A handshake that is not complete.
#[derive(Debug, Default)]
pub struct PendingHandshake(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    is_complete: bool,
    wakers: Vec<Waker>,
}

impl PendingHandshake {
    /// Marks the handshake as complete: nothing that was received can have been recorded by a third party.
    pub fn complete(&self) {
        let mut progress = self.0.lock();
        progress.is_complete = true;
        let wakers = std::mem::take(&mut progress.wakers);
        drop(progress);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ready when the handshake is complete. A connection that ends before has no use for its requests.
    pub fn poll_complete(&self, cx: &Context<'_>) -> Poll<()> {
        let mut progress = self.0.lock();
        if progress.is_complete {
            return Poll::Ready(());
        }
        if !progress.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            progress.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
