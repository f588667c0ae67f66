//! Decodes what the peer sends on the stream of a request: frames, and the parts of a message.

use bytes::BytesMut;

use super::core::{BLOCKED_STREAMS, Core, Own, Side, Turn};
use super::frame::{kind, put_head};
use super::reader::{Frame, Payload};
use super::stream::{BlockedInput, Stream};
use super::{ConnectionError, ErrorCode};
use crate::progress::{Progress, Receiving, WrongLength};
use crate::qpack::{DecodeError, Section};

/// The fault of a body that has not the length of its head (RFC 9114 §4.1.2).
pub(super) const WRONG_LENGTH: (ErrorCode, &str) = (ErrorCode::MESSAGE_ERROR, WrongLength::REASON);

/// The maximum size of an encoded field section, in sizes of a head. The connection survives a head that is a little too large, and the
/// Huffman code makes some values larger.
const SECTION_BYTES_FACTOR: usize = 2;

/// The maximum of what a connection stores of incomplete sections, in maximum sizes of one. Sections are incomplete on several streams
/// at once only if packets are lost.
const SECTIONS_FACTOR: u64 = 4;

/// A part of a message.
pub(super) enum Part<'i, S> {
    /// More input is needed.
    None,
    /// A field section. `ends` if the stream ends after it.
    Section { section: S, ends: bool },
    /// A piece of a body, which is not empty. `ends` if the stream ends after it.
    Data { data: &'i [u8], ends: bool },
    /// The end of the stream, if no other part has it.
    End,
}

impl Core {
    /// Returns the next part of the message on a stream. `decode` decodes a section, which is a trailer section or not.
    pub(super) fn receive_part<'i, S>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        turn: Turn<'_>,
        decode: impl FnOnce(&Section<'_>, bool) -> Result<S, DecodeError>,
    ) -> Result<Part<'i, S>, ConnectionError> {
        let given = input.len();
        let part = self.next_part(stream, input, ends, turn, decode)?;
        self.check_own()?;
        let state = self.streams.get(stream);
        self.count_read(given, state.is_none_or(|state| state.reader.is_between_frames()), turn)?;
        Ok(part)
    }

    /// Whether a section on a stream waits for entries of the dynamic table.
    pub(super) fn is_blocked(&self, stream: u64) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.blocked.is_some())
    }

    /// Returns the next stream whose section waits no longer, with its input from there on, and whether it ends behind that.
    pub(super) fn resume(&mut self) -> Option<(u64, BytesMut, bool)> {
        let inserted = self.decoder.inserted();
        let is_ready = |stream: &&mut Stream| {
            stream.blocked.as_ref().is_some_and(|blocked| blocked.required <= inserted)
        };
        let stream = self.streams.iter_mut().find(is_ready)?;
        let blocked = stream.blocked.take()?;
        Some((stream.id, blocked.input, blocked.ends))
    }

    fn next_part<'i, S>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        turn: Turn<'_>,
        decode: impl FnOnce(&Section<'_>, bool) -> Result<S, DecodeError>,
    ) -> Result<Part<'i, S>, ConnectionError> {
        let section_bytes_max = turn.limits.head_bytes.saturating_mul(SECTION_BYTES_FACTOR) as u64;
        loop {
            let Some(state) = self.streams.get_mut(stream).filter(|state| !state.has_ended) else {
                // The stream is closed, and these bytes were in transit.
                *input = &[];
                return Ok(Part::None);
            };
            if let Some(blocked) = &mut state.blocked {
                blocked.input.extend_from_slice(std::mem::take(input));
                blocked.ends |= ends;
                self.check_stored(section_bytes_max)?;
                return Ok(Part::None);
            }
            let Stream { reader, progress, has_ended, blocked, .. } = state;
            let accept = |kind, length| accept(self.side, kind, length, progress, section_bytes_max);
            let frame = reader.read(input, accept)?;
            let is_last = ends && input.is_empty();
            match frame {
                Some(Frame::Whole(_, section)) => {
                    let bytes = section;
                    let section = self.decoder.section(bytes).map_err(|_| UNDECODABLE)?;
                    if section.is_blocked() {
                        *blocked =
                            Some(Box::new(block(section.required(), bytes, std::mem::take(input), ends)));
                        self.check_blocked(section_bytes_max)?;
                        return Ok(Part::None);
                    }
                    let is_trailer = progress.receiving == Receiving::Body;
                    let decoded = decode(&section, is_trailer).map_err(|_| UNDECODABLE)?;
                    section.acknowledge(stream, &mut self.own[Own::Decoder as usize]);
                    *has_ended = is_last;
                    return Ok(Part::Section { section: decoded, ends: is_last });
                }
                Some(Frame::Piece(data)) if !data.is_empty() => {
                    // A body that is too long ends its stream where it exceeds its length, however the input is split.
                    let is_too_long = progress.exceeds(data.len() as u64, turn.limits.body_bytes);
                    state.end_if(is_last && !is_too_long)?;
                    return Ok(Part::Data { data, ends: is_last });
                }
                Some(Frame::Piece(_) | Frame::Ignored) => {
                    self.allowances.count_frame(&turn.limits.http2, turn.now)?;
                }
                None if is_last => {
                    state.end_if(true)?;
                    return Ok(Part::End);
                }
                None => {
                    if reader.stored_bytes() > 0 {
                        self.check_stored(section_bytes_max)?;
                    }
                    return Ok(Part::None);
                }
            }
        }
    }

    /// Checks how many streams wait for entries, and what is stored for them.
    fn check_blocked(&self, section_bytes_max: u64) -> Result<(), ConnectionError> {
        let blocked = self.streams.iter().filter(|stream| stream.blocked.is_some()).count();
        // RFC 9204 §2.1.2.
        if blocked > BLOCKED_STREAMS as usize {
            return Err(UNDECODABLE);
        }
        self.check_stored(section_bytes_max)
    }

    /// Checks what is stored of incomplete sections, and after those that wait for entries.
    fn check_stored(&self, section_bytes_max: u64) -> Result<(), ConnectionError> {
        let stored: usize = self.streams.iter().map(Stream::stored_bytes).sum();
        if stored as u64 > section_bytes_max.saturating_mul(SECTIONS_FACTOR) {
            let reason = "too many field sections are incomplete";
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }
}

