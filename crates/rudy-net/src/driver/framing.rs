//! The interface through which a protocol frames response bodies for the pump.

use std::time::Instant;

use bytes::BytesMut;
use http::HeaderMap;
use rudy_http::h1::ServerConnection;
use rudy_message::LengthError;

/// The layout of a piece that is copied before it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The size of the head of a frame; 0 without frames.
    pub(crate) head_bytes: usize,
    /// The maximum size of the data in a frame.
    pub(crate) data_bytes: usize,
    /// The maximum number of frames at once.
    pub(crate) frames: usize,
}

/// The framing of a response whose head is encoded.
pub(crate) trait Framing {
    /// Returns how many bytes of the body the peer accepts now. When the window grows, the connection is
    /// polled again.
    fn window(&self) -> u64 {
        u64::MAX
    }

    /// Whether the end of the body is encoded, or the response has no body.
    fn has_ended(&self) -> bool;

    /// Encodes a piece of the body, of at most [`Self::window`] bytes. An empty piece, before a pause, ends
    /// the frame that [`Self::begin_raw`] has begun.
    ///
    /// # Errors
    ///
    /// The body is longer than its head states.
    fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError>;

    /// Encodes the framing before bytes that the pump sends directly after `out`. Returns how many of the
    /// `length` bytes it may send: at least 1 if the window has room.
    ///
    /// # Errors
    ///
    /// The body is longer than its head states.
    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError>;

    /// Encodes the end of the body.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head states.
    fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError>;
}

impl Framing for ServerConnection {
    fn has_ended(&self) -> bool {
        !self.is_in_body()
    }

    fn encode_piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.encode_piece(data, out)
    }

    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.raw_piece(length, out).map(|()| length)
    }

    fn finish(
        &mut self,
        trailers: Option<&HeaderMap>,
        now: Instant,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.finish(trailers, now, out)
    }
}
