//! Reads objects from their files, and checks them.

use std::fmt;
use std::fs::File;
use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use rudy_cache::index::ObjectId;
use rudy_runtime::is_planted;
use rustix::io::Errno;

use crate::disk::{Access, Disk, WouldBlock, read_at};
use crate::head::{HEAD_BYTES, Head, Slot, checksum, checksum_of_pieces};
use crate::index::Uses;
use crate::object::{Body, Compared, Object};
use crate::options::SMALL_BYTES_MAX;
use crate::record::Record;

/// Why a file in the folder of a store is not an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The name or the place is not that of an object.
    Foreign,
    /// It is shorter than an object with its head.
    Truncated,
    /// The head has another version, belongs to another file, or is damaged.
    Head,
    /// The checksum of the metadata is wrong.
    Record,
    /// The checksum of the body is wrong.
    Body,
    /// It cannot be read. It is not removed: the file may be intact.
    Unreadable,
    /// The transfer of the object was interrupted by the end of the process.
    Unfinished,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "not a file of this cache",
            Self::Truncated => "truncated",
            Self::Head => "damaged head, or another version of the format",
            Self::Record => "damaged metadata",
            Self::Body => "damaged body",
            Self::Unreadable => "unreadable",
            Self::Unfinished => "unfinished transfer",
        })
    }
}

/// Why an object cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// There is no file.
    Missing,
    Damaged(Damage),
    /// Only with [`Access::Cached`].
    WouldBlock,
    /// The system failed: out of descriptors, or an error of the disk. The file may be intact.
    Failed(Errno),
}

impl From<WouldBlock> for Absent {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

impl From<Errno> for Absent {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Missing,
            Errno::AGAIN => Self::WouldBlock,
            // A link, a pipe without a writer, a folder.
            Errno::LOOP | Errno::NXIO | Errno::ISDIR => Self::Damaged(Damage::Foreign),
            error => Self::Failed(error),
        }
    }
}

/// What to read of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Nothing.
    Metadata,
    /// A small body, with its checksum. A large one is opened only.
    Body,
    /// All of it, to compute its checksum.
    Verified,
}

/// The first read: head, body and record of most small objects.
const FIRST_READ_BYTES: usize = 8 * 1024;

/// Readers take no lock. If the record changes twice between two reads, the second one does not fit.
const ATTEMPTS: u8 = 3;

/// Reads an object.
pub(crate) fn load(
    disk: &Disk,
    path: &str,
    id: ObjectId,
    read: Read,
    access: Access,
) -> Result<Object, Absent> {
    let mut attempt = 1;
    loop {
        match load_once(disk, path, id, read, access) {
            Err(Absent::Damaged(_)) if attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

fn load_once(disk: &Disk, path: &str, id: ObjectId, read: Read, access: Access) -> Result<Object, Absent> {
    let file = disk.read(path, access)?;
    let access = disk.access_to_open(access);
    let mut start = vec![0; FIRST_READ_BYTES];
    let length = read_at(&file, &mut start, 0, access)?;
    start.truncate(length);
    let head: &Head = start.first_chunk().ok_or(Absent::Damaged(Damage::Truncated))?;
    let slot = Slot::select(id, head).map_err(|_| Absent::Damaged(Damage::Head))?;
    let part = |offset, length| part(&file, &start, offset, length, access);
    let record = part(slot.record_at, u64::from(slot.record_bytes))?;
    if checksum(id, &record) != slot.record_checksum {
        return Err(Absent::Damaged(Damage::Record));
    }
    let record = Record::decode(&record).map_err(|_| Absent::Damaged(Damage::Record))?;
    let body = if read != Read::Metadata && slot.body_bytes <= SMALL_BYTES_MAX {
        let body = part(HEAD_BYTES, slot.body_bytes)?;
        if checksum(id, &body) != slot.body_checksum && !is_planted("a damaged file that is used") {
            return Err(Absent::Damaged(Damage::Body));
        }
        Body::Memory(body.into())
    } else {
        Body::File { file: Arc::new(file), offset: HEAD_BYTES, length: slot.body_bytes }
    };
    let object = Object { id, slot, record, body, uses: Uses::default(), compared: Compared::default() };
    if read == Read::Verified {
        verify_body(&object)?;
    }
    Ok(object)
}

/// Returns a part of a file: from what was read already, or by another read.
fn part(file: &File, start: &[u8], offset: u64, length: u64, access: Access) -> Result<Vec<u8>, Absent> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(offset + length).ok());
    if let Some(part) = range.and_then(|(from, to)| start.get(from..to)) {
        return Ok(part.to_vec());
    }
    let mut buffer = vec![0; usize::try_from(length).map_err(|_| Absent::Damaged(Damage::Head))?];
    match read_at(file, &mut buffer, offset, access)? {
        read if read == buffer.len() => Ok(buffer),
        _ => Err(Absent::Damaged(Damage::Truncated)),
    }
}

/// The size of the reads of a large body.
const PIECE_BYTES: usize = 128 * 1024;

/// Computes the checksum of a body that is not in memory. It waits for the disk.
pub(crate) fn verify_body(object: &Object) -> Result<(), Absent> {
    let Body::File { .. } = &object.body else { return Ok(()) };
    let (mut sum, mut position) = (checksum_of_pieces(object.id), 0);
    while position < object.body.len() {
        let piece: Bytes = object.body.read_at(position, PIECE_BYTES).map_err(|error| {
            let is_short = error.kind() == std::io::ErrorKind::UnexpectedEof;
            let failed = || Absent::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            if is_short { Absent::Damaged(Damage::Truncated) } else { failed() }
        })?;
        sum.write(&piece);
        position += piece.len() as u64;
    }
    if sum.finish() == object.slot.body_checksum { Ok(()) } else { Err(Absent::Damaged(Damage::Body)) }
}
