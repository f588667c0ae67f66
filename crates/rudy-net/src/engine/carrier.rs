//! How a connection is carried: what makes one engine different from another.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::net::{TcpStream, UnixStream};

use super::Source;
use super::lane::OpenConnection;
use crate::Client;
use crate::connection::{self, ConnectionContext};
use crate::transport::{Socket, Transport};

/// A socket as it was accepted, registered with the runtime of the lane.
pub(super) trait Accepted: Transport + Socket {
    /// The socket by itself, which no runtime watches and which blocks.
    fn into_blocking(self) -> io::Result<socket2::Socket>;
}

impl Accepted for TcpStream {
    fn into_blocking(self) -> io::Result<socket2::Socket> {
        let socket = socket2::Socket::from(self.into_std()?);
        socket.set_nonblocking(false)?;
        Ok(socket)
    }
}

impl Accepted for UnixStream {
    fn into_blocking(self) -> io::Result<socket2::Socket> {
        let socket = socket2::Socket::from(self.into_std()?);
        socket.set_nonblocking(false)?;
        Ok(socket)
    }
}

/// Carries connections. One for all lanes of an engine.
pub(super) trait Carrier: Send + Sync + 'static {
    /// Whether one more connection can be carried.
    fn has_room(&self) -> bool {
        true
    }

    /// Ready when there is room. Until then connections wait in the kernel's queue.
    fn room(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Serves a connection to its end, without waiting for it. Called on the runtime of its lane.
    fn carry<T: Accepted, S: Source>(
        &self,
        io: T,
        client: Client,
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    );

    /// Connections are to end after the answer under way: wakes what no timer wakes.
    fn finish(&self) {}

    /// Connections whose listener is closed are to end after the response in progress: as [`Self::finish`].
    fn finish_those_of_closed_listeners(&self) {}

    /// Cuts what a dropped runtime does not.
    fn cut(&self) {}
}

/// A task for each connection on the runtime that accepted it.
pub(super) struct Tasks;

impl Carrier for Tasks {
    fn carry<T: Accepted, S: Source>(
        &self,
        io: T,
        client: Client,
        context: Arc<ConnectionContext<S>>,
        open: OpenConnection,
    ) {
        let serving = connection::serve(io, client, context);
        tokio::spawn(Connection { serving, open });
    }
}

pin_project! {
    /// A connection being served, and its place. Not an `async` block: that would hold the future twice, once as what
    /// it was made from and once as what it waits for, and idle connections are what memory goes to.
    pub(super) struct Connection<F> {
        #[pin]
        pub(super) serving: F,
        pub(super) open: OpenConnection,
    }
}

impl<F: Future<Output = ()>> Future for Connection<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().serving.poll(cx)
    }
}
