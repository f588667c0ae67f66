//! A connection that has changed to another protocol, for the handler of that protocol.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use rudy_tls::TlsSite;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Observer, Piped};

/// Takes over the connection after a `101 Switching Protocols`.
///
/// The connection polls the future, and polls it again when the server begins to stop. Like a handler,
/// the future may await a [`Deadline`](crate::Deadline).
pub type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A connection that has changed to another protocol.
pub struct Upgraded {
    /// Input that arrived after the request; it precedes the input from `io`.
    pub unread: Bytes,
    /// The connection. Dropping it closes the connection properly.
    pub io: UpgradedIo,
}

/// A connection without HTTP. Dropping it closes the connection properly.
pub trait UpgradedConnection: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// Whether the server is stopping, so that the connection should end soon.
    fn is_stopping(&self) -> bool;

    /// Moves up to `max` received bytes into a pipe. `None` if there are none as far as the runtime knows, and for a connection whose
    /// bytes are encrypted.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    fn take_piped(&mut self, _max: u64) -> io::Result<Option<Piped>> {
        Ok(None)
    }

    /// Whether [`Self::poll_send_piped`] works: the connection sends bytes as they are.
    fn accepts_piped(&self) -> bool {
        false
    }

    /// Sends bytes of a pipe, and returns their number.
    ///
    /// # Errors
    ///
    /// The connection is broken, or [does not accept](Self::accepts_piped) pipes.
    fn poll_send_piped(&mut self, _cx: &mut Context<'_>, _piped: &mut Piped) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Resets the connection when it is dropped, so that the peer does not take what it has received for everything.
    fn abort(&mut self) {}

    /// Only closes the descriptor when it is dropped, because both directions have ended.
    fn complete(&mut self) {}
}

/// What takes a connection that does not speak HTTP, from its first byte on.
pub struct Takeover {
    /// Serves the connection.
    pub upgrade: Upgrade,
    /// The observer of the connection, which `upgrade` notifies of the end. With it, the connection is among the active exchanges.
    pub observer: Arc<dyn Observer>,
}

/// How a connection with TLS continues after the first message of its client.
#[derive(Debug, Clone)]
pub enum TlsChoice {
    /// The session ends here, with these settings.
    Site(Arc<TlsSite>),
    /// The session is that of another server, to which [`Service::take_over`](crate::Service::take_over) passes the bytes.
    Pass,
}

/// A connection without HTTP, of any transport.
pub type UpgradedIo = Box<dyn UpgradedConnection>;
