//! Encodes responses. What is appended is for the stream of the request only.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};

use super::{ServerConnection, StreamEnd};
use crate::field_section::{Compress, put_response, put_status_and_fields, rejection_text};
use crate::h3::ErrorCode;
use crate::h3::frame::put_section;
use crate::progress::Sending;
use crate::qpack::Qpack;

impl ServerConnection {
    /// Encodes `100 Continue` if the client waits for it (RFC 9110 §10.1.1). Call it when the service reads the request body.
    pub fn encode_continue(&mut self, stream: u64, out: &mut BytesMut) {
        if let Some(state) = self.core.streams.get_mut(stream)
            && state.progress.take_continue()
        {
            put_section(out, |out| Qpack::put_field(b":status", b"100", out));
        }
    }

    /// Encodes an interim response (RFC 9110 §15.2) and returns whether it is allowed: a 1xx other than 100 and 101, before the
    /// response.
    #[must_use]
    pub fn encode_interim(
        &mut self,
        stream: u64,
        status: StatusCode,
        fields: &HeaderMap,
        out: &mut BytesMut,
    ) -> bool {
        let is_due = self.core.streams.get(stream).is_some_and(|stream| stream.progress.is_response_due());
        let is_allowed = (102..=199).contains(&status.as_u16()) && is_due;
        if is_allowed {
            let head = ResponseHead::Fields(status, fields);
            put_section(out, |out| put_status_and_fields::<Qpack>(&head, out));
        }
        is_allowed
    }

    /// Encodes the head of the response. `length` is the length of the body, if known; for HEAD, that of the response to GET.
    pub fn begin(
        &mut self,
        stream: u64,
        head: ResponseHead<'_>,
        length: Option<u64>,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        let Some(state) = self.core.streams.get_mut(stream) else { return };
        if state.progress.begin(head.status(), length).is_some() {
            put_section(out, |out| put_response::<Qpack>(&head, length, date, out));
        }
    }

    /// Whether the response to a stream has a body on the wire, whose end is not encoded.
    #[must_use]
    pub fn is_in_body(&self, stream: u64) -> bool {
        self.core.is_in_body(stream)
    }

    /// Encodes the frame before bytes of a body that the caller sends itself, if they are not in the frame of those before. Returns how
    /// many of the `length` bytes follow: all. A body of known length has one frame.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn begin_data(&mut self, stream: u64, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.core.begin_data(stream, length, out)
    }

    /// Encodes a piece of a body.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn encode_piece(&mut self, stream: u64, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        if !data.is_empty() {
            self.begin_data(stream, data.len() as u64, out)?;
            out.extend_from_slice(data);
        }
        Ok(())
    }

    /// Ends a body, if it has not ended with its last byte.
    ///
    /// # Errors
    ///
    /// The body is shorter than its Content-Length.
    pub fn finish(
        &mut self,
        stream: u64,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.core.finish(stream, trailers, out).map(|_| ())
    }

    /// Closes a stream whose response is encoded. The rest of its request is not wanted any more (RFC 9114 §4.1).
    pub fn close(&mut self, stream: u64, now: Instant) {
        let is_encoded = |sending| sending == Sending::Ended;
        if !self.core.streams.get(stream).is_some_and(|state| is_encoded(state.progress.sending)) {
            return;
        }
        self.core.ends.push_back((stream, StreamEnd::Finish));
        match self.core.remove(stream) {
            Some(state) if state.has_ended => self.core.allowances.count_end(),
            _ => self.core.ends.push_back((stream, StreamEnd::Stop(ErrorCode::NO_ERROR))),
        }
        self.note_idle(now);
    }

    /// Resets a stream: its response stays incomplete.
    pub fn reset(&mut self, stream: u64, code: ErrorCode, now: Instant) {
        self.core.reset(stream, code);
        self.note_idle(now);
    }

    /// Encodes a response for a rejection, and closes the stream. If the response has begun, resets the stream.
    pub fn reject(
        &mut self,
        stream: u64,
        rejection: Rejection,
        (date, now): (&DateLine, Instant),
        out: &mut BytesMut,
    ) {
        if self.core.streams.get(stream).is_some_and(|stream| !stream.progress.is_response_due()) {
            return self.reset(stream, ErrorCode::REQUEST_CANCELLED, now);
        }
        let (text, fields) = (rejection_text(rejection), rejection.fields());
        let head = ResponseHead::Fields(rejection.status(), &fields);
        self.begin(stream, head, Some(text.len() as u64), date, out);
        if self.is_in_body(stream) {
            // It has the length that its head states.
            let _is_sent = self.encode_piece(stream, text.as_bytes(), out);
        }
        self.close(stream, now);
    }
}
