//! A connection that has changed to another protocol, for the handler of that protocol.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use crate::active::ActiveEntry;
use crate::close::{CloseMode, close_at_once};
use crate::transport::Stream;
use crate::worker::Worker;

/// Takes over the connection after a `101 Switching Protocols`.
///
/// The connection polls the future, and polls it again when the server begins to stop. Like a handler,
/// the future may await a [`Deadline`](crate::Deadline).
pub type Upgrade = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A connection that has changed to another protocol.
pub struct Upgraded {
    /// Input that arrived after the request; it precedes the input from `io`.
    pub unread: Bytes,
    /// The connection. Dropping it closes the connection properly.
    pub io: UpgradedIo,
}

/// The connection, for the handler of the new protocol. Dropping it returns the connection to the driver,
/// which closes it.
///
/// The worker's counters include its bytes.
pub struct UpgradedIo {
    /// `None` only after `drop`.
    io: Option<Stream>,
    worker: Arc<Worker>,
    /// The place among the active exchanges.
    entry: Option<Arc<ActiveEntry>>,
    give_back: Option<oneshot::Sender<Stream>>,
}

impl UpgradedIo {
    /// Creates the connection of a worker, and the receiver to which its drop returns it. `entry` is its place among the active exchanges.
    pub(crate) fn new(
        io: Stream,
        worker: Arc<Worker>,
        entry: Option<Arc<ActiveEntry>>,
    ) -> (Self, oneshot::Receiver<Stream>) {
        let (give_back, back) = oneshot::channel();
        (Self { io: Some(io), worker, entry, give_back: Some(give_back) }, back)
    }

    /// Whether the server is stopping, so that the connection should end soon.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.worker.is_stopping()
    }

    fn io(&mut self) -> io::Result<&mut Stream> {
        self.io.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for UpgradedIo {
    fn drop(&mut self) {
        if let (Some(io), Some(give_back)) = (self.io.take(), self.give_back.take())
            && let Err(io) = give_back.send(io)
        {
            // The driver is gone: the server is stopping, or there was a panic.
            close_at_once(io, CloseMode::Reset);
        }
    }
}

impl AsyncRead for UpgradedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.io()?.poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.worker.counters.received_bytes.add(read as u64);
        if let Some(entry) = &self.entry {
            entry.add_received(read);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpgradedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.io()?.poll_write(cx, slices, false))?;
        self.worker.counters.sent_bytes.add(written as u64);
        if let Some(entry) = &self.entry {
            entry.add_sent(written);
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_shutdown(cx)
    }
}
