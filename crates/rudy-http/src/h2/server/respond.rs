//! Encodes responses.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};

use super::ServerConnection;
use crate::field_section::{Compress, put_response, put_status_and_fields, put_trailers, rejection_text};
use crate::h2::ErrorCode;
use crate::h2::frame::end_block;
use crate::h2::stream::Stream;
use crate::hpack::Hpack;
use crate::progress::{Receiving, Sending};

impl ServerConnection {
    /// Encodes `100 Continue` if the client waits for it (RFC 9110 §10.1.1). Call it when the service reads the request body.
    pub fn encode_continue(&mut self, stream: u32, out: &mut BytesMut) {
        if let Some(state) = self.core.streams.get_mut(stream)
            && state.progress.take_continue()
        {
            let start = self.core.begin_block(out);
            Hpack::put_field(b":status", b"100", out);
            end_block(start, stream, false, out);
        }
    }

    /// Encodes an interim response (RFC 9110 §15.2) and returns whether it is allowed: a 1xx other than 100 and 101, before the
    /// response.
    #[must_use]
    pub fn encode_interim(
        &mut self,
        stream: u32,
        status: StatusCode,
        fields: &HeaderMap,
        out: &mut BytesMut,
    ) -> bool {
        let is_due = self.core.streams.get(stream).is_some_and(|stream| stream.progress.is_response_due());
        let is_allowed = (102..=199).contains(&status.as_u16()) && is_due;
        if is_allowed {
            let start = self.core.begin_block(out);
            put_status_and_fields::<Hpack>(&ResponseHead::Fields(status, fields), out);
            end_block(start, stream, false, out);
        }
        is_allowed
    }

    /// Encodes the head of the response. `length` is the length of the body, if known; for HEAD, that of the response to GET.
    pub fn begin(
        &mut self,
        stream: u32,
        head: ResponseHead<'_>,
        length: Option<u64>,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        let Some(state) = self.core.streams.get_mut(stream) else { return };
        let Some(has_body) = state.progress.begin(head.status(), length) else { return };
        let start = self.core.begin_block(out);
        put_response::<Hpack>(&head, length, date, out);
        end_block(start, stream, !has_body, out);
    }

    /// Whether the response to a stream has a body on the wire, whose end is not encoded.
    #[must_use]
    pub fn is_in_body(&self, stream: u32) -> bool {
        self.core.streams.get(stream).is_some_and(|stream| stream.progress.is_in_body())
    }

    /// Returns how many bytes of a body the client accepts now.
    #[must_use]
    pub fn window(&self, stream: u32) -> u64 {
        self.core.window(stream)
    }

    /// Whether the client accepts more of any body now.
    #[must_use]
    pub fn has_window(&self) -> bool {
        self.core.send_window.available() > 0
    }

    /// Encodes the frame before bytes of a body that the caller sends itself. Returns how many of the `length` bytes follow: at
    /// least 1 if there is a [window](Self::window). With the last byte of a known length, the stream ends.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn begin_data(&mut self, stream: u32, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.core.begin_data(stream, length, out)
    }

    /// Encodes a piece of a body, of at most [`Self::window`] bytes.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn encode_piece(&mut self, stream: u32, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.core.encode_piece(stream, data, out)
    }

    /// Ends a body, if it has not ended with its last byte.
    ///
    /// # Errors
    ///
    /// The body is shorter than its Content-Length.
    pub fn finish(
        &mut self,
        stream: u32,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        let Some(trailers) = self.core.finish(stream, trailers, out)? else { return Ok(()) };
        let start = self.core.begin_block(out);
        put_trailers::<Hpack>(trailers, out);
        end_block(start, stream, true, out);
        Ok(())
    }

    /// Closes a stream whose response is encoded. The rest of its request is discarded: a reset would be correct (RFC 9113 §8.1),
    /// but some clients then drop the response.
    pub fn close(&mut self, stream: u32, now: Instant) {
        let is_early = |Stream { progress, .. }: &Stream| {
            progress.receiving != Receiving::Ended && progress.sending == Sending::Ended
        };
        if self.core.streams.get(stream).is_some_and(is_early) {
            self.core.streams.drain(stream, now);
        }
        self.core.close_if_ended(stream);
        self.note_idle(now);
    }

    /// Resets a stream: its response stays incomplete.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, now: Instant, out: &mut BytesMut) {
        if self.core.streams.get(stream).is_some() {
            self.core.reset(stream, code, out);
        }
        self.note_idle(now);
    }

    /// Encodes a response for a rejection, and closes the stream. If the response has begun, resets the stream.
    pub fn reject(
        &mut self,
        stream: u32,
        rejection: Rejection,
        (date, now): (&DateLine, Instant),
        out: &mut BytesMut,
    ) {
        if self.core.streams.get(stream).is_some_and(|stream| !stream.progress.is_response_due()) {
            return self.reset(stream, ErrorCode::CANCEL, now, out);
        }
        let (status, text) = (rejection.status(), rejection_text(rejection));
        let fields = rejection.fields();
        self.begin(stream, ResponseHead::Fields(status, &fields), Some(text.len() as u64), date, out);
        // Of a client that has no window, the text is not worth a wait.
        let is_sent = self.is_in_body(stream)
            && self.window(stream) >= text.len() as u64
            && self.encode_piece(stream, text.as_bytes(), out).is_ok();
        if is_sent || !self.is_in_body(stream) {
            self.close(stream, now);
        } else {
            self.reset(stream, ErrorCode::CANCEL, now, out);
        }
    }

    /// Records that bytes of a request body are no longer stored, which opens the windows.
    pub fn pass_on(&mut self, stream: u32, bytes: usize, out: &mut BytesMut) {
        self.core.pass_on(stream, u32::try_from(bytes).unwrap_or(u32::MAX), out);
    }
}
