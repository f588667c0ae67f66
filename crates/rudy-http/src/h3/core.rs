//! What both sides of a connection have.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{BufMut, BytesMut};

use super::settings::OwnSettings;
use super::stream::{Stream, Streams};
use super::unidirectional::{Unidirectional, stream_kind};
use super::{ConnectionError, ErrorCode};
use crate::Limits;
use crate::allowance::Allowances;
use crate::qpack::Decoder;

/// The difference of the numbers of streams of the same kind (RFC 9000 §2.1).
pub(super) const STREAM_STEP: u64 = 4;

/// The capacity of the dynamic table in which this side decodes sections. Browsers fill it with what they repeat in each request.
pub(super) const TABLE_BYTES: u32 = 4096;

/// The maximum number of streams whose sections wait for entries of the table, which are in transit (RFC 9204 §2.1.2).
pub(super) const BLOCKED_STREAMS: u32 = 16;

/// The maximum of what waits for a stream of this side. A peer that does not read has no use for more.
const OWN_BYTES_MAX: usize = 16 * 1024;

/// Reads of fewer bytes that complete no frame are counted: each wakes the connection.
const PARTIAL_READ_BYTES: usize = 256;

/// Who opens a stream, by the lowest bits of its number (RFC 9000 §2.1).
pub(super) mod initiator {
    /// A client, for a request.
    pub(in crate::h3) const REQUEST: u64 = 0;
    /// A client, for one direction.
    pub(in crate::h3) const CLIENT: u64 = 2;
    /// A server, for one direction.
    pub(in crate::h3) const SERVER: u64 = 3;
    pub(in crate::h3) const BITS: u64 = 3;
}

/// Which side of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

/// A stream that this side opens, each for its whole life (RFC 9114 §6.2.1, RFC 9204 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The control stream.
    Control,
    /// The encoder stream of QPACK.
    Encoder,
    /// The decoder stream of QPACK.
    Decoder,
}

impl Own {
    fn kind(self) -> u8 {
        match self {
            Self::Control => stream_kind::CONTROL,
            Self::Encoder => stream_kind::ENCODER,
            Self::Decoder => stream_kind::DECODER,
        }
    }
}

/// What happens to a stream, beside the bytes that are appended for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The request or the response is complete: the direction ends after the bytes that were appended for it.
    Finish,
    /// Bytes that were not sent yet are dropped, and both directions end with the code, as far as they have not ended: `RESET_STREAM`
    /// and `STOP_SENDING`.
    Reset(ErrorCode),
    /// The rest of what the peer sends is not wanted: `STOP_SENDING`.
    Stop(ErrorCode),
}

/// What the handling of input needs.
#[derive(Clone, Copy)]
pub(super) struct Turn<'t> {
    pub(super) now: Instant,
    pub(super) limits: &'t Limits,
}

/// The state that both sides have.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) side: Side,
    pub(super) streams: Streams,
    pub(super) unidirectional: Unidirectional,
    pub(super) decoder: Decoder,
    pub(super) allowances: Allowances,
    pub(super) ends: VecDeque<(u64, StreamEnd)>,
    /// What waits for the streams of this side.
    pub(super) own: [BytesMut; 3],
    /// Whether the streams have begun with their types.
    has_begun: [bool; 3],
}

impl Core {
    /// Creates the state, and appends the first bytes of the control stream.
    pub(super) fn new(now: Instant, side: Side, settings: OwnSettings) -> Self {
        let mut own = <[BytesMut; 3]>::default();
        settings.encode(&mut own[Own::Control as usize]);
        Self {
            side,
            streams: Streams::default(),
            unidirectional: Unidirectional::new(side),
            decoder: Decoder::new(TABLE_BYTES),
            allowances: Allowances::new(now),
            ends: VecDeque::new(),
            own,
            has_begun: [false; 3],
        }
    }

    /// Returns the bytes for a stream, which begins with its type. A stream that has no other bytes is not worth its memory (RFC 9204 §4.2).
    pub(super) fn output(&mut self, own: Own) -> &mut BytesMut {
        let (out, has_begun) = (&mut self.own[own as usize], &mut self.has_begun[own as usize]);
        if !out.is_empty() && !std::mem::replace(has_begun, true) {
            let mut first = BytesMut::with_capacity(1 + out.len());
            first.put_u8(own.kind());
            first.extend_from_slice(out);
            *out = first;
        }
        out
    }

    /// Removes a stream, whose peer may not have ended it.
    pub(super) fn remove(&mut self, stream: u64) -> Option<Stream> {
        let removed = self.streams.remove(stream)?;
        if !removed.has_ended {
            self.decoder.cancel(stream, &mut self.own[Own::Decoder as usize]);
        }
        Some(removed)
    }

    /// Resets a stream. Returns whether it was open.
    pub(super) fn reset(&mut self, stream: u64, code: ErrorCode) -> bool {
        let is_open = self.remove(stream).is_some();
        if is_open {
            self.ends.push_back((stream, StreamEnd::Reset(code)));
        }
        is_open
    }

    /// Rejects a stream that the peer has opened.
    pub(super) fn reject(&mut self, stream: u64) {
        self.decoder.cancel(stream, &mut self.own[Own::Decoder as usize]);
        self.ends.push_back((stream, StreamEnd::Reset(ErrorCode::REQUEST_REJECTED)));
    }

    /// Checks that the peer reads the decoder stream.
    pub(super) fn check_own(&self) -> Result<(), ConnectionError> {
        if self.own[Own::Decoder as usize].len() > OWN_BYTES_MAX {
            let reason = "the peer does not read the decoder stream";
            return Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }

    /// Removes a stream if both directions have ended.
    pub(super) fn close_if_ended(&mut self, stream: u64) {
        if self.streams.get(stream).is_some_and(|stream| stream.progress.is_over()) {
            self.remove(stream);
            self.allowances.count_end();
        }
    }

    /// Counts a call with `given` bytes, if they are few and complete no frame.
    pub(super) fn count_read(
        &mut self,
        given: usize,
        is_whole: bool,
        turn: Turn<'_>,
    ) -> Result<(), ConnectionError> {
        match given {
            0 => {}
            1..PARTIAL_READ_BYTES if !is_whole => {
                self.allowances.count_partial_read(&turn.limits.http2, turn.now)?;
            }
            _ => self.allowances.count_whole_read(given),
        }
        Ok(())
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn free(&mut self) {
        self.streams.free();
        self.unidirectional.free();
        if self.ends.is_empty() {
            self.ends = VecDeque::new();
        }
        for out in self.own.iter_mut().filter(|out| out.is_empty()) {
            *out = BytesMut::new();
        }
    }

    /// Returns the heap memory in bytes, without that of [`Self::output`].
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<(u64, StreamEnd)>();
        self.streams.heap_bytes() + self.unidirectional.heap_bytes() + self.decoder.heap_bytes() + ends
    }
}
