//! A connection that has changed to another protocol: bytes pass in both directions until one end closes it.
//!
//! An idle tunnel has no buffer: it reads into one of the thread, and stores only what the other end does not accept at once.

mod direction;
mod end;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http_body::Body as _;
use rudy_client::Checkout;
use rudy_service::{
    BodyError, BodyPiece, BodyStream, Deadline, RequestBody, Upgraded, UpgradedIo, poll_time,
};

use self::direction::{Direction, Lost, READ};
use self::end::End;
use super::connection::Connection;
use super::exchange::Switched;

/// How much a tunnel may move in one poll, so that it does not delay the other connections of its core.
const POLL_BYTES_MAX: usize = 512 * 1024;

/// The longest time without data after one end has closed its direction: the protocol of the tunnel has ended, and an end that does not
/// close the connection would occupy it.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of a tunnel.
#[derive(Debug, Clone, Copy)]
pub(super) struct TunnelLimits {
    /// The longest time without data.
    pub(super) idle: Duration,
    /// The longest time without data after one end has closed its direction.
    pub(super) closing: Duration,
    /// The longest time in total.
    pub(super) lifetime: Option<Duration>,
    /// Whether it ends when the server begins to stop, instead of after `shutdown_timeout`.
    pub(super) ends_at_stop: bool,
}

impl TunnelLimits {
    /// The limits of a tunnel of HTTP, such as a WebSocket.
    pub(super) fn of_http(idle: Duration, lifetime: Option<Duration>) -> Self {
        Self { idle, closing: idle.min(CLOSING_TIMEOUT), lifetime, ends_at_stop: true }
    }
}

/// Why a tunnel has ended.
#[derive(Debug)]
pub(super) enum TunnelEnd {
    /// Both directions have ended.
    Complete,
    /// The connection to the client is lost.
    ClientLost,
    /// The connection to the upstream is lost.
    UpstreamLost(io::Error),
    /// There was no data for this long.
    Idle(Duration),
    /// The tunnel was open for as long as it may be.
    Lifetime(Duration),
    /// The server stops.
    Stopped,
}

/// The upstream's end of a tunnel, with the limits of both.
struct Upstream {
    checkout: Checkout<Connection>,
    limits: TunnelLimits,
    idle: Deadline,
    lifetime: Option<Deadline>,
}

/// A tunnel for a client of HTTP/1.1, which has left HTTP.
pub(super) struct Tunnel {
    client: UpgradedIo,
    upstream: Upstream,
    to_client: Direction,
    to_upstream: Direction,
}

/// A tunnel for a client of HTTP/2: the bodies of its request and its response are the directions (RFC 8441 §5).
pub(super) struct TunnelBody {
    upload: Upload,
    upstream: Upstream,
    /// Bytes for the client that were received with the response.
    first: Bytes,
    /// Whether nothing follows them.
    has_ended: bool,
}

/// The direction from a client of HTTP/2 to the upstream.
struct Upload {
    request: RequestBody,
    /// Bytes that were received and not written yet.
    pending: Bytes,
    /// Whether the upstream was notified of the end.
    is_over: bool,
}

impl Upload {
    fn new(request: RequestBody) -> Self {
        Self { request, pending: Bytes::new(), is_over: false }
    }

    /// Sends what the client has sent. Returns whether it has moved anything.
    fn poll(&mut self, cx: &mut Context<'_>, to: &mut impl End) -> Result<bool, BodyError> {
        let mut has_moved = false;
        while !self.is_over {
            while !self.pending.is_empty() {
                let Poll::Ready(sent) = to.poll_send(cx, &self.pending) else { return Ok(has_moved) };
                self.pending.advance(sent?);
                has_moved = true;
            }
            // A session of TLS may have encrypted more than the socket has accepted, and the end must follow it.
            if to.poll_flush(cx)?.is_pending() {
                break;
            }
            let Poll::Ready(frame) = Pin::new(&mut self.request).poll_frame(cx) else { break };
            if let Some(frame) = frame.transpose()? {
                self.pending = frame.into_data().unwrap_or_default();
            } else {
                let _ = to.poll_finish(cx)?;
                self.is_over = true;
            }
        }
        Ok(has_moved)
    }
}

impl Upstream {
    fn new(checkout: Checkout<Connection>, limits: TunnelLimits) -> Self {
        let now = poll_time();
        let lifetime = limits.lifetime.map(|lifetime| Deadline::at(now + lifetime));
        Self { checkout, limits, idle: Deadline::at(now + limits.idle), lifetime }
    }

    fn end(&mut self) -> &mut Connection {
        self.checkout.connection()
    }

    /// Shortens the time without data, because one end has closed its direction.
    fn close_soon(&mut self) {
        if self.limits.idle > self.limits.closing {
            self.limits.idle = self.limits.closing;
            self.idle.set(poll_time() + self.limits.idle);
        }
    }

    /// Ready when a limit has been reached. `has_moved`: there was data in this poll.
    fn poll_limits(&mut self, cx: &mut Context<'_>, has_moved: bool) -> Poll<TunnelEnd> {
        if has_moved {
            self.idle.set(poll_time() + self.limits.idle);
        }
        if let Some(lifetime) = &mut self.lifetime
            && lifetime.poll_passed(cx).is_ready()
        {
            return Poll::Ready(TunnelEnd::Lifetime(self.limits.lifetime.unwrap_or_default()));
        }
        self.idle.poll_passed(cx).map(|()| TunnelEnd::Idle(self.limits.idle))
    }
}

