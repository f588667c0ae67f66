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

/// Maximum number of reads in a row before other connections get their turn.
const READS_IN_A_ROW: usize = 32;

/// Receives the events of a connection, with the time at which each was seen.
pub(crate) trait Observer {
    /// TCP is connected.
    fn connected(&mut self, _now: Instant) {}

    /// The TLS handshake is complete.
    fn secured(&mut self, _now: Instant) {}

    /// Bytes were received.
    fn received(&mut self, _bytes: usize, _now: Instant) {}

    /// An interim response (1xx).
    fn informational(&mut self, _head: &ResponseHead<'_>) {}

    /// A response begins.
    fn head(&mut self, head: &ResponseHead<'_>);

    /// A piece of the body.
    fn data(&mut self, bytes: &[u8]);

    /// The end of a chunk; in a body without chunks, the end of the available data.
    fn chunk(&mut self) {}

    /// The response is complete.
    fn end(&mut self, trailers: Option<&HeaderMap>, now: Instant);
}

/// The state of a connection after it was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Waits for its socket.
    Open,
    /// Stopped so that other connections get their turn; can continue at once.
    Busy,
    /// Closed without error, and no request was in flight.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Securing,
    Open,
    /// The peer closed the connection without error.
    Ended,
}

/// A connection and its requests in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    phase: Phase,
    machine: ClientConnection,
    /// Expected responses after the current one.
    awaited: VecDeque<RequestInfo>,
    /// Data that did not fit into the socket buffer.
    unsent: Bytes,
    /// Received data that is not parsed yet. Has no capacity while it is empty.
    leftover: Vec<u8>,
    /// The error after which nothing more can be sent. Responses may still arrive.
    broken: Option<io::Error>,
}

impl Connection {
    /// Starts to connect.
    pub(crate) fn open(remote: &Remote, source: Option<IpAddr>) -> Result<Self, Failure> {
        Transport::connect(remote, source).map(Self::over).map_err(Failure::Connect)
    }

    /// Creates a connection over a transport that connects or is connected.
    pub(crate) fn over(transport: Transport) -> Self {
        Self {
            transport,
            phase: Phase::Connecting,
            machine: ClientConnection::new(),
            awaited: VecDeque::new(),
            unsent: Bytes::new(),
            leftover: Vec::new(),
            broken: None,
        }
    }

