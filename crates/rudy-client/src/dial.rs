//! Opens connections to a member.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use rudy_tls::ClientTls;

use super::{Connection, Endpoint, Socket, SocketConnection, UpstreamOptions};

/// A member to which a connection is opened.
#[derive(Clone, Copy)]
pub struct Dial<'a> {
    /// The id of the member.
    pub member: u64,
    pub(super) endpoint: &'a Endpoint,
    pub(super) tls: Option<&'a ClientTls>,
    pub(super) options: &'a UpstreamOptions,
    /// Whether the request needs a connection of its own.
    pub is_exclusive: bool,
    /// What is sent before anything else.
    pub(super) preamble: Option<&'a [u8]>,
}

impl Dial<'_> {
    /// Opens a socket, encrypted if the member needs TLS.
    ///
    /// # Errors
    ///
    /// There is no connection, or no session, in time.
    pub async fn socket(&self) -> io::Result<Socket> {
        self.socket_with(self.tls).await
    }

    /// As [`Self::socket`], with other settings for TLS.
    pub async fn socket_with(&self, tls: Option<&ClientTls>) -> io::Result<Socket> {
        let time = self.timeout();
        let mut socket = self.endpoint.connect(time).await?;
        if let Some(preamble) = self.preamble {
            socket.send_all(preamble).await?;
        }
        match tls {
            Some(tls) => socket.start_tls(tls, time).await,
            None => Ok(socket),
        }
    }

    /// How long each part of opening a connection may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.options.connect_timeout
    }

    /// How long an idle connection stays open.
    #[must_use]
    pub fn idle_timeout(&self) -> Duration {
        self.options.idle_timeout
    }

    /// Returns whether the member still has the address of a connection.
    #[must_use]
    pub fn still_has(&self, address: Option<SocketAddr>) -> bool {
        self.endpoint.still_has(address)
    }
}

impl<C: SocketConnection> Connection for C {
    type Shared = ();

    async fn open<'a>((): &'a (), dial: Dial<'a>) -> io::Result<Self> {
        dial.socket().await.map(Self::new)
    }

    fn is_usable(&mut self, check_kernel: bool) -> bool {
        self.socket().is_usable(check_kernel)
    }

    fn address(&mut self) -> Option<SocketAddr> {
        self.socket().address()
    }

    fn clear_waker(&mut self) {
        self.socket().clear_waker();
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket().poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_flush(cx)
    }
}
