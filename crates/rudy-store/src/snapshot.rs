//! The index on the disk, from the clean end of one process to the start of the next one.
//!
//! ```text
//! u64 magic, 16 bytes seed, u64 run
//! each object: 16 bytes id, u32 size and uses, the oldest first (rudy_cache::index)
//! u64 checksum of all of it
//! ```
//!
//! It saves the next start the look at each file, and the uses of objects survive. It is only a hint: the scan of the folder confirms
//! each object, and finds those that are not in it. Without a valid one, the scan asks for the size of each file.

use std::fs::File;
use std::hash::Hasher;
use std::io;

use bytes::BufMut;
use rudy_cache::index::{ObjectId, SAVED_BYTES, Seed};
use twox_hash::XxHash3_64;

use crate::disk::{Access, Disk, read_at};
use crate::index::Index;
use crate::layout::{SNAPSHOT, TEMPORARY};

const MAGIC: u64 = u64::from_le_bytes(*b"RUDYSNP1");

const HEAD_BYTES: usize = 32;

const SUM_BYTES: usize = 8;

/// The number of objects that are read or written at once.
const PIECE_OBJECTS: usize = 16 * 1024;

/// The index of a run, and the disk for its snapshot.
pub(crate) struct Snapshot<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) index: &'a Index,
    pub(crate) seed: &'a Seed,
    pub(crate) run: u64,
}

impl Snapshot<'_> {
    /// Writes the index at the end of a run. The caller has the role, so that nothing changes.
    pub(crate) fn write(&self) -> io::Result<()> {
        let name = format!("{TEMPORARY}/{SNAPSHOT}");
        self.disk.remove(&name)?;
        let written = self.write_file(&self.disk.create(&name)?);
        match written.and_then(|()| self.disk.rename(&name, SNAPSHOT)) {
            Ok(()) => Ok(()),
            Err(error) => {
                // It uses space on a disk that may be full.
                let _ = self.disk.remove(&name);
                Err(error)
            }
        }
    }

    fn write_file(&self, file: &File) -> io::Result<()> {
        let (mut sum, mut at) = (XxHash3_64::new(), 0);
        let mut write = |bytes: &[u8], sum: &mut XxHash3_64| {
            self.disk.write(file, bytes, at)?;
            sum.write(bytes);
            at += bytes.len() as u64;
            io::Result::Ok(())
        };
        let (mut position, mut bytes) = (None, self.head(self.run).to_vec());
        loop {
            position = self.index.save(position, &mut bytes);
            if position.is_none() || bytes.len() >= PIECE_OBJECTS * SAVED_BYTES {
                write(&bytes, &mut sum)?;
                bytes.clear();
            }
            if position.is_none() {
                let end = sum.finish().to_le_bytes();
                return write(&end, &mut sum);
            }
        }
    }

    /// Adds the objects of the last run to the index, and calls `evict` with those that have no room. Removes the file.
    pub(crate) fn restore(&self, evict: &dyn Fn(Vec<ObjectId>)) {
        if let Ok(file) = self.disk.read(SNAPSHOT, Access::Blocking)
        && let Ok(size) = file.metadata().map(|metadata| metadata.len())
        // A process in between has written other files, and may have ended without a snapshot.
        && let Some(length) = valid_length(&file, size, &self.head(self.run.wrapping_sub(1)))
        {
            // Ignore errors: the scan finds the rest.
            let _ = for_each_piece(&file, HEAD_BYTES as u64, length, |piece| {
                evict(self.index.restore(piece.as_chunks().0));
            });
        }
        // One that remains is not valid in the next run.
        let _ = self.disk.remove(SNAPSHOT);
    }

    fn head(&self, run: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let mut out = &mut head[..];
        out.put_u64_le(MAGIC);
        out.put_slice(self.seed);
        out.put_u64_le(run);
        head
    }
}

/// Returns where the objects end, if the head is that of the last run, and the checksum is right.
fn valid_length(file: &File, size: u64, expected: &[u8; HEAD_BYTES]) -> Option<u64> {
    let end = size.checked_sub(SUM_BYTES as u64)?;
    let mut head = [0; HEAD_BYTES];
    read_at(file, &mut head, 0, Access::Blocking).ok()?;
    let objects = end.checked_sub(HEAD_BYTES as u64)?;
    if head != *expected || !objects.is_multiple_of(SAVED_BYTES as u64) {
        return None;
    }
    let mut sum = XxHash3_64::new();
    for_each_piece(file, 0, end, |piece| sum.write(piece)).ok()?;
    let mut expected = [0; SUM_BYTES];
    read_at(file, &mut expected, end, Access::Blocking).ok()?;
    (sum.finish().to_le_bytes() == expected).then_some(end)
}

/// Reads a range in pieces, each of whole objects but the last.
fn for_each_piece(file: &File, mut at: u64, end: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_OBJECTS * SAVED_BYTES];
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let piece = &mut buffer[..length];
        if read_at(file, piece, at, Access::Blocking)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        each(piece);
        at += length as u64;
    }
    Ok(())
}
