//! Encodes responses.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode, Version};
use rudy_message::semantics::reason::reason_phrase;
use rudy_message::text::HeadLines;
use rudy_message::{DateLine, Framing, LengthError, Rejection, ResponseHead, has_no_content};

use super::body::BodyDecoder;
use super::head_end::encode_head_end;
use super::receive::is_head_request;
use super::{Receiving, Sending, ServerConnection};
use crate::Limits;
use crate::h1::encode::{encode_last_chunk, put_chunk_size};

impl ServerConnection {
    /// Encodes `100 Continue` if the client waits for it (RFC 9110 §10.1.1). Call it when the service reads the request body.
    pub fn encode_continue(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.request.expects_continue) && self.sending == Sending::ResponseDue {
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Encodes an interim response (RFC 9110 §15.2) and returns whether it is allowed: a 1xx before the response, and not for
    /// HTTP/1.0. [`Self::encode_continue`] sends 100, and [`Self::begin`] sends 101. Fields for the connection and the framing
    /// are dropped.
    #[must_use]
    pub fn encode_interim(&self, status: StatusCode, headers: &HeaderMap, out: &mut BytesMut) -> bool {
        let is_allowed = (102..=199).contains(&status.as_u16())
            && self.sending == Sending::ResponseDue
            && self.request.version == Version::HTTP_11;
        if is_allowed {
            ResponseHead::Fields(status, headers).encode(out);
            out.extend_from_slice(b"\r\n");
        }
        is_allowed
    }

    /// Records that the service does not read the rest of the request body. If called before [`Self::begin`], the response
    /// has `Connection: close` where the connection cannot be reused.
    pub fn ignore_body(&mut self) {
        self.request.body_is_unwanted = true;
    }

    /// Encodes the head of the response. `length` is the length of the body, if known; for HEAD, that of the response to GET.
    pub fn begin(
        &mut self,
        head: ResponseHead<'_>,
        length: Option<u64>,
        limits: &Limits,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        debug_assert_eq!(self.sending, Sending::ResponseDue, "each request has one response");
        let status = head.status();
        let framing = self.framing(status, length);
        self.decide_keep_alive(framing, limits);
        head.encode(out);
        let connection = match (status, self.request.keep_alive, self.request.version) {
            (StatusCode::SWITCHING_PROTOCOLS, ..) => Some("upgrade"),
            (_, false, _) => Some("close"),
            (_, true, Version::HTTP_10) => Some("keep-alive"),
            (_, true, _) => None,
        };
        // RFC 9110 §8.6: no Content-Length with 1xx and 204. For 304 it would be the length of the 200 response, which the
        // service may not know.
        let content_length = if has_no_content(status) { None } else { length };
        encode_head_end(framing, content_length, connection, head.missing_date(date), out);
        self.sending = Sending::Body(framing);
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.sending = Sending::Upgrade;
        }
    }

