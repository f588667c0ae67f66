//! The interface of a protocol with many streams on a connection.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};
use rudy_service::EndReason;

use crate::driver::framing::Layout;
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;

/// The number of a stream. Those of HTTP/2 have 31 bits, those of QUIC 62.
pub(in crate::driver) type StreamId = u64;

/// Why a stream is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Reset {
    /// The response is not wanted any more.
    Cancelled,
    /// The response cannot be completed.
    Failed,
}

/// A protocol with many streams on a connection, such as HTTP/2, and what sends its output. Requests arrive outside of this interface,
/// and streams that the client has reset are unknown here: calls for them do nothing.
///
/// A protocol with one output for all streams appends to `out`, whose bytes [`Self::poll_send`] sends in this order. One with an output for
/// each stream takes them with [`Self::take_output`].
pub(in crate::driver) trait Multiplex {
    /// For messages.
    const NAME: &'static str;

    /// What carries the output.
    type Io;

    /// Returns the number of requests received so far.
    fn requests(&self) -> u64;

    /// Returns how many bytes of request bodies are stored: received, and not [passed on](Self::pass_on).
    fn stored_bytes(&self) -> u64;

    /// Records that bytes of a request body are no longer stored, so that the client may send as many.
    fn pass_on(&mut self, stream: StreamId, bytes: usize, out: &mut BytesMut);

    /// Encodes 100 (Continue), if the client waits for it.
    fn encode_continue(&mut self, stream: StreamId, out: &mut BytesMut);

    /// Encodes an interim response, if it is allowed.
    fn encode_interim(
        &mut self,
        stream: StreamId,
        status: StatusCode,
        fields: &HeaderMap,
        out: &mut BytesMut,
    );

    /// Encodes the head of the response. `length` is that of the body, if known.
    fn begin(
        &mut self,
        stream: StreamId,
        head: ResponseHead<'_>,
        length: Option<u64>,
        date: &DateLine,
        out: &mut BytesMut,
    );

    /// Whether the response has a body on the wire, whose end is not encoded.
    fn is_in_body(&self, stream: StreamId) -> bool;

    /// Returns how many bytes of the body can be sent now.
    fn window(&self, stream: StreamId) -> u64;

    /// Whether something of any body can be sent now.
    fn has_window(&self) -> bool;

    /// Encodes the frame before bytes of a body that are sent next. Returns how many of the `length` bytes it has room for: at least 1 if
    /// there is a window.
    ///
    /// # Errors
    ///
    /// The body is longer than its head states.
    fn begin_data(&mut self, stream: StreamId, length: u64, out: &mut BytesMut) -> Result<u64, LengthError>;

    /// Encodes a piece of a body, of at most [`Self::window`] bytes.
    ///
    /// # Errors
    ///
    /// The body is longer than its head states.
    fn encode_piece(&mut self, stream: StreamId, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError>;

    /// Encodes the end of a body, unless it has ended with its last byte.
    ///
    /// # Errors
    ///
    /// The body is shorter than its head states.
    fn finish(
        &mut self,
        stream: StreamId,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError>;

    /// Closes a stream whose response is encoded. The rest of its request is discarded.
    fn close(&mut self, stream: StreamId, now: Instant);

    /// Resets a stream: its response stays incomplete.
    fn reset(&mut self, stream: StreamId, reset: Reset, now: Instant, out: &mut BytesMut);

    /// Encodes a response for a rejection, and closes the stream. If the response has begun, resets the stream.
    fn reject(
        &mut self,
        stream: StreamId,
        rejection: Rejection,
        date_and_now: (&DateLine, Instant),
        out: &mut BytesMut,
    );

    /// Returns the layout of the frames of a large piece.
    fn layout(&self) -> Layout;

    /// Takes what was appended for a stream, and the piece after it. By default, they belong to the output of all streams.
    fn take_output(
        &mut self,
        _stream: StreamId,
        _out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Option<RawPiece> {
        raw
    }

    /// Whether output waits for the client: nothing is encoded until it is accepted.
    fn has_queued(&self) -> bool;

    /// Whether the client does not read.
    fn is_blocked(&self) -> bool;

    /// Sends `out`, then `raw`. Ready when they are accepted; otherwise they are stored.
    ///
    /// # Errors
    ///
    /// The connection is broken, or a frame that has begun cannot be completed.
    fn poll_send(
        &mut self,
        io: &mut Self::Io,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Poll<Result<(), EndReason>>;
}
