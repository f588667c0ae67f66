//! The events of a connection.

use std::time::Instant;

use http::HeaderMap;
use rudy_message::client::ResponseHead;

use crate::Failure;
use crate::transport::Transport;

/// Receives the events of a connection, with the time of each.
pub trait Observer {
    /// TCP is connected.
    fn connected(&mut self, _now: Instant, _transport: &Transport) {}

    /// The TLS handshake is complete.
    fn tls_established(&mut self, _now: Instant, _transport: &Transport) {}

    /// HTTP/1.1: bytes of the response were received.
    fn received(&mut self, _bytes: usize, _now: Instant) {}

    /// HTTP/2: bytes were received, of any stream.
    fn received_frames(&mut self, _bytes: usize, _now: Instant) {}

    /// HTTP/2: the next events are those of this stream, whose bytes were received at this time.
    fn stream(&mut self, _stream: u32, _now: Instant) {}

    /// HTTP/2: the stream has failed. Other streams of the connection continue.
    fn failed(&mut self, _failure: Failure, _now: Instant) {}

    /// An interim response (1xx).
    fn informational(&mut self, _head: &ResponseHead<'_>) {}

    /// A response begins.
    fn head(&mut self, head: &ResponseHead<'_>);

    /// A part of the body.
    fn data(&mut self, bytes: &[u8]);

    /// The end of a chunk, or of a DATA frame; in a body without chunks, the end of the available data.
    fn chunk(&mut self) {}

    /// The response is complete.
    fn end(&mut self, trailers: Option<&HeaderMap>, now: Instant);
}
