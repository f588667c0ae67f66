//! Splits the bytes of a stream into frames (RFC 9114 §7.1).
//!
//! A frame that arrives whole is read where it is. Only an incomplete one is stored, and never the payload of DATA.

use super::{ConnectionError, varint};

/// The maximum size of the head of a frame: its type and its length.
const HEAD_BYTES_MAX: usize = 16;

/// What is done with the payload of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// It is passed on in pieces.
    Pieces,
    /// It is passed on when it is whole.
    Whole,
    /// The type of the frame is unknown, so that it is ignored (§9).
    Ignored,
}

/// A frame, or a piece of DATA. DATA is always in the input (`'i`), other frames may be in the buffer of the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a, 'i> {
    /// A piece of the payload. It is empty if the payload is.
    Piece(&'i [u8]),
    /// A whole frame: its type and its payload.
    Whole(u64, &'a [u8]),
    /// The start of a frame that is ignored.
    Ignored,
}

/// The state of a stream between calls.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Between frames, or within the head of one.
    Head { bytes: [u8; HEAD_BYTES_MAX], length: u8 },
    /// Within a payload that is passed on in pieces.
    Pieces { remaining: u64 },
    /// Within a payload that is passed on when it is whole.
    Buffer { kind: u64, length: usize, bytes: Vec<u8> },
    /// Between frames; the last call has returned the payload.
    Returned(Vec<u8>),
    /// Within a payload that is ignored.
    Ignored { remaining: u64 },
}

impl Default for State {
    fn default() -> Self {
        Self::Head { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }
}

impl FrameReader {
    /// Whether no frame has begun that has not ended.
    pub(super) fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Head { length: 0, .. } | State::Returned(_))
    }

    /// Returns how much of a payload is stored.
    pub(super) fn stored_bytes(&self) -> usize {
        match &self.state {
            State::Buffer { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// Returns the heap memory in bytes.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.state {
            State::Buffer { bytes, .. } | State::Returned(bytes) => bytes.capacity(),
            _ => 0,
        }
    }

    /// Returns the next frame of `input`, and removes it from there. `None` if more input is needed; then all of it is used. `accept`
    /// decides what is done with a frame, by its type and the length of its payload; it must limit the length of one that is stored.
    pub(super) fn read<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        accept: impl FnOnce(u64, u64) -> Result<Payload, ConnectionError>,
    ) -> Result<Option<Frame<'a, 'i>>, ConnectionError> {
        if let State::Returned(_) = self.state {
            self.state = State::default();
        }
        if let State::Ignored { .. } = self.state {
            self.read_ignored(input);
        }
        if let State::Head { .. } = self.state {
            let Some((kind, length)) = self.read_head(input) else { return Ok(None) };
            match accept(kind, length)? {
                Payload::Pieces if length == 0 => return Ok(Some(Frame::Piece(b""))),
                Payload::Pieces => self.state = State::Pieces { remaining: length },
                Payload::Ignored => {
                    self.state = State::Ignored { remaining: length };
                    self.read_ignored(input);
                    return Ok(Some(Frame::Ignored));
                }
                Payload::Whole => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    if let Some((payload, rest)) = input.split_at_checked(length) {
                        *input = rest;
                        return Ok(Some(Frame::Whole(kind, payload)));
                    }
                    self.state = State::Buffer { kind, length, bytes: Vec::new() };
                }
            }
        }
        Ok(self.read_payload(input))
    }

    /// Removes the head of a frame: its type and its length.
    fn read_head(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        let State::Head { bytes, length } = &mut self.state else { return None };
        if *length == 0 {
            let mut rest = *input;
            if let (Some(kind), Some(payload)) = (varint::take(&mut rest), varint::take(&mut rest)) {
                *input = rest;
                return Some((kind, payload));
            }
        }
        while let Some((first, rest)) = input.split_first() {
            *input = rest;
            bytes[usize::from(*length)] = *first;
            *length += 1;
            let mut head = &bytes[..usize::from(*length)];
            if let (Some(kind), Some(payload)) = (varint::take(&mut head), varint::take(&mut head)) {
                *length = 0;
                return Some((kind, payload));
            }
        }
        None
    }

    /// Returns the next piece of a payload, or a whole one.
    fn read_payload<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Option<Frame<'a, 'i>> {
        match &mut self.state {
            State::Pieces { .. } if input.is_empty() => None,
            State::Pieces { remaining } => {
                let piece = take_up_to(remaining, input);
                if *remaining == 0 {
                    self.state = State::default();
                }
                Some(Frame::Piece(piece))
            }
            State::Buffer { kind, length, bytes } => {
                let mut missing = (*length - bytes.len()) as u64;
                bytes.extend_from_slice(take_up_to(&mut missing, input));
                if missing > 0 {
                    return None;
                }
                let (kind, bytes) = (*kind, std::mem::take(bytes));
                self.state = State::Returned(bytes);
                match &self.state {
                    State::Returned(bytes) => Some(Frame::Whole(kind, bytes)),
                    _ => None,
                }
            }
            State::Head { .. } | State::Returned(_) | State::Ignored { .. } => None,
        }
    }

    fn read_ignored(&mut self, input: &mut &[u8]) {
        if let State::Ignored { remaining } = &mut self.state {
            take_up_to(remaining, input);
            if *remaining == 0 {
                self.state = State::default();
            }
        }
    }
}

/// Removes at most `remaining` bytes of `input`.
fn take_up_to<'i>(remaining: &mut u64, input: &mut &'i [u8]) -> &'i [u8] {
    let length = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(length);
    *input = rest;
    *remaining -= length as u64;
    taken
}
