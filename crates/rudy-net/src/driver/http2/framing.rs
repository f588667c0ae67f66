//! The framing of the response on a stream, for the body pump.

use std::time::Instant;

use bytes::BytesMut;
use http::HeaderMap;
use rudy_http::h2::ServerConnection;
use rudy_message::LengthError;

use crate::driver::framing::Framing;

/// The response on a stream.
pub(super) struct StreamFraming<'a> {
    pub(super) machine: &'a mut ServerConnection,
    pub(super) stream: u32,
}

impl Framing for StreamFraming<'_> {
    fn window(&self) -> u64 {
        self.machine.window(self.stream)
    }

    fn has_ended(&self) -> bool {
        !self.machine.is_in_body(self.stream)
    }

    fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.machine.encode_piece(self.stream, data, out)
    }

    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.machine.begin_data(self.stream, length, out)
    }

    fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        _now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.machine.finish(self.stream, trailers, out)
    }
}
