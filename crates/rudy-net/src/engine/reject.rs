//! Sending a connection away that there is no room for: an answer, and a close that lets it arrive.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::sync::Semaphore;

use crate::Limits;
use crate::close::{CloseMode, LingerLimits, close, close_at_once};
use crate::transport::Stream;

/// Connections that are sent away in order at the same time; beyond it they are closed at once, and the answer may be lost
/// to a reset. Each costs a descriptor of the reserve and a task, so their number must not grow with the flood.
const LINGERING_MAX: usize = 128;

/// How long a connection that is sent away may take to hang up: a round trip to the other side of the world, twice.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// RFC 9110 §15.6.4: 503 with Retry-After says that this will pass.
pub(crate) const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\n\
    \r\n\
    The server has no room for more connections. Please retry.";

/// Sends connections away, those of all cores.
pub(super) struct Rejecter {
    lingering: Arc<Semaphore>,
}

impl Rejecter {
    pub(super) fn new() -> Self {
        Self { lingering: Arc::new(Semaphore::new(LINGERING_MAX)) }
    }

    /// Answers 503 and closes in order, or at once where too many are closing already. Must be called on a tokio runtime.
    pub(super) fn reject(&self, io: impl Into<Stream>, limits: &Limits) {
        let io = io.into();
        let Ok(permit) = self.lingering.clone().try_acquire_owned() else {
            return Self::reject_at_once(io);
        };
        send_unavailable(&io);
        let linger = limits.linger();
        let linger = LingerLimits { time: linger.time.min(LINGER_TIMEOUT), ..linger };
        tokio::spawn(async move {
            close(io, CloseMode::Linger, linger).await;
            drop(permit);
        });
    }

    /// Answers 503 and closes at once, because a descriptor or a task is too much to keep.
    pub(super) fn reject_at_once(io: impl AsFd) {
        send_unavailable(&io);
        close_at_once(io, CloseMode::Linger);
    }
}

/// Best effort: the send buffer of a new connection is empty, so all of it is taken, or the peer has gone.
fn send_unavailable(io: impl AsFd) {
    let _ = rustix::net::send(io, UNAVAILABLE, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(UNAVAILABLE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
