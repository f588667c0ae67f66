//! Requests and responses of HTTP/3 on one connection.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rudy_http::Limits;
use rudy_http::h3::client::{ClientConnection, Event, HeadBuffers};
use rudy_http::h3::{ConnectionError, ErrorCode, Own, StreamEnd};
use rudy_quic::quinn_proto::{self, ConnectionHandle, DatagramEvent, Dir, StreamEvent, VarInt};
use rudy_quic::streams::{self, Outgoing, OwnStream, Part, number};
use rudy_quic::{Datagrams, Received, client_config, client_endpoint};

use super::Observer;
use crate::Failure;
use crate::request::Http2Request;
use crate::transport::{Security, Transport};

/// The maximum number of datagrams in a transmission.
const SEGMENTS_MAX: usize = 40;

thread_local! {
    /// The buffers for what the connections of a thread receive.
    static RECEIVED: RefCell<Received> = RefCell::default();
}

/// The state of HTTP/3.
pub(super) struct Http3 {
    /// The socket of the transport, for the last datagram: unlike TCP, no kernel tells the server of the end.
    socket: OwnedFd,
    endpoint: quinn_proto::Endpoint,
    quic: quinn_proto::Connection,
    handle: ConnectionHandle,
    datagrams: Datagrams,
    machine: ClientConnection,
    buffers: HeadBuffers,
    /// The streams of this side, beside those of requests.
    own: [OwnStream; 3],
    /// What QUIC has not accepted of requests.
    uploads: BTreeMap<u64, Outgoing>,
    /// A transmission that the socket did not accept.
    unsent: Option<(quinn_proto::Transmit, Vec<u8>)>,
    is_connected: bool,
    /// Why the connection has ended.
    lost: Option<Failure>,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http3").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Http3 {
    /// Begins a connection.
    pub(super) fn new(
        transport: &Transport,
        security: &Security,
        limits: &Limits,
        now: Instant,
    ) -> io::Result<Self> {
        let remote = transport.remote_address()?;
        let mut endpoint = client_endpoint().map_err(io::Error::other)?;
        let config = client_config(security.config.clone(), limits.http2.stream_window_bytes);
        let name = security.name.to_str();
        let (handle, quic) = endpoint
            .connect(now, config.map_err(io::Error::other)?, remote, &name)
            .map_err(io::Error::other)?;
        Ok(Self {
            socket: transport.as_fd().try_clone_to_owned()?,
            endpoint,
            quic,
            handle,
            datagrams: Datagrams::new(&transport.as_fd())?,
            machine: ClientConnection::new(now, limits),
            buffers: HeadBuffers::default(),
            own: [None; 3],
            uploads: BTreeMap::new(),
            unsent: None,
            is_connected: false,
            lost: None,
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    pub(super) fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    pub(super) fn is_going_away(&self) -> bool {
        self.machine.is_going_away() || self.lost.is_some()
    }

    /// Whether a transmission waits for the socket.
    pub(super) fn has_data(&self) -> bool {
        self.unsent.is_some()
    }

    /// Returns when the connection must be driven without an event.
    pub(super) fn due(&mut self) -> Option<Instant> {
        self.quic.poll_timeout()
    }

    /// Begins a request. `None` if the server permits no further one now.
    pub(super) fn request(&mut self, request: &Http2Request) -> Option<u32> {
        let id = self.quic.streams().open(Dir::Bi)?;
        let (stream, mut out) = (number(id), BytesMut::new());
        if !self.machine.request(stream, &request.head, &mut out) {
            streams::reset(&mut self.quic, stream, ErrorCode::REQUEST_CANCELLED.0);
            return None;
        }
        let upload = self.uploads.entry(stream).or_default();
        let body = &request.body;
        // The DATA frame covers the whole body, whose length is known.
        let has_body =
            !body.is_empty() && self.machine.begin_data(stream, body.len() as u64, &mut out).is_ok();
        upload.push(out.split().freeze());
        if has_body {
            upload.push(body.clone());
            let _is_complete = self.machine.finish(stream, None, &mut out);
        }
        self.take_ends();
        u32::try_from(stream).ok()
    }

    pub(super) fn cancel(&mut self, stream: u32) {
        self.machine.cancel(stream.into());
        self.take_ends();
    }

    /// Does what the state machine demands of streams.
    fn take_ends(&mut self) {
        while let Some((stream, end)) = self.machine.take_end() {
            match end {
                StreamEnd::Finish => self.uploads.entry(stream).or_default().ends = true,
                StreamEnd::Reset(error) => {
                    self.uploads.remove(&stream);
                    streams::reset(&mut self.quic, stream, error.0);
                }
                StreamEnd::Stop(error) => streams::stop(&mut self.quic, stream, error.0),
            }
        }
    }

    /// Sends and receives as much as possible without waiting. Returns whether something was received.
    pub(super) fn drive(&mut self, limits: &Limits, observer: &mut impl Observer) -> Result<bool, Failure> {
        let now = Instant::now();
        let received = self.receive(now, observer).map_err(Failure::Read)?;
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll() {
            let handled = self.handle(event, limits, now, observer);
            if let Err(Failure::Http3(error)) = &handled {
                let reason = Bytes::from_static(error.reason.as_bytes());
                self.quic.close(now, streams::code(error.code.0), reason);
                let _best_effort = self.send(now);
            }
            handled?;
        }
        self.flush();
        self.send(now).map_err(Failure::Write)?;
        match self.lost.take() {
            Some(failure) if !self.is_idle() || !self.is_connected => Err(failure),
            lost => {
                self.lost = lost;
                Ok(received)
            }
        }
    }

    /// Whether the connection has ended, and no response is due.
    pub(super) fn is_closed(&self) -> bool {
        self.lost.is_some()
    }

    /// Receives the datagrams of one call.
    fn receive(&mut self, now: Instant, observer: &mut impl Observer) -> io::Result<bool> {
        RECEIVED.with_borrow_mut(|received| {
            match self.datagrams.receive(&self.socket, received) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            let mut response = Vec::new();
            for datagram in received.take() {
                observer.received_frames(datagram.bytes.len(), now);
                let event = self.endpoint.handle(
                    now,
                    datagram.from,
                    datagram.to,
                    datagram.ecn,
                    datagram.bytes,
                    &mut response,
                );
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.quic.handle_event(event);
                }
            }
            self.exchange_events();
            Ok(true)
        })
    }

    fn exchange_events(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
    }

    fn handle(
        &mut self,
        event: quinn_proto::Event,
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        match event {
            quinn_proto::Event::Connected => self.is_connected = true,
            quinn_proto::Event::ConnectionLost { reason } => self.lost = Some(failure_of(reason)),
            quinn_proto::Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(id) = self.quic.streams().accept(Dir::Uni) {
                    self.read(number(id), limits, now, observer)?;
                }
            }
            quinn_proto::Event::Stream(StreamEvent::Readable { id }) => {
                self.read(number(id), limits, now, observer)?;
            }
            quinn_proto::Event::Stream(StreamEvent::Stopped { id, .. }) => {
                let stream = number(id);
                self.uploads.remove(&stream);
                self.machine.receive_stop(stream).map_err(Failure::Http3)?;
                self.take_ends();
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads what has arrived on a stream.
    fn read(
        &mut self,
        stream: u64,
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        while !self.machine.is_blocked(stream) {
            match streams::read(&mut self.quic, stream) {
                Part::Data(bytes, ends) => {
                    self.receive_part(stream, &bytes, ends, limits, now, observer)?;
                }
                Part::End => return self.receive_part(stream, &[], true, limits, now, observer),
                Part::Reset(error) => {
                    let event =
                        self.machine.receive_reset(stream, ErrorCode(error)).map_err(Failure::Http3)?;
                    if let Some(event) = event {
                        observe(&event, now, observer);
                    }
                    self.take_ends();
                    return Ok(());
                }
                Part::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    /// Handles bytes of a stream, and continues with the streams whose heads have waited for them.
    fn receive_part(
        &mut self,
        stream: u64,
        bytes: &[u8],
        ends: bool,
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        self.receive_events(stream, bytes, ends, limits, now, observer)?;
        while streams::id(stream).dir() == Dir::Uni
            && let Some((stream, bytes, ends)) = self.machine.resume()
        {
            self.receive_events(stream, &bytes, ends, limits, now, observer)?;
            self.read(stream, limits, now, observer)?;
        }
        Ok(())
    }

    fn receive_events(
        &mut self,
        stream: u64,
        mut bytes: &[u8],
        ends: bool,
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        loop {
            let Self { machine, buffers, .. } = self;
            let event = machine.receive(stream, &mut bytes, ends, buffers, now, limits);
            let Some(event) = event.map_err(Failure::Http3)? else { break };
            let is_data = matches!(event, Event::Data { .. });
            observe(&event, now, observer);
            if is_data && !machine.is_within_frame(stream) {
                observer.chunk();
            }
        }
        self.take_ends();
        Ok(())
    }

    /// Passes to QUIC what it accepts.
    pub(super) fn flush(&mut self) {
        for (kind, own) in [Own::Control, Own::Encoder, Own::Decoder].into_iter().zip(&mut self.own) {
            streams::write_own(&mut self.quic, own, self.machine.output(kind));
        }
        let quic = &mut self.quic;
        self.uploads.retain(|stream, upload| !upload.write(quic, *stream));
    }

    /// Sends the datagrams that are due.
    pub(super) fn send(&mut self, now: Instant) -> io::Result<()> {
        let segments = self.datagrams.segments_max().min(SEGMENTS_MAX);
        loop {
            let next = |quic: &mut quinn_proto::Connection| {
                let mut contents = Vec::new();
                Some((quic.poll_transmit(now, segments, &mut contents)?, contents))
            };
            let Some((transmit, contents)) = self.unsent.take().or_else(|| next(&mut self.quic)) else {
                self.exchange_events();
                return Ok(());
            };
            match self.datagrams.send(&self.socket, &transmit, &contents[..transmit.size]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent = Some((transmit, contents));
                    return Ok(());
                }
                sent => sent?,
            }
        }
    }
}

impl Drop for Http3 {
    /// Announces the end of the connection.
    fn drop(&mut self) {
        if self.lost.is_none() {
            let now = Instant::now();
            self.quic.close(now, streams::code(ErrorCode::NO_ERROR.0), Bytes::new());
            let _best_effort = self.send(now);
        }
    }
}

/// Passes an event to the observer.
fn observe(event: &Event<'_>, now: Instant, observer: &mut impl Observer) {
    let number = |stream: u64| u32::try_from(stream).unwrap_or(u32::MAX);
    match event {
        Event::Informational { stream, head } => {
            observer.stream(number(*stream), now);
            observer.informational(head);
        }
        Event::Head { stream, head, ends } => {
            observer.stream(number(*stream), now);
            observer.head(head);
            if *ends {
                observer.end(None, now);
            }
        }
        Event::Data { stream, data, ends } => {
            observer.stream(number(*stream), now);
            observer.data(data);
            if *ends {
                observer.end(None, now);
            }
        }
        Event::End { stream, trailers } => {
            observer.stream(number(*stream), now);
            observer.end(trailers.as_ref(), now);
        }
        Event::Reset { stream, code, reason } => {
            observer.stream(number(*stream), now);
            observer.failed(failure(*code, *reason), now);
        }
        Event::GoAway { .. } | Event::Settings => {}
    }
}

/// The failure of a stream that was reset.
fn failure(code: ErrorCode, reason: Option<&'static str>) -> Failure {
    match (reason, code) {
        (Some(reason), code) => Failure::Http3(ConnectionError { code, reason }),
        (None, ErrorCode::REQUEST_REJECTED) => Failure::Refused,
        (None, code) => Failure::ResetHttp3(code),
    }
}

/// The failure of a connection that has ended.
fn failure_of(reason: quinn_proto::ConnectionError) -> Failure {
    use quinn_proto::ConnectionError as Reason;
    let of_tls = |code: u64| (0x100..0x200).contains(&code);
    match reason {
        Reason::ApplicationClosed(close) if VarInt::into_inner(close.error_code) == ErrorCode::NO_ERROR.0 => {
            Failure::Closed(None)
        }
        Reason::ApplicationClosed(close) => {
            let code = ErrorCode(close.error_code.into_inner());
            Failure::Closed(Some(format!("{code}: {}", close.reason.escape_ascii())))
        }
        Reason::TransportError(error) if of_tls(error.code.into()) => {
            Failure::Tls(io::Error::other(error.reason))
        }
        Reason::ConnectionClosed(close) if of_tls(close.error_code.into()) => {
            Failure::Tls(io::Error::other(close.to_string()))
        }
        Reason::TimedOut => Failure::Read(io::ErrorKind::TimedOut.into()),
        Reason::Reset => Failure::Read(io::ErrorKind::ConnectionReset.into()),
        other => Failure::Read(io::Error::other(other)),
    }
}
