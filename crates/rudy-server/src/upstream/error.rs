//! Errors of a checkout.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::Endpoint;

/// Why a request got no connection.
#[derive(Debug)]
pub(crate) enum CheckoutError {
    /// The queue is full ([`UpstreamOptions::queue`](super::UpstreamOptions::queue)).
    QueueFull(usize),
    /// No connection became free within [`UpstreamOptions::queue_timeout`](super::UpstreamOptions::queue_timeout).
    QueueTimeout(Duration),
    /// All members are drained.
    Drained,
    /// There is no member, because the name with their SRV records does not resolve: this line says why.
    Unresolved(Arc<String>),
    /// The waiting requests were rejected.
    Rejected,
    /// No connection to the upstream could be opened.
    Connect(Endpoint, io::Error),
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull(queue) => {
                write!(f, "the queue is full: {queue} requests are waiting for a connection (`queue`)")
            }
            Self::QueueTimeout(time) => {
                write!(f, "no connection became free within {time:?} (`queue_timeout`)")
            }
            Self::Drained => f.write_str("all upstreams are drained (`rudy upstreams up NAME`)"),
            Self::Unresolved(why) => f.write_str(why),
            Self::Rejected => f.write_str("no process is running, and none can be started"),
            Self::Connect(address, error) => {
                write!(f, "cannot connect to {address}: {error}; is the app running?")
            }
        }
    }
}
