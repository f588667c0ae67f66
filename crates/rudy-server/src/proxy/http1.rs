//! A connection to an upstream over HTTP/1.1. It carries one request at a time.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use http::HeaderMap;
use rudy_http::Limits;
use rudy_http::h1::client::{
    ClientConnection, Fault, InputEnd, RequestInfo, ResponseEvent, encode_chunk, encode_last_chunk,
};
use rudy_net::Piped;

use super::failure::Cause;
use crate::upstream::{EncodeBody, Socket, SocketConnection};

/// The size of the read buffer. Larger reads save system calls, but delay the first byte that the client gets.
const READ_BYTES: usize = 64 * 1024;

/// How much of a body is copied before the rest passes through a pipe: a short one would not save what the pipe costs.
const PIPED_AFTER_BYTES: u64 = 64 * 1024;

/// The limits of a response. Heads of 32 KiB are four times what nginx accepts.
pub(super) static LIMITS: LazyLock<Limits> =
    LazyLock::new(|| Limits { head_bytes: READ_BYTES / 2, ..Limits::for_responses() });

thread_local! {
    /// The read buffer of all connections of this thread. A connection stores only an incomplete head or chunk line.
    pub(super) static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A socket with its protocol state. It has no buffer between requests.
#[derive(Debug)]
pub(super) struct Http1Connection {
    socket: Socket,
    protocol: ClientConnection,
    /// Received bytes that are part of an incomplete head or chunk line, or follow the response.
    unused: Vec<u8>,
}

impl SocketConnection for Http1Connection {
    fn new(socket: Socket) -> Self {
        Self { socket, protocol: ClientConnection::new(), unused: Vec::new() }
    }

    fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Http1Connection {
    /// Expects the response to a request.
    pub(super) fn begin(&mut self, request: RequestInfo) {
        self.protocol.expect_response(request);
    }

    /// Reads once, and passes the decoded events to `on_event`.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut on_event: impl FnMut(ResponseEvent<'_>) -> Result<(), Cause>,
    ) -> Poll<Result<(), Cause>> {
        READ.with_borrow_mut(|buffer| {
            // Less than the buffer: a head, a chunk line and a trailer section have a lower limit.
            let kept = self.unused.len().min(buffer.len());
            buffer[..kept].copy_from_slice(&self.unused[..kept]);
            let received =
                ready!(self.socket.poll_read(cx, &mut buffer[kept..])).map_err(Cause::ConnectionLost)?;
            if received == 0 {
                return Poll::Ready(match self.protocol.end_of_input().map_err(Cause::Fault)? {
                    InputEnd::ResponseComplete => on_event(ResponseEvent::End(None)),
                    InputEnd::BetweenResponses => Err(Cause::Fault(Fault::ClosedBeforeResponse)),
                });
            }
            let mut bytes = &buffer[..kept + received];
            while !self.protocol.is_idle() {
                let (used, event) = self.protocol.decode(bytes, &LIMITS).map_err(Cause::Fault)?;
                bytes = &bytes[used..];
                match event {
                    ResponseEvent::NeedData => break,
                    event => on_event(event)?,
                }
            }
            self.unused.clear();
            self.unused.extend_from_slice(bytes);
            Poll::Ready(Ok(()))
        })
    }

    /// Moves received bytes of a long body with a length into a pipe, except the last one, which ends the response.
    pub(super) fn take_piped(&mut self, max: u64) -> Option<Piped> {
        let (received, missing) = self.protocol.body_progress()?;
        if received < PIPED_AFTER_BYTES || missing < 2 || !self.unused.is_empty() {
            return None;
        }
        let piped = self.socket.take_piped(max.min(missing - 1))?;
        self.protocol.bypass(piped.length());
        Some(piped)
    }

    /// Returns whether the upstream has changed to another protocol.
    pub(super) fn has_switched(&self) -> bool {
        self.protocol.has_switched()
    }

    /// Takes the received bytes that follow the response.
    pub(super) fn take_unused(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unused)
    }

    /// Returns whether another request can be sent: the response is complete, and nothing follows it.
    pub(super) fn can_be_reused(&self) -> bool {
        self.protocol.can_be_reused() && self.unused.is_empty()
    }
}

/// Encodes the body of a request.
#[derive(Debug)]
pub(super) enum BodyEncoder {
    /// The head has its length.
    Plain,
    Chunked,
}

impl EncodeBody for BodyEncoder {
    fn encode_piece(&self, piece: &[u8], out: &mut BytesMut) {
        match self {
            Self::Plain => out.extend_from_slice(piece),
            Self::Chunked => encode_chunk(piece, out),
        }
    }

    fn encode_end(&self, trailers: Option<&HeaderMap>, out: &mut BytesMut) {
        if let Self::Chunked = self {
            encode_last_chunk(trailers, out);
        }
    }
}
