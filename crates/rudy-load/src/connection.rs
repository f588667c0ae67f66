//! A client connection and its requests, from connecting to the last byte of the last response.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::client::{ClientConnection, RequestInfo, ResponseEvent, ResponseHead};
use rudy_net::close::CloseMode;

use crate::Failure;
use crate::transport::{Remote, Security, Transport};

/// Maximum number of reads in one call of [`Connection::drive`], so that other connections get their turn.
const READS_PER_DRIVE: usize = 32;

/// Receives the events of a connection, with the time of each.
pub(crate) trait Observer {
    /// TCP is connected.
    fn connected(&mut self, _now: Instant) {}

    /// The TLS handshake is complete.
    fn tls_established(&mut self, _now: Instant) {}

    /// Bytes were received.
    fn received(&mut self, _bytes: usize, _now: Instant) {}

    /// An interim response (1xx).
    fn informational(&mut self, _head: &ResponseHead<'_>) {}

    /// A response begins.
    fn head(&mut self, head: &ResponseHead<'_>);

    /// A part of the body.
    fn data(&mut self, bytes: &[u8]);

    /// The end of a chunk; in a body without chunks, the end of the available data.
    fn chunk(&mut self) {}

    /// The response is complete.
    fn end(&mut self, trailers: Option<&HeaderMap>, now: Instant);
}

/// The result of [`Connection::drive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriveStatus {
    /// The connection waits for its socket.
    Waiting,
    /// The connection stopped so that other connections get their turn. It can continue at once.
    Yielded,
    /// The connection was closed without error, and no request was in flight.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    TlsHandshake,
    Open,
    /// The peer closed the connection without error.
    Closed,
}

/// A connection and its requests in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    state: State,
    protocol: ClientConnection,
    /// The responses that are expected after the current one.
    expected_responses: VecDeque<RequestInfo>,
    /// The data that did not fit into the socket buffer.
    write_buffer: Bytes,
    /// The received data that is not parsed yet. Has no capacity while it is empty.
    read_buffer: Vec<u8>,
    /// The error after which nothing more can be sent. Responses may still arrive.
    write_error: Option<io::Error>,
}

impl Connection {
    /// Starts to connect.
    pub(crate) fn open(remote: &Remote, source: Option<IpAddr>) -> Result<Self, Failure> {
        Transport::connect(remote, source).map(Self::new).map_err(Failure::Connect)
    }

