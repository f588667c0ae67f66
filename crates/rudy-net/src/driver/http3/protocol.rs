//! HTTP/3 as a protocol with streams: its state machine, and an output for each stream.

use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use rudy_http::h3::{ErrorCode, ServerConnection, StreamEnd};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};
use rudy_quic::streams::{self, Outgoing};
use rudy_runtime::is_planted;
use rudy_service::EndReason;

use crate::driver::framing::Layout;
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;
use crate::driver::streams::{Multiplex, Reset, StreamId};
use crate::quic::Quic;

/// What a stream stores that QUIC does not accept: a client that does not read occupies no more.
const QUEUED_BYTES_MAX: u64 = 32 * 1024;

/// The size of a piece of a file. A call sends as much.
const PIECE_BYTES: usize = 32 * 1024;

/// The state machine, and what waits for QUIC.
pub(super) struct Protocol {
    pub(super) machine: ServerConnection,
    /// The streams of which something is not accepted.
    outputs: BTreeMap<StreamId, Outgoing>,
    /// The streams whose output has changed.
    changed: Vec<StreamId>,
    /// The streams that can be read again, because their services have read.
    pub(super) readable: VecDeque<StreamId>,
    /// What is stored of request bodies, in bytes.
    pub(super) stored: u64,
}

impl Protocol {
    pub(super) fn new(machine: ServerConnection) -> Self {
        Self { machine, outputs: BTreeMap::new(), changed: Vec::new(), readable: VecDeque::new(), stored: 0 }
    }

    /// Whether something waits for QUIC.
    pub(super) fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// QUIC accepts more of a stream.
    pub(super) fn note_writable(&mut self, stream: StreamId) {
        if self.outputs.contains_key(&stream) && !is_planted("a stream over QUIC that is not told of room") {
            self.changed.push(stream);
        }
    }

    /// Forgets the output of a stream that the client does not want.
    pub(super) fn drop_output(&mut self, stream: StreamId) {
        self.outputs.remove(&stream);
    }

    /// Frees what a connection without streams does not need.
    pub(super) fn release(&mut self) {
        self.outputs = BTreeMap::new();
        self.changed = Vec::new();
        self.readable.shrink_to_fit();
        self.machine.free();
    }

    /// Passes output to QUIC, as much as it accepts. Returns the streams that have room again.
    pub(super) fn flush(&mut self, quic: &mut Quic) -> Vec<StreamId> {
        self.take_ends(quic);
        let mut with_room = Vec::new();
        while let Some(stream) = self.changed.pop() {
            let Some(output) = self.outputs.get_mut(&stream) else { continue };
            let was_full = output.bytes() >= QUEUED_BYTES_MAX;
            let is_done = output.write(&mut quic.machine, stream);
            if was_full && output.bytes() < QUEUED_BYTES_MAX {
                with_room.push(stream);
            }
            if is_done {
                self.outputs.remove(&stream);
            }
        }
        with_room
    }

    /// Ends and resets streams as the state machine demands.
    fn take_ends(&mut self, quic: &mut Quic) {
        while let Some((stream, end)) = self.machine.take_end() {
            match end {
                StreamEnd::Finish => {
                    self.outputs.entry(stream).or_default().ends = true;
                    self.changed.push(stream);
                }
                StreamEnd::Reset(code) => {
                    self.outputs.remove(&stream);
                    streams::reset(&mut quic.machine, stream, code.0);
                }
                StreamEnd::Stop(code) => streams::stop(&mut quic.machine, stream, code.0),
            }
        }
    }

    fn queue(&mut self, stream: StreamId, bytes: Bytes) {
        self.outputs.entry(stream).or_default().push(bytes);
        self.changed.push(stream);
    }
}

impl Multiplex for Protocol {
    const NAME: &'static str = "HTTP/3";

    type Io = Quic;

    fn requests(&self) -> u64 {
        self.machine.requests()
    }

    fn stored_bytes(&self) -> u64 {
        self.stored
    }

    fn pass_on(&mut self, stream: StreamId, bytes: usize, _: &mut BytesMut) {
        self.stored = self.stored.saturating_sub(bytes as u64);
        self.readable.push_back(stream);
    }

    fn encode_continue(&mut self, stream: StreamId, out: &mut BytesMut) {
        self.machine.encode_continue(stream, out);
    }

    fn encode_interim(
        &mut self,
        stream: StreamId,
        status: StatusCode,
        fields: &HeaderMap,
        out: &mut BytesMut,
    ) {
        let _is_sent = self.machine.encode_interim(stream, status, fields, out);
    }

    fn begin(
        &mut self,
        stream: StreamId,
        head: ResponseHead<'_>,
        length: Option<u64>,
        date: &DateLine,
        out: &mut BytesMut,
    ) {
        self.machine.begin(stream, head, length, date, out);
    }

    fn is_in_body(&self, stream: StreamId) -> bool {
        self.machine.is_in_body(stream)
    }

    fn window(&self, stream: StreamId) -> u64 {
        let queued = self.outputs.get(&stream).map_or(0, Outgoing::bytes);
        QUEUED_BYTES_MAX.saturating_sub(queued)
    }

    /// Each stream has its own.
    fn has_window(&self) -> bool {
        true
    }

    fn begin_data(&mut self, stream: StreamId, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        self.machine.begin_data(stream, length, out)
    }

    fn encode_piece(&mut self, stream: StreamId, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        self.machine.encode_piece(stream, data, out)
    }

    fn finish(
        &mut self,
        stream: StreamId,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        self.machine.finish(stream, trailers, out)
    }

    fn close(&mut self, stream: StreamId, now: Instant) {
        self.machine.close(stream, now);
    }

    fn reset(&mut self, stream: StreamId, reset: Reset, now: Instant, _: &mut BytesMut) {
        let code = match reset {
            Reset::Cancelled => ErrorCode::REQUEST_CANCELLED,
            Reset::Failed => ErrorCode::INTERNAL_ERROR,
        };
        self.machine.reset(stream, code, now);
    }

    fn reject(
        &mut self,
        stream: StreamId,
        rejection: Rejection,
        date_and_now: (&DateLine, Instant),
        out: &mut BytesMut,
    ) {
        self.machine.reject(stream, rejection, date_and_now, out);
    }

    /// Heads of frames are in the output before the piece.
    fn layout(&self) -> Layout {
        Layout { head_bytes: 0, data_bytes: PIECE_BYTES, frames: 1 }
    }

    fn take_output(
        &mut self,
        stream: StreamId,
        out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Option<RawPiece> {
        if !out.is_empty() {
            self.queue(stream, Bytes::copy_from_slice(out));
            out.clear();
        }
        match raw {
            Some(RawPiece::Bytes(bytes)) => self.queue(stream, bytes),
            Some(RawPiece::Frames(frames)) => self.queue(stream, frames.into_bytes()),
            // With a layout, files are copied, and nothing is piped to QUIC.
            Some(RawPiece::File(_) | RawPiece::Pipe(_)) | None => {}
        }
        None
    }

    /// Each stream has its own queue.
    fn has_queued(&self) -> bool {
        false
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn poll_send(
        &mut self,
        _: &mut Quic,
        _: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
        _: Option<RawPiece>,
    ) -> Poll<Result<(), EndReason>> {
        debug_assert!(out.is_empty(), "each stream has its own output");
        Poll::Ready(Ok(()))
    }
}