/// Returns what waits for entries: the frame of a section again, and what comes after it.
fn block(required: u64, section: &[u8], rest: &[u8], ends: bool) -> BlockedInput {
    let mut input = BytesMut::with_capacity(section.len() + rest.len() + 16);
    put_head(kind::HEADERS, section.len() as u64, &mut input);
    input.extend_from_slice(section);
    input.extend_from_slice(rest);
    BlockedInput { required, input, ends }
}

/// A section that cannot be decoded, for which the state of the table cannot be known.
const UNDECODABLE: ConnectionError =
    ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, "a field section cannot be decoded");

impl Stream {
    /// Notes the end of the stream, if this is it. No frame may be cut off: a proxy that passes on such a message as complete can be used
    /// for request smuggling (RFC 9114 §7.1).
    fn end_if(&mut self, ends: bool) -> Result<(), ConnectionError> {
        if ends && !self.reader.is_between_frames() {
            return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "a stream ends within a frame"));
        }
        self.has_ended = ends;
        Ok(())
    }
}

/// Decides what is done with a frame on the stream of a request.
fn accept(
    side: Side,
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
        (kind::PUSH_PROMISE, _) if side == Side::Client => Err(NOT_ALLOWED_PUSH),
        (kind::PUSH_PROMISE, _) => unexpected("a client sent PUSH_PROMISE"),
        _ if kind::is_of_control_stream(kind) => unexpected("a frame of the control stream on another"),
        _ if kind::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
        _ => Ok(Payload::Ignored),
    }
}

/// A push to a client, which allows none (RFC 9114 §4.6 and §7.2.5).
pub(super) const NOT_ALLOWED_PUSH: ConnectionError =
    ConnectionError::new(ErrorCode::ID_ERROR, "a push, although this side allows none");
