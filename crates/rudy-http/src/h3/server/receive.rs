//! Decodes what a client sends on the stream of a request: frames, and what each means.

use std::time::Instant;

use super::event::Event;
use super::{STREAM_STEP, ServerConnection, Shutdown, StreamEnd};
use crate::Limits;
use crate::field_section::{HeadBuffers, HeadFault, HeadText};
use crate::h3::frame::kind;
use crate::h3::reader::{Frame, Payload};
use crate::h3::stream::Stream;
use crate::h3::{ConnectionError, ErrorCode, Priority};
use crate::progress::{Progress, Receiving};

/// The maximum size of an encoded field section, in sizes of a head. The connection survives a head that is a little too large, and the
/// Huffman code makes some values larger.
const SECTION_BYTES_FACTOR: usize = 2;

/// The maximum of what a connection stores of incomplete sections, in maximum sizes of one. Sections are incomplete on several streams
/// at once only if packets are lost.
const SECTIONS_FACTOR: u64 = 4;

/// Reads of fewer bytes that complete no frame are counted: each wakes the connection.
const PARTIAL_READ_BYTES: usize = 256;

/// What the handling of a frame needs.
#[derive(Clone, Copy)]
pub(super) struct Turn<'t> {
    pub(super) now: Instant,
    pub(super) limits: &'t Limits,
}

/// A decoded field section, whose text is in the buffers.
pub(super) struct Section {
    pub(super) stream: u64,
    /// Whether the stream ends after the section.
    pub(super) ends: bool,
    pub(super) priority: Priority,
    /// The method is HEAD.
    pub(super) is_head: bool,
    /// The request is for a tunnel.
    pub(super) is_tunnel: bool,
    pub(super) written: Result<(), HeadFault>,
    is_trailer: bool,
}

/// What the input leads to.
#[expect(
    clippy::large_enum_variant,
    reason = "it is passed on at once; a box would be an allocation for each request"
)]
pub(super) enum Step<'i> {
    Nothing,
    Section(Section),
    Event(Option<Event<'i>>),
}

