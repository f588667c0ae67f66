//! The streams on which a client sends what does not belong to a request (RFC 9114 §6.2).

use super::event::Event;
use super::receive::{Turn, initiator};
use super::{STREAM_STEP, ServerConnection, StreamEnd};
use crate::h3::frame::kind;
use crate::h3::reader::{Frame, FrameReader, Payload};
use crate::h3::settings::check_settings;
use crate::h3::{ConnectionError, ErrorCode, Priority, varint};
use crate::progress::Receiving;
use crate::qpack::Feedback;

/// The maximum number of unidirectional streams that a client should be able to open at once. It needs three (RFC 9114 §6.2), and some
/// have others, which end at once.
pub const UNIDIRECTIONAL_STREAMS: u32 = 16;

/// The maximum size of a frame on the control stream that is stored. Settings have a few parameters, and a priority has less than 16 bytes.
const CONTROL_BYTES_MAX: u64 = 1024;

/// The types of streams (RFC 9114 §11.2.4, RFC 9204 §8.2).
pub(super) mod stream_kind {
    pub(in crate::h3::server) const CONTROL: u8 = 0x0;
    pub(in crate::h3::server) const PUSH: u8 = 0x1;
    pub(in crate::h3::server) const ENCODER: u8 = 0x2;
    pub(in crate::h3::server) const DECODER: u8 = 0x3;
}

/// The unidirectional streams of a client.
#[derive(Debug)]
pub(super) struct Unidirectional {
    /// The first one that has not been seen.
    next: u64,
    /// Those whose type is not complete, with the start of it.
    untyped: Vec<(u64, PartialKind)>,
    control: Option<u64>,
    encoder: Option<u64>,
    decoder: Option<u64>,
    frames: FrameReader,
    feedback: Feedback,
    has_settings: bool,
    /// The largest push that the client allows, and the one from which on it wants none.
    max_push: Option<u64>,
    go_away: Option<u64>,
}

/// The start of the type of a stream.
type PartialKind = ([u8; 8], u8);

/// RFC 9114 §7.2.3, RFC 9218 §7.2.
const NOT_PROMISED: ConnectionError =
    ConnectionError::new(ErrorCode::ID_ERROR, "a frame for a push that was not promised");

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Control,
    Encoder,
    Decoder,
    /// Its type is not complete.
    Untyped,
    /// What arrives is ignored: this side has stopped it.
    Ignored,
}

impl Default for Unidirectional {
    fn default() -> Self {
        Self {
            next: initiator::UNIDIRECTIONAL,
            untyped: Vec::new(),
            control: None,
            encoder: None,
            decoder: None,
            frames: FrameReader::default(),
            feedback: Feedback::default(),
            has_settings: false,
            max_push: None,
            go_away: None,
        }
    }
}

impl Unidirectional {
    fn role(&self, stream: u64) -> Role {
        let is = |id: Option<u64>| id == Some(stream);
        match () {
            () if is(self.control) => Role::Control,
            () if is(self.encoder) => Role::Encoder,
            () if is(self.decoder) => Role::Decoder,
            () if self.untyped.iter().any(|(id, _)| *id == stream) => Role::Untyped,
            () => Role::Ignored,
        }
    }

    /// Opens a stream, and those before it.
    fn open_up_to(&mut self, stream: u64) -> Result<(), ConnectionError> {
        while self.next <= stream {
            if self.untyped.len() >= UNIDIRECTIONAL_STREAMS as usize {
                let reason = "too many unidirectional streams without a type";
                return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
            }
            self.untyped.push((self.next, ([0; 8], 0)));
            self.next += STREAM_STEP;
        }
        Ok(())
    }

