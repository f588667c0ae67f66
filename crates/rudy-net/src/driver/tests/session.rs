//! A session over a socket, with the features of TLS but no secret: a handshake, transformed bytes, output
//! buffered until a flush, input buffered before it is read, and a close notification.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rudy_tls::{Policy, Tls};
use tokio::io::ReadBuf;

use crate::scratch::Scratch;
use crate::transport::{ChooseSite, Stream, Transport};

const KEY: u8 = 0x5a;
/// Maximum size of the output buffer.
const BUFFER_BYTES: usize = 20_000;

/// The client's first message, the response, and the client's second message.
pub(super) const HANDSHAKE: [&[u8]; 3] = [b"hello?", b"hello!", b"agreed"];
pub(super) const CLOSE_NOTIFY: &[u8] = b"goodbye";

/// The server's side.
pub(super) struct Session {
    io: tokio::net::UnixStream,
    tls: Arc<Tls>,
    /// The part of the handshake that the client has sent.
    greeted: Vec<u8>,
    has_responded: bool,
    /// Transformed output that the kernel does not have yet.
    buffered: Vec<u8>,
    /// Input that has been read from the socket, but not from the session.
    unread: Vec<u8>,
    /// Sent before the socket is shut down.
    pub(super) close_notify: Vec<u8>,
    has_sent_close_notify: bool,
    /// Keeps output in the buffer in spite of a flush.
    pub(super) holds_output: Arc<AtomicBool>,
    /// Makes the next read return pending, although there is input.
    pub(super) reads_late: bool,
}

impl Session {
    pub(super) fn new(io: tokio::net::UnixStream) -> Self {
        let tls = Tls {
            asks_clients: false,
            client_certificate: None,
            version: "Toy",
            cipher: "XOR",
            group: "",
            server_name: Some("a.test".into()),
            is_resumed: false,
            is_early: false,
            handshake: None,
            protocol: rudy_tls::Protocol::Http1,
            has_http3: false,
            policy: Policy::default(),
            names: Arc::default(),
        };
        Self {
            io,
            tls: Arc::new(tls),
            greeted: Vec::new(),
            has_responded: false,
            buffered: Vec::new(),
            unread: Vec::new(),
            close_notify: transformed(CLOSE_NOTIFY),
            has_sent_close_notify: false,
            holds_output: Arc::default(),
            reads_late: false,
        }
    }

    /// Creates a session whose handshake is done.
    pub(super) fn established(io: tokio::net::UnixStream) -> Self {
        Self { greeted: [HANDSHAKE[0], HANDSHAKE[2]].concat(), has_responded: true, ..Self::new(io) }
    }

    pub(super) fn into_stream(self) -> Stream {
        Stream::from(Box::new(self) as Box<dyn Transport>)
    }

    fn poll_send_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffered.is_empty() {
            let written =
                ready!(Transport::poll_write(&mut self.io, cx, &[io::IoSlice::new(&self.buffered)], false))?;
            self.buffered.drain(..written);
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
    fn poll_handshake(&mut self, cx: &mut Context<'_>, _: &mut ChooseSite<'_>) -> Poll<io::Result<()>> {
        let [first, response, last] = HANDSHAKE;
        let whole = [first, last].concat();
        loop {
            if self.greeted.len() >= first.len() && !std::mem::replace(&mut self.has_responded, true) {
                self.buffered.extend_from_slice(response);
            }
            ready!(self.poll_send_buffer(cx))?;
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
            self.unread = transformed(read.filled());
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
        if self.buffered.len() >= BUFFER_BYTES {
            ready!(self.poll_flush(cx))?;
        }
        // Uses the scratch buffer, like a session that encrypts into a buffer.
        let mut scratch = Scratch::borrow();
        for slice in slices {
            scratch.out.extend_from_slice(slice);
        }
        let taken = scratch.out.len().min(BUFFER_BYTES);
        self.buffered.extend_from_slice(&transformed(&scratch.out[..taken]));
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_output.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.poll_send_buffer(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_sent_close_notify, true) {
            self.buffered.append(&mut self.close_notify);
        }
        ready!(self.poll_send_buffer(cx))?;
        self.io.poll_shutdown(cx)
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(self.io.unacknowledged()? + self.buffered.len() as u64)
    }

    fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.io.has_unread()
    }
}

/// The client's side.
pub(super) struct SessionClient(pub(super) UnixStream);

impl SessionClient {
    pub(super) fn greet(&mut self) {
        let [first, response, last] = HANDSHAKE;
        self.0.write_all(first).unwrap();
        let mut received = vec![0; response.len()];
        self.0.read_exact(&mut received).unwrap();
        assert_eq!(received, response);
        self.0.write_all(last).unwrap();
    }

    pub(super) fn send(&mut self, text: &str) {
        self.0.write_all(&transformed(text.as_bytes())).unwrap();
    }

    pub(super) fn read_until(&mut self, text: &str) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(text.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            bytes.extend(transformed(&byte));
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads until the end; no input may be lost.
    pub(super) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&transformed(&bytes)).into_owned()
    }
}

pub(super) fn transformed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ KEY).collect()
}
