//! Where a connection is polled: what makes one engine different from another.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::JoinHandle;

use super::ServiceSource;
use super::worker_runner::OpenConnection;
use crate::Peer;
use crate::driver::{self, ConnectionContext, Serve};
use crate::transport::Stream;

/// Has connections served. One for all runners of an engine.
pub(super) trait Spawner: Clone + Send + Sync + 'static {
    /// Serves a connection to its end, without waiting for it, given its peer and its number. Called on the runtime of its runner. What is returned ends when the
    /// connection no longer waits for a thread: until then further ones wait in the kernel's queue.
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>>;
}

/// A task for each connection on the runtime that accepted it.
#[derive(Clone)]
pub(super) struct Tasks;

impl Spawner for Tasks {
    fn spawn<S: ServiceSource>(
        &self,
        io: Stream,
        client: (Peer, u64),
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) -> Option<JoinHandle<()>> {
        let serving = driver::serve(io, client, context);
        tokio::spawn(Connection { serving, open });
        None
    }
}

/// A connection being served, and its permit. Not an `async` block: that would hold the future twice, once as what
/// it was made from and once as what it waits for, and idle connections are what memory goes to.
pub(super) struct Connection<S: ServiceSource> {
    pub(super) serving: Serve<S>,
    pub(super) open: OpenConnection,
}

impl<S: ServiceSource> Future for Connection<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { serving, open } = &mut *self;
        serving.poll_counted(cx, &mut |limits, peer| open.count_for_address(limits, peer))
    }
}
