//! HTTP/3 by hand, over QUIC: tests choose the bytes of each stream. Deliberately simple: it has no states, so that tests can break any
//! rule of HTTP/3 and QPACK.

mod drive;
mod frames;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rudy_quic::quinn_proto::{self, ConnectionError, ConnectionHandle, Dir, VarInt};
use rudy_quic::streams::{self, Outgoing, code, id, number};
use rudy_quic::{Datagrams, client_config, client_endpoint};
use rudy_tls::Trust;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::frames::{h3_frame, h3_head, h3_headers, varint};

use self::frames::Incoming;
use crate::{Http2Response, PATIENCE};

/// The types of frames (RFC 9114 §7.2).
pub mod h3_kind {
    #![expect(missing_docs, reason = "the names of the RFC")]
    pub const DATA: u64 = 0;
    pub const HEADERS: u64 = 1;
    pub const SETTINGS: u64 = 4;
    pub const GOAWAY: u64 = 7;
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
}

/// The types of unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
pub mod h3_stream {
    #![expect(missing_docs, reason = "the names of the RFC")]
    pub const CONTROL: u64 = 0;
    pub const ENCODER: u64 = 2;
    pub const DECODER: u64 = 3;
}

/// What a stream may receive before the client reads it, in bytes.
const WINDOW: u32 = 1 << 20;

/// The settings of a client.
#[derive(Clone)]
pub struct Http3Client {
    tls: Arc<rustls::ClientConfig>,
    name: String,
    window: u32,
}

impl Http3Client {
    /// A client that accepts all certificates, for the server name `localhost`.
    /// Panics if the system has no trusted certificates.
    pub fn new() -> Self {
        Self::with_tls(Trust::All.client_config().expect("a configuration without certificates"))
    }

    /// A client with these settings of TLS, for the server name `localhost`.
    pub fn with_tls(tls: Arc<rustls::ClientConfig>) -> Self {
        Self { tls, name: "localhost".into(), window: WINDOW }
    }

    /// Sets the server name.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets how much a stream may receive before the client reads it.
    pub fn window(mut self, bytes: u32) -> Self {
        self.window = bytes;
        self
    }

    /// Connects, and sends empty settings.
    /// Panics if the server does not accept the connection.
    pub fn open(&self, address: SocketAddr) -> Http3Connection {
        let mut connection = self.connect(address).expect("the server accepts the connection");
        let control = connection.open_uni(h3_stream::CONTROL);
        connection.send(control, &h3_frame(h3_kind::SETTINGS, &[]));
        connection
    }

    /// Connects, and sends nothing of HTTP/3.
    ///
    /// # Errors
    ///
    /// The server does not accept the connection.
    pub fn connect(&self, address: SocketAddr) -> Result<Http3Connection, ConnectionError> {
        let mut connection = self.begin(address);
        connection.wait("the handshake is complete", |connection| match &connection.end {
            Some(end) => Some(Err(end.clone())),
            None => connection.is_connected.then_some(Ok(())),
        })?;
        Ok(connection)
    }

    /// Begins a connection, and sends nothing.
    /// Panics if the settings are inconsistent.
    pub fn begin(&self, address: SocketAddr) -> Http3Connection {
        let local = if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let socket = UdpSocket::bind(local).expect("a port is free");
        socket.set_nonblocking(true).expect("sockets have it");
        let mut endpoint = client_endpoint().expect("the system has randomness");
        let config = client_config(self.tls.clone(), self.window).expect("TLS 1.3");
        let (handle, quic) =
            endpoint.connect(Instant::now(), config, address, &self.name).expect("a valid name");
        Http3Connection {
            datagrams: Datagrams::new(&socket).expect("a bound socket"),
            socket,
            endpoint,
            quic,
            handle,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            is_connected: false,
            reads: true,
            is_silent: false,
            window: self.window,
            end: None,
        }
    }
}

impl Default for Http3Client {
    fn default() -> Self {
        Self::new()
    }
}