/// What a client may open, by the lowest bits of the number of a stream (RFC 9000 §2.1).
pub(super) mod initiator {
    pub(in crate::h3::server) const REQUEST: u64 = 0;
    pub(in crate::h3::server) const UNIDIRECTIONAL: u64 = 2;
    pub(in crate::h3::server) const OWN_UNIDIRECTIONAL: u64 = 3;
    pub(in crate::h3::server) const BITS: u64 = 3;
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
            initiator::UNIDIRECTIONAL => self.receive_unidirectional(stream, input, ends, turn),
            _ => Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, "a stream of this side")),
        }
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
            initiator::UNIDIRECTIONAL => self.unidirectional.reset(stream).map(|()| None),
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
            initiator::OWN_UNIDIRECTIONAL => {
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
        let Some(state) = self.streams.remove(stream) else {
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
            return Ok(None);
        };
        self.ends.push_back((stream, StreamEnd::Reset(ErrorCode::REQUEST_CANCELLED)));
        self.note_idle(turn.now);
        self.allowances.count_reset(&turn.limits.http2, turn.now)?;
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
        let given = input.len();
        let step = loop {
            match self.receive_frame(stream, input, ends, buffers, turn)? {
                Step::Nothing => {}
                step => break step,
            }
        };
        let state = self.streams.get(stream);
        self.count_read(given, state.is_none_or(|state| state.reader.is_between_frames()), turn)?;
        let event = match step {
            Step::Section(section) if section.is_trailer => {
                self.receive_trailers(&section, &buffers.head, turn).map(Some)
            }
            Step::Section(section) => self.receive_request(&section, &buffers.head, turn).map(Some),
            Step::Event(event) => Ok(event),
            Step::Nothing => Ok(None),
        };
        self.note_idle(turn.now);
        event
    }

    /// Handles the next frame, or a piece of one.
    fn receive_frame<'i>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        buffers: &mut HeadBuffers,
        turn: Turn<'_>,
    ) -> Result<Step<'i>, ConnectionError> {
        let Some(state) = self.streams.get_mut(stream).filter(|state| !state.has_ended) else {
            // The stream is closed, and these bytes were in transit.
            *input = &[];
            return Ok(Step::Event(None));
        };
        let progress = &state.progress;
        let section_bytes_max = turn.limits.head_bytes.saturating_mul(SECTION_BYTES_FACTOR) as u64;
        let frame =
            state.reader.read(input, |kind, length| accept(kind, length, progress, section_bytes_max))?;
        let ends = ends && input.is_empty();
        match frame {
            Some(Frame::Whole(_, section)) => {
                let is_trailer = progress.receiving == Receiving::Body;
                let HeadBuffers { strings, parts, head } = buffers;
                let mut text = HeadText::new(parts, is_trailer, turn.limits.head_bytes);
                let mut field = |name: &[u8], value: &[u8]| text.field(name, value);
                self.decoder.decode(section, strings, &mut field).map_err(|_| {
                    let reason = "a field section cannot be decoded";
                    ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, reason)
                })?;
                let (priority, is_head, is_tunnel) = (text.priority, text.is_head(), text.is_tunnel());
                let written = if is_trailer {
                    text.write_trailers(head)
                } else {
                    text.write_request(head, self.accepts_tunnels)
                };
                state.has_ended = ends;
                Ok(Step::Section(Section { stream, ends, priority, is_head, is_tunnel, written, is_trailer }))
            }
            Some(Frame::Ignored) => {
                self.check_end(stream, ends)?;
                self.allowances.count_frame(&turn.limits.http2, turn.now)?;
                Ok(Step::Nothing)
            }
            Some(Frame::Piece(data)) => {
                self.check_end(stream, ends)?;
                self.receive_data(stream, data, ends, turn)
            }
            None if ends => {
                self.check_end(stream, ends)?;
                self.receive_end(stream, turn).map(Step::Event)
            }
            None => {
                if state.reader.stored_bytes() > 0 {
                    self.check_stored(section_bytes_max)?;
                }
                Ok(Step::Event(None))
            }
        }
    }

    /// Checks that no frame is cut off by the end of its stream: a proxy that passes on such a request as complete can be used for
    /// request smuggling (RFC 9114 §7.1).
    fn check_end(&self, stream: u64, ends: bool) -> Result<(), ConnectionError> {
        let is_in_frame = |state: &Stream| !state.reader.is_between_frames();
        if ends && self.streams.get(stream).is_some_and(is_in_frame) {
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "a stream ends within a frame"));
        }
        Ok(())
    }

    /// Checks what is stored of incomplete sections.
    fn check_stored(&self, section_bytes_max: u64) -> Result<(), ConnectionError> {
        let stored: usize = self.streams.iter().map(|stream| stream.reader.stored_bytes()).sum();
        if stored as u64 > section_bytes_max.saturating_mul(SECTIONS_FACTOR) {
            let reason = "too many field sections are incomplete";
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }

    /// Counts a call with `given` bytes, if they are few and complete no frame.
    pub(super) fn count_read(
        &mut self,
        given: usize,
        is_whole: bool,
        turn: Turn<'_>,
    ) -> Result<(), ConnectionError> {
        match given {
            0 => {}
            1..PARTIAL_READ_BYTES if !is_whole => {
                self.allowances.count_partial_read(&turn.limits.http2, turn.now)?;
            }
            _ => self.allowances.count_whole_read(),
        }
        Ok(())
    }

    /// Opens a stream, and those before it that have not been seen: the first packet with one opens them all (RFC 9000 §3.2).
    fn open_up_to(&mut self, stream: u64, turn: Turn<'_>) -> Result<(), ConnectionError> {
        while self.next_stream <= stream {
            let id = self.next_stream;
            self.next_stream += STREAM_STEP;
            if matches!(self.shutdown, Shutdown::Final(_)) {
                self.ends.push_back((id, StreamEnd::Reset(ErrorCode::REQUEST_REJECTED)));
                self.allowances.count_frame(&turn.limits.http2, turn.now)?;
            } else if self.streams.len() >= turn.limits.http2.streams as usize {
                self.ends.push_back((id, StreamEnd::Reset(ErrorCode::REQUEST_REJECTED)));
                self.allowances.count_reset(&turn.limits.http2, turn.now)?;
            } else {
                self.streams.push(id, turn.now);
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
        self.allowances.count_reset(&turn.limits.http2, turn.now)?;
        self.reset(stream, code, turn.now);
        Ok(Event::Reset { stream, code, reason: Some(reason) })
    }
}

/// Decides what is done with a frame on the stream of a request.
fn accept(
    kind: u64,
    length: u64,
    progress: &Progress,
    section_bytes_max: u64,
) -> Result<Payload, ConnectionError> {
    let unexpected = |reason| Err(ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, reason));
    match (kind, progress.receiving) {
        (kind::DATA, Receiving::Body) => Ok(Payload::Pieces),
        (kind::DATA, Receiving::Head) => unexpected("DATA before HEADERS"),
        (kind::DATA, Receiving::Ended) => unexpected("DATA after trailers"),
        (kind::HEADERS, Receiving::Ended) => unexpected("HEADERS after trailers"),
        // RFC 9114 §4.4.
        (kind::HEADERS, Receiving::Body) if progress.is_tunnel => unexpected("HEADERS in a tunnel"),
        (kind::HEADERS, _) if length > section_bytes_max => {
            let reason = "a field section is larger than the limit";
            Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason))
        }
        (kind::HEADERS, _) => Ok(Payload::Whole),
        (kind::PUSH_PROMISE, _) => unexpected("a client sent PUSH_PROMISE"),
        _ if kind::is_of_control_stream(kind) => unexpected("a frame of the control stream on another"),
        _ if kind::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
        _ => Ok(Payload::Ignored),
    }
}
