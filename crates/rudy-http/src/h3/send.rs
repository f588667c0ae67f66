//! Encodes messages, for both sides.

use bytes::BytesMut;
use http::HeaderMap;
use rudy_message::LengthError;

use super::core::Core;
use super::frame::{kind, put_head, put_section};
use super::varint;
use crate::field_section::put_trailers;
use crate::progress::Sending;
use crate::qpack::Qpack;

impl Core {
    /// Whether a body is sent on a stream, whose end is not encoded.
    pub(super) fn is_in_body(&self, stream: u64) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.progress.is_in_body())
    }

    /// Encodes the frame before bytes of a body that the caller sends itself, if they are not in the frame of those before. Returns how
    /// many of the `length` bytes follow: all. A body of known length has one frame.
    pub(super) fn begin_data(
        &mut self,
        stream: u64,
        length: u64,
        out: &mut BytesMut,
    ) -> Result<u64, LengthError> {
        let Some(state) = self.streams.get_mut(stream) else { return Err(LengthError) };
        let length = length.min(varint::MAX);
        let all = match state.progress.sending {
            Sending::Body(Some(all)) if all <= varint::MAX => Some(all),
            _ => None,
        };
        state.progress.send(length, length)?;
        if length > 0 && !state.is_framed {
            put_head(kind::DATA, all.unwrap_or(length), out);
            state.is_framed = all.is_some();
        }
        Ok(length)
    }

    /// Ends a body. Returns whether it had not ended with its last byte.
    pub(super) fn finish(
        &mut self,
        stream: u64,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<bool, LengthError> {
        let Some(state) = self.streams.get_mut(stream) else { return Ok(false) };
        let has_ended = state.progress.finish()?;
        if has_ended && let Some(trailers) = trailers.filter(|fields| !fields.is_empty()) {
            put_section(out, |out| put_trailers::<Qpack>(trailers, out));
        }
        Ok(has_ended)
    }
}
