//! Requests and responses of HTTP/2 on one connection.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use rudy_http::Limits;
use rudy_http::h2::client::{ClientConnection, Event, HeadBuffers};
use rudy_http::h2::{ConnectionError, ErrorCode};

use super::Observer;
use crate::Failure;
use crate::request::Http2Request;
use crate::transport::Transport;

/// Frames to encode before they are written, in bytes: several TLS records.
const OUTPUT_BYTES: usize = 64 * 1024;

/// The state of HTTP/2.
#[derive(Debug)]
pub(super) struct Http2 {
    machine: ClientConnection,
    buffers: HeadBuffers,
    /// The frames to write.
    output: BytesMut,
    /// The bodies of requests that wait for a window.
    uploads: VecDeque<Upload>,
    /// The reason of the server's GOAWAY, if it is an error.
    go_away: Option<String>,
}

/// What is left of a request body.
#[derive(Debug)]
struct Upload {
    stream: u32,
    body: Bytes,
}

impl Http2 {
    pub(super) fn new(now: Instant, limits: &Limits) -> Self {
        let mut output = BytesMut::new();
        Self {
            machine: ClientConnection::new(now, limits, &mut output),
            buffers: HeadBuffers::default(),
            output,
            uploads: VecDeque::new(),
            go_away: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    pub(super) fn is_going_away(&self) -> bool {
        self.machine.is_going_away()
    }

    pub(super) fn has_data(&self) -> bool {
        !self.output.is_empty()
    }

    pub(super) fn allowed_streams(&self) -> Option<u32> {
        self.machine.concurrent_streams()
    }

    pub(super) fn request(&mut self, request: &Http2Request) -> Option<u32> {
        let stream = self.machine.request(&request.head, &mut self.output)?;
        if !request.body.is_empty() {
            self.uploads.push_back(Upload { stream, body: request.body.clone() });
        }
        Some(stream)
    }

    pub(super) fn cancel(&mut self, stream: u32) {
        self.machine.cancel(stream, &mut self.output);
        self.uploads.retain(|upload| upload.stream != stream);
    }

    pub(super) fn shut_down(&mut self) {
        self.machine.shut_down(&mut self.output);
    }

    /// The failure of the streams whose connection the server has closed.
    pub(super) fn end_of_input(&mut self) -> Failure {
        Failure::Closed(self.go_away.take())
    }

    /// Writes frames, and the parts of bodies that the windows allow, as far as they fit into the socket buffer.
    pub(super) fn flush(&mut self, transport: &mut Transport) -> io::Result<()> {
        loop {
            self.encode_uploads();
            if self.output.is_empty() {
                return transport.flush().map(|_| ());
            }
            match transport.write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Encodes parts of bodies, each stream in turn.
    fn encode_uploads(&mut self) {
        for _ in 0..self.uploads.len() {
            if self.output.len() >= OUTPUT_BYTES {
                return;
            }
            let Some(mut upload) = self.uploads.pop_front() else { return };
            let (stream, length) = (upload.stream, upload.body.len() as u64);
            // An error means that the stream is closed.
            let Ok(framed) = self.machine.begin_data(stream, length, &mut self.output) else { continue };
            let framed = usize::try_from(framed).unwrap_or(usize::MAX).min(upload.body.len());
            self.output.extend_from_slice(&upload.body.split_to(framed));
            if !upload.body.is_empty() {
                self.uploads.push_back(upload);
            }
        }
    }

    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        limits: &Limits,
        now: Instant,
        observer: &mut impl Observer,
    ) -> Result<(), Failure> {
        loop {
            let Self { machine, buffers, output, .. } = self;
            let event = match machine.receive(&mut bytes, buffers, now, limits, output) {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(()),
                Err(error) => {
                    machine.fail(error, output);
                    return Err(Failure::Http2(error));
                }
            };
            match event {
                Event::Informational { stream, head } => {
                    observer.stream(stream, now);
                    observer.informational(&head);
                }
                Event::Head { stream, head, ends } => {
                    observer.stream(stream, now);
                    observer.head(&head);
                    if ends {
                        self.end(stream, now, observer);
                    }
                }
                Event::Data { stream, data, ends } => {
                    machine.pass_on(stream, data.len(), output);
                    observer.stream(stream, now);
                    observer.data(data);
                    if !machine.is_within_frame() {
                        observer.chunk();
                    }
                    if ends {
                        self.end(stream, now, observer);
                    }
                }
                Event::End { stream, trailers } => {
                    observer.stream(stream, now);
                    observer.end(trailers.as_ref(), now);
                    self.end_request(stream);
                }
                Event::Reset { stream, code, reason } => {
                    self.uploads.retain(|upload| upload.stream != stream);
                    observer.stream(stream, now);
                    observer.failed(failure(code, reason), now);
                }
                Event::GoAway { code, reason, .. } => {
                    if code != ErrorCode::NO_ERROR {
                        self.go_away = Some(format!("{code}: {}", reason.escape_ascii()));
                    }
                }
                Event::Settings => {}
            }
        }
    }

    /// Ends a response without trailers.
    fn end(&mut self, stream: u32, now: Instant, observer: &mut impl Observer) {
        observer.end(None, now);
        self.end_request(stream);
    }

    /// Cancels the rest of a request whose response is complete (RFC 9113 §8.1).
    fn end_request(&mut self, stream: u32) {
        if self.machine.is_in_body(stream) {
            self.cancel(stream);
        }
    }
}

/// The failure of a stream that was reset.
fn failure(code: ErrorCode, reason: Option<&'static str>) -> Failure {
    match (reason, code) {
        (Some(reason), code) => Failure::Http2(ConnectionError { code, reason }),
        (None, ErrorCode::REFUSED_STREAM) => Failure::Refused,
        (None, code) => Failure::Reset(code),
    }
}
