//! Decodes requests.

use std::time::Instant;

use bytes::Bytes;
use http::Method;
use rudy_message::text::{HeadLines, is_blank};
use rudy_message::{Rejection, RequestHead};

use super::body::BodyDecoder;
use super::event::Event;
use super::{CurrentRequest, Receiving, Sending, ServerConnection};
use crate::Limits;
use crate::h1::chunked::Decoded;

impl ServerConnection {
    /// Consumes all of `input` and returns the next event. Call it again with empty input until it returns `None`. It also
    /// returns `None` while a response is in progress.
    ///
    /// # Errors
    ///
    /// The client violated the protocol or a limit. Pass the rejection to [`Self::reject`]. If the response has begun, the
    /// connection must be closed instead.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        let event = if self.sending == Sending::Close {
            Ok(None)
        } else if self.buffer.is_empty() {
            self.receive_direct(input, now, limits)
        } else {
            self.receive_buffered(input, now, limits)
        };
        // Remaining bytes are an incomplete head or discarded body, which will never be complete.
        if matches!(event, Ok(None)) && self.input_ended && self.sending == Sending::Idle {
            self.sending = Sending::Close;
        }
        event
    }

    /// Returns the number of bytes that are received but not consumed.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes that are received but not consumed.
    #[must_use]
    pub fn buffered(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// Whether [`Self::receive`] may find an event or the end of the connection without more input.
    #[must_use]
    pub fn may_have_event(&self) -> bool {
        !self.buffer.is_empty() || self.input_ended
    }

    // The functions below count used bytes in an out-parameter and avoid `?`: each tuple and each `?` would
    // copy the 232 bytes of a request again.

    /// Parses `input` in place, because most heads arrive in one read, and buffers the rest. That includes a rejected head, because
    /// the response to it depends on it.
    fn receive_direct<'a>(
        &mut self,
        input: &'a [u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        let mut used = 0;
        let event = self.advance(input, &mut used, now, limits);
        if used < input.len() {
            self.buffer.push(&input[used..]);
        }
        event
    }

    /// Appends `input` to the buffered bytes and parses them.
    fn receive_buffered(
        &mut self,
        input: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'static>>, Rejection> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.push(input);
        let mut used = 0;
        let event = self.advance(buffer.as_slice(), &mut used, now, limits);
        let event = event.map(|event| event.map(Event::into_owned));
        buffer.consume(used);
        self.buffer = buffer;
        event
    }

    /// Parses `bytes` up to the next event, and counts the used ones.
    fn advance<'a>(
        &mut self,
        bytes: &'a [u8],
        used: &mut usize,
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        *used = self.drain(bytes, now, limits);
        let rest = &bytes[*used..];
        match &mut self.receiving {
            Receiving::Head(_) if self.sending != Sending::Idle || rest.is_empty() => Ok(None),
            Receiving::Head(lines) => {
                let is_begin = is_blank(&rest[..lines.scanned()]) && !is_blank(rest);
                if is_begin {
                    self.wait_started = now;
                }
                self.advance_head(rest, used, limits)
            }
            Receiving::Body(decoder) => {
                let (more, decoded) = decoder.decode(rest, limits)?;
                *used += more;
                Ok(match decoded {
                    Decoded::Data(data) => Some(Event::Body(Bytes::copy_from_slice(data))),
                    Decoded::NeedData => None,
                    Decoded::End(trailers) => {
                        self.receiving = Receiving::Done;
                        Some(Event::BodyEnd(trailers))
                    }
                })
            }
            Receiving::Drain(..) | Receiving::Done => Ok(None),
        }
    }

    /// Discards the part of an ignored body in `bytes`. Returns its length.
    fn drain(&mut self, bytes: &[u8], now: Instant, limits: &Limits) -> usize {
        let Receiving::Drain(decoder, drained) = &mut self.receiving else { return 0 };
        match decoder.discard(bytes, drained, limits) {
            Ok((used, ends)) if *drained <= limits.drain_bytes => {
                if ends {
                    self.receiving = Receiving::Head(HeadLines::default());
                    self.wait_started = now;
                }
                used
            }
            // The body is too long or malformed. The response is already sent, so only closing remains.
            Ok(_) | Err(_) => {
                self.sending = Sending::Close;
                bytes.len()
            }
        }
    }

    fn advance_head<'a>(
        &mut self,
        bytes: &'a [u8],
        used: &mut usize,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        let Receiving::Head(lines) = &mut self.receiving else { return Ok(None) };
        let message_limits = limits.of_message();
        let Some(head_lines) = lines.find(bytes, &message_limits)? else {
            *used += lines.skip_empty_lines(bytes);
            return Ok(None);
        };
        let length = head_lines.length();
        let head = RequestHead::new(&bytes[..length], head_lines, &message_limits)?;
        let body = BodyDecoder::new(head.body_length());
        self.request = CurrentRequest {
            version: head.version(),
            is_head: head.method() == Method::HEAD,
            keep_alive: head.keep_alive() && !self.closing,
            expects_continue: head.expects_continue() && body.is_some(),
            body_is_unwanted: false,
        };
        self.receiving = body.map_or(Receiving::Done, Receiving::Body);
        self.sending = Sending::ResponseDue;
        self.requests += 1;
        *used += length;
        Ok(Some(Event::Request(head)))
    }
}

/// Whether a malformed or incomplete head is that of a HEAD request, whose response has no body.
pub(super) fn is_head_request(mut bytes: &[u8]) -> bool {
    while let [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes.starts_with(b"HEAD ")
}
