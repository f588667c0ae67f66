//! Decodes what a client sends, and what it means.

use std::time::Instant;

use bytes::BytesMut;

use super::event::Event;
use super::{ServerConnection, Shutdown, StreamEnd};
use crate::Limits;
use crate::field_section::{HeadBuffers, HeadFault, HeadText};
use crate::h3::core::{STREAM_STEP, Turn, initiator};
use crate::h3::receive::Part;
use crate::h3::stream::Stream;
use crate::h3::unidirectional::Control;
use crate::h3::{ConnectionError, ErrorCode, Priority};
use crate::progress::{Progress, Receiving};

/// A decoded field section, whose text is in the buffers.
pub(super) struct Section {
    pub(super) priority: Priority,
    /// The method is HEAD.
    pub(super) is_head: bool,
    /// The request is for a tunnel.
    pub(super) is_tunnel: bool,
    pub(super) written: Result<(), HeadFault>,
    is_trailer: bool,
}

impl ServerConnection {
    /// Returns the next event of the bytes of a stream, and removes what it consists of from there. `None` if more input is needed; then
    /// all of it is used. `ends` if the stream ends after the bytes, of which there may be none.
    ///
    /// # Errors
    ///
    /// The client violates the protocol or a limit. Close the connection with the code of the error.
    pub fn receive<'i: 'e, 'e>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        buffers: &'e mut HeadBuffers,
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        let turn = Turn { now, limits };
        match stream & initiator::BITS {
            initiator::REQUEST => self.receive_request_stream(stream, input, ends, buffers, turn),
            initiator::CLIENT => self.receive_unidirectional(stream, input, ends, turn),
            _ => Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, "a stream of this side")),
        }
    }

    /// Whether a stream waits for entries of the dynamic table, which are in transit. What arrives for it is stored, so read no more of it
    /// until [`Self::resume`] returns it.
    #[must_use]
    pub fn is_blocked(&self, stream: u64) -> bool {
        self.core.is_blocked(stream)
    }

    /// Returns the next stream that is no longer blocked, with the input that it has to [receive](Self::receive) now, and whether it ends
    /// after that. Call it after the input of the client's unidirectional streams, until it returns `None`.
    pub fn resume(&mut self) -> Option<(u64, BytesMut, bool)> {
        self.core.resume()
    }

    /// Handles the end of what the client sends on a stream, without the rest: `RESET_STREAM`.
    ///
    /// # Errors
    ///
    /// The client violates the protocol or a limit, as in [`Self::receive`].
    pub fn receive_reset(
        &mut self,
        stream: u64,
        code: ErrorCode,
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        match stream & initiator::BITS {
            initiator::CLIENT => self.core.unidirectional.reset(stream).map(|()| None),
            _ => self.cancel(stream, code, Turn { now, limits }),
        }
    }

    /// Handles that the client does not want what this side sends on a stream: `STOP_SENDING`.
    ///
    /// # Errors
    ///
    /// The client violates the protocol or a limit, as in [`Self::receive`].
    pub fn receive_stop(
        &mut self,
        stream: u64,
        code: ErrorCode,
        now: Instant,
        limits: &Limits,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        match stream & initiator::BITS {
            // RFC 9114 §6.2.1, RFC 9204 §4.2.
            initiator::SERVER => {
                let reason = "the client does not read a stream that the connection needs";
                Err(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason))
            }
            _ => self.cancel(stream, code, Turn { now, limits }),
        }
    }

    /// Ends a stream that the client cancels (CVE-2023-44487).
    fn cancel(
        &mut self,
        stream: u64,
        code: ErrorCode,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        self.open_up_to(stream, turn)?;
        let Some(state) = self.core.remove(stream) else {
            self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
            return Ok(None);
        };
        self.core.ends.push_back((stream, StreamEnd::Reset(ErrorCode::REQUEST_CANCELLED)));
        self.note_idle(turn.now);
        self.core.allowances.count_reset(&turn.limits.http2, turn.now)?;
        let is_known = state.progress.receiving != Receiving::Head;
        Ok(is_known.then_some(Event::Reset { stream, code, reason: None }))
    }

    fn receive_request_stream<'i: 'e, 'e>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        buffers: &'e mut HeadBuffers,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        self.open_up_to(stream, turn)?;
        let (accepts_tunnels, head_bytes) = (self.accepts_tunnels, turn.limits.head_bytes);
        let part = self.core.receive_part(stream, input, ends, turn, |section, is_trailer| {
            let HeadBuffers { strings, parts, head } = &mut *buffers;
            let mut text = HeadText::new(parts, is_trailer, head_bytes);
            section.decode(strings, &mut |name, value| text.field(name, value))?;
            let (priority, is_head, is_tunnel) = (text.priority, text.is_head(), text.is_tunnel());
            let written = if is_trailer {
                text.write_trailers(head)
            } else {
                text.write_request(head, accepts_tunnels)
            };
            Ok(Section { priority, is_head, is_tunnel, written, is_trailer })
        })?;
        let event = match part {
            Part::None => Ok(None),
            Part::Section { section, .. } if section.is_trailer => {
                self.receive_trailers(stream, &section, &buffers.head, turn).map(Some)
            }
            Part::Section { section, ends } => {
                self.receive_request(stream, &section, ends, &buffers.head, turn).map(Some)
            }
            Part::Data { data, ends } => self.receive_data(stream, data, ends, turn),
            Part::End => self.receive_end(stream, turn),
        };
        self.note_idle(turn.now);
        event
    }

    /// Handles frames of the streams of the client that do not belong to a request, up to an event.
    fn receive_unidirectional<'e>(
        &mut self,
        stream: u64,
        input: &mut &[u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        loop {
            match self.core.receive_unidirectional(stream, input, ends, turn)? {
                None => return Ok(None),
                Some(Control::Priority(stream, priority)) => {
                    if let Some(event) = self.receive_priority(stream, priority) {
                        return Ok(Some(event));
                    }
                }
                Some(Control::Settings(_) | Control::GoAway(_)) => {}
            }
        }
    }

    /// Handles the priority of a request, whose head may not have arrived.
    fn receive_priority<'e>(&mut self, stream: u64, priority: Priority) -> Option<Event<'e>> {
        let state = self.core.streams.get_mut(stream)?;
        if state.progress.receiving == Receiving::Head {
            state.priority = Some(priority);
            return None;
        }
        Some(Event::Priority { stream, priority })
    }

    /// Opens a stream, and those before it that have not been seen: the first packet with one opens them all (RFC 9000 §3.2).
    fn open_up_to(&mut self, stream: u64, turn: Turn<'_>) -> Result<(), ConnectionError> {
        while self.next_stream <= stream {
            let id = self.next_stream;
            self.next_stream += STREAM_STEP;
            if matches!(self.shutdown, Shutdown::Final(_)) {
                self.core.reject(id);
                self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
            } else if self.core.streams.len() >= turn.limits.http2.streams as usize {
                self.core.reject(id);
                self.core.allowances.count_reset(&turn.limits.http2, turn.now)?;
            } else {
                self.core.streams.push(Stream::new(id, Progress::before_request(), Some(turn.now)));
            }
        }
        Ok(())
    }

    /// Resets a stream because of what the client did (CVE-2025-8671).
    pub(super) fn fail_stream<'e>(
        &mut self,
        stream: u64,
        (code, reason): (ErrorCode, &'static str),
        turn: Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        self.core.allowances.count_reset(&turn.limits.http2, turn.now)?;
        self.reset(stream, code, turn.now);
        Ok(Event::Reset { stream, code, reason: Some(reason) })
    }
}
