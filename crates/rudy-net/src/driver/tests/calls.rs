//! How many system calls a file costs: exact, over a transport in memory that accepts everything.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use rudy_http::h2::PREFACE;
use rudy_service::Limits;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::ReadBuf;

use super::harness::{Fixed, Harness};
use super::http2::{END, END_HEADERS, HEADERS, SETTINGS, WINDOW_UPDATE, frame, head_for};
use super::tls::{BOTH, Fixture, LARGE_BYTES};
use crate::driver::Serve;
use crate::tls::TlsStream;
use crate::transport::{Stream, Transport};

/// What both ends of a connection share.
#[derive(Default)]
struct Wire {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// The number of writes, and of sent pieces of files.
    sends: u64,
}

struct Memory {
    wire: Arc<Mutex<Wire>>,
    /// Not used, but each transport has a descriptor, at which a peer is connected.
    sockets: (UnixStream, UnixStream),
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sockets.0.as_fd()
    }
}

impl Transport for Memory {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let input = &mut self.wire.lock().to_server;
        if input.is_empty() {
            return Poll::Pending;
        }
        let length = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..length]);
        input.drain(..length);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        _more: bool,
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire.lock();
        wire.sends += 1;
        for slice in slices {
            wire.to_client.extend_from_slice(slice);
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn piece_bytes(&self) -> Option<usize> {
        None
    }

    fn poll_send_file(
        &mut self,
        _: &mut Context<'_>,
        _: &File,
        _: u64,
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire.lock();
        wire.sends += 1;
        wire.to_client.extend(vec![0; length]);
        Poll::Ready(Ok(length))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn unacknowledged(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn has_unread(&self) -> bool {
        false
    }
}

/// A connection with a client that has read everything.
struct Connection {
    wire: Arc<Mutex<Wire>>,
    serving: Serve<Fixed>,
    tls: Option<ClientConnection>,
    received_bytes: usize,
}

impl Connection {
    fn open(harness: &Harness, tls: Option<ClientConnection>) -> Self {
        let wire = Arc::<Mutex<Wire>>::default();
        let sockets = UnixStream::pair().unwrap();
        let memory = Memory { wire: wire.clone(), sockets };
        let io = Stream::Other(Box::new(memory));
        let io = if tls.is_some() { TlsStream::new(io).into() } else { io };
        Self { wire, serving: harness.serve(io), tls, received_bytes: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes).unwrap(),
            None => self.wire.lock().to_server.extend_from_slice(bytes),
        }
    }

    /// Polls the server once, and receives what it has sent.
    async fn turn(&mut self) {
        // Handshakes take turns.
        tokio::task::yield_now().await;
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.wire.lock().to_server).unwrap();
            }
        }
        assert!(Pin::new(&mut self.serving).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let sent = std::mem::take(&mut self.wire.lock().to_client);
        let Some(tls) = &mut self.tls else {
            self.received_bytes += sent.len();
            return;
        };
        let mut sent = &sent[..];
        while !sent.is_empty() {
            tls.read_tls(&mut sent).unwrap();
            tls.process_new_packets().unwrap();
            let mut plaintext = Vec::new();
            let _would_block = tls.reader().read_to_end(&mut plaintext);
            self.received_bytes += plaintext.len();
        }
    }

    /// Requests the file twice. Returns the number of sends for the second one.
    async fn sends(&mut self, mut request: impl FnMut(u32) -> Vec<u8>) -> u64 {
        let mut before = 0;
        for number in [1, 3] {
            before = self.wire.lock().sends;
            self.received_bytes = 0;
            self.send(&request(number));
            while self.received_bytes < LARGE_BYTES {
                self.turn().await;
            }
        }
        self.wire.lock().sends - before
    }
}

fn get(_: u32) -> Vec<u8> {
    b"GET /file HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec()
}

fn get_http2(stream: u32) -> Vec<u8> {
    let window = 0x7000_0000_u32.to_be_bytes();
    let settings = [&[0, 4][..], &window].concat();
    let start =
        [&PREFACE[..], &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW_UPDATE, 0, 0, &window)].concat();
    let request = frame(HEADERS, END | END_HEADERS, stream, &head_for("GET", "/file"));
    if stream == 1 { [start, request].concat() } else { request }
}

/// Each send has at most 512 KiB, the budget of a poll; or 128 KiB, which are read with one call. The second response does not begin with
/// small pieces, since the client has accepted the first one.
#[tokio::test]
async fn a_file_costs_as_few_sends_as_its_pieces() {
    let sends = |protocol: Option<&str>, request: fn(u32) -> Vec<u8>| {
        let mut fixture = Fixture::new(Limits::default(), BOTH);
        let tls = protocol.map(|protocol| {
            let config = Arc::get_mut(&mut fixture.client).unwrap();
            config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
            let name = ServerName::try_from("a.test").unwrap();
            ClientConnection::new(fixture.client.clone(), name).unwrap()
        });
        async move {
            let worker = fixture.harness.worker.clone();
            let handshakes = tokio::spawn(async move { worker.handshakes.run().await });
            let sends = Connection::open(&fixture.harness, tls).sends(request).await;
            handshakes.abort();
            sends
        }
    };
    // The head, and two pieces: the kernel reads them.
    assert_eq!(sends(None, get).await, 3);
    let pieces = LARGE_BYTES.div_ceil(128 * 1024) as u64;
    assert_eq!(sends(None, get_http2).await, pieces);
    assert_eq!(sends(Some("http/1.1"), get).await, pieces);
    assert_eq!(sends(Some("h2"), get_http2).await, pieces);
}
