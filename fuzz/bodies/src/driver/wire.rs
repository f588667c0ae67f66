//! A transport in memory, whose client decides how much arrives and how much the socket accepts.

use std::fs::File;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rudy_net::transport::Transport;
use tokio::io::ReadBuf;

/// What a session such as TLS encrypts at once.
const SESSION_BYTES: usize = 16 * 1024;

/// What both ends of a connection share.
#[derive(Default)]
pub(super) struct Wire {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// How many bytes the socket accepts.
    room: usize,
    has_ended: bool,
    is_reset: bool,
    /// Whether the server has stopped to write.
    pub(super) is_shut_down: bool,
    /// The number of reads and writes that have done something.
    pub(super) calls: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Wire {
    /// Bytes of the client arrive.
    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        self.to_server.extend_from_slice(bytes);
        wake(&mut self.reader);
    }

    /// The socket accepts more.
    pub(super) fn make_room(&mut self, bytes: usize) {
        self.room = self.room.saturating_add(bytes);
        wake(&mut self.writer);
    }

    /// Removes what the server has sent, at most `bytes`.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let length = bytes.min(self.to_client.len());
        self.to_client.drain(..length).collect()
    }

    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<bool> {
        self.check()?;
        let length = self.to_server.len().min(buffer.remaining());
        buffer.put_slice(&self.to_server[..length]);
        self.to_server.drain(..length);
        let is_ready = length > 0 || self.has_ended;
        self.calls += u64::from(is_ready);
        Ok(is_ready)
    }

    /// Accepts bytes, as far as there is room. `None` without room.
    fn accept<'s>(&mut self, slices: impl IntoIterator<Item = &'s [u8]>) -> io::Result<Option<usize>> {
        self.check()?;
        let before = self.room;
        for slice in slices {
            let length = slice.len().min(self.room);
            self.to_client.extend_from_slice(&slice[..length]);
            self.room -= length;
        }
        let accepted = before - self.room;
        self.calls += u64::from(accepted > 0);
        Ok((accepted > 0).then_some(accepted))
    }

    fn check(&mut self) -> io::Result<()> {
        if !self.is_reset {
            return Ok(());
        }
        self.calls += 1;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The client's end.
pub(super) struct ClientEnd {
    wire: Arc<Mutex<Wire>>,
    /// The state of the connection, as the kernel reports it.
    socket: Option<UnixStream>,
}

impl ClientEnd {
    pub(super) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends nothing more.
    pub(super) fn end(&self) {
        if let Some(socket) = &self.socket {
            socket.shutdown(Shutdown::Write).expect("the other end exists until the connection is reset");
        }
        let mut wire = self.wire();
        wire.has_ended = true;
        wake(&mut wire.reader);
    }

    /// Breaks the connection.
    pub(super) fn reset(&mut self) {
        self.socket = None;
        let mut wire = self.wire();
        wire.is_reset = true;
        wake(&mut wire.reader);
        wake(&mut wire.writer);
    }
}

/// The server's end: a socket, or a session over one.
pub(super) struct ServerEnd {
    wire: Arc<Mutex<Wire>>,
    socket: UnixStream,
    /// What a session has encrypted, and the socket has not accepted. `None` for a socket.
    encrypted: Option<Vec<u8>>,
}

/// Creates the two ends of a connection.
pub(super) fn pair(is_session: bool) -> (ClientEnd, ServerEnd) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let wire = Arc::<Mutex<Wire>>::default();
    let server = ServerEnd { wire: wire.clone(), socket: ours, encrypted: is_session.then(Vec::new) };
    (ClientEnd { wire, socket: Some(theirs) }, server)
}

impl ServerEnd {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_accept(&self, cx: &Context<'_>, slices: &[&[u8]]) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        if let Some(accepted) = wire.accept(slices.iter().copied())? {
            return Poll::Ready(Ok(accepted));
        }
        wire.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsFd for ServerEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transport for ServerEnd {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire();
        if wire.read(buffer)? {
            return Poll::Ready(Ok(()));
        }
        wire.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        _: bool,
    ) -> Poll<io::Result<usize>> {
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        assert!(slices.iter().any(|slice| !slice.is_empty()), "a write of nothing");
        if self.encrypted.is_none() {
            return self.poll_accept(cx, &slices);
        }
        ready!(self.poll_flush(cx))?;
        let mut encrypted = slices.concat();
        encrypted.truncate(SESSION_BYTES);
        let length = encrypted.len();
        self.encrypted = Some(encrypted);
        self.wire().calls += 1;
        // What the socket does not accept is flushed later.
        let _ = self.poll_flush(cx)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(encrypted) = self.encrypted.as_deref().filter(|encrypted| !encrypted.is_empty()) {
            let accepted = ready!(self.poll_accept(cx, &[encrypted]))?;
            self.encrypted.as_mut().expect("a session").drain(..accepted);
        }
        Poll::Ready(Ok(()))
    }

    fn piece_bytes(&self) -> Option<usize> {
        self.encrypted.is_some().then_some(SESSION_BYTES)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, offset)?;
        if read == 0 { Poll::Ready(Ok(0)) } else { self.poll_accept(cx, &[&bytes[..read]]) }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        let mut wire = self.wire();
        wire.check()?;
        (wire.is_shut_down, wire.calls) = (true, wire.calls + 1);
        Poll::Ready(Ok(()))
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.wire().to_client.len() as u64)
    }

    fn has_unread(&self) -> bool {
        !self.wire().to_server.is_empty()
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.wire().is_shut_down = true;
    }
}
