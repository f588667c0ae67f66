//! Decodes what a server sends, and what it means.

use std::time::Instant;

use bytes::BytesMut;
use http::Version;
use rudy_message::Framing;
use rudy_message::text::read_trailers;

use super::ClientConnection;
use super::event::Event;
use crate::Limits;
use crate::field_section::{HeadBuffers, HeadFault, ReceivedHead, ResponseText};
use crate::h3::core::{Turn, initiator};
use crate::h3::receive::{Part, WRONG_LENGTH};
use crate::h3::unidirectional::Control;
use crate::h3::{ConnectionError, ErrorCode};
use crate::progress::{Receiving, Sending, WrongLength};

/// A decoded field section, whose text is in the buffers.
struct Section {
    checked: Result<ReceivedHead, HeadFault>,
    is_trailer: bool,
}

/// The body is larger than [`Limits::body_bytes`].
const BODY_TOO_LARGE: (ErrorCode, &str) = (ErrorCode::REQUEST_CANCELLED, "the body is larger than the limit");

impl ClientConnection {
    /// Returns the next event of the bytes of a stream, and removes what it consists of from there. `None` if more input is needed; then
    /// all of it is used. `ends` if the stream ends after the bytes, of which there may be none.
    ///
    /// # Errors
    ///
    /// The server violates the protocol or a limit. Close the connection with the code of the error.
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
        if let Some(stream) = self.rejected_from.and_then(|first| self.core.streams.last_from(first)) {
            self.core.reset(stream, ErrorCode::REQUEST_CANCELLED);
            return Ok(Some(Event::Reset { stream, code: ErrorCode::REQUEST_REJECTED, reason: None }));
        }
        match stream & initiator::BITS {
            initiator::REQUEST => self.receive_response_stream(stream, input, ends, buffers, turn),
            initiator::SERVER => self.receive_unidirectional(stream, input, ends, turn),
            // RFC 9114 §6.1.
            _ => Err(ConnectionError::new(
                ErrorCode::STREAM_CREATION_ERROR,
                "a stream that a server must not open",
            )),
        }
    }

    /// Whether a stream waits for entries of the dynamic table, which are in transit. What arrives for it is stored, so read no more of it
    /// until [`Self::resume`] returns it.
    #[must_use]
    pub fn is_blocked(&self, stream: u64) -> bool {
        self.core.is_blocked(stream)
    }

    /// Returns the next stream that is no longer blocked, with the input that it has to [receive](Self::receive) now, and whether it ends
    /// after that. Call it after the input of the server's unidirectional streams, until it returns `None`.
    pub fn resume(&mut self) -> Option<(u64, BytesMut, bool)> {
        self.core.resume()
    }

    /// Handles the end of what the server sends on a stream, without the rest: `RESET_STREAM`.
    ///
    /// # Errors
    ///
    /// The server violates the protocol. Close the connection with the code of the error.
    pub fn receive_reset(
        &mut self,
        stream: u64,
        code: ErrorCode,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        if stream & initiator::BITS == initiator::SERVER {
            return self.core.unidirectional.reset(stream).map(|()| None);
        }
        // It needs no limit: each stream is one of this side.
        let is_open = self.core.reset(stream, ErrorCode::REQUEST_CANCELLED);
        Ok(is_open.then_some(Event::Reset { stream, code, reason: None }))
    }

    /// Handles that the server does not want what this side sends on a stream, which QUIC has reset: `STOP_SENDING`. The response may
    /// still follow (RFC 9114 §4.1).
    ///
    /// # Errors
    ///
    /// The server violates the protocol. Close the connection with the code of the error.
    pub fn receive_stop(&mut self, stream: u64) -> Result<(), ConnectionError> {
        // RFC 9114 §6.2.1, RFC 9204 §4.2.
        if stream & initiator::BITS == initiator::CLIENT {
            let reason = "the server does not read a stream that the connection needs";
            return Err(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason));
        }
        if let Some(state) = self.core.streams.get_mut(stream) {
            state.progress.sending = Sending::Ended;
        }
        self.core.close_if_ended(stream);
        Ok(())
    }

    fn receive_response_stream<'i: 'e, 'e>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        buffers: &'e mut HeadBuffers,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        let part = self.core.receive_part(stream, input, ends, turn, |section, is_trailer| {
            let HeadBuffers { strings, head, .. } = &mut *buffers;
            let mut text = ResponseText::new(head, Version::HTTP_3, is_trailer);
            section.decode(strings, &mut |name, value| text.field(name, value, turn.limits))?;
            Ok(Section { checked: text.finish(turn.limits), is_trailer })
        })?;
        let event = match part {
            Part::None => return Ok(None),
            Part::Section { section, .. } if section.is_trailer => {
                Some(self.receive_trailers(stream, &section, &buffers.head, turn))
            }
            Part::Section { section, ends } => {
                Some(self.receive_head(stream, &section, ends, &buffers.head, turn)?)
            }
            Part::Data { data, ends } => self.receive_data(stream, data, ends, turn),
            Part::End => self.receive_end(stream),
        };
        self.core.close_if_ended(stream);
        Ok(event)
    }

    /// Handles frames of the streams of the server that do not belong to a request, up to an event.
    fn receive_unidirectional<'e>(
        &mut self,
        stream: u64,
        input: &mut &[u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        Ok(match self.core.receive_unidirectional(stream, input, ends, turn)? {
            None => None,
            Some(Control::Settings(settings)) => {
                self.peer = Some(settings);
                Some(Event::Settings)
            }
            Some(Control::GoAway(rejected_from)) => {
                self.rejected_from = Some(rejected_from);
                Some(Event::GoAway { rejected_from })
            }
            Some(Control::Priority(..)) => {
                return Err(ConnectionError::new(
                    ErrorCode::FRAME_UNEXPECTED,
                    "a server sent PRIORITY_UPDATE",
                ));
            }
        })
    }

    /// Handles the head of a response, which may be an interim one.
    fn receive_head<'e>(
        &mut self,
        stream: u64,
        section: &Section,
        ends: bool,
        text: &'e [u8],
        turn: Turn<'_>,
    ) -> Result<Event<'e>, ConnectionError> {
        let head = match section.checked {
            Ok(head) => head,
            Err(fault) => return Ok(self.fail_stream(stream, stream_fault(fault))),
        };
        if (100..200).contains(&head.status) {
            let reason = match (head.status, ends) {
                // RFC 9114 §4.5.
                (101, _) => "a response with status 101",
                (_, true) => "an interim response ends the stream",
                (_, false) => {
                    self.core.allowances.count_frame(&turn.limits.http2, turn.now)?;
                    let head = head.view(text, Framing::None);
                    return Ok(Event::Informational { stream, head });
                }
            };
            return Ok(self.fail_stream(stream, (ErrorCode::MESSAGE_ERROR, reason)));
        }
        let received = self.core.streams.advance(stream, |progress| {
            let framing = progress.receive_response(head, ends)?;
            Ok((framing, progress.expected.unwrap_or(0)))
        });
        match received {
            Some(Ok((framing, expected))) if expected <= turn.limits.body_bytes => {
                self.core.allowances.count_exchange();
                Ok(Event::Head { stream, head: head.view(text, framing), ends })
            }
            Some(Err(WrongLength)) => Ok(self.fail_stream(stream, WRONG_LENGTH)),
            _ => Ok(self.fail_stream(stream, BODY_TOO_LARGE)),
        }
    }

    fn receive_data<'i>(
        &mut self,
        stream: u64,
        data: &'i [u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Option<Event<'i>> {
        let progress = &mut self.core.streams.get_mut(stream)?.progress;
        let is_malformed = progress.receive(data.len() as u64, ends).is_err();
        Some(match () {
            () if is_malformed => self.fail_stream(stream, WRONG_LENGTH),
            () if progress.received > turn.limits.body_bytes && !progress.is_tunnel => {
                self.fail_stream(stream, BODY_TOO_LARGE)
            }
            () => Event::Data { stream, data, ends },
        })
    }

    /// Handles the end of a stream that no piece of a body has.
    fn receive_end<'e>(&mut self, stream: u64) -> Option<Event<'e>> {
        let progress = &mut self.core.streams.get_mut(stream)?.progress;
        let fault = match progress.receiving {
            Receiving::Ended => return None,
            Receiving::Head => (ErrorCode::MESSAGE_ERROR, "a stream without a response"),
            Receiving::Body => match progress.end() {
                Ok(()) => return Some(Event::End { stream, trailers: None }),
                Err(WrongLength) => WRONG_LENGTH,
            },
        };
        Some(self.fail_stream(stream, fault))
    }

    /// Ends a response with trailers.
    fn receive_trailers<'e>(
        &mut self,
        stream: u64,
        section: &Section,
        text: &[u8],
        turn: Turn<'_>,
    ) -> Event<'e> {
        let fault = match section.checked.map(|_| read_trailers(text, &turn.limits.of_message())) {
            Err(fault) => stream_fault(fault),
            Ok(Err(_)) => (ErrorCode::MESSAGE_ERROR, "a field is not allowed as a trailer"),
            Ok(Ok(trailers)) => match self.core.streams.get_mut(stream).map(|state| state.progress.end()) {
                Some(Err(WrongLength)) => WRONG_LENGTH,
                _ => return Event::End { stream, trailers },
            },
        };
        self.fail_stream(stream, fault)
    }

    /// Resets a stream because of what the server did.
    fn fail_stream<'e>(&mut self, stream: u64, (code, reason): (ErrorCode, &'static str)) -> Event<'e> {
        self.core.reset(stream, code);
        Event::Reset { stream, code, reason: Some(reason) }
    }
}

/// Returns the error of a stream whose head or trailers have a fault.
fn stream_fault(fault: HeadFault) -> (ErrorCode, &'static str) {
    match fault {
        HeadFault::Malformed(reason) => (ErrorCode::MESSAGE_ERROR, reason),
        HeadFault::TooLarge => {
            (ErrorCode::EXCESSIVE_LOAD, "the response has more or larger fields than the limit")
        }
    }
}