impl Tunnel {
    /// Connects both ends.
    pub(super) fn new(client: Upgraded, switched: Switched, limits: TunnelLimits) -> Self {
        let Switched { mut checkout, received, has_ended } = switched;
        let can_pipe = client.io.accepts_piped() && checkout.connection().accepts_piped();
        Self {
            to_client: Direction::new(received, can_pipe).that_has_ended(has_ended),
            to_upstream: Direction::new(client.unread, can_pipe),
            client: client.io,
            upstream: Upstream::new(checkout, limits),
        }
    }

    /// Ready when both directions have ended, an end is lost, a limit is reached or the server stops.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TunnelEnd> {
        if self.upstream.limits.ends_at_stop && self.client.is_stopping() {
            return Poll::Ready(TunnelEnd::Stopped);
        }
        let Self { client, upstream, to_client, to_upstream } = self;
        let mut budget = POLL_BYTES_MAX;
        let end = upstream.end();
        let sent = to_upstream.poll(cx, client, end, &mut budget);
        let received = to_client.poll(cx, end, client, &mut budget);
        Poll::Ready(match (sent, received) {
            (Poll::Ready(Err(Lost::From(_))), _) | (_, Poll::Ready(Err(Lost::To(_)))) => {
                TunnelEnd::ClientLost
            }
            (Poll::Ready(Err(Lost::To(error))), _) | (_, Poll::Ready(Err(Lost::From(error)))) => {
                TunnelEnd::UpstreamLost(error)
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                client.complete();
                TunnelEnd::Complete
            }
            _ => {
                if to_upstream.is_over || to_client.is_over {
                    upstream.close_soon();
                }
                ready!(upstream.poll_limits(cx, budget < POLL_BYTES_MAX))
            }
        })
    }

    /// Returns how many bytes were sent to the upstream and to the client.
    pub(super) fn moved_bytes(&self) -> (u64, u64) {
        (self.to_upstream.sent_bytes, self.to_client.sent_bytes)
    }

    /// Whether the server is stopping.
    pub(super) fn is_stopping(&self) -> bool {
        self.client.is_stopping()
    }

    /// Resets both connections when they are dropped: an end that was lost has not received or sent everything.
    pub(super) fn abort(&mut self) {
        self.client.abort();
        self.upstream.end().abort();
    }
}

impl TunnelBody {
    /// Connects both ends.
    pub(super) fn new(request: RequestBody, switched: Switched, limits: TunnelLimits) -> Self {
        let Switched { checkout, received: first, has_ended } = switched;
        Self { upload: Upload::new(request), upstream: Upstream::new(checkout, limits), first, has_ended }
    }

    /// Sends what the client has sent. Returns whether it has moved anything.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        let has_moved = self.upload.poll(cx, self.upstream.end())?;
        if self.upload.is_over {
            self.upstream.close_soon();
        }
        Ok(has_moved)
    }

    fn poll_download(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(BodyPiece::Data(std::mem::take(&mut self.first)))));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        READ.with_borrow_mut(|buffer| {
            Poll::Ready(match ready!(self.upstream.end().poll_receive(cx, buffer)) {
                Ok(0) => None,
                Ok(received) => Some(Ok(BodyPiece::Data(Bytes::copy_from_slice(&buffer[..received])))),
                Err(error) => Some(Err(error.into())),
            })
        })
    }
}

impl BodyStream for TunnelBody {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        let has_moved = match self.poll_upload(cx) {
            Ok(has_moved) => has_moved,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let piece = self.poll_download(cx);
        if self.upstream.poll_limits(cx, has_moved || piece.is_ready()).is_ready() {
            return Poll::Ready(None);
        }
        piece
    }

    /// The client may send while it does not read.
    fn poll_blocked(&mut self, cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        let moved = self.poll_upload(cx);
        let has_moved = moved.as_ref().is_ok_and(|has_moved| *has_moved);
        if moved.is_err() || self.upstream.poll_limits(cx, has_moved).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn is_live(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// An end that encrypts all bytes at once, and sends them when there is room.
    #[derive(Default)]
    struct Encrypting {
        waiting: Vec<u8>,
        sent: Vec<u8>,
        has_room: bool,
        is_finished: bool,
    }

    impl End for Encrypting {
        fn poll_receive(&mut self, _cx: &mut Context<'_>, _buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_send(&mut self, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.waiting.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.has_room {
                self.sent.append(&mut self.waiting);
            }
            if self.waiting.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
        }

        fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_finished = true;
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn the_end_of_an_upload_follows_all_encrypted_bytes() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut upstream = Encrypting::default();
        let mut upload = Upload::new(RequestBody::whole(Bytes::from_static(b"last")));
        for has_moved in [true, false] {
            assert_eq!(upload.poll(cx, &mut upstream).unwrap(), has_moved);
            assert_eq!((upstream.waiting.as_slice(), upstream.is_finished), (&b"last"[..], false));
        }
        upstream.has_room = true;
        upload.poll(cx, &mut upstream).unwrap();
        assert_eq!((upstream.sent.as_slice(), upstream.is_finished), (&b"last"[..], true));
    }
}
