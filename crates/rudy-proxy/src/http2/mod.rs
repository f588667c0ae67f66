//! Connections to upstreams over HTTP/2, which many requests share.
//!
//! - [`Http2Connection`] is a connection: the state of the protocol, the parts of responses that were not taken yet, and frames to send. A
//!   task for each connection ([`task`]) owns its reads and writes; it runs on the worker whose requests use it.
//! - [`Http2Stream`] is what a request has: it reads from and writes to that state, and wakes the task. Dropping it cancels the request.
//!
//! The window of the connection opens when data is received, and that of a stream when its request takes the data. So a stream stores at
//! most its own window, and a client that does not read delays no other.

mod connection;
mod stream;
mod task;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use rudy_http::{Limits, h2};

pub(super) use self::connection::Http2Connection;
pub(super) use self::stream::{Http2Stream, Parts};

/// The size to which the window of a stream may grow, which a client that does not read can occupy. At a round trip of 1 ms, as in a data
/// center, 1 MiB is a gigabyte per second.
const STREAM_WINDOW_BYTES_MAX: u32 = 1024 * 1024;

/// The limits of a connection. Those of heads are as for HTTP/1.1.
static LIMITS: LazyLock<Limits> = LazyLock::new(|| Limits {
    http2: h2::Limits { stream_window_bytes_max: STREAM_WINDOW_BYTES_MAX, ..h2::Limits::DEFAULT },
    ..super::http1::LIMITS.clone()
});
