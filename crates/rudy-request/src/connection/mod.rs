//! A client connection and its requests, from connecting to the last byte of the last response.

mod http1;
mod http2;
mod http3;
mod observer;

use std::io;
use std::net::IpAddr;
use std::time::Instant;

use bytes::{Buf, Bytes};
use rudy_http::Limits;
use rudy_message::client::RequestInfo;
use rudy_socket::close::CloseMode;

use self::http1::Http1;
use self::http2::Http2;
use self::http3::Http3;
pub use self::observer::Observer;
use crate::request::Http2Request;
use crate::transport::{Remote, Security, Transport};
use crate::{Failure, Protocols};

/// Maximum number of reads in one call of [`Connection::drive`], so that other connections get their turn.
const READS_PER_DRIVE: usize = 32;

/// The result of [`Connection::drive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveStatus {
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

/// The protocol of a connection. HTTP/1.1 until HTTP/2 is chosen.
#[derive(Debug)]
enum Protocol {
    Http1(Http1),
    /// Boxed, because it is much larger than the other.
    Http2(Box<Http2>),
    Http3(Box<Http3>),
}

/// A connection and its requests in flight.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    state: State,
    /// The protocols to choose from, until one is chosen.
    protocols: Protocols,
    protocol: Protocol,
    /// HTTP/1.1: the data that did not fit into the socket buffer.
    write_buffer: Bytes,
    /// The error after which nothing more can be sent. Responses may still arrive.
    write_error: Option<io::Error>,
}

impl Connection {
    /// Starts to connect.
    pub fn open(remote: &Remote, source: Option<IpAddr>, protocols: Protocols) -> Result<Self, Failure> {
        let transport = if protocols == Protocols::Http3 {
            Transport::datagrams(remote, source)
        } else {
            Transport::connect(remote, source)
        };
        let transport = transport.map_err(Failure::Connect)?;
        Ok(Self::new(transport, protocols))
    }

    /// Creates a connection over a transport that is connecting or connected.
    #[must_use]
    pub fn new(transport: Transport, protocols: Protocols) -> Self {
        Self {
            transport,
            state: State::Connecting,
            protocols,
            protocol: Protocol::Http1(Http1::default()),
            write_buffer: Bytes::new(),
            write_error: None,
        }
    }

    /// The socket, with TLS for `https`.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether requests can be sent.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether requests can be sent, and their maximum number is known: HTTP/2 needs the SETTINGS of the server.
    pub fn is_ready(&self) -> bool {
        self.is_open()
            && match &self.protocol {
                Protocol::Http1(_) | Protocol::Http3(_) => true,
                Protocol::Http2(http2) => http2.allowed_streams().is_some(),
            }
    }

    /// Whether the protocol is known, so that a request can be encoded.
    pub fn knows_protocol(&self) -> bool {
        self.is_open() || !self.protocols.may_have_streams()
    }

    /// Whether each request has a stream of its own. Only known when the connection is open.
    pub fn has_streams(&self) -> bool {
        !matches!(self.protocol, Protocol::Http1(_))
    }

    /// Returns when the connection must be driven without an event of its socket: HTTP/3 has timers.
    pub fn due(&mut self) -> Option<Instant> {
        match &mut self.protocol {
            Protocol::Http3(http3) => http3.due(),
            Protocol::Http1(_) | Protocol::Http2(_) => None,
        }
    }

    /// Whether the connection waits for the socket to become writable.
    pub fn wants_to_write(&self) -> bool {
        let has_data = || match &self.protocol {
            Protocol::Http1(_) => !self.write_buffer.is_empty(),
            Protocol::Http2(http2) => http2.has_data(),
            Protocol::Http3(http3) => http3.has_data(),
        };
        self.state == State::Connecting
            || self.transport.wants_to_write()
            || (self.state == State::Open && has_data())
    }

    /// Whether another request may follow the received responses.
    pub fn can_be_reused(&self) -> bool {
        self.write_error.is_none()
            && match &self.protocol {
                Protocol::Http1(http1) => http1.can_be_reused(),
                Protocol::Http2(http2) => !http2.is_going_away(),
                Protocol::Http3(http3) => !http3.is_going_away(),
            }
    }

    /// HTTP/2: the number of concurrent streams that the server allows; `None` before its SETTINGS.
    pub fn allowed_streams(&self) -> Option<u32> {
        match &self.protocol {
            // QUIC permits some by some.
            Protocol::Http1(_) | Protocol::Http3(_) => None,
            Protocol::Http2(http2) => http2.allowed_streams(),
        }
    }

    /// HTTP/2: encodes a request, and returns its stream. `None` if the connection is not open, or allows no further streams. Call
    /// [`Self::flush`] afterwards.
    pub fn request(&mut self, request: &Http2Request) -> Option<u32> {
        match &mut self.protocol {
            Protocol::Http2(http2) if self.state == State::Open => http2.request(request),
            Protocol::Http3(http3) if self.state == State::Open => http3.request(request),
            _ => None,
        }
    }

    /// HTTP/2: cancels a request. Call [`Self::flush`] afterwards.
    pub fn cancel(&mut self, stream: u32) {
        match &mut self.protocol {
            Protocol::Http1(_) => {}
            Protocol::Http2(http2) => http2.cancel(stream),
            Protocol::Http3(http3) => http3.cancel(stream),
        }
    }

    /// HTTP/2: sends the encoded frames. Those that do not fit into the socket buffer are sent when the socket is writable.
    pub fn flush(&mut self) {
        if let Protocol::Http3(http3) = &mut self.protocol {
            http3.flush();
            if let Err(error) = http3.send(Instant::now()) {
                self.write_error.get_or_insert(error);
            }
            return;
        }
        if let Protocol::Http2(http2) = &mut self.protocol
            && self.state == State::Open
            && self.write_error.is_none()
        {
            self.write_error = http2.flush(&mut self.transport).err();
        }
    }

