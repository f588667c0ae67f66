//! The way in: from bytes to events.

use std::time::Instant;

use bytes::{Buf, BytesMut};
use http::Method;

use super::body::BodyDecoder;
use super::{Receiving, RequestFacts, Sending, ServerConnection};
use crate::Limits;
use crate::h1::Refusal;
use crate::h1::chunked::Decoded;
use crate::h1::event::Event;
use crate::h1::head::Head;
use crate::h1::lines::Lines;

impl ServerConnection {
    /// Takes bytes that came from the peer, all of them, and returns the next event. Call it again with no bytes until it
    /// returns `None`, which it does while the connection is busy with something else, too.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol or a limit. Pass the refusal to [`Self::refuse`], unless an answer has begun: then the
    /// connection has to be cut.
    pub fn receive(&mut self, input: &[u8], now: Instant, limits: &Limits) -> Result<Option<Event>, Refusal> {
        if matches!(self.sending, Sending::Close) {
            return Ok(None);
        }
        let event = self.take_in(input, now, limits)?;
        // What is left over is a part of a head or of an unwanted body, and will stay one.
        if event.is_none() && self.input_ended && self.sending == Sending::Nothing {
            self.sending = Sending::Close;
        }
        Ok(event)
    }

    fn take_in(&mut self, input: &[u8], now: Instant, limits: &Limits) -> Result<Option<Event>, Refusal> {
        // The whole head is mostly in one read: parse it where it lies, and keep only what is left over.
        if self.pending.is_empty() {
            let (used, event) = self.advance(input, now, limits)?;
            self.pending.extend_from_slice(&input[used..]);
            return Ok(event);
        }
        self.pending.extend_from_slice(input);
        let mut pending = std::mem::take(&mut self.pending);
        let (used, event) = self.advance(&pending, now, limits)?;
        // A part of a head that is left over gets a buffer of its size; what it came in may be many times that, and would be
        // held for as long as the peer takes for the rest.
        self.pending = match event {
            None if used > 0 => BytesMut::from(&pending[used..]),
            _ => {
                pending.advance(used);
                pending
            }
        };
        if self.pending.is_empty() {
            self.pending = BytesMut::new();
        }
        Ok(event)
    }

    /// Moves on as far as `bytes` allow; says how many were used.
    fn advance(
        &mut self,
        bytes: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Result<(usize, Option<Event>), Refusal> {
        let used = self.drain(bytes, now, limits);
        let rest = &bytes[used..];
        let (more, event) = match &mut self.receiving {
            Receiving::Head(_) if self.sending != Sending::Nothing || rest.is_empty() => (0, None),
            Receiving::Head(lines) => {
                if lines.is_untouched() {
                    self.since = now;
                }
                self.advance_head(rest, limits).inspect_err(|_| self.request.is_head = asks_for_head(rest))?
            }
            Receiving::Body(decoder) => {
                let (more, decoded) = decoder.decode(rest, limits)?;
                match decoded {
                    Decoded::Data(data) => (more, Some(Event::Body(data))),
                    Decoded::More => (more, None),
                    Decoded::End(trailers) => {
                        self.receiving = Receiving::Done;
                        (more, Some(Event::BodyEnd(trailers)))
                    }
                }
            }
            Receiving::Drain(..) | Receiving::Done => (0, None),
        };
        Ok((used + more, event))
    }

    /// Throws away what `bytes` hold of a body that nobody wants; says how many they are.
    fn drain(&mut self, bytes: &[u8], now: Instant, limits: &Limits) -> usize {
        let Receiving::Drain(decoder, drained) = &mut self.receiving else { return 0 };
        match decoder.discard(bytes, drained, limits) {
            Ok((used, ends)) if *drained <= limits.drain_bytes => {
                if ends {
                    self.receiving = Receiving::Head(Lines::default());
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

    fn advance_head(&mut self, bytes: &[u8], limits: &Limits) -> Result<(usize, Option<Event>), Refusal> {
        let Receiving::Head(lines) = &mut self.receiving else { return Ok((0, None)) };
        let Some(section) = lines.find_head(bytes, limits)? else {
            return Ok((lines.skip_empty_lines(bytes), None));
        };
        let head = Head::parse(&bytes[..section.length], &section, limits)?;
        let body = BodyDecoder::new(*head.request.body());
        self.request = RequestFacts {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            keep_alive: head.keep_alive && !self.closing,
            expects_continue: head.expects_continue && body.is_some(),
            body_is_unwanted: false,
        };
        self.receiving = body.map_or(Receiving::Done, Receiving::Body);
        self.sending = Sending::Owed;
        self.requests += 1;
        Ok((section.length, Some(Event::Request(head.request))))
    }
}

/// Whether a head that was not understood, or not whole, asks for an answer without a body.
pub(super) fn asks_for_head(mut bytes: &[u8]) -> bool {
    while let [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes.starts_with(b"HEAD ")
}
