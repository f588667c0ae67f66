//! The part of a body that is in a file.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::buffers::Reservation;
use super::{BufferError, Buffers};

/// The number of bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// An unlinked file, and the reservation for its bytes. The file is opened for the first bytes.
#[derive(Debug)]
pub(super) struct BufferFile {
    dir: PathBuf,
    file: OnceLock<File>,
    /// Shared with a write in flight, so that the bytes count until both have ended.
    counted: Mutex<Option<Reservation>>,
}

impl BufferFile {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, file: OnceLock::new(), counted: Mutex::default() }
    }

    /// Writes `pieces`, or fails without a visible change. Blocks.
    pub(super) fn write(
        &self,
        buffers: &Buffers,
        pieces: &[Bytes],
        at: u64,
        is_response: bool,
    ) -> Result<(), BufferError> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.count(buffers.reserve(bytes, is_response)?);
        self.write_all(pieces, at).map_err(|error| BufferError::Disk { dir: self.dir.clone(), error })
    }

    fn count(&self, share: Reservation) {
        let mut counted = self.counted.lock();
        match &mut *counted {
            Some(counted) => counted.join(share),
            none => *none = Some(share),
        }
    }

    fn write_all(&self, pieces: &[Bytes], mut at: u64) -> io::Result<()> {
        let file = if let Some(file) = self.file.get() {
            file
        } else {
            let file = tempfile::tempfile_in(&self.dir)?;
            self.file.get_or_init(|| file)
        };
        for piece in pieces {
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Reads bytes from the page cache, and returns their number. Returns `None` if they are not cached, or
    /// the file system does not support this.
    fn read_cached(&self, piece: &mut [u8], at: u64) -> Option<usize> {
        let read = preadv2(self.file.get()?, &mut [IoSliceMut::new(piece)], at, ReadWriteFlags::NOWAIT);
        // The blocking read will report an error again. Some kernels return 0 for bytes that are not cached.
        read.ok().filter(|bytes| *bytes > 0)
    }

    /// Fills `piece`. Blocks.
    fn read(&self, mut piece: BytesMut, at: u64) -> io::Result<Bytes> {
        self.file.get().ok_or(io::ErrorKind::NotFound)?.read_exact_at(&mut piece, at)?;
        Ok(piece.freeze())
    }
}

impl Drop for BufferFile {
    /// Closes the file on the blocking pool, because freeing the blocks of a large file takes time. The bytes
    /// count until then.
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let counted = self.counted.get_mut().take();
        if Handle::try_current().is_ok() {
            rudy_runtime::blocking(move || drop((file, counted)));
        }
    }
}

/// The bytes of a file from `read` to `written`, read in order.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) file: Arc<BufferFile>,
    pub(super) read: u64,
    pub(super) written: u64,
    /// A read in flight on the blocking pool.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Section {
    pub(super) fn new(file: Arc<BufferFile>) -> Self {
        Self { file, read: 0, written: 0, reading: None }
    }

    pub(super) fn left(&self) -> u64 {
        self.written.saturating_sub(self.read)
    }

    /// Continues to read at `position`.
    pub(super) fn seek(&mut self, position: u64) {
        self.read = position;
        self.reading = None;
    }

    /// Returns the next bytes. The section must not be empty.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let piece = ready!(self.poll_read(cx));
        self.reading = None;
        let piece = piece?;
        self.read += piece.len() as u64;
        Poll::Ready(Ok(piece))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let (at, mut piece) = (self.read, BytesMut::zeroed(left.min(READ_BYTES)));
                if let Some(bytes) = self.file.read_cached(&mut piece, at) {
                    piece.truncate(bytes);
                    return Poll::Ready(Ok(piece.freeze()));
                }
                let file = self.file.clone();
                none.insert(rudy_runtime::blocking(move || file.read(piece, at)))
            }
        };
        Pin::new(reading).poll(cx).map(|result| result.map_err(io::Error::other).flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    #[test]
    fn uncached_bytes_are_read_on_the_blocking_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(BufferFile::new(folder.path().to_owned()));
        let pieces = [Bytes::from(vec![1; 100_000]), Bytes::from(vec![2; 10])];
        file.write(&Buffers::default(), &pieces, 0, false).unwrap();
        let open = file.file.get().unwrap();
        open.sync_data().unwrap();
        fadvise(open, 0, None, Advice::DontNeed).unwrap();
        let mut section = Section { written: 100_010, ..Section::new(file) };
        let mut read = Vec::new();
        while section.left() > 0 {
            read.extend(runtime.block_on(poll_fn(|cx| section.poll_piece(cx))).unwrap());
        }
        assert_eq!(read, pieces.concat());
        section.written += 1;
        let error = runtime.block_on(poll_fn(|cx| section.poll_piece(cx))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "the file is shorter than the section");
    }
}
