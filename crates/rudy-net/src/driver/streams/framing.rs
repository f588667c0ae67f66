//! The framing of the response on a stream, for the body pump.

use std::time::Instant;

use bytes::BytesMut;
use http::HeaderMap;
use rudy_message::LengthError;

use super::multiplex::{Multiplex, StreamId};
use crate::driver::framing::Framing;

/// The response on a stream.
pub(super) struct StreamFraming<'a, M> {
    pub(super) protocol: &'a mut M,
    pub(super) stream: StreamId,
}

impl<M: Multiplex> Framing for StreamFraming<'_, M> {
    fn window(&self) -> u64 {
        self.protocol.window(self.stream)
    }

    fn has_ended(&self) -> bool {
        !self.protocol.is_in_body(self.stream)
    }

    fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.protocol.encode_piece(self.stream, data, out)
    }

    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.protocol.begin_data(self.stream, length, out)
    }

    fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        _now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.protocol.finish(self.stream, trailers, out)
    }
}
