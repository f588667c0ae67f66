//! The client of a case over HTTP/2, without TLS.

use std::net::{Shutdown, SocketAddr};

use super::request::{Field, PlainRequest};
use super::streams::{self, pseudo_fields};
use crate::Http2Response;
use crate::http2::{END, END_HEADERS, Http2Connection, block, kind};

/// PROTOCOL_ERROR (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;

/// The largest frame that a server must accept (RFC 9113 §6.5.2).
const FRAME_BYTES: usize = 16_384;

/// What fits into the first windows of a server (RFC 9113 §6.9.2), which the client does not wait for.
const WINDOW_BYTES: usize = 65_534;

/// The client of a case.
pub(super) struct Client {
    connection: Http2Connection,
    stream: u32,
}

impl Client {
    pub(super) fn open(address: SocketAddr) -> Self {
        Self { connection: Http2Connection::open(address, &[]), stream: 1 }
    }

    fn send_block(&mut self, stream: u32, fields: &[Field], ends: bool) {
        let block = block(fields);
        let mut pieces = block.chunks(FRAME_BYTES).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, if ends { END } else { 0 });
        while let Some(piece) = pieces.next() {
            flags |= if pieces.peek().is_none() { END_HEADERS } else { 0 };
            self.connection.frame(kind, flags, stream, piece);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Sends a body that fits into the first windows.
    fn send_body(&mut self, stream: u32, body: &[u8], ends: bool) {
        for piece in body.chunks(FRAME_BYTES) {
            self.connection.frame(kind::DATA, 0, stream, piece);
        }
        if ends {
            self.connection.frame(kind::DATA, END, stream, &[]);
        }
    }

    fn shut_down(&self) {
        // Fails only if the server has already closed the connection.
        let _ = self.connection.socket().shutdown(Shutdown::Write);
    }
}

impl streams::Client for Client {
    fn body_bytes_max(&self) -> usize {
        WINDOW_BYTES
    }

    fn malformed(&self) -> u32 {
        PROTOCOL_ERROR
    }

    fn may_lose_head(&self) -> bool {
        false
    }

    fn exchange(&mut self, request: &PlainRequest, awaits: bool, ends_input: bool) -> Http2Response {
        let (mut response, stream) = (Http2Response::default(), self.stream);
        let parts = std::slice::from_mut(&mut response);
        self.stream += 2;
        self.send_block(stream, &pseudo_fields(request, b"http"), request.body.is_none());
        while awaits && parts[0].interim.is_empty() && self.connection.read_part(&[stream], parts) {}
        if let Some(body) = &request.body {
            let ends = request.is_complete && request.trailers.is_empty();
            self.send_body(stream, body, ends);
            if !request.trailers.is_empty() {
                self.send_block(stream, &request.trailers, true);
            }
        }
        if ends_input {
            self.shut_down();
        }
        while !parts[0].is_over && self.connection.read_part(&[stream], parts) {}
        response
    }

    fn check_end(&mut self, is_half_closed: bool) -> Result<(), String> {
        self.connection.frame(kind::PING, 0, 0, b"any more");
        loop {
            let Some(frame) = self.connection.next_frame() else {
                return if is_half_closed { Ok(()) } else { Err("the connection has ended".into()) };
            };
            match frame.kind {
                kind::GOAWAY if frame.payload[4..8] != [0; 4] => {
                    return Err(format!("GOAWAY {}", frame.payload.escape_ascii()));
                }
                kind::PING if frame.flags & END > 0 => return Ok(()),
                _ => {}
            }
        }
    }
}