/// A connection over QUIC.
pub struct Http3Connection {
    socket: UdpSocket,
    endpoint: quinn_proto::Endpoint,
    quic: quinn_proto::Connection,
    handle: ConnectionHandle,
    datagrams: Datagrams,
    /// What QUIC has not accepted.
    outgoing: BTreeMap<u64, Outgoing>,
    incoming: BTreeMap<u64, Incoming>,
    is_connected: bool,
    reads: bool,
    is_silent: bool,
    window: u32,
    end: Option<ConnectionError>,
}

impl Http3Connection {
    /// Opens a stream for a request, when the server permits it.
    /// Panics if the connection has ended.
    pub fn open_stream(&mut self) -> u64 {
        self.next_stream().expect("the connection is open")
    }

    /// Opens a stream for a request, when the server permits it. `None` if the connection has ended.
    pub fn next_stream(&mut self) -> Option<u64> {
        self.next_of(Dir::Bi)
    }

    /// Opens a unidirectional stream, when the server permits it. `None` if the connection has ended.
    pub fn next_uni(&mut self) -> Option<u64> {
        self.next_of(Dir::Uni)
    }

    fn next_of(&mut self, dir: Dir) -> Option<u64> {
        self.wait("the server permits a stream", |connection| {
            let stream = connection.quic.streams().open(dir).map(number);
            (stream.is_some() || connection.end.is_some()).then_some(stream)
        })
    }

    /// Opens a unidirectional stream of this type.
    pub fn open_uni(&mut self, kind: u64) -> u64 {
        let stream = self.next_uni().expect("the connection is open");
        self.send(stream, &varint(kind));
        stream
    }

    /// Sends bytes on a stream, as far as the server permits now; the rest follows.
    pub fn send(&mut self, stream: u64, bytes: &[u8]) {
        self.queue(stream, bytes);
        self.drive();
    }

    /// Adds bytes to those that [`Self::drive`] sends.
    pub fn queue(&mut self, stream: u64, bytes: &[u8]) {
        self.outgoing.entry(stream).or_default().push(Bytes::copy_from_slice(bytes));
    }

    /// Ends this side of a stream.
    pub fn finish(&mut self, stream: u64) {
        self.outgoing.entry(stream).or_default().ends = true;
        self.drive();
    }

    /// Resets this side of a stream.
    pub fn reset(&mut self, stream: u64, error: u64) {
        self.outgoing.remove(&stream);
        // Fails if all of it has arrived.
        let _ = self.quic.send_stream(id(stream)).reset(code(error));
        self.drive();
    }

    /// Asks the server to send no more on a stream.
    pub fn stop(&mut self, stream: u64, error: u64) {
        streams::stop(&mut self.quic, stream, error);
        self.drive();
    }

    /// Reads no more, so that the windows of the server's streams stay closed.
    pub fn stop_reading(&mut self) {
        self.reads = false;
    }

    /// Reads again, and what has arrived since.
    pub fn read_again(&mut self) {
        self.reads = true;
        let streams: Vec<_> = self.incoming.keys().copied().collect();
        for stream in streams {
            self.read(stream);
        }
        self.drive();
    }

    /// Sends the head of a request, which ends with it if `ends`. Returns the stream.
    pub fn request(&mut self, method: &str, path: &str, more: &[(&str, &str)], ends: bool) -> u64 {
        let stream = self.open_stream();
        let head = h3_head(method, path);
        let head: Vec<_> = head.iter().chain(more).copied().collect();
        self.send(stream, &h3_headers(&head));
        if ends {
            self.finish(stream);
        }
        stream
    }

    /// Sends a GET, and returns its stream.
    pub fn get(&mut self, path: &str) -> u64 {
        self.request("GET", path, &[], true)
    }

    /// Sends a DATA frame.
    pub fn data(&mut self, stream: u64, bytes: &[u8]) {
        self.send(stream, &h3_frame(h3_kind::DATA, bytes));
    }

