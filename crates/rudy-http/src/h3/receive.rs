//! Decodes what the peer sends on the stream of a request: frames, and the parts of a message.

use super::core::{Core, Side, Turn};
use super::frame::kind;
use super::reader::{Frame, Payload};
use super::stream::Stream;
use super::{ConnectionError, ErrorCode};
use crate::progress::{Progress, Receiving, WrongLength};
use crate::qpack::{DecodeError, Decoder};

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
        decode: impl FnOnce(&mut Decoder, &[u8], bool) -> Result<S, DecodeError>,
    ) -> Result<Part<'i, S>, ConnectionError> {
        let given = input.len();
        let part = self.next_part(stream, input, ends, turn, decode)?;
        let state = self.streams.get(stream);
        self.count_read(given, state.is_none_or(|state| state.reader.is_between_frames()), turn)?;
        Ok(part)
    }

    fn next_part<'i, S>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        ends: bool,
        turn: Turn<'_>,
        decode: impl FnOnce(&mut Decoder, &[u8], bool) -> Result<S, DecodeError>,
    ) -> Result<Part<'i, S>, ConnectionError> {
        let section_bytes_max = turn.limits.head_bytes.saturating_mul(SECTION_BYTES_FACTOR) as u64;
        loop {
            let Some(state) = self.streams.get_mut(stream).filter(|state| !state.has_ended) else {
                // The stream is closed, and these bytes were in transit.
                *input = &[];
                return Ok(Part::None);
            };
            let Stream { reader, progress, has_ended, .. } = state;
            let accept = |kind, length| accept(self.side, kind, length, progress, section_bytes_max);
            let frame = reader.read(input, accept)?;
            let ends = ends && input.is_empty();
            match frame {
                Some(Frame::Whole(_, section)) => {
                    let is_trailer = progress.receiving == Receiving::Body;
                    let section = decode(&mut self.decoder, section, is_trailer).map_err(|_| {
                        let reason = "a field section cannot be decoded";
                        ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, reason)
                    })?;
                    *has_ended = ends;
                    return Ok(Part::Section { section, ends });
                }
                Some(Frame::Piece(data)) if !data.is_empty() => {
                    state.end_if(ends)?;
                    return Ok(Part::Data { data, ends });
                }
                Some(Frame::Piece(_) | Frame::Ignored) => {
                    self.allowances.count_frame(&turn.limits.http2, turn.now)?;
                }
                None if ends => {
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

    /// Checks what is stored of incomplete sections.
    fn check_stored(&self, section_bytes_max: u64) -> Result<(), ConnectionError> {
        let stored: usize = self.streams.iter().map(|stream| stream.reader.stored_bytes()).sum();
        if stored as u64 > section_bytes_max.saturating_mul(SECTIONS_FACTOR) {
            let reason = "too many field sections are incomplete";
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }
}

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
