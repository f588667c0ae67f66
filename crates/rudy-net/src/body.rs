//! The body of a response: bytes, a piece of a file, or whatever yields the one and the other.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use rustix::fs::{AtFlags, StatxFlags, statx};

/// The body of a response.
pub enum Body {
    /// Nothing.
    Empty,
    /// All of it, in memory.
    Bytes(Bytes),
    /// A piece of a file, sent by the kernel where the transport allows it.
    File(FileRange),
    /// Pieces, each when it is ready.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// The length in bytes, where it is known before the body is sent.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(range) => Some(range.length),
            Self::Stream(stream) => stream.length(),
        }
    }
}

/// A body whose pieces become ready one after the other. Dropping it cancels it.
///
/// The connection polls a pending body again when the waker of `cx` is woken, or a [`Deadline`](crate::Deadline) that the body
/// waits for has passed. `now` is the time of the poll.
pub trait BodyStream: Send {
    /// The next piece, `None` at the end; nothing comes after trailers. `max` is how many bytes the connection can send now, and
    /// at least 1: a body that may choose gives no more than that, and the connection keeps what is more.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>>;

    /// Called in place of [`Self::poll_piece`] while the client does not take what it was sent, so that a body can read ahead
    /// from its source. Ready when the client has fallen so far behind that it is dropped.
    fn poll_blocked(&mut self, _cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        Poll::Pending
    }

    /// When the body is polled again although nothing wakes it, unless the client is blocked. A body that waits for a
    /// [`Deadline`](crate::Deadline) need not say.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The bytes that are still to come, where their number is known.
    fn length(&self) -> Option<u64> {
        None
    }

    /// Whether it is live: its pieces come at their own time, read or not, and a server that stops ends it, since it would not
    /// end by itself.
    fn is_live(&self) -> bool {
        false
    }
}

/// A piece of a [`BodyStream`].
#[derive(Debug, Clone)]
pub enum BodyPiece {
    /// Bytes of the body.
    Data(Bytes),
    /// Bytes of the body, in a file.
    File(FileRange),
    /// The trailers, which end it.
    Trailers(HeaderMap),
}

/// Why a body breaks off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Pieces that are all there: the parts of a multipart range.
impl BodyStream for VecDeque<BodyPiece> {
    fn poll_piece(
        &mut self,
        _cx: &mut Context<'_>,
        _now: Instant,
        _max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>> {
        Poll::Ready(self.pop_front().map(Ok))
    }

    fn length(&self) -> Option<u64> {
        Some(self.iter().map(BodyPiece::length).sum())
    }
}

impl BodyPiece {
    /// How many bytes of the body it holds.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
            Self::Trailers(_) => 0,
        }
    }
}

/// A piece of an open file. What was promised of the file is kept beside it, so that a change in place is noticed while
/// it is sent and cuts the connection: a length is never wrong.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The open file: a rename that replaces its name does not touch it.
    pub file: Arc<File>,
    /// Where the piece begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// The file's whole size in bytes when the answer was made.
    pub size: u64,
    /// The file's modification time when the answer was made, in nanoseconds since 1970.
    pub modified_ns: i128,
}

impl FileRange {
    /// Whether the open file is no longer what the response's head described.
    pub(crate) fn has_changed(&self) -> bool {
        // What the kernel knows: to ask the server of a network file system would stop every connection of the core.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        statx(&*self.file, c"", flags, StatxFlags::SIZE | StatxFlags::MTIME).map_or(true, |stat| {
            let modified_ns =
                i128::from(stat.stx_mtime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_mtime.tv_nsec);
            stat.stx_size != self.size || modified_ns != self.modified_ns
        })
    }
}