    /// Waits until the response on a stream is complete or reset, or the connection has ended, and returns it.
    pub fn response(&mut self, stream: u64) -> Http2Response {
        self.wait("the response is complete", |connection| {
            let response = &connection.incoming.entry(stream).or_default().response;
            (response.is_over || connection.end.is_some()).then(|| response.clone())
        })
    }

    /// Waits until what has arrived of a response meets a condition, or no more follows, and returns it.
    pub fn response_until(&mut self, stream: u64, is_met: impl Fn(&Http2Response) -> bool) -> Http2Response {
        self.wait("a part of the response has arrived", |connection| {
            let response = &connection.incoming.entry(stream).or_default().response;
            let is_over = response.is_over || connection.end.is_some();
            (is_over || is_met(response)).then(|| response.clone())
        })
    }

    /// Returns what has arrived of a response.
    pub fn response_so_far(&mut self, stream: u64) -> &Http2Response {
        &self.incoming.entry(stream).or_default().response
    }

    /// Waits until the server has sent a frame of this type on its control stream, and returns the payload. `None` if the connection has ended.
    pub fn control_frame(&mut self, kind: u64) -> Option<Bytes> {
        self.wait("a frame on the control stream", |connection| {
            let mut frames = connection.incoming.values().flat_map(|incoming| &incoming.frames);
            let found = frames.find(|frame| frame.0 == kind).map(|frame| frame.1.clone());
            (found.is_some() || connection.end.is_some()).then_some(found)
        })
    }

    /// Waits until the server closes the connection. Returns its error code and its reason; a code below 0x100 is one of QUIC.
    pub fn closed(&mut self) -> (u64, String) {
        let end = self.wait("the server closes the connection", |connection| connection.end.clone());
        let text = |reason: &Bytes| String::from_utf8_lossy(reason).into_owned();
        match end {
            ConnectionError::ApplicationClosed(close) => {
                (VarInt::into_inner(close.error_code), text(&close.reason))
            }
            ConnectionError::ConnectionClosed(close) => (close.error_code.into(), text(&close.reason)),
            other => panic!("the server has not closed the connection: {other}"),
        }
    }

    /// Whether the server does not know the connection any more: its end was lost.
    pub fn is_unknown(&self) -> bool {
        self.end == Some(ConnectionError::Reset)
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Waits until all is sent that the server permits.
    pub fn settle(&mut self) {
        self.wait("all is sent", |connection| {
            let is_sent = connection.outgoing.is_empty() && !connection.quic.has_pending_retransmits();
            (is_sent || connection.end.is_some()).then_some(())
        });
    }

    /// Sends what is due, and receives nothing.
    pub fn transmit_only(&mut self) {
        self.transmit(Instant::now());
    }

    /// Waits until a datagram is there, and does not receive it.
    pub fn wait_for_datagram(&self) {
        let timeout = Timespec::try_from(PATIENCE).expect("a short time");
        let ready = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
        assert!(ready.is_ok_and(|ready| ready > 0), "timeout: waited for a datagram");
    }

    /// Waits until the server has sent what one stream may receive, or the connection has ended.
    pub fn wait_for_window(&mut self) {
        let window = u64::from(self.window);
        self.wait("the window is full", |connection| {
            let is_full = connection.quic.stats().udp_rx.bytes >= window;
            (is_full || connection.end.is_some()).then_some(())
        });
    }

    /// Continues from another port.
    pub fn change_port(&mut self) {
        let local = self.socket.local_addr().expect("it is bound").ip();
        self.socket = UdpSocket::bind((local, 0)).expect("a port is free");
        self.socket.set_nonblocking(true).expect("sockets have it");
    }

    /// Does not tell the server of the end.
    pub fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    /// Ends without telling the server.
    pub fn vanish(self) {
        drop(self.silent());
    }

    /// Receives datagrams without handling them, and returns the number of their bytes.
    pub fn discard(&self) -> usize {
        let mut buffer = [0; 2048];
        std::iter::from_fn(|| self.socket.recv(&mut buffer).ok()).sum()
    }

    /// The connection of QUIC.
    pub fn quic(&mut self) -> &mut quinn_proto::Connection {
        &mut self.quic
    }
}
