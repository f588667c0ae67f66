//! The way out: from answers to bytes.

use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode, Version};

use super::body::BodyDecoder;
use super::event::LengthError;
use super::head_lines::HeadLines;
use super::receive::asks_for_head;
use super::response_head::{ResponseHead, encode_head_end};
use super::{DateLine, Receiving, Rejection, Sending, ServerConnection};
use crate::Limits;
use crate::h1::Framing;
use crate::h1::encode::{encode_last_chunk, put_chunk_size};
use crate::semantics::reason::reason_phrase;

impl ServerConnection {
    /// The service wants the request's body: tells a client that waits for that (RFC 9110 §10.1.1).
    pub fn encode_continue(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.request.expects_continue) && self.sending == Sending::Due {
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Encodes an interim response, and says whether it may be sent (RFC 9110 §15.2): a 1xx while the response has not begun, and
    /// never to HTTP/1.0. 100 is [`Self::encode_continue`]'s to send, and 101 is a final response here: see [`Self::begin`]. Fields of
    /// the connection and the framing are dropped.
    #[must_use]
    pub fn encode_interim(&self, status: StatusCode, headers: &HeaderMap, out: &mut BytesMut) -> bool {
        let is_allowed = (102..=199).contains(&status.as_u16())
            && self.sending == Sending::Due
            && self.request.version == Version::HTTP_11;
        if is_allowed {
            ResponseHead::Fields(status, headers).encode(out);
            out.extend_from_slice(b"\r\n");
        }
        is_allowed
    }

    /// The service will not read the rest of the request's body. Said before [`Self::begin`], the answer tells the client
    /// whether the connection goes on after it.
    pub fn ignore_body(&mut self) {
        self.request.body_is_unwanted = true;
    }

    /// Encodes the head of the answer. `length` is the body's, if it is known; for HEAD it is what GET would have got.
    pub fn begin(
        &mut self,
        head: ResponseHead<'_>,
        length: Option<u64>,
        limits: &Limits,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        debug_assert_eq!(self.sending, Sending::Due, "one answer to each request");
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
        // RFC 9110 §8.6: no Content-Length with 1xx and 204. With 304 it would have to be that of the 200, which the
        // service does not always know.
        let told = if has_no_content(status) { None } else { length };
        encode_head_end(framing, told, connection, date, out);
        self.sending = Sending::Body(framing);
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.sending = Sending::Upgrade;
        }
    }

    /// Whether the body of the answer that has begun goes on the wire at all.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        !matches!(self.sending, Sending::Body(Framing::None))
    }

    /// Whether a response has begun and its end has not been encoded.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.sending, Sending::Body(_))
    }

    /// Encodes a piece of the body. An empty one encodes nothing but the end of the chunk that [`Self::raw_piece`] left open.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    pub fn piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.raw_piece(data.len() as u64, out)?;
        if let Sending::Body(Framing::Length(_) | Framing::Chunked | Framing::UntilClose) = self.sending {
            out.extend_from_slice(data);
        }
        self.end_chunk(out);
        Ok(())
    }

    /// Encodes what goes before a piece of the body that the caller sends by itself: exactly `length` bytes, behind `out` and
    /// before anything that is encoded later, where [`Self::sends_body`]. What goes behind the piece is encoded by the next call.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    pub fn raw_piece(&mut self, length: u64, out: &mut BytesMut) -> Result<(), LengthError> {
        match &mut self.sending {
            Sending::Body(Framing::Length(remaining)) => {
                *remaining = remaining.checked_sub(length).ok_or(LengthError)?;
            }
            // An empty chunk would be the last.
            Sending::Body(Framing::Chunked) if length > 0 => {
                self.end_chunk(out);
                put_chunk_size(length, out);
                self.is_chunk_open = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Encodes what goes behind the chunk before.
    fn end_chunk(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.is_chunk_open) {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Ends the answer's body, with its trailers where there are chunks to carry them.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head promised.
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
        let goes_on = self.request.keep_alive && !(self.input_ended && self.pending.is_empty());
        self.sending = if goes_on { Sending::Nothing } else { Sending::Close };
        self.request.is_head = false;
        self.since = now;
        self.receiving = match std::mem::replace(&mut self.receiving, Receiving::Done) {
            Receiving::Body(decoder) => Receiving::Drain(decoder, 0),
            _ => Receiving::Head(HeadLines::default()),
        };
        Ok(())
    }

    /// Encodes the answer to a peer that is refused, after which the connection closes. Where an answer has begun, nothing
    /// is encoded: it can only be cut.
    pub fn reject(&mut self, rejection: Rejection, date: &DateLine, out: &mut BytesMut) {
        if matches!(self.sending, Sending::Nothing | Sending::Due) {
            self.encode_rejection(rejection, date, out);
        }
        self.request.keep_alive = false;
        self.sending = Sending::Close;
    }

    fn encode_rejection(&self, rejection: Rejection, date: &DateLine, out: &mut BytesMut) {
        let status = rejection.status();
        let text =
            format!("{} {}: {rejection}\n", status.as_str(), reason_phrase(status).unwrap_or_default());
        let length = text.len() as u64;
        ResponseHead::Fields(status, &rejection.fields()).encode(out);
        encode_head_end(Framing::Length(length), Some(length), Some("close"), date, out);
        // RFC 9110 §9.3.2: no content for HEAD, even one that was only begun.
        let is_begun = self.sending == Sending::Nothing && asks_for_head(self.pending.as_slice());
        if !self.request.is_head && !is_begun {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// RFC 9112 §6.3, for the answer to this request.
    fn framing(&self, status: StatusCode, length: Option<u64>) -> Framing {
        match length {
            _ if self.request.is_head || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if self.request.version == Version::HTTP_10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    /// RFC 9112 §9.3: the connection goes on only if both sides know where this exchange ends.
    fn decide_keep_alive(&mut self, framing: Framing, limits: &Limits) {
        let body_is_in_reach = match &self.receiving {
            // The client may or may not send the body it was never asked for (RFC 9110 §10.1.1).
            Receiving::Body(_) if self.request.expects_continue => false,
            Receiving::Body(BodyDecoder::Length(remaining)) if self.request.body_is_unwanted => {
                *remaining <= limits.drain_bytes
            }
            _ => true,
        };
        let was_last = limits.requests_per_connection.is_some_and(|most| self.requests >= most);
        let nothing_follows = self.input_ended && self.pending.is_empty();
        let is_last = was_last || nothing_follows || framing == Framing::UntilClose;
        self.request.keep_alive &= body_is_in_reach && !is_last;
    }
}

/// RFC 9110 §6.4.1.
fn has_no_content(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}