    /// Handles the end of a stream, whose type need not be complete (RFC 9114 §6.2).
    pub(super) fn reset(&mut self, stream: u64) -> Result<(), ConnectionError> {
        self.open_up_to(stream)?;
        match self.role(stream) {
            Role::Control | Role::Encoder | Role::Decoder => {
                let reason = "the client closed a stream that the connection needs";
                Err(ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason))
            }
            Role::Untyped | Role::Ignored => {
                self.untyped.retain(|(id, _)| *id != stream);
                Ok(())
            }
        }
    }

    /// Removes the type of a stream from its input. Returns it when it is complete.
    fn take_kind(&mut self, stream: u64, input: &mut &[u8]) -> Option<u64> {
        let at = self.untyped.iter().position(|(id, _)| *id == stream)?;
        let (_, (bytes, length)) = &mut self.untyped[at];
        while let Some((first, rest)) = input.split_first() {
            *input = rest;
            bytes[usize::from(*length)] = *first;
            *length += 1;
            if let Some(kind) = varint::only(&bytes[..usize::from(*length)]) {
                self.untyped.swap_remove(at);
                return Some(kind);
            }
        }
        None
    }

    /// Gives a stream its role. Returns whether there is one.
    fn assign(&mut self, stream: u64, kind: u64) -> Result<bool, ConnectionError> {
        let creation = |reason| Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, reason));
        let role = match u8::try_from(kind) {
            Ok(stream_kind::CONTROL) => &mut self.control,
            Ok(stream_kind::ENCODER) => &mut self.encoder,
            Ok(stream_kind::DECODER) => &mut self.decoder,
            Ok(stream_kind::PUSH) => return creation("a client opened a push stream"),
            _ => return Ok(false),
        };
        match role.replace(stream) {
            Some(_) => creation("a second stream of a type of which there is one"),
            None => Ok(true),
        }
    }

    pub(super) fn free(&mut self) {
        self.untyped.shrink_to_fit();
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.untyped.capacity() * size_of::<(u64, PartialKind)>() + self.frames.heap_bytes()
    }
}

impl ServerConnection {
    pub(super) fn receive_unidirectional<'e>(
        &mut self,
        stream: u64,
        input: &mut &[u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        self.unidirectional.open_up_to(stream)?;
        if self.unidirectional.role(stream) == Role::Untyped
            && let Some(kind) = self.unidirectional.take_kind(stream, input)
            && !self.unidirectional.assign(stream, kind)?
        {
            self.ends.push_back((stream, StreamEnd::Stop(ErrorCode::STREAM_CREATION_ERROR)));
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
        }
        let event = match self.unidirectional.role(stream) {
            Role::Control => {
                let given = input.len();
                let event = self.receive_control(input, turn)?;
                self.count_read(given, self.unidirectional.frames.is_between_frames(), turn)?;
                event
            }
            Role::Encoder => {
                let count = self.decoder.receive_instructions(std::mem::take(input)).map_err(|_| {
                    let reason = "an invalid instruction on the encoder stream";
                    ConnectionError::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, reason)
                })?;
                self.count_instructions(count, turn)?
            }
            Role::Decoder => {
                let count = self.unidirectional.feedback.receive(std::mem::take(input)).map_err(|_| {
                    let reason = "an invalid instruction on the decoder stream";
                    ConnectionError::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, reason)
                })?;
                self.count_instructions(count, turn)?
            }
            Role::Untyped => None,
            Role::Ignored => {
                *input = &[];
                None
            }
        };
        if ends && event.is_none() {
            self.unidirectional.reset(stream)?;
        }
        Ok(event)
    }

    /// Counts instructions, none of which has a purpose without a dynamic table.
    fn count_instructions<'e>(
        &mut self,
        count: usize,
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        for _ in 0..count {
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
        }
        Ok(None)
    }

    /// Handles frames of the control stream, up to an event.
    fn receive_control<'e>(
        &mut self,
        input: &mut &[u8],
        turn: Turn<'_>,
    ) -> Result<Option<Event<'e>>, ConnectionError> {
        loop {
            let state = &mut self.unidirectional;
            let has_settings = state.has_settings;
            let frame = state.frames.read(input, |kind, length| accept(kind, length, has_settings))?;
            let update = match frame {
                None => return Ok(None),
                Some(Frame::Whole(kind::SETTINGS, payload)) => {
                    check_settings(payload)?;
                    state.has_settings = true;
                    None
                }
                Some(Frame::Whole(kind::PRIORITY_UPDATE, payload)) => Some(priority_update(payload)?),
                Some(Frame::Whole(kind::PRIORITY_UPDATE_OF_PUSH, _)) => return Err(NOT_PROMISED),
                Some(Frame::Whole(kind, payload)) => {
                    let id = varint::only(payload).ok_or(ConnectionError::new(
                        ErrorCode::FRAME_ERROR,
                        "a frame on the control stream does not consist of one number",
                    ))?;
                    state.receive_push_limit(kind, id)?;
                    None
                }
                Some(Frame::Piece(_) | Frame::Ignored) => None,
            };
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
            if let Some((stream, priority)) = update
                && let Some(event) = self.receive_priority(stream, priority)
            {
                return Ok(Some(event));
            }
        }
    }

    /// Handles the priority of a request, whose head may not have arrived.
    fn receive_priority<'e>(&mut self, stream: u64, priority: Priority) -> Option<Event<'e>> {
        let state = self.streams.get_mut(stream)?;
        if state.progress.receiving == Receiving::Head {
            state.priority = Some(priority);
            return None;
        }
        Some(Event::Priority { stream, priority })
    }
}

