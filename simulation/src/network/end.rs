//! An end of a connection, for the server and for those that talk to it.

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rudy_net::transport::{PeerClose, Transport, Wire};
use rudy_service::{LocalAddress, LocalAddressCache};
use rudy_socket::close::CloseMode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;

use super::pipe::{Connection, Side};

/// How much of a file is sent at a time.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// An end of a connection. Dropping it closes it.
pub struct End {
    connection: Arc<Connection>,
    side: Side,
    address: SocketAddr,
    resets: AtomicBool,
    /// The descriptor of a process.
    descriptor: Option<u64>,
}

impl End {
    pub(super) fn new(connection: Arc<Connection>, side: Side) -> Self {
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { connection, side, address, resets: AtomicBool::new(false), descriptor: None }
    }

    pub(super) fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Marks the end as one of the server, which has a descriptor for it.
    pub(super) fn of_server(mut self) -> Self {
        self.descriptor = Some(self.connection.network.take_descriptor(&self.connection, self.side));
        self
    }

    /// Returns the number of the connection.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.connection.number
    }

    /// Makes the drop send a reset.
    pub fn reset_on_close(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    /// Ends the direction from this end, and resets the connection after a pause, also if the end is dropped before.
    pub(crate) fn end_and_reset(&self, pause: Duration) -> impl Future<Output = ()> + use<> {
        let (connection, side) = (self.connection.clone(), self.side);
        async move {
            // Fails if the other end is gone.
            let _ = connection.stop_writing(side);
            sleep(pause).await;
            connection.close(side, true);
        }
    }

    fn poll_read_into(&self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = ready!(self.connection.poll_read(self.side, cx, buffer.initialize_unfilled()))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let network = self.connection.network;
        if self.descriptor.is_some_and(|number| !network.return_descriptor(number)) {
            return;
        }
        self.connection.close(self.side, self.resets.load(Ordering::Relaxed));
    }
}

impl Wire for End {
    fn local_address<'c>(&'c self, _: &'c LocalAddressCache) -> LocalAddress<'c> {
        LocalAddress::known(Some(self.address))
    }

    fn peer_close(&self) -> PeerClose {
        self.connection.peer_close(self.side)
    }

    fn send_first(&self, message: &[u8]) {
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = self.connection.poll_write(self.side, cx, &[IoSlice::new(message)]);
    }

    fn limit_unsent(&self, _: u32) {}

    fn stop_writing(&self) -> io::Result<()> {
        self.connection.stop_writing(self.side)
    }

    fn finish(&self, mode: CloseMode, has_stopped_writing: bool, has_drained: bool) {
        match mode {
            CloseMode::PeerClosed => {}
            CloseMode::Reset => self.reset_on_close(),
            CloseMode::Linger | CloseMode::NoLinger => {
                if !has_stopped_writing {
                    // Fails if the peer is gone.
                    let _ = self.stop_writing();
                }
                if !has_drained {
                    self.connection.discard(self.side);
                }
            }
        }
    }
}

impl Transport for End {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_read_into(cx, buffer)
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_write(self.side, cx, slices)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut piece = vec![0; length.min(FILE_PIECE_BYTES)];
        let read = file.read_at(&mut piece, offset)?;
        match read {
            0 => Poll::Ready(Ok(0)),
            read => self.connection.poll_write(self.side, cx, &[IoSlice::new(&piece[..read])]),
        }
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stop_writing())
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.connection.unacknowledged(self.side) as u64)
    }

    fn has_unread(&self) -> bool {
        self.connection.unread(self.side) > 0
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_into(cx, buffer)
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(self.side, cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.connection.stop_writing(self.side))
    }
}