    /// HTTP/1.1: sends requests and expects a response for each item of `infos`. Data that does not fit into the socket
    /// buffer is sent when the socket is writable.
    pub fn send(&mut self, bytes: &Bytes, infos: impl IntoIterator<Item = RequestInfo>) {
        let Protocol::Http1(http1) = &mut self.protocol else { return };
        http1.expect_responses(infos);
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
    pub fn has_write_error(&self) -> bool {
        self.write_error.is_some()
    }

    /// Connects, writes and reads as far as possible without waiting. `has_hung_up` means that the peer has closed
    /// the connection, so the end of the data is in the socket buffer.
    pub fn drive(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        has_hung_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<DriveStatus, Failure> {
        if self.protocols == Protocols::Http3 {
            return self.drive_http3(security, limits, observer);
        }
        if self.state != State::Open && !self.establish(security, limits, observer)? {
            return Ok(DriveStatus::Waiting);
        }
        match &self.protocol {
            Protocol::Http1(_) => self.flush_write_buffer(),
            Protocol::Http2(_) | Protocol::Http3(_) => self.flush(),
        }
        self.read(limits, has_hung_up, scratch, observer)
    }

    /// Drives a connection over QUIC, which has a handshake of its own.
    fn drive_http3(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        observer: &mut impl Observer,
    ) -> Result<DriveStatus, Failure> {
        if self.state == State::Connecting {
            let security =
                security.ok_or_else(|| Failure::Tls(io::Error::other("HTTP/3 needs an https URL")))?;
            let http3 =
                Http3::new(&self.transport, security, limits, Instant::now()).map_err(Failure::Connect)?;
            observer.connected(Instant::now(), &self.transport);
            self.protocol = Protocol::Http3(Box::new(http3));
            self.state = State::TlsHandshake;
        }
        let Protocol::Http3(http3) = &mut self.protocol else { return Ok(DriveStatus::Closed) };
        let has_received = http3.drive(limits, observer)?;
        if self.state == State::TlsHandshake && http3.is_connected() {
            observer.tls_established(Instant::now(), &self.transport);
            self.state = State::Open;
        }
        Ok(if http3.is_closed() {
            DriveStatus::Closed
        } else if has_received {
            DriveStatus::Yielded
        } else {
            DriveStatus::Waiting
        })
    }

    /// Closes the connection, and aborts a response in flight.
    pub fn close(mut self) {
        if let Protocol::Http3(_) = &self.protocol {
            // Dropping it announces the end.
            return;
        }
        if let Protocol::Http2(http2) = &mut self.protocol
            && self.state == State::Open
            && http2.is_idle()
        {
            http2.shut_down();
            self.flush();
        }
        let is_in_flight = self.state != State::Closed && (!self.is_idle() || !self.write_buffer.is_empty());
        self.transport.close(if is_in_flight { CloseMode::Reset } else { CloseMode::NoLinger });
    }

    /// Continues to connect: TCP, then TLS. Returns true when requests can be sent.
    fn establish(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        observer: &mut impl Observer,
    ) -> Result<bool, Failure> {
        if self.state == State::Connecting {
            match self.transport.connected() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(Failure::Connect(error)),
            }
            observer.connected(Instant::now(), &self.transport);
            if let Some(security) = security {
                self.transport.start_tls(security).map_err(Failure::Tls)?;
                let early = self.transport.write_early(&self.write_buffer).map_err(Failure::Tls)?;
                self.write_buffer.advance(early);
            }
            self.state = State::TlsHandshake;
        }
        if !self.transport.handshake().map_err(Failure::Tls)? {
            return Ok(false);
        }
        if self.transport.is_secure() {
            observer.tls_established(Instant::now(), &self.transport);
        }
        if self.protocols.choose_http2(self.transport.is_secure(), self.transport.application_protocol())? {
            self.protocol = Protocol::Http2(Box::new(Http2::new(Instant::now(), limits)));
        }
        self.state = State::Open;
        Ok(true)
    }

    /// Whether no response is expected.
    fn is_idle(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(http1) => http1.is_idle(),
            Protocol::Http2(http2) => http2.is_idle(),
            Protocol::Http3(http3) => http3.is_idle(),
        }
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
            let (now, bytes) = (Instant::now(), &scratch[..received]);
            match &mut self.protocol {
                Protocol::Http1(http1) => {
                    observer.received(received, now);
                    http1.receive(bytes, limits, now, observer)?;
                }
                Protocol::Http2(http2) => {
                    observer.received_frames(received, now);
                    let result = http2.receive(bytes, limits, now, observer);
                    self.flush();
                    result?;
                }
                // It reads datagrams.
                Protocol::Http3(_) => {}
            }
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
            Some(error) if !self.is_idle() => Err(Failure::Write(error)),
            Some(_) => Ok(DriveStatus::Closed),
            None => Ok(DriveStatus::Waiting),
        }
    }

    fn read_failed(&mut self, error: io::Error) -> Result<DriveStatus, Failure> {
        if self.is_idle() {
            return Ok(DriveStatus::Closed);
        }
        Err(self.write_error.take().map_or(Failure::Read(error), Failure::Write))
    }

    fn end_of_input(&mut self, observer: &mut impl Observer) -> Result<DriveStatus, Failure> {
        if self.is_idle() {
            return Ok(DriveStatus::Closed);
        }
        let http1 = match &mut self.protocol {
            Protocol::Http1(http1) => http1,
            Protocol::Http2(http2) => return Err(http2.end_of_input()),
            Protocol::Http3(_) => return Err(Failure::Closed(None)),
        };
        match http1.end_of_input() {
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
}
