//! What the pool has for a request: a connection of HTTP/1.1, or a stream of HTTP/2.
//!
//! [`Connections`] has the connections of a proxy, by upstream and worker. A request gets a stream of an open connection, or waits while the
//! first one opens another.

mod open;

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use http::HeaderMap;
use rudy_client::{self, Dial, SocketConnection as _};
use rudy_service::Piped;

pub(super) use self::open::{Connections, Speaks};
use super::http1::Http1Connection;
use super::http2::Http2Stream;

/// A connection to an upstream for one request.
#[derive(Debug)]
pub(super) enum Connection {
    /// It has no other requests. In a box that lives as long as the connection, because each request moves the connection a dozen times.
    Http1(Box<Http1Connection>),
    /// It is a stream of a connection that many requests share.
    Http2(Http2Stream),
}

impl Connection {
    /// Resets the connection when it is dropped, unless others share it.
    pub(super) fn abort(&mut self) {
        if let Self::Http1(connection) = self {
            connection.socket().abort();
        }
    }
}

impl rudy_client::Connection for Connection {
    type Shared = Connections;

    async fn open<'a>(shared: &'a Connections, dial: Dial<'a>) -> io::Result<Self> {
        shared.open(dial).await
    }

    fn is_usable(&mut self, check_kernel: bool) -> bool {
        match self {
            Self::Http1(connection) => connection.is_usable(check_kernel),
            Self::Http2(stream) => stream.is_usable(check_kernel),
        }
    }

    fn address(&mut self) -> Option<SocketAddr> {
        match self {
            Self::Http1(connection) => connection.socket().address(),
            Self::Http2(stream) => stream.address(),
        }
    }

    fn has_served(&self) -> bool {
        matches!(self, Self::Http2(stream) if stream.has_served())
    }

    fn clear_waker(&mut self) {
        match self {
            Self::Http1(connection) => connection.socket().clear_waker(),
            // It has none after the end of its request.
            Self::Http2(_) => {}
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Http1(connection) => connection.socket().poll_write(cx, bytes),
            Self::Http2(stream) => stream.poll_send(cx, bytes),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Http1(connection) => connection.socket().poll_flush(cx),
            // The task of the connection sends it.
            Self::Http2(_) => Poll::Ready(Ok(())),
        }
    }

    fn finish(&mut self, trailers: Option<&HeaderMap>) -> io::Result<()> {
        let Self::Http2(stream) = self else { return Ok(()) };
        stream.finish(trailers)
    }

    fn is_open(&self) -> bool {
        !matches!(self, Self::Http2(stream) if !stream.is_open())
    }

    fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let Self::Http1(connection) = self else { return None };
        connection.take_piped(max)
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}
