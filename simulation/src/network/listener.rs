//! A listener and its queue.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use rudy_net::network::Listening;
use rudy_net::transport::Stream;
use rudy_service::Peer;

use super::SimNetwork;
use super::end::End;

/// A listener. Its clones share the queue.
pub struct Listener {
    network: &'static SimNetwork,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(End, Peer)>,
    wakers: Vec<Waker>,
    has_stopped: bool,
    is_closed: bool,
}

impl Listener {
    pub(super) fn new(network: &'static SimNetwork) -> Self {
        Self { network, state: Mutex::default() }
    }

    pub(super) fn is_queueing(&self) -> bool {
        !self.state.lock().has_stopped
    }

    pub(super) fn queue(&self, end: End, peer: Peer) {
        let mut state = self.state.lock();
        state.queue.push_back((end, peer));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Accepts the next connection, for a listener that is not the server's.
    pub async fn accept(&self) -> End {
        poll_fn(|cx| self.poll_next(cx)).await.0
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<(End, Peer)> {
        let mut state = self.state.lock();
        if let Some(next) = state.queue.pop_front() {
            return Poll::Ready(next);
        }
        // Two processes may share a listener.
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl Listening for Listener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        if self.state.lock().queue.is_empty() {
            return self.poll_next(cx).map(|_| unreachable!("the queue is empty"));
        }
        // accept(2) needs a descriptor before it looks at the queue.
        self.network.check_descriptors()?;
        self.poll_next(cx).map(|(end, peer)| {
            let stream: Stream = Stream::Other(Box::new(end.of_server()));
            Ok((stream, peer))
        })
    }

    fn stop_queueing(&self) {
        self.state.lock().has_stopped = true;
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let queue = std::mem::take(&mut state.queue);
        drop(state);
        for (end, _) in queue {
            end.reset_on_close();
        }
    }

    fn is_listening(&self) -> bool {
        !self.state.lock().is_closed
    }
}