    /// The file descriptor of the socket.
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the connection waits for the socket to become writable.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.phase == Phase::Connecting
            || self.transport.wants_to_write()
            || (!self.unsent.is_empty() && self.phase == Phase::Open)
    }

    /// Whether another request may follow the received responses.
    pub(crate) fn can_be_reused(&self) -> bool {
        self.broken.is_none() && self.machine.can_be_reused()
    }

    /// Sends requests and expects responses as described by `requests`. Data that does not fit is sent when the
    /// socket is writable.
    pub(crate) fn send(&mut self, bytes: &Bytes, requests: impl IntoIterator<Item = RequestInfo>) {
        for request in requests {
            if self.machine.is_idle() && self.awaited.is_empty() {
                self.machine.expect_response(request);
            } else {
                self.awaited.push_back(request);
            }
        }
        if !self.unsent.is_empty() {
            self.unsent = [&self.unsent[..], &bytes[..]].concat().into();
        } else if self.phase == Phase::Open {
            let written = self.write(bytes);
            if written < bytes.len() {
                self.unsent = bytes.slice(written..);
            }
        } else {
            self.unsent = bytes.clone();
        }
    }

    /// Whether nothing more can be sent. After a send, the caller must then drive the connection to get the
    /// result.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Drives the connection as far as possible. `hangs_up` means that the end of the received data is in the
    /// socket already.
    pub(crate) fn drive(
        &mut self,
        security: Option<&Security>,
        limits: &Limits,
        hangs_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<Status, Failure> {
        if self.phase != Phase::Open && !self.connect_and_secure(security, observer)? {
            return Ok(Status::Open);
        }
        self.write_rest();
        self.read(limits, hangs_up, scratch, observer)
    }

    /// Closes the connection, and aborts a response in flight.
    pub(crate) fn close(self) {
        let is_in_use = self.phase != Phase::Ended && (!self.machine.is_idle() || !self.unsent.is_empty());
        self.transport.close(if is_in_use { CloseMode::Reset } else { CloseMode::NoLinger });
    }

    /// Continues TCP and then TLS connecting. Returns true when done.
    fn connect_and_secure(
        &mut self,
        security: Option<&Security>,
        observer: &mut impl Observer,
    ) -> Result<bool, Failure> {
        if self.phase == Phase::Connecting {
            match self.transport.connected() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(Failure::Connect(error)),
            }
            observer.connected(Instant::now());
            if let Some(security) = security {
                self.transport.secure(security).map_err(Failure::Tls)?;
            }
            self.phase = Phase::Securing;
        }
        if !self.transport.handshake().map_err(Failure::Tls)? {
            return Ok(false);
        }
        if self.transport.is_secure() {
            observer.secured(Instant::now());
        }
        self.phase = Phase::Open;
        Ok(true)
    }

    /// Writes the buffered data.
    fn write_rest(&mut self) {
        let rest = std::mem::take(&mut self.unsent);
        let written = self.write(&rest);
        if written < rest.len() {
            self.unsent = rest.slice(written..);
        } else if let Err(error) = self.transport.flush() {
            self.broken.get_or_insert(error);
        }
    }

    /// Writes as much as fits and returns its length. Returns the whole length if nothing can be sent any
    /// more.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() && self.broken.is_none() {
            match self.transport.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return written,
                Err(error) => self.broken = Some(error),
            }
        }
        bytes.len()
    }

    fn read(
        &mut self,
        limits: &Limits,
        hangs_up: bool,
        scratch: &mut [u8],
        observer: &mut impl Observer,
    ) -> Result<Status, Failure> {
        for _ in 0..READS_IN_A_ROW {
            let received = match self.transport.read(scratch) {
                Ok(0) => return self.end_of_input(observer),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.still_open(),
                Err(error) => return self.reading_failed(error),
            };
            let now = Instant::now();
            observer.received(received, now);
            self.decode(&scratch[..received], limits, now, observer)?;
            // A short read means that the socket is empty.
            if received < scratch.len() && !hangs_up && !self.transport.is_secure() {
                return self.still_open();
            }
        }
        Ok(Status::Busy)
    }

    /// After a failed send, the connection still receives earlier responses until the peer closes it.
    fn still_open(&mut self) -> Result<Status, Failure> {
        match self.broken.take() {
            Some(error) if !self.machine.is_idle() => Err(Failure::Write(error)),
            Some(_) => Ok(Status::Ended),
            None => Ok(Status::Open),
        }
    }

    fn reading_failed(&mut self, error: io::Error) -> Result<Status, Failure> {
        if self.machine.is_idle() {
            return Ok(Status::Ended);
        }
        Err(self.broken.take().map_or(Failure::Read(error), Failure::Write))
    }

    fn end_of_input(&mut self, observer: &mut impl Observer) -> Result<Status, Failure> {
        if self.machine.is_idle() {
            return Ok(Status::Ended);
        }
        match self.machine.end_of_input() {
            // RFC 9112 §9.8: if the body ends with the connection, TLS must have signalled the end.
            Ok(_) if self.transport.is_truncated() => {
                let reason = "the connection ended without a TLS close, so the body may be truncated";
                Err(Failure::Read(io::Error::new(io::ErrorKind::UnexpectedEof, reason)))
            }
            Ok(_) => {
                self.phase = Phase::Ended;
                observer.end(None, Instant::now());
                Ok(Status::Ended)
            }
            Err(fault) => Err(self.broken.take().map_or(Failure::Short(fault), Failure::Write)),
        }
    }

    /// Parses the received data after the remaining earlier data.
    fn decode(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        if self.leftover.is_empty() {
            let used = self.understand(bytes, limits, now, observer)?;
            self.leftover.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.leftover);
        whole.extend_from_slice(bytes);
        let used = self.understand(&whole, limits, now, observer)?;
        if used < whole.len() {
            whole.drain(..used);
            self.leftover = whole;
        }
        Ok(())
    }

    /// Parses the data and returns the number of bytes used.
    fn understand(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            // The state machine rejects data without a request.
            if used == bytes.len() && self.machine.is_idle() {
                return Ok(used);
            }
            let (taken, answer) = self.machine.decode(&bytes[used..], limits).map_err(Failure::Malformed)?;
            used += taken;
            match answer {
                ResponseEvent::Informational(head) => observer.informational(&head),
                ResponseEvent::Head(head) => observer.head(&head),
                ResponseEvent::Data(data) => {
                    observer.data(data);
                    if !self.machine.is_within_chunk() {
                        observer.chunk();
                    }
                }
                ResponseEvent::End(trailers) => {
                    observer.end(trailers.as_ref(), now);
                    if let Some(request) = self.awaited.pop_front() {
                        self.machine.expect_response(request);
                    }
                }
                ResponseEvent::NeedData => return Ok(used),
            }
        }
    }
}