    /// Whether the current response has a body on the wire.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        !matches!(self.sending, Sending::Body(Framing::None))
    }

    /// Whether a response has begun and its end has not been encoded.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.sending, Sending::Body(_))
    }

    /// Whether the end of the connection is the end of the current response (RFC 9112 §6.3).
    #[must_use]
    pub fn sends_until_close(&self) -> bool {
        matches!(self.sending, Sending::Body(Framing::UntilClose))
    }

    /// Encodes a piece of the body. An empty piece encodes only the end of a chunk that [`Self::raw_piece`] has begun.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.raw_piece(data.len() as u64, out)?;
        if let Sending::Body(Framing::Length(_) | Framing::Chunked | Framing::UntilClose) = self.sending {
            out.extend_from_slice(data);
        }
        self.end_chunk(out);
        Ok(())
    }

    /// Encodes the framing before a piece of the body that the caller sends itself, for example with `sendfile`. If
    /// [`Self::sends_body`], the caller sends exactly `length` bytes after `out`. The next call encodes the framing after them.
    ///
    /// # Errors
    ///
    /// The body is longer than its Content-Length.
    pub fn raw_piece(&mut self, length: u64, out: &mut BytesMut) -> Result<(), LengthError> {
        match &mut self.sending {
            Sending::Body(Framing::Length(remaining)) => {
                *remaining = remaining.checked_sub(length).ok_or(LengthError)?;
            }
            // An empty chunk would end the body.
            Sending::Body(Framing::Chunked) if length > 0 => {
                self.end_chunk(out);
                put_chunk_size(length, out);
                self.is_chunk_open = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Encodes the end of the previous chunk.
    fn end_chunk(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.is_chunk_open) {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Ends the response, with trailers if the body is chunked.
    ///
    /// # Errors
    ///
    /// The body is shorter than its Content-Length.
    pub fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        match self.sending {
            Sending::Body(Framing::Length(1..)) => return Err(LengthError),
            Sending::Body(Framing::Chunked) => {
                self.end_chunk(out);
                encode_last_chunk(trailers, out);
            }
            Sending::Upgrade => return Ok(()),
            _ => {}
        }
        let persists = self.request.keep_alive && !(self.input_ended && self.buffer.is_empty());
        self.sending = if persists { Sending::Idle } else { Sending::Close };
        self.request.is_head = false;
        self.wait_started = now;
        self.receiving = match std::mem::replace(&mut self.receiving, Receiving::Done) {
            Receiving::Body(decoder) => Receiving::Drain(decoder, 0),
            _ => Receiving::Head(HeadLines::default()),
        };
        Ok(())
    }

    /// Ends the connection instead of a response.
    pub fn end_without_response(&mut self) {
        self.request.keep_alive = false;
        self.sending = Sending::Close;
    }

    /// Makes the response to a rejected request due: the caller [begins](Self::begin) it, and the connection closes after it.
    /// Returns `false` if a response has begun. Then the caller must close the connection.
    #[must_use]
    pub fn begin_rejection(&mut self) -> bool {
        self.request.keep_alive = false;
        match self.sending {
            // RFC 9110 §9.3.2: no content for HEAD, even if its head is incomplete.
            Sending::Idle => self.request.is_head = is_head_request(self.buffer.as_slice()),
            Sending::ResponseDue => {}
            Sending::Body(_) | Sending::Upgrade | Sending::Close => {
                self.sending = Sending::Close;
                return false;
            }
        }
        self.sending = Sending::ResponseDue;
        true
    }

    /// Encodes a rejection as a text, after which the connection closes. If the response has begun, nothing is encoded, and the
    /// caller must close the connection.
    pub fn reject(&mut self, rejection: Rejection, date: &DateLine, out: &mut BytesMut) {
        if self.begin_rejection() {
            self.encode_rejection(rejection, date, out);
        }
        self.sending = Sending::Close;
    }

    fn encode_rejection(&self, rejection: Rejection, date: &DateLine, out: &mut BytesMut) {
        let status = rejection.status();
        let text =
            format!("{} {}: {rejection}\n", status.as_str(), reason_phrase(status).unwrap_or_default());
        let length = text.len() as u64;
        ResponseHead::Fields(status, &rejection.fields()).encode(out);
        encode_head_end(Framing::Length(length), Some(length), Some("close"), Some(date), out);
        if !self.request.is_head {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Chooses the framing of the response (RFC 9112 §6.3).
    fn framing(&self, status: StatusCode, length: Option<u64>) -> Framing {
        match length {
            _ if self.request.is_head || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if self.request.version == Version::HTTP_10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    /// Decides whether the connection persists: only if both sides can find the end of this exchange (RFC 9112 §9.3).
    fn decide_keep_alive(&mut self, framing: Framing, limits: &Limits) {
        let can_skip_body = match &self.receiving {
            // Without `100 Continue`, the client may or may not send the body (RFC 9110 §10.1.1).
            Receiving::Body(_) if self.request.expects_continue => false,
            Receiving::Body(BodyDecoder::Length(remaining)) if self.request.body_is_unwanted => {
                *remaining <= limits.drain_bytes
            }
            _ => true,
        };
        let was_last = limits.requests_per_connection.is_some_and(|most| self.requests >= most);
        let nothing_follows = self.input_ended && self.buffer.is_empty();
        let is_last = was_last || nothing_follows || framing == Framing::UntilClose;
        self.request.keep_alive &= can_skip_body && !is_last;
    }
}
