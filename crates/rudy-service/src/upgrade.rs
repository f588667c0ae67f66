//! A connection that has changed to another protocol, for the handler of that protocol.

use std::pin::Pin;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

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
}

/// A connection without HTTP, of any transport.
pub type UpgradedIo = Box<dyn UpgradedConnection>;
