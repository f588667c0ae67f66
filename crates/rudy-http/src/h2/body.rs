//! Bodies in both directions: DATA frames, their windows, and the length that a head states.

use bytes::{BufMut, BytesMut};
use http::HeaderMap;
use rudy_message::LengthError;

use super::core::Core;
use super::frame::{DATA_BYTES_MAX, flag, kind, put_head};
use super::{ConnectionError, ErrorCode};
use crate::Limits;
use crate::progress::{Receiving, WrongLength};

/// The fault of a body that has not the length of its head (RFC 9113 §8.1.1).
pub(super) const WRONG_LENGTH: (ErrorCode, &str) = (ErrorCode::PROTOCOL_ERROR, WrongLength::REASON);

/// A piece of DATA.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'i> {
    pub(super) stream: u32,
    pub(super) data: &'i [u8],
    pub(super) flow_bytes: u32,
    pub(super) ends: bool,
    /// Whether this is the end of a frame without data.
    pub(super) is_empty: bool,
}

/// What a piece of DATA means for its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Accepted,
    /// The stream was reset by this side, and its DATA was in transit.
    Ignored,
    /// The stream must be reset.
    Malformed((ErrorCode, &'static str)),
    /// The body is larger than [`Limits::body_bytes`].
    TooLarge,
}

impl Core {
    /// Counts a piece of DATA in all windows, and compares the body with the length that its head states.
    pub(super) fn receive_piece(
        &mut self,
        piece: &Piece<'_>,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Received, ConnectionError> {
        let &Piece { stream: id, data, flow_bytes, ends, .. } = piece;
        self.receive_data(flow_bytes, out)?;
        let stream = self.streams.get_mut(id).filter(|stream| stream.progress.receiving != Receiving::Ended);
        let Some(stream) = stream else {
            self.pass_on(0, flow_bytes, out);
            if self.was_reset_by_us(id) {
                return Ok(Received::Ignored);
            }
            return Ok(Received::Malformed((ErrorCode::STREAM_CLOSED, "DATA after the end of the stream")));
        };
        let length = data.len() as u64;
        let is_before_head = stream.progress.receiving == Receiving::Head;
        let has_wrong_length = stream.progress.receive(length, ends).is_err();
        let fault = if stream.receive_window.receive(flow_bytes).is_err() {
            Some((ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the window of the stream"))
        } else if is_before_head {
            Some((ErrorCode::PROTOCOL_ERROR, "DATA before the head of the response"))
        } else {
            has_wrong_length.then_some(WRONG_LENGTH)
        };
        if let Some(fault) = fault {
            self.pass_on(0, flow_bytes, out);
            return Ok(Received::Malformed(fault));
        }
        if stream.progress.received > limits.body_bytes && !stream.progress.is_tunnel {
            self.pass_on(id, flow_bytes, out);
            self.close_if_ended(id);
            return Ok(Received::TooLarge);
        }
        let padding = flow_bytes.saturating_sub(u32::try_from(length).unwrap_or(u32::MAX));
        if padding > 0 {
            self.pass_on(id, padding, out);
        }
        if ends {
            self.close_if_ended(id);
        }
        Ok(Received::Accepted)
    }

    /// Encodes the frame before bytes of a body that the caller sends itself. Returns how many of the `length` bytes follow.
    /// With the last byte of a known length, the stream ends.
    pub(super) fn begin_data(
        &mut self,
        stream: u32,
        length: u64,
        out: &mut BytesMut,
    ) -> Result<u64, LengthError> {
        let framed = length.min(self.window(stream)).min(DATA_BYTES_MAX as u64);
        let Some(state) = self.streams.get_mut(stream) else { return Err(LengthError) };
        let ends = state.progress.send(length, framed)?;
        if framed == 0 {
            return Ok(0);
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        put_head(kind::DATA, flags, stream, usize::try_from(framed).unwrap_or(DATA_BYTES_MAX), out);
        self.send_data(stream, framed, length);
        Ok(framed)
    }

    /// Encodes a piece of a body, of at most the window.
    pub(super) fn encode_piece(
        &mut self,
        stream: u32,
        mut data: &[u8],
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        while !data.is_empty() {
            let framed = self.begin_data(stream, data.len() as u64, out)?;
            let (frame, rest) = data.split_at(usize::try_from(framed).unwrap_or(data.len()).min(data.len()));
            if frame.is_empty() {
                return Err(LengthError);
            }
            out.put_slice(frame);
            data = rest;
        }
        Ok(())
    }

    /// Ends a body, if it has not ended with its last byte. Returns trailers, which the caller must encode as the end of the stream.
    pub(super) fn finish<'t>(
        &mut self,
        stream: u32,
        trailers: Option<&'t HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<Option<&'t HeaderMap>, LengthError> {
        let Some(state) = self.streams.get_mut(stream) else { return Ok(None) };
        if !state.progress.finish()? {
            return Ok(None);
        }
        let trailers = trailers.filter(|fields| !fields.is_empty());
        if trailers.is_none() {
            put_head(kind::DATA, flag::END_STREAM, stream, 0, out);
        }
        Ok(trailers)
    }
}
