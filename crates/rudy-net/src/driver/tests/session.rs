//! A session over a socket, with all that TLS has and no secret: a handshake, bytes that are changed, output that is kept until it
//! is flushed, input that is there before it is asked for, a goodbye.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use crate::Tls;
use crate::scratch::Scratch;
use crate::transport::{Stream, Transport};

const KEY: u8 = 0x5a;
/// What the session keeps at most until it is flushed.
const KEPT_BYTES: usize = 20_000;

/// What the client sends first, what it gets for it, and what it sends then.
pub(super) const HANDSHAKE: [&[u8]; 3] = [b"hello?", b"hello!", b"agreed"];
pub(super) const GOODBYE: &[u8] = b"goodbye";

/// The server's side.
pub(super) struct Session {
    io: tokio::net::UnixStream,
    tls: Arc<Tls>,
    /// What the client has sent of the handshake.
    greeted: Vec<u8>,
    has_answered: bool,
    /// Changed, and not yet handed to the kernel.
    kept: Vec<u8>,
    /// Read from the socket, and not yet asked for.
    unread: Vec<u8>,
    /// Sent before the socket is shut down.
    pub(super) goodbye: Vec<u8>,
    has_said_goodbye: bool,
    /// Keeps what is written although it is flushed.
    pub(super) holds_back: Arc<AtomicBool>,
    /// Finds nothing to read the next time, although there is something.
    pub(super) reads_late: bool,
}

impl Session {
    pub(super) fn new(io: tokio::net::UnixStream) -> Self {
        let tls = Tls { version: "Toy".into(), cipher: "XOR".into(), server_name: Some("a.test".into()) };
        Self {
            io,
            tls: Arc::new(tls),
            greeted: Vec::new(),
            has_answered: false,
            kept: Vec::new(),
            unread: Vec::new(),
            goodbye: changed(GOODBYE),
            has_said_goodbye: false,
            holds_back: Arc::default(),
            reads_late: false,
        }
    }

    /// One whose handshake is over.
    pub(super) fn established(io: tokio::net::UnixStream) -> Self {
        Self { greeted: [HANDSHAKE[0], HANDSHAKE[2]].concat(), has_answered: true, ..Self::new(io) }
    }

    pub(super) fn into_stream(self) -> Stream {
        Stream::from(Box::new(self) as Box<dyn Transport>)
    }

    fn poll_send_kept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.kept.is_empty() {
            let written =
                ready!(Transport::poll_write(&mut self.io, cx, &[io::IoSlice::new(&self.kept)], false))?;
            self.kept.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl Transport for Session {
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let [first, answer, last] = HANDSHAKE;
        let whole = [first, last].concat();
        loop {
            if self.greeted.len() >= first.len() && !std::mem::replace(&mut self.has_answered, true) {
                self.kept.extend_from_slice(answer);
            }
            ready!(self.poll_send_kept(cx))?;
            if !whole.starts_with(&self.greeted) {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if self.greeted == whole {
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; 16];
            let mut buffer = ReadBuf::new(&mut bytes[..whole.len() - self.greeted.len()]);
            ready!(Transport::poll_read(&mut self.io, cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.greeted.extend_from_slice(buffer.filled());
        }
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        Some(&self.tls)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.reads_late) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.unread.is_empty() {
            let mut scratch = Scratch::borrow();
            let mut read = ReadBuf::new(&mut scratch.input);
            ready!(Transport::poll_read(&mut self.io, cx, &mut read))?;
            self.unread = changed(read.filled());
        }
        let given = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..given]);
        self.unread.drain(..given);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        if self.kept.len() >= KEPT_BYTES {
            ready!(self.poll_flush(cx))?;
        }
        // As a session does that changes bytes on their way to a buffer.
        let mut scratch = Scratch::borrow();
        for slice in slices {
            scratch.out.extend_from_slice(slice);
        }
        let taken = scratch.out.len().min(KEPT_BYTES);
        self.kept.extend_from_slice(&changed(&scratch.out[..taken]));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_back.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.poll_send_kept(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_said_goodbye, true) {
            self.kept.append(&mut self.goodbye);
        }
        ready!(self.poll_send_kept(cx))?;
        self.io.poll_shutdown(cx)
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.io.unacknowledged()? + self.kept.len() as u64)
    }

    fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.io.has_unread()
    }
}

/// The client's side.
pub(super) struct Visitor(pub(super) UnixStream);

impl Visitor {
    pub(super) fn greet(&mut self) {
        let [first, answer, last] = HANDSHAKE;
        self.0.write_all(first).unwrap();
        let mut answered = vec![0; answer.len()];
        self.0.read_exact(&mut answered).unwrap();
        assert_eq!(answered, answer);
        self.0.write_all(last).unwrap();
    }

    pub(super) fn send(&mut self, text: &str) {
        self.0.write_all(&changed(text.as_bytes())).unwrap();
    }

    pub(super) fn read_until(&mut self, text: &str) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(text.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            bytes.extend(changed(&byte));
        }
        String::from_utf8(bytes).unwrap()
    }

    /// What comes until the end; nothing of it may be lost.
    pub(super) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&changed(&bytes)).into_owned()
    }
}

pub(super) fn changed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ KEY).collect()
}
