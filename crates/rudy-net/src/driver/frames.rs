//! Frames with a piece of a body that is copied once: behind the heads, which are written when the data is there.

use std::io::{self, IoSliceMut};

use bytes::{Buf, Bytes, BytesMut};
use rudy_message::LengthError;
use rudy_service::file::read_cached_into;
use rudy_service::{EndReason, FileRange};

use super::framing::Layout;
use super::output::shrunk;
use crate::scratch::{Borrowed, Scratch, at_least};

/// Maximum number of frames with a piece. Eight frames of HTTP/2 are 128 KiB, which one system call reads and another sends.
pub(crate) const FRAMES_MAX: usize = 8;

/// Frames in a buffer of the thread, which they occupy until they are sent or [stored](Self::store).
pub(crate) struct Frames {
    scratch: Borrowed,
    layout: Layout,
    start: usize,
    end: usize,
}

impl Frames {
    /// Borrows a buffer for as many frames as `layout` permits.
    pub(super) fn new(layout: Layout) -> Self {
        Self { scratch: Scratch::borrow(), layout, start: 0, end: 0 }
    }

    /// Returns the maximum size of the data.
    pub(super) fn data_bytes_max(&self) -> usize {
        self.layout.frames * self.layout.data_bytes
    }

    /// Returns the places of `bytes` of data.
    fn places(&mut self, mut bytes: usize) -> [&mut [u8]; FRAMES_MAX] {
        let Layout { head_bytes, data_bytes, .. } = self.layout;
        let frame_bytes = head_bytes + data_bytes;
        let room = at_least(&mut self.scratch.piece, self.layout.frames * frame_bytes);
        let mut frames = room.chunks_mut(frame_bytes);
        std::array::from_fn(|_| {
            let frame = frames.next().unwrap_or_default();
            let length = bytes.min(data_bytes);
            bytes -= length;
            frame.get_mut(head_bytes..head_bytes + length).unwrap_or_default()
        })
    }

    /// Copies data.
    pub(super) fn copy(&mut self, mut data: &[u8]) {
        for place in self.places(data.len()) {
            let (first, rest) = data.split_at(place.len());
            place.copy_from_slice(first);
            data = rest;
        }
    }

    /// Reads the start of a piece of a file, at most `bytes`. Returns the size of what it has read; `None` if that has to wait for a disk,
    /// unless `waits`. `is_first` is whether nothing of the file was sent.
    pub(super) fn read(
        &mut self,
        range: &FileRange,
        bytes: usize,
        (waits, is_first): (bool, bool),
    ) -> Result<Option<usize>, EndReason> {
        let mut places = self.places(bytes).map(IoSliceMut::new);
        let read = if waits {
            rustix::io::preadv(&range.file, &mut places, range.start).map_err(io::Error::from)
        } else {
            read_cached_into(&*range.file, &mut places, range.start)
        };
        match read {
            Err(error) if !waits && error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => {
                range.log_failure(&error);
                Err(EndReason::Aborted)
            }
            Ok(read) => {
                let has_shrunk = read == 0 || has_shrunk(range, read as u64, is_first);
                if has_shrunk { Err(shrunk(range)) } else { Ok(Some(read)) }
            }
        }
    }

    /// Writes the heads of the frames with `bytes` of data, or what precedes data without frames. `begin` appends the head for this number of bytes.
    pub(super) fn begin(
        &mut self,
        mut bytes: usize,
        out: &mut BytesMut,
        mut begin: impl FnMut(u64, &mut BytesMut) -> Result<u64, LengthError>,
    ) -> Result<(), LengthError> {
        let Layout { head_bytes, data_bytes, .. } = self.layout;
        let (before, buffer) = (out.len(), &mut self.scratch.piece);
        if head_bytes == 0 {
            self.end = bytes;
            return begin(bytes as u64, out).map(|_| ());
        }
        while bytes > 0 {
            let length = bytes.min(data_bytes);
            let begun = begin(length as u64, out);
            let is_as_expected = begun? == length as u64 && out.len() == before + head_bytes;
            if !is_as_expected {
                return Err(LengthError);
            }
            buffer[self.end..self.end + head_bytes].copy_from_slice(&out[before..]);
            out.truncate(before);
            self.end += head_bytes + length;
            bytes -= length;
        }
        Ok(())
    }

    /// Copies what is not sent, so that it can wait for the client.
    pub(super) fn store(&self) -> Bytes {
        Bytes::copy_from_slice(self.chunk())
    }

    /// Returns what is not sent. A buffer that is almost full is not copied: the thread gets another one.
    pub(super) fn into_bytes(mut self) -> Bytes {
        let capacity = self.scratch.piece.len();
        if self.remaining() < capacity - capacity / 8 {
            return self.store();
        }
        Bytes::from(std::mem::take(&mut self.scratch.piece)).slice(self.start..self.end)
    }
}

/// Whether a file has become shorter. Checked only with its first bytes and its last ones: between them, a change goes unnoticed, as in one
/// call of `sendfile`.
pub(super) fn has_shrunk(range: &FileRange, next_bytes: u64, is_first: bool) -> bool {
    (is_first || next_bytes == range.length) && range.has_shrunk()
}

impl Buf for Frames {
    fn remaining(&self) -> usize {
        self.end - self.start
    }

    fn chunk(&self) -> &[u8] {
        &self.scratch.piece[self.start..self.end]
    }

    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
    }
}
