//! The streams of a connection, which state machines of HTTP know by their numbers: what arrives on them, and what waits until QUIC
//! accepts it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bytes::{Bytes, BytesMut};
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt, WriteError};

/// What is next on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes, and whether the stream ends behind them. The end may also arrive later.
    Data(Bytes, bool),
    /// The stream ends here.
    End,
    /// The peer has reset the stream, with an error code.
    Reset(u64),
    /// Nothing is there, or the rest is not wanted.
    Nothing,
}

/// What of a stream QUIC has not accepted.
#[derive(Debug, Default)]
pub struct Outgoing {
    queue: VecDeque<Bytes>,
    bytes: u64,
    /// Whether the stream ends behind it.
    pub ends: bool,
}

impl Outgoing {
    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: Bytes) {
        self.bytes += bytes.len() as u64;
        self.queue.push_back(bytes);
    }

    /// Returns how many bytes there are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes to the stream. Returns whether nothing is left, or the peer does not want it.
    pub fn write(&mut self, connection: &mut Connection, stream: u64) -> bool {
        let mut stream = connection.send_stream(id(stream));
        while let Some(first) = self.queue.front_mut() {
            match stream.write_chunks(std::slice::from_mut(first)) {
                Ok(written) => {
                    self.bytes -= written.bytes as u64;
                    self.queue.pop_front_if(|first| first.is_empty());
                }
                Err(WriteError::Blocked) => return false,
                Err(_) => return true,
            }
        }
        if self.ends {
            // Fails if the peer does not want it.
            let _ = stream.finish();
        }
        true
    }
}

/// Takes what is next on a stream.
pub fn read(connection: &mut Connection, stream: u64) -> Part {
    let mut stream = connection.recv_stream(id(stream));
    let Ok(mut chunks) = stream.read(true) else { return Part::Nothing };
    let part = match chunks.next(usize::MAX) {
        // A request without a body is known as such only if its head has the end. This reads no bytes.
        Ok(Some(chunk)) => Part::Data(chunk.bytes, matches!(chunks.next(0), Ok(None))),
        Ok(None) => Part::End,
        Err(ReadError::Reset(code)) => Part::Reset(code.into_inner()),
        Err(ReadError::Blocked) => Part::Nothing,
    };
    // The transmission that it may demand follows after all reads.
    let _ = chunks.finalize();
    part
}

/// The number of a unidirectional stream of this side, once there is one. It is never 0, that of the first request (RFC 9000 §2.1), so that an
/// idle connection has no tag beside each.
pub type OwnStream = Option<NonZeroU64>;

/// Writes to a unidirectional stream of this side, which it opens if there is none. What the peer does not permit yet stays.
pub fn write_own(connection: &mut Connection, own: &mut OwnStream, out: &mut BytesMut) {
    if out.is_empty() {
        return;
    }
    *own = own.or_else(|| connection.streams().open(Dir::Uni).map(number).and_then(NonZeroU64::new));
    let Some(stream) = *own else { return };
    if let Ok(written) = connection.send_stream(id(stream.get())).write(out) {
        let _written = out.split_to(written);
    }
}

/// Ends both directions of a stream with an error code.
pub fn reset(connection: &mut Connection, stream: u64, error: u64) {
    let id = id(stream);
    // A direction that has ended needs no reset, and one that the stream does not have would be a panic.
    if id.dir() == Dir::Bi {
        let _ = connection.send_stream(id).reset(code(error));
    }
    stop(connection, stream, error);
}

/// Tells the peer that nothing more of a stream is read.
pub fn stop(connection: &mut Connection, stream: u64, error: u64) {
    // Fails if all of it has arrived.
    let _ = connection.recv_stream(id(stream)).stop(code(error));
}

/// Returns the id of a stream.
#[must_use]
pub fn id(stream: u64) -> StreamId {
    VarInt::from_u64(stream).unwrap_or(VarInt::MAX).into()
}

/// Returns the number of a stream.
#[must_use]
pub fn number(id: StreamId) -> u64 {
    VarInt::from(id).into_inner()
}

/// Returns an error code for QUIC.
#[must_use]
pub fn code(error: u64) -> VarInt {
    VarInt::from_u64(error).unwrap_or(VarInt::MAX)
}
