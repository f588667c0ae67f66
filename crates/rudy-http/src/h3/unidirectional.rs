//! The streams on which the peer sends what does not belong to a request (RFC 9114 §6.2).

use super::core::{Core, Own, STREAM_STEP, Side, StreamEnd, Turn, initiator};
use super::frame::kind;
use super::reader::{Frame, FrameReader, Payload};
use super::receive::NOT_ALLOWED_PUSH;
use super::settings::{PeerSettings, read_settings};
use super::{ConnectionError, ErrorCode, Priority, varint};
use crate::qpack::Feedback;

/// The maximum number of unidirectional streams that a peer should be able to open at once. It needs three (RFC 9114 §6.2), and some
/// have others, which end at once.
pub const UNIDIRECTIONAL_STREAMS: u32 = 16;

/// The maximum size of a frame on the control stream that is stored. Settings have a few parameters, and a priority has less than 16 bytes.
const CONTROL_BYTES_MAX: u64 = 1024;

/// Instructions that arrive at once and count as one frame: an encoder inserts several fields of a request.
const INSTRUCTIONS_FOR_FRAME: usize = 4;

/// The types of streams (RFC 9114 §11.2.4, RFC 9204 §8.2).
pub(super) mod stream_kind {
    pub(in crate::h3) const CONTROL: u8 = 0x0;
    pub(in crate::h3) const PUSH: u8 = 0x1;
    pub(in crate::h3) const ENCODER: u8 = 0x2;
    pub(in crate::h3) const DECODER: u8 = 0x3;
}

/// What arrives on the control stream.
pub(super) enum Control {
    Settings(PeerSettings),
    /// Streams of requests from this one on are not processed, or pushes are not wanted.
    GoAway(u64),
    /// The priority of the response on a stream.
    Priority(u64, Priority),
}

