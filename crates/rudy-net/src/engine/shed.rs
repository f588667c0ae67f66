//! Sending a connection away that there is no room for: an answer, and a close that lets it arrive.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

use crate::transport::Duplex;

/// Connections that one core sends away in order at the same time; beyond it they are closed at once, and the answer
/// may be lost to a reset. Each costs a descriptor and a task, so their number must not grow with the flood.
const LINGERING_MAX: usize = 64;

/// How long a connection that is sent away may take to hang up: a round trip to the other side of the world, twice.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// How much it may go on sending meanwhile, in bytes: a request head of the default limit, a few times over.
const LINGER_BYTES: usize = 64 * 1024;

/// RFC 9110 §15.6.4: 503 with Retry-After says that this will pass.
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Retry-After: 1\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 58\r\n\
    \r\n\
    The server has no room for more connections. Please retry.";

/// Sends connections of one core away.
pub(super) struct Shedder {
    lingering: Arc<Semaphore>,
}

impl Shedder {
    pub(super) fn new() -> Self {
        Self { lingering: Arc::new(Semaphore::new(LINGERING_MAX)) }
    }

    /// Answers 503 and closes in order, if not too many are closing already. Must be called on a tokio runtime.
    pub(super) fn send_away<T: Duplex + AsFd + 'static>(&self, io: T) {
        answer(&io);
        if let Ok(permit) = self.lingering.clone().try_acquire_owned() {
            tokio::spawn(async move {
                linger(io).await;
                drop(permit);
            });
        }
    }

    /// Answers 503 and closes at once, because the descriptor is needed.
    pub(super) fn send_away_at_once<T: AsFd>(io: &T) {
        answer(io);
        // A close with unread bytes is a reset, which destroys the answer: most requests have come as one packet.
        let _ = rustix::net::recv(io, &mut [0; 4096], RecvFlags::DONTWAIT);
    }
}

/// Writes the answer and says that nothing follows. Best effort: the send buffer of a new connection is empty, so all of
/// it is taken, or the peer has gone.
fn answer<T: AsFd>(io: &T) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if rustix::net::send(io, UNAVAILABLE, flags).is_ok() {
        let _ = rustix::net::shutdown(io, Shutdown::Write);
    }
}

/// RFC 9112 §9.6: read on until the peer hangs up, within bounds, so that no reset overtakes the answer.
async fn linger<T: Duplex>(mut io: T) {
    let read = async {
        let mut buffer = [0; 1024];
        let mut total = 0;
        while let Ok(length @ 1..) = io.read(&mut buffer).await {
            total += length;
            if total > LINGER_BYTES {
                break;
            }
        }
    };
    // Over time or not: it is closed now.
    let _ = tokio::time::timeout(LINGER_TIME, read).await;
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
