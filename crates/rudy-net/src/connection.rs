//! A connection without an engine.

use std::sync::Arc;

use rudy_service::listen_address::Address;
use rudy_service::{Peer, ServiceSource};

use crate::driver::{self, ConnectionContext};
use crate::transport::Stream;
use crate::worker::Worker;

/// Serves one connection over any transport, from its first byte to its close, for simulations and tests. `address` has the options of its
/// listener. Dropping the future closes the connection.
///
/// The worker counts the connection. What only an engine does is missing: the limits on all connections, and the timers of the worker, so
/// that no timeout wakes the connection. It notices one that has passed when something else wakes it.
pub async fn serve<S: ServiceSource>(
    io: Stream,
    peer: Peer,
    address: Arc<Address>,
    source: Arc<S>,
    worker: Arc<Worker>,
) {
    let _open = Open::count(&worker);
    let client = (peer, worker.counters.accepted.get());
    let context = ConnectionContext { worker: worker.clone(), source, listener: Arc::default(), address };
    driver::serve(io, client, Arc::new(context)).await;
}

/// Counts an open connection.
struct Open<'w>(&'w Worker);

impl<'w> Open<'w> {
    fn count(worker: &'w Worker) -> Self {
        worker.counters.accepted.add(1);
        Self(worker)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counters.closed.add(1);
    }
}