    /// Creates a connection over a transport that is connecting or connected.
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            transport,
            state: State::Connecting,
            protocol: ClientConnection::new(),
            expected_responses: VecDeque::new(),
            write_buffer: Bytes::new(),
            read_buffer: Vec::new(),
            write_error: None,
        }
    }

    /// The socket, with TLS for `https`.
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether the connection waits for the socket to become writable.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.state == State::Connecting
            || self.transport.wants_to_write()
            || (!self.write_buffer.is_empty() && self.state == State::Open)
    }

    /// Whether another request may follow the received responses.
    pub(crate) fn can_be_reused(&self) -> bool {
        self.write_error.is_none() && self.protocol.can_be_reused()
    }

    /// Sends requests and expects a response for each item of `infos`. Data that does not fit into the socket
    /// buffer is sent when the socket is writable.
    pub(crate) fn send(&mut self, bytes: &Bytes, infos: impl IntoIterator<Item = RequestInfo>) {
        for info in infos {
            if self.protocol.is_idle() && self.expected_responses.is_empty() {
                self.protocol.expect_response(info);
            } else {
                self.expected_responses.push_back(info);
            }
        }
        if !self.write_buffer.is_empty() {
            self.write_buffer = [&self.write_buffer[..], &bytes[..]].concat().into();
        } else if self.state == State::Open {
            let written = self.write(bytes);
            if written < bytes.len() {
                self.write_buffer = bytes.slice(written..);
            }
        } else {
            self.write_buffer = bytes.clone();
        }
    }

    /// Whether sending has failed. The caller must then drive the connection to get the error.
    pub(crate) fn has_write_error(&self) -> bool {
        self.write_error.is_some()
    }

    /// Connects, writes and reads as far as possible without waiting. `has_hung_up` means that the peer has closed
    /// the connection, so the end of the data is in the socket buffer.
    pub(crate) fn drive(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        has_hung_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<DriveStatus, Failure> {
        if self.state != State::Open && !self.establish(security, observer)? {
            return Ok(DriveStatus::Waiting);
        }
        self.flush_write_buffer();
        self.read(limits, has_hung_up, scratch, observer)
    }

    /// Closes the connection, and aborts a response in flight.
    pub(crate) fn close(self) {
        let is_in_flight =
            self.state != State::Closed && (!self.protocol.is_idle() || !self.write_buffer.is_empty());
        self.transport.close(if is_in_flight { CloseMode::Reset } else { CloseMode::NoLinger });
    }

    /// Continues to connect: TCP, then TLS. Returns true when requests can be sent.
    fn establish(
        &mut self,
        security: Option<&Security>,
        observer: &mut impl Observer,
    ) -> Result<bool, Failure> {
        if self.state == State::Connecting {
            match self.transport.connected() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(Failure::Connect(error)),
            }
            observer.connected(Instant::now());
            if let Some(security) = security {
                self.transport.start_tls(security).map_err(Failure::Tls)?;
            }
            self.state = State::TlsHandshake;
        }
        if !self.transport.handshake().map_err(Failure::Tls)? {
            return Ok(false);
        }
        if self.transport.is_secure() {
            observer.tls_established(Instant::now());
        }
        self.state = State::Open;
        Ok(true)
    }

    /// Writes the data that did not fit before.
    fn flush_write_buffer(&mut self) {
        let rest = std::mem::take(&mut self.write_buffer);
        let written = self.write(&rest);
        if written < rest.len() {
            self.write_buffer = rest.slice(written..);
        } else if let Err(error) = self.transport.flush() {
            self.write_error.get_or_insert(error);
        }
    }

    /// Writes as much as fits into the socket buffer and returns the number of bytes. After an error, returns the
    /// length of `bytes`, so that nothing is buffered.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() && self.write_error.is_none() {
            match self.transport.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return written,
                Err(error) => self.write_error = Some(error),
            }
        }
        bytes.len()
    }

    fn read(
        &mut self,
        limits: &Limits,
        has_hung_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<DriveStatus, Failure> {
        for _ in 0..READS_PER_DRIVE {
            let received = match self.transport.read(scratch) {
                Ok(0) => return self.end_of_input(observer),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.would_block(),
                Err(error) => return self.read_failed(error),
            };
            let now = Instant::now();
            observer.received(received, now);
            self.receive(&scratch[..received], limits, now, observer)?;
            // A short read means that the socket is empty.
            if received < scratch.len() && !has_hung_up && !self.transport.is_secure() {
                return self.would_block();
            }
        }
        Ok(DriveStatus::Yielded)
    }

    /// The status when the socket has no more data. After a failed send, returns the error.
    fn would_block(&mut self) -> Result<DriveStatus, Failure> {
        match self.write_error.take() {
            Some(error) if !self.protocol.is_idle() => Err(Failure::Write(error)),
            Some(_) => Ok(DriveStatus::Closed),
            None => Ok(DriveStatus::Waiting),
        }
    }

    fn read_failed(&mut self, error: io::Error) -> Result<DriveStatus, Failure> {
        if self.protocol.is_idle() {
            return Ok(DriveStatus::Closed);
        }
        Err(self.write_error.take().map_or(Failure::Read(error), Failure::Write))
    }

    fn end_of_input(&mut self, observer: &mut impl Observer) -> Result<DriveStatus, Failure> {
        if self.protocol.is_idle() {
            return Ok(DriveStatus::Closed);
        }
        match self.protocol.end_of_input() {
            // RFC 9112 §9.8: if the body ends with the connection, TLS must have signalled the end.
            Ok(_) if self.transport.is_truncated() => {
                let reason = "the connection ended without a TLS close, so the body may be truncated";
                Err(Failure::Read(io::Error::new(io::ErrorKind::UnexpectedEof, reason)))
            }
            Ok(_) => {
                self.state = State::Closed;
                observer.end(None, Instant::now());
                Ok(DriveStatus::Closed)
            }
            Err(fault) => Err(self.write_error.take().map_or(Failure::Short(fault), Failure::Write)),
        }
    }

    /// Parses the buffered data and the received data, and buffers the incomplete rest.
    fn receive(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        if self.read_buffer.is_empty() {
            let used = self.parse(bytes, limits, now, observer)?;
            self.read_buffer.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.read_buffer);
        whole.extend_from_slice(bytes);
        let used = self.parse(&whole, limits, now, observer)?;
        if used < whole.len() {
            whole.drain(..used);
            self.read_buffer = whole;
        }
        Ok(())
    }

    /// Parses the data and returns the number of bytes used.
    fn parse(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            // The state machine rejects data without a request.
            if used == bytes.len() && self.protocol.is_idle() {
                return Ok(used);
            }
            let (taken, event) = self.protocol.decode(&bytes[used..], limits).map_err(Failure::Malformed)?;
            used += taken;
            match event {
                ResponseEvent::Informational(head) => observer.informational(&head),
                ResponseEvent::Head(head) => observer.head(&head),
                ResponseEvent::Data(data) => {
                    observer.data(data);
                    if !self.protocol.is_within_chunk() {
                        observer.chunk();
                    }
                }
                ResponseEvent::End(trailers) => {
                    observer.end(trailers.as_ref(), now);
                    if let Some(info) = self.expected_responses.pop_front() {
                        self.protocol.expect_response(info);
                    }
                }
                ResponseEvent::NeedData => return Ok(used),
            }
        }
    }
}
