//! What an endpoint has received for a connection, which handles it in its turn.

use std::task::{Context, Waker};

use parking_lot::Mutex;
use rudy_quic::quinn_proto::ConnectionEvent;

/// Datagrams that wait for their connection, such as for the turn of its handshake. When there are more, they are dropped.
const ARRIVED_MAX: usize = 512;

/// What the endpoint has received for a connection.
#[derive(Default)]
pub(super) struct Deliveries(Mutex<Arrived>);

#[derive(Default)]
struct Arrived {
    events: Vec<ConnectionEvent>,
    waker: Option<Waker>,
}

impl Deliveries {
    /// Takes what has arrived. The task is woken when there is more.
    pub(super) fn take(&self, cx: &Context<'_>) -> Vec<ConnectionEvent> {
        let mut arrived = self.0.lock();
        match &mut arrived.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => arrived.waker = Some(cx.waker().clone()),
        }
        std::mem::take(&mut arrived.events)
    }

    /// Whether something has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        !self.0.lock().events.is_empty()
    }

    pub(super) fn push(&self, event: ConnectionEvent) {
        let mut arrived = self.0.lock();
        if arrived.events.len() < ARRIVED_MAX {
            arrived.events.push(event);
        }
        let waker = arrived.waker.take();
        drop(arrived);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
