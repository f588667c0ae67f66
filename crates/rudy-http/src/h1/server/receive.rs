//! The way in: from bytes to events.

use std::time::Instant;

use bytes::Bytes;
use http::Method;

use super::body::BodyDecoder;
use super::event::Event;
use super::head_lines::HeadLines;
use super::{Receiving, Rejection, RequestFacts, RequestHead, Sending, ServerConnection};
use crate::Limits;
use crate::h1::chunked::Decoded;

impl ServerConnection {
    /// Takes bytes that came from the peer, all of them, and returns the next event. Call it again with no bytes until it
    /// returns `None`, which it does while the connection is busy with something else, too.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol or a limit. Pass the rejection to [`Self::reject`], unless an answer has begun: then the
    /// connection has to be cut.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        let event = if self.sending == Sending::Close {
            Ok(None)
        } else if self.pending.is_empty() {
            self.take_in(input, now, limits)
        } else {
            self.take_in_behind(input, now, limits)
        };
        // What is left over is a part of a head or of an unwanted body, and will stay one.
        if matches!(event, Ok(None)) && self.input_ended && self.sending == Sending::Nothing {
            self.sending = Sending::Close;
        }
        event
    }

    /// How many bytes were received and are not consumed.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Whether [`Self::receive`] may find an event, or the end, without more bytes.
    #[must_use]
    pub fn has_unconsumed(&self) -> bool {
        !self.pending.is_empty() || self.input_ended
    }

    // A request is 232 bytes. The functions below hand it on in the place where it was made: a tuple with the bytes used, or
    // a `?`, would each move it once more, 17 times in all.

    /// The whole head is mostly in one read: parse it where it lies, and keep only what is left over.
    fn take_in<'a>(
        &mut self,
        input: &'a [u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'a>>, Rejection> {
        let mut used = 0;
        let event = self.advance(input, &mut used, now, limits);
        if event.is_ok() && used < input.len() {
            self.pending.push(&input[used..]);
        }
        event
    }

    /// Something is left over: what came goes behind it.
    fn take_in_behind(
        &mut self,
        input: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'static>>, Rejection> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.push(input);
        let mut used = 0;
        let event = self.advance(pending.as_slice(), &mut used, now, limits);
        let event = event.map(|event| event.map(Event::into_owned));
        // After a rejection nothing is read on.
        if event.is_ok() {
            pending.consume(used);
            self.pending = pending;
        }
        event
    }

    /// Moves on as far as `bytes` allow, and counts those that were used.
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
            Receiving::Head(_) if self.sending != Sending::Nothing || rest.is_empty() => Ok(None),
            Receiving::Head(lines) => {
                if lines.is_untouched() {
                    self.since = now;
                }
                let event = self.advance_head(rest, used, limits);
                if event.is_err() {
                    self.request.is_head = asks_for_head(rest);
                }
                event
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

    /// Throws away what `bytes` hold of a body that nobody wants; says how many they are.
    fn drain(&mut self, bytes: &[u8], now: Instant, limits: &Limits) -> usize {
        let Receiving::Drain(decoder, drained) = &mut self.receiving else { return 0 };
        match decoder.discard(bytes, drained, limits) {
            Ok((used, ends)) if *drained <= limits.drain_bytes => {
                if ends {
                    self.receiving = Receiving::Head(HeadLines::default());
                    self.since = now;
                }
                used
            }
            // Too long, or broken. The request has had its answer, so there is nothing to say.
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
        let Some(whole) = lines.find(bytes, limits)? else {
            *used += lines.skip_empty_lines(bytes);
            return Ok(None);
        };
        let length = whole.section.length;
        let head = RequestHead::new(&bytes[..length], whole, limits)?;
        let body = BodyDecoder::new(head.body_length());
        self.request = RequestFacts {
            version: head.version(),
            is_head: head.method() == Method::HEAD,
            keep_alive: head.keep_alive && !self.closing,
            expects_continue: head.expects_continue && body.is_some(),
            body_is_unwanted: false,
        };
        self.receiving = body.map_or(Receiving::Done, Receiving::Body);
        self.sending = Sending::Due;
        self.requests += 1;
        *used += length;
        Ok(Some(Event::Request(head)))
    }
}

/// Whether a head that was not understood, or not whole, asks for an answer without a body.
pub(super) fn asks_for_head(mut bytes: &[u8]) -> bool {
    while let [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes.starts_with(b"HEAD ")
}
