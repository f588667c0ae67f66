//! A protocol in memory that differs from HTTP/2 as HTTP/3 does: numbers of 62 bits, and an output for each stream, which it keeps until
//! the peer acknowledges it, in any order.
//!
//! A response has frames: a kind, the length of the payload in four bytes, and the payload.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, BufMut, BytesMut};
use http::{HeaderMap, StatusCode};
use rudy_message::{DateLine, LengthError, Rejection, ResponseHead};
use rudy_service::{EndReason, LocalAddress, LocalAddressCache};
use rudy_tls::Tls;

use crate::driver::connection::Endpoint;
use crate::driver::framing::Layout;
use crate::driver::output::RawPiece;
use crate::driver::poll_context::PollContext;
use crate::driver::streams::{Multiplex, Reset, StreamId};

pub(super) const HEAD: u8 = b'H';
pub(super) const DATA: u8 = b'D';
pub(super) const END: u8 = b'E';

const LAYOUT: Layout = Layout { head_bytes: 5, data_bytes: 16 * 1024, frames: 2 };

/// What carries it: nothing has an address.
pub(super) struct Memory;

impl Endpoint for Memory {
    fn local_address<'c>(&'c self, _: &'c LocalAddressCache) -> LocalAddress<'c> {
        LocalAddress::known(None)
    }

    fn tls(&self) -> Option<&Arc<Tls>> {
        None
    }
}

/// The server's side.
#[derive(Default)]
pub(super) struct Toy {
    pub(super) streams: BTreeMap<StreamId, ToyStream>,
    /// How many bytes of a body each stream keeps.
    pub(super) room: u64,
    /// Bytes of request bodies that are passed on.
    pub(super) passed_on: usize,
}

#[derive(Debug, Default)]
pub(super) struct ToyStream {
    /// Whether the response has a body whose end is not encoded.
    is_in_body: bool,
    /// Bytes of bodies that the peer has not acknowledged.
    kept_data: u64,
    /// What the peer has not acknowledged.
    kept: BytesMut,
    /// What it has acknowledged.
    pub(super) received: Vec<u8>,
    pub(super) reset: Option<Reset>,
    pub(super) is_closed: bool,
}

impl Toy {
    pub(super) fn open(&mut self, stream: StreamId) {
        self.streams.insert(stream, ToyStream::default());
    }

    /// The peer acknowledges the next bytes of a stream, at most `bytes`. Returns whether there were any.
    pub(super) fn acknowledge(&mut self, stream: StreamId, bytes: usize) -> bool {
        let stream = self.streams.get_mut(&stream).unwrap();
        let acknowledged = stream.kept.split_to(bytes.min(stream.kept.len()));
        stream.received.extend_from_slice(&acknowledged);
        stream.kept_data = stream.kept_data.min(stream.kept.len() as u64);
        !acknowledged.is_empty()
    }

    fn put_frame(&mut self, stream: StreamId, kind: u8, payload: &[u8], out: &mut BytesMut) {
        assert!(self.streams.contains_key(&stream));
        out.put_u8(kind);
        out.put_u32(u32::try_from(payload.len()).unwrap());
        out.put_slice(payload);
    }
}

impl Multiplex for Toy {
    const NAME: &'static str = "Toy";

    type Io = ();

    fn requests(&self) -> u64 {
        self.streams.len() as u64
    }

    fn stored_bytes(&self) -> u64 {
        0
    }

    fn pass_on(&mut self, _: StreamId, bytes: usize, _: &mut BytesMut) {
        self.passed_on += bytes;
    }

    fn encode_continue(&mut self, _: StreamId, _: &mut BytesMut) {}

    fn encode_interim(&mut self, _: StreamId, _: StatusCode, _: &HeaderMap, _: &mut BytesMut) {}

    fn begin(
        &mut self,
        stream: StreamId,
        head: ResponseHead<'_>,
        length: Option<u64>,
        _: &DateLine,
        out: &mut BytesMut,
    ) {
        self.put_frame(stream, HEAD, head.status().as_str().as_bytes(), out);
        self.streams.get_mut(&stream).unwrap().is_in_body = length != Some(0);
    }

    fn is_in_body(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.is_in_body)
    }

    fn window(&self, stream: StreamId) -> u64 {
        self.room - self.streams[&stream].kept_data
    }

    fn has_window(&self) -> bool {
        true
    }

    fn begin_data(&mut self, stream: StreamId, length: u64, out: &mut BytesMut) -> Result<u64, LengthError> {
        let length = length.min(self.window(stream)).min(LAYOUT.data_bytes as u64);
        self.streams.get_mut(&stream).unwrap().kept_data += length;
        out.put_u8(DATA);
        out.put_u32(u32::try_from(length).unwrap());
        Ok(length)
    }

    fn encode_piece(&mut self, stream: StreamId, data: &[u8], out: &mut BytesMut) -> Result<(), LengthError> {
        if !data.is_empty() {
            assert_eq!(self.begin_data(stream, data.len() as u64, out)?, data.len() as u64);
            out.put_slice(data);
        }
        Ok(())
    }

    fn finish(
        &mut self,
        stream: StreamId,
        trailers: Option<&HeaderMap>,
        out: &mut BytesMut,
    ) -> Result<(), LengthError> {
        let lines = trailers.into_iter().flatten();
        let lines: Vec<_> =
            lines.map(|(name, value)| format!("{name}={};", value.to_str().unwrap())).collect();
        self.put_frame(stream, END, lines.concat().as_bytes(), out);
        self.streams.get_mut(&stream).unwrap().is_in_body = false;
        Ok(())
    }

    fn close(&mut self, stream: StreamId, _: Instant) {
        // What is kept is still sent.
        self.streams.get_mut(&stream).unwrap().is_closed = true;
    }

    fn reset(&mut self, stream: StreamId, reset: Reset, _: Instant, _: &mut BytesMut) {
        let stream = self.streams.get_mut(&stream).unwrap();
        (stream.reset, stream.is_in_body, stream.is_closed) = (Some(reset), false, true);
    }

    fn reject(
        &mut self,
        stream: StreamId,
        rejection: Rejection,
        _: (&DateLine, Instant),
        out: &mut BytesMut,
    ) {
        self.put_frame(stream, HEAD, rejection.status().as_str().as_bytes(), out);
    }

    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn take_output(
        &mut self,
        stream: StreamId,
        out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Option<RawPiece> {
        let stream = self.streams.get_mut(&stream).unwrap();
        stream.kept.extend_from_slice(out);
        out.clear();
        match raw {
            None => {}
            Some(RawPiece::Bytes(bytes)) => stream.kept.put(bytes),
            Some(RawPiece::Frames(frames)) => stream.kept.put_slice(frames.chunk()),
            Some(RawPiece::File(_) | RawPiece::Pipe(_)) => unreachable!("with a layout, files are copied"),
        }
        None
    }

    fn has_queued(&self) -> bool {
        false
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn poll_send(
        &mut self,
        (): &mut (),
        _: &mut PollContext<'_, '_>,
        out: &mut BytesMut,
        raw: Option<RawPiece>,
    ) -> Poll<Result<(), EndReason>> {
        assert!(out.is_empty() && raw.is_none(), "each stream has its own output");
        Poll::Ready(Ok(()))
    }
}
