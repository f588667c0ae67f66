//! How a protocol puts the body of a response on the wire: all that the pump knows of it.

use std::time::Instant;

use bytes::BytesMut;
use http::HeaderMap;
use rudy_http::h1::{LengthError, ServerConnection};

/// The response of one exchange, whose head has been encoded.
pub(crate) trait Framing {
    /// How many bytes of the body the peer takes now. The connection is polled again when they become more.
    fn window(&self) -> u64 {
        u64::MAX
    }

    /// Whether the end of the body has been encoded, or there is none to encode.
    fn has_ended(&self) -> bool;

    /// Encodes a piece of the body, of at most [`Self::window`] bytes. An empty one ends what [`Self::begin_raw`] has begun, before
    /// a pause.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    fn piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError>;

    /// Encodes what goes before bytes of the body that the pump sends behind `out` by itself, and returns how many of the
    /// `length` it may send: at least 1, where the window has room.
    ///
    /// # Errors
    ///
    /// The body is longer than its head promised.
    fn begin_raw(&mut self, length: u64, out: &mut BytesMut) -> Result<u64, LengthError>;

    /// Encodes the end of the body.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head promised.
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

    fn piece(&mut self, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.piece(data, out)
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