impl Unidirectional {
    /// Handles GOAWAY, `MAX_PUSH_ID` and `CANCEL_PUSH`: this side pushes nothing, and only checks the numbers.
    fn receive_push_limit(&mut self, kind: u64, id: u64) -> Result<(), ConnectionError> {
        let (is_valid, reason) = match kind {
            // RFC 9114 §5.2.
            kind::GOAWAY => (self.go_away.replace(id).is_none_or(|last| id <= last), "GOAWAY has grown"),
            // RFC 9114 §7.2.7.
            kind::MAX_PUSH_ID => {
                (self.max_push.replace(id).is_none_or(|last| id >= last), "MAX_PUSH_ID has shrunk")
            }
            _ => return Err(NOT_PROMISED),
        };
        if is_valid { Ok(()) } else { Err(ConnectionError::new(ErrorCode::ID_ERROR, reason)) }
    }
}

/// Reads PRIORITY_UPDATE (RFC 9218 §7.2).
fn priority_update(mut payload: &[u8]) -> Result<(u64, Priority), ConnectionError> {
    let Some(stream) = varint::take(&mut payload) else {
        return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "PRIORITY_UPDATE without a stream"));
    };
    if stream & initiator::BITS != initiator::REQUEST {
        return Err(ConnectionError::new(
            ErrorCode::ID_ERROR,
            "PRIORITY_UPDATE for a stream without a request",
        ));
    }
    Ok((stream, Priority::parse(payload)))
}

/// Decides what is done with a frame on the control stream.
fn accept(kind: u64, length: u64, has_settings: bool) -> Result<Payload, ConnectionError> {
    let unexpected = |reason| Err(ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, reason));
    match kind {
        kind::SETTINGS if has_settings => unexpected("a second SETTINGS frame"),
        _ if !has_settings && kind != kind::SETTINGS => {
            let reason = "the control stream does not begin with SETTINGS";
            Err(ConnectionError::new(ErrorCode::MISSING_SETTINGS, reason))
        }
        kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
            unexpected("a frame of a request on the control stream")
        }
        _ if kind::is_of_http2(kind) => unexpected("a frame of HTTP/2"),
        _ if !kind::is_of_control_stream(kind) => Ok(Payload::Ignored),
        _ if length > CONTROL_BYTES_MAX => {
            let reason = "a frame on the control stream is too large";
            Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason))
        }
        _ => Ok(Payload::Whole),
    }
}
