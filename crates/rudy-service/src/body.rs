//! Response bodies: bytes, a range of a file, or a stream of both.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::Piped;

/// Small pieces are gathered up to this size before they are written. Pieces of at most this size are copied:
/// copying 16 KiB is cheaper than a second segment of a gathered write.
pub const GATHERED_BYTES: usize = 16 * 1024;

/// The body of a response.
pub enum Body {
    /// No body.
    Empty,
    /// No body and no response: the connection ends, or the stream of HTTP/2. The status is for the log.
    Silence,
    /// The whole body, in memory.
    Bytes(Bytes),
    /// A range of a file, sent by the kernel if the transport allows it.
    File(FileRange),
    /// A body in pieces.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// Returns the length in bytes, if known in advance.
    #[must_use]
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty | Self::Silence => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(range) => Some(range.length),
            Self::Stream(stream) => stream.length(),
        }
    }

    /// Whether the connection sends the body together with the head, so that a response with it is complete when the connection has it.
    #[must_use]
    #[inline]
    pub fn is_small(&self) -> bool {
        match self {
            Self::Empty | Self::Silence => true,
            Self::Bytes(bytes) => bytes.len() <= GATHERED_BYTES,
            Self::File(_) | Self::Stream(_) => false,
        }
    }

    /// Returns a part of a body that is in memory or in a file. `None` if it is not within the body.
    #[must_use]
    pub fn part(&self, start: u64, length: u64) -> Option<BodyPiece> {
        let end = start.checked_add(length).filter(|end| self.length().is_some_and(|whole| *end <= whole))?;
        match self {
            Self::Bytes(bytes) => {
                let position = |at| usize::try_from(at).ok();
                Some(BodyPiece::Data(bytes.slice(position(start)?..position(end)?)))
            }
            Self::File(range) => {
                Some(BodyPiece::File(FileRange { start: range.start + start, length, ..range.clone() }))
            }
            Self::Empty | Self::Silence | Self::Stream(_) => None,
        }
    }
}

impl From<BodyPiece> for Body {
    fn from(piece: BodyPiece) -> Self {
        match piece {
            BodyPiece::Data(bytes) => Self::Bytes(bytes),
            BodyPiece::File(range) => Self::File(range),
            BodyPiece::Trailers(_) => Self::Empty,
        }
    }
}

/// A body that yields pieces over time. Dropping it cancels it.
///
/// The connection polls a pending body again when the waker of `cx` is woken, or when a
/// [`Deadline`](crate::Deadline) that the body awaits has passed. `now` is the time of the poll.
pub trait BodyStream: Send {
    /// Returns the next piece, or `None` at the end; nothing follows trailers. `max`, at least 1, is how many
    /// bytes the connection can send now. A body should not return more; the connection stores the excess.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        max: u64,
    ) -> Poll<Option<Result<BodyPiece, BodyError>>>;

    /// Returns the next piece in a pipe, of at most `max` bytes. `None` if that is not possible now: then [`Self::poll_piece`] returns it.
    /// Called only by a connection that sends the bytes of the body as they are.
    fn take_piped(&mut self, _max: u64) -> Option<Piped> {
        None
    }

    /// Called instead of [`Self::poll_piece`] while the client does not read, so that a body can read ahead
    /// from its source. Ready when the client has fallen too far behind, so that it must be dropped.
    fn poll_blocked(&mut self, _cx: &mut Context<'_>, _now: Instant) -> Poll<()> {
        Poll::Pending
    }

    /// Returns when to poll the body again without a wake-up, unless the client is blocked. Not needed for a
    /// body that awaits a [`Deadline`](crate::Deadline).
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Returns the number of remaining bytes, if known.
    fn length(&self) -> Option<u64> {
        None
    }

    /// Whether the body is live: it yields pieces at its own pace, whether or not the client reads. A
    /// stopping server ends it, because it would not end by itself.
    fn is_live(&self) -> bool {
        false
    }

    /// Ends a live body, because the server stops. Returns whether the rest of the body completes it, such as the end
    /// of its content coding; otherwise the body is dropped.
    fn end(&mut self) -> bool {
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
    /// The trailer fields, which end the body.
    Trailers(HeaderMap),
}

/// The error of a body that fails.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body whose pieces exist in advance: the parts of a multipart range.
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
    /// Returns the length of the piece in bytes.
    #[must_use]
    #[inline]
    pub fn length(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
            Self::Trailers(_) => 0,
        }
    }
}

/// A range of an open file. If the file grows or is touched while it is sent, as a log is, the announced bytes are sent. If it
/// shrinks, some of them are missing or belong to another version, and the response is aborted.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The open file; replacing it under its name does not affect this one.
    pub file: Arc<File>,
    /// The start of the range, in bytes.
    pub start: u64,
    /// The length of the range, in bytes.
    pub length: u64,
    /// The size of the whole file in bytes, when the response was made.
    pub size: u64,
    /// The modification time of the file when the response was made, in nanoseconds since 1970, or
    /// [`FileRange::APPEND_ONLY`].
    pub modified_ns: i128,
}

impl FileRange {
    /// Instead of a modification time: bytes of the file never change once they are written, but it may grow.
    pub const APPEND_ONLY: i128 = i128::MIN;

    /// A range of a file whose written bytes never change.
    #[must_use]
    pub fn append_only(file: Arc<File>, start: u64, length: u64) -> Self {
        Self { file, start, length, size: start.saturating_add(length), modified_ns: Self::APPEND_ONLY }
    }

    /// Whether the open file has the size and the modification time of the response's head no longer: what was made from it must
    /// not be kept.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.differs(|size, modified_ns| size != self.size || modified_ns != self.modified_ns)
    }

    /// Whether the open file is smaller than when the response was made.
    #[must_use]
    pub fn has_shrunk(&self) -> bool {
        self.differs(|size, _| size < self.size)
    }

    /// Logs why a response with this file was aborted.
    pub fn log_failure(&self, why: &dyn fmt::Display) {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let path = fs::read_link(link).map_or_else(|_| "?".to_owned(), |path| path.display().to_string());
        tracing::warn!(target: "server", "a response with a file was aborted: {path}: {why}");
    }

    fn differs(&self, differs: impl FnOnce(u64, i128) -> bool) -> bool {
        if self.modified_ns == Self::APPEND_ONLY {
            return false;
        }
        // Uses the kernel's cached attributes: querying a network file system would block every connection of
        // the core.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        statx(&*self.file, c"", flags, StatxFlags::SIZE | StatxFlags::MTIME).map_or(true, |stat| {
            let modified_ns =
                i128::from(stat.stx_mtime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_mtime.tv_nsec);
            differs(stat.stx_size, modified_ns)
        })
    }
}
