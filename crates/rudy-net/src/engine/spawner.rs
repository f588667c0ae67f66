//! Decides on which thread a connection is polled, which is what distinguishes the engines.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rudy_quic::Keys;
use rudy_service::Peer;
use tokio::task::JoinHandle;

use super::ServiceSource;
use super::worker_runner::OpenConnection;
use crate::driver::{self, ConnectionContext, Serve};
use crate::transport::Stream;

/// Spawns connections. One value serves all workers of an engine.
pub(super) trait Spawner: Clone + Send + Sync + 'static {
    /// Spawns a connection with its peer address and its number, on the runtime of its worker. The returned
    /// task ends when the connection has a thread. Until then the worker accepts no further connections.
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>>;

    /// Returns the secrets of QUIC, if the workers also serve that: its connections stay on the thread of their endpoint.
    fn quic_keys(&self) -> Option<&Keys> {
        None
    }
}

/// Spawns a task for each connection, on the runtime that accepted it.
#[derive(Clone)]
pub(super) struct Tasks {
    pub(super) quic_keys: Option<Keys>,
}

impl Spawner for Tasks {
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>> {
        let serving = driver::serve(io, client, context);
        rudy_runtime::spawn(Connection { serving, open });
        None
    }

    fn quic_keys(&self) -> Option<&Keys> {
        self.quic_keys.as_ref()
    }
}

/// A connection with its permit. Not an `async` block, which would store the future twice, as argument and as
/// awaited value. Idle connections dominate the memory use.
pub(super) struct Connection<S: ServiceSource> {
    pub(super) serving: Serve<S>,
    pub(super) open: OpenConnection,
}

impl<S: ServiceSource> Future for Connection<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { serving, open } = &mut *self;
        serving.poll_with_count(cx, &mut |limits, peer| open.count_for_address(limits, peer))
    }
}
