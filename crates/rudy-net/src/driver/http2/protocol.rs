//! HTTP/2 as a protocol with streams: its state machine, and one output for all streams.

use std::task::Poll;
use std::time::Instant;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use rudy_http::h2::{DATA_BYTES_MAX, ErrorCode, HEAD_BYTES, ServerConnection};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};
use rudy_service::EndReason;

use crate::driver::frames::FRAMES_MAX;
use crate::driver::framing::Layout;
use crate::driver::output::{Output, RawPiece};
use crate::driver::poll_context::PollContext;
use crate::driver::streams::{Multiplex, Reset, StreamId};
use crate::transport::Stream;

/// The state machine, and what waits for the client.
pub(super) struct Protocol {
    pub(super) machine: ServerConnection,
    pub(super) output: Output,
    /// How many frames with a large piece are sent at once: twice as many as the last time, since the client has accepted those. So a slow
    /// client makes the connection store at most as much as the kernel.
    pub(super) frames: usize,
}

/// Returns the number of a stream, all of which the machine has named.
fn number(stream: StreamId) -> u32 {
    u32::try_from(stream).unwrap_or(u32::MAX)
}

impl Multiplex for Protocol {
    const NAME: &'static str = "HTTP/2";

    type Io = Stream;

    fn requests(&self) -> u64 {
        self.machine.requests()
    }

    fn stored_bytes(&self) -> u64 {
        self.machine.stored_bytes()
    }

    fn pass_on(&mut self, stream: StreamId, bytes: usize, out: &mut BytesMut) {
        self.machine.pass_on(number(stream), bytes, out);
    }

    fn encode_continue(&mut self, stream: StreamId, out: &mut BytesMut) {
        self.machine.encode_continue(number(stream), out);
    }

    fn encode_interim(
        &mut self,
        stream: StreamId,
        status: StatusCode,
        fields: &HeaderMap,
        out: &mut BytesMut,
    ) {
        let _is_sent = self.machine.encode_interim(number(stream), status, fields, out);
    }

    fn begin(
        &mut self,
        stream: StreamId,
        head: ResponseHead<'_>,
        length: Option<u64>,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        self.machine.begin(number(stream), head, length, date, out);
    }

    fn is_in_body(&self, stream: StreamId) -> bool {
        self.machine.is_in_body(number(stream))
    }

    fn window(&self, stream: StreamId) -> u64 {
        self.machine.window(number(stream))
    }

    fn has_window(&self) -> bool {
        self.machine.has_window()
    }

    fn begin_data(&mut self, stream: StreamId, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.machine.begin_data(number(stream), length, out)
    }

    fn encode_piece(&mut self, stream: StreamId, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.machine.encode_piece(number(stream), data, out)
    }

    fn finish(
        &mut self,
        stream: StreamId,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.machine.finish(number(stream), trailers, out)
    }

    fn close(&mut self, stream: StreamId, now: Instant) {
        self.machine.close(number(stream), now);
    }

    fn reset(&mut self, stream: StreamId, reset: Reset, now: Instant, out: &mut BytesMut) {
        let code = match reset {
            Reset::Cancelled => ErrorCode::CANCEL,
            Reset::Failed => ErrorCode::INTERNAL_ERROR,
        };
        self.machine.reset(number(stream), code, now, out);
    }

    fn reject(
        &mut self,
        stream: StreamId,
        rejection: Rejection,
        date_and_now: (&DateLine, Instant),
        out: &mut BytesMut,
    ) {
        self.machine.reject(number(stream), rejection, date_and_now, out);
    }

    fn layout(&self) -> Layout {
        Layout { head_bytes: HEAD_BYTES, data_bytes: DATA_BYTES_MAX, frames: self.frames }
    }

    fn has_queued(&self) -> bool {
        self.output.has_queued()
    }

    fn is_blocked(&self) -> bool {
        self.output.is_blocked()
    }

    fn poll_send(
        &mut self,
        io: &mut Stream,
        poll_cx: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Poll<Result<(), EndReason>> {
        let piece_bytes = raw.as_ref().map_or(0, RawPiece::length);
        let sent = self.output.poll(io, poll_cx, out, raw)?;
        if sent.is_pending() {
            self.frames = 1;
            return Poll::Pending;
        }
        if piece_bytes >= (self.frames * DATA_BYTES_MAX) as u64 {
            self.frames = (2 * self.frames).min(FRAMES_MAX);
        }
        self.output.release();
        Poll::Ready(Ok(()))
    }
}