/// The unidirectional streams of the peer.
#[derive(Debug)]
pub(super) struct Unidirectional {
    side: Side,
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
    /// The largest push that a client allows.
    max_push: Option<u64>,
    /// The first stream of a request that a server does not process, or the first push that a client does not want.
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

impl Unidirectional {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            next: if side == Side::Server { initiator::CLIENT } else { initiator::SERVER },
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
                let reason = "the peer closed a stream that the connection needs";
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
            Ok(stream_kind::PUSH) if self.side == Side::Client => return Err(NOT_ALLOWED_PUSH),
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

impl Core {
    /// Returns the next event of the bytes of a stream. `None` if more input is needed; then all of it is used.
    pub(super) fn receive_unidirectional(
        &mut self,
        stream: u64,
        input: &mut &[u8],
        ends: bool,
        turn: Turn<'_>,
    ) -> Result<Option<Control>, ConnectionError> {
        self.unidirectional.open_up_to(stream)?;
        if self.unidirectional.role(stream) == Role::Untyped
            && let Some(kind) = self.unidirectional.take_kind(stream, input)
            && !self.unidirectional.assign(stream, kind)?
        {
            self.ends.push_back((stream, StreamEnd::Stop(ErrorCode::STREAM_CREATION_ERROR)));
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
        }
        let control = match self.unidirectional.role(stream) {
            Role::Control => {
                let given = input.len();
                let control = self.receive_control(input, turn)?;
                self.count_read(given, self.unidirectional.frames.is_between_frames(), turn)?;
                control
            }
            Role::Encoder => {
                let (given, out) = (input.len(), &mut self.own[Own::Decoder as usize]);
                let count = self.decoder.receive_instructions(std::mem::take(input), out).map_err(|_| {
                    let reason = "an invalid instruction on the encoder stream";
                    ConnectionError::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, reason)
                })?;
                self.check_own()?;
                self.count_read(given, self.decoder.is_between_instructions(), turn)?;
                self.count_instructions(count.div_ceil(INSTRUCTIONS_FOR_FRAME), turn)?
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
        if ends && control.is_none() {
            self.unidirectional.reset(stream)?;
        }
        Ok(control)
    }

    /// Counts instructions as frames without purpose: no request pays for what needs the table.
    fn count_instructions(
        &mut self,
        count: usize,
        turn: Turn<'_>,
    ) -> Result<Option<Control>, ConnectionError> {
        for _ in 0..count {
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
        }
        Ok(None)
    }

    /// Handles frames of the control stream, up to an event.
    fn receive_control(
        &mut self,
        input: &mut &[u8],
        turn: Turn<'_>,
    ) -> Result<Option<Control>, ConnectionError> {
        loop {
            let state = &mut self.unidirectional;
            let (side, has_settings) = (state.side, state.has_settings);
            let accept = |kind, length| accept(side, kind, length, has_settings);
            let control = match state.frames.read(input, accept)? {
                None => return Ok(None),
                Some(Frame::Whole(kind::SETTINGS, payload)) => {
                    state.has_settings = true;
                    Some(Control::Settings(read_settings(payload)?))
                }
                Some(Frame::Whole(kind::PRIORITY_UPDATE, payload)) => Some(priority_update(payload)?),
                Some(Frame::Whole(kind::PRIORITY_UPDATE_OF_PUSH, _)) => return Err(NOT_PROMISED),
                Some(Frame::Whole(kind, payload)) => {
                    let id = varint::only(payload).ok_or(ConnectionError::new(
                        ErrorCode::FRAME_ERROR,
                        "a frame on the control stream does not consist of one number",
                    ))?;
                    state.receive_number(kind, id)?
                }
                Some(Frame::Piece(_) | Frame::Ignored) => None,
            };
            self.allowances.count_frame(&turn.limits.http2, turn.now)?;
            if control.is_some() {
                return Ok(control);
            }
        }
    }
}

impl Unidirectional {
    /// Handles GOAWAY, `MAX_PUSH_ID` and `CANCEL_PUSH`: there are no pushes, whose numbers are only checked.
    fn receive_number(&mut self, kind: u64, id: u64) -> Result<Option<Control>, ConnectionError> {
        let error = |reason| Err(ConnectionError::new(ErrorCode::ID_ERROR, reason));
        match kind {
            // RFC 9114 §5.2.
            kind::GOAWAY if self.side == Side::Client && id & initiator::BITS != initiator::REQUEST => {
                error("GOAWAY with a stream that is not that of a request")
            }
            kind::GOAWAY if self.go_away.replace(id).is_some_and(|last| id > last) => {
                error("GOAWAY has grown")
            }
            kind::GOAWAY => Ok(Some(Control::GoAway(id))),
            // RFC 9114 §7.2.7.
            kind::MAX_PUSH_ID if self.max_push.replace(id).is_some_and(|last| id < last) => {
                error("MAX_PUSH_ID has shrunk")
            }
            kind::MAX_PUSH_ID => Ok(None),
            _ => Err(NOT_PROMISED),
        }
    }
}

/// Reads PRIORITY_UPDATE (RFC 9218 §7.2).
fn priority_update(mut payload: &[u8]) -> Result<Control, ConnectionError> {
    let Some(stream) = varint::take(&mut payload) else {
        return Err(ConnectionError::new(ErrorCode::FRAME_ERROR, "PRIORITY_UPDATE without a stream"));
    };
    if stream & initiator::BITS != initiator::REQUEST {
        return Err(ConnectionError::new(
            ErrorCode::ID_ERROR,
            "PRIORITY_UPDATE for a stream without a request",
        ));
    }
    Ok(Control::Priority(stream, Priority::parse(payload)))
}

/// Decides what is done with a frame on the control stream.
fn accept(side: Side, kind: u64, length: u64, has_settings: bool) -> Result<Payload, ConnectionError> {
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
        // RFC 9114 §7.2.7, RFC 9218 §7.2.
        kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_OF_PUSH if side == Side::Client => {
            unexpected("a server sent a frame that only clients send")
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
