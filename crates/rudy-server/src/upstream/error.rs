//! Why a request gets no connection.

use std::fmt;
use std::io;
use std::time::Duration;

use super::Endpoint;

/// Why a request got no connection.
#[derive(Debug)]
pub(crate) enum CheckoutError {
    /// As many requests wait as [`UpstreamOptions::queue`](super::UpstreamOptions::queue) allows.
    QueueFull(usize),
    /// No connection became free within [`UpstreamOptions::queue_timeout`](super::UpstreamOptions::queue_timeout).
    QueueTimeout(Duration),
    /// Waiting requests were sent away.
    Rejected,
    /// The upstream accepts no connection.
    Connect(Endpoint, io::Error),
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull(queue) => write!(f, "{queue} requests wait for a connection already (`queue`)"),
            Self::QueueTimeout(time) => {
                write!(f, "no connection became free within {time:?} (`queue_timeout`)")
            }
            Self::Rejected => f.write_str("there is no process, and none can be started"),
            Self::Connect(address, error) => {
                write!(f, "cannot connect to {address}: {error}; does the app run?")
            }
        }
    }
}
