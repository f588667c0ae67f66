//! Rejects connections over a limit: sends 503, and closes so that the response arrives.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::sync::Semaphore;

use crate::Limits;
use crate::close::{CloseMode, LingerLimits, close, close_at_once};
use crate::transport::Stream;

/// Maximum number of rejected connections that linger at the same time. Further ones close without lingering,
/// and a reset may destroy the response. Each costs a reserved descriptor and a task, so a flood must not
/// increase their number.
const LINGERING_MAX: usize = 128;

/// How long a rejected client may take to acknowledge the response, and then to close: two round trips around the world.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// RFC 9110 §15.6.4: 503 with Retry-After means a temporary condition.
pub(crate) const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 64\r\n\
    \r\n\
    The server has reached its connection limit. Please retry later.";

/// Rejects connections of all cores.
pub(super) struct Rejecter {
    lingering: Arc<Semaphore>,
}

impl Rejecter {
    pub(super) fn new() -> Self {
        Self { lingering: Arc::new(Semaphore::new(LINGERING_MAX)) }
    }

    /// Sends 503, and closes with lingering if few connections linger. Must be called on a tokio runtime.
    pub(super) fn reject(&self, io: impl Into<Stream>, limits: &Limits) {
        let io = io.into();
        let Ok(permit) = self.lingering.clone().try_acquire_owned() else {
            return Self::reject_at_once(io);
        };
        send_unavailable(&io);
        let linger = limits.linger();
        let linger = LingerLimits {
            time: linger.time.min(LINGER_TIMEOUT),
            send_stall_timeout: linger.send_stall_timeout.min(LINGER_TIMEOUT),
            ..linger
        };
        tokio::spawn(async move {
            close(io, CloseMode::Linger, linger).await;
            drop(permit);
        });
    }

    /// Sends 503 and closes without lingering, for lack of descriptors or tasks.
    pub(super) fn reject_at_once(io: impl AsFd) {
        send_unavailable(&io);
        close_at_once(io, CloseMode::Linger);
    }
}

/// Best effort: the send buffer of a new connection is empty, so either the kernel accepts the whole response
/// or the peer is gone.
fn send_unavailable(io: impl AsFd) {
    let _ = rustix::net::send(io, UNAVAILABLE, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_matches_the_body() {
        let text = std::str::from_utf8(UNAVAILABLE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
