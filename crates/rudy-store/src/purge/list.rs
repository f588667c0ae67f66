//! The file with the seed of a store and its durable purges.
//!
//! ```text
//! u64 magic, 16 bytes seed, u64 run, u64 next, u64 forgotten, u32 count of purges
//! each: u64 number, u8 kind, u8 soft, u32 length, bytes
//! u64 checksum of all of it, u64 confirmed
//! each purge since: as above, and u64 checksum, which depends on the one before
//! ```
//!
//! A purge is appended, so that its cost does not depend on the number of others. When most of the file is of no use any more, it is
//! written again, under another name first. `confirmed` is the length of the file up to which all purges were on the disk when it was
//! written: what is damaged beyond it is a purge that was never confirmed.
//!
//! If the file is missing or damaged, purges may be lost. Then the store has a new seed, and all its objects are unknown: at worst a miss.

use std::fs::File;
use std::hash::BuildHasher;
use std::io;

use bytes::{Buf, BufMut};
use rudy_cache::Key;
use rudy_cache::encoding::{InvalidRecord, get_bytes, put_bytes, take};
use rudy_cache::index::Seed;
use rudy_runtime::clock;
use rudy_runtime::random::RandomState;
use twox_hash::XxHash3_64;

use super::{Entry, Purge, PurgeError, Purges, Target};
use crate::disk::{Access, Disk, read_at};
use crate::layout::{STATE, TEMPORARY};

const MAGIC: u64 = u64::from_le_bytes(*b"RUDYSTA1");

/// The limit of the file. As many prefixes as are permitted have room, with URIs of 16 KiB.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// The offset of `next` and `forgotten`.
const NUMBERS_AT: u64 = 32;

/// The bytes of purges that were appended before the file is written again, beside as many as it had.
const APPENDED_MIN: u64 = 16 << 10;

/// The length of the field `confirmed`.
const CONFIRMED_BYTES: u64 = 8;

/// The content of the file.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) seed: Seed,
    /// The number of times that a process began to store. Its purges have numbers from `run << 32`, so a process never repeats a
    /// number that another one used for a purge in its memory.
    pub(crate) run: u64,
    pub(crate) purges: Purges,
}

impl State {
    /// Creates the state of an empty store.
    pub(crate) fn new() -> Self {
        let random = || RandomState::new().hash_one(0).to_le_bytes();
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&random());
        seed[8..].copy_from_slice(&random());
        Self { seed, run: 0, purges: Purges::new(1, 0, Vec::new(), clock::now()) }
    }

    /// Returns the state of the next run.
    pub(crate) fn next_run(mut self) -> Self {
        self.run += 1;
        self.purges.next = self.purges.next.max(self.run << 32);
        // The last process may have known purges that are not in the file: a transfer that began before cannot be compared.
        self.purges.forgotten = self.purges.next - 1;
        self
    }

    /// Reads the file. `None` if it is missing or damaged.
    pub(crate) fn read(disk: &Disk) -> Option<Self> {
        let file = disk.read(STATE, Access::Blocking).ok()?;
        let size = file.metadata().ok().map(|metadata| metadata.len()).filter(|size| *size <= BYTES_MAX)?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let read = read_at(&file, &mut bytes, 0, Access::Blocking).ok()?;
        if read == bytes.len() { Self::decode(&bytes).ok() } else { None }
    }

    /// Encodes the state of a run with the durable purges.
    pub(crate) fn encode(seed: &Seed, run: u64, purges: &Purges) -> Vec<u8> {
        let entries: Vec<_> = purges.durable().collect();
        let mut out = Vec::with_capacity(64);
        out.put_u64_le(MAGIC);
        out.put_slice(seed);
        for number in [run, purges.next, purges.forgotten] {
            out.put_u64_le(number);
        }
        out.put_u32_le(u32::try_from(entries.len()).expect("purges are limited"));
        for entry in &entries {
            put_entry(&mut out, entry);
        }
        out.put_u64_le(XxHash3_64::oneshot(&out));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = bytes;
        if input.try_get_u64_le()? != MAGIC {
            return Err(InvalidRecord);
        }
        let seed = take(&mut input, 16)?.try_into().map_err(|_| InvalidRecord)?;
        let [run, next, forgotten] =
            [input.try_get_u64_le()?, input.try_get_u64_le()?, input.try_get_u64_le()?];
        let count = input.try_get_u32_le()?;
        let mut entries = (0..count).map(|_| entry(&mut input)).collect::<Result<Vec<_>, _>>()?;
        let mut sum = XxHash3_64::oneshot(&bytes[..bytes.len() - input.len()]);
        if input.try_get_u64_le()? != sum {
            return Err(InvalidRecord);
        }
        // A file of an earlier version ends here.
        let confirmed = if input.is_empty() { 0 } else { input.try_get_u64_le()? };
        while let Ok(entry) = appended(&mut input, &mut sum) {
            entries.push(entry);
        }
        let length = (bytes.len() - input.len()) as u64;
        if length < confirmed {
            return Err(InvalidRecord);
        }
        let mut purges = Purges::new(next, forgotten, entries, clock::now());
        purges.version = Version { next, forgotten, length };
        Ok(Self { seed, run, purges })
    }
}

/// What a process that only reads compares to notice new purges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Version {
    next: u64,
    forgotten: u64,
    length: u64,
}

/// The file as the process that stores has written it.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The length without what was appended.
    base: u64,
    length: u64,
    checksum: u64,
    /// Whether purges were applied that it still has.
    pub(crate) is_swept: bool,
}

impl Written {
    /// Whether most of the file is of no use any more.
    pub(crate) fn is_outdated(&self) -> bool {
        self.is_swept || self.length > 2 * self.base + APPENDED_MIN
    }

    /// Adds purges, and returns the file when they are on the disk.
    ///
    /// # Errors
    ///
    /// [`PurgeError::Full`] beyond the limit of the file, or the error of the disk. The next purges replace what was written of these.
    pub(crate) fn append(&mut self, disk: &Disk, entries: &[Entry]) -> Result<File, PurgeError> {
        let (mut out, mut sum) = (Vec::new(), self.checksum);
        for entry in entries {
            let begin = out.len();
            put_entry(&mut out, entry);
            sum = XxHash3_64::oneshot_with_seed(sum, &out[begin..]);
            out.put_u64_le(sum);
        }
        let length = self.length + out.len() as u64;
        if length > BYTES_MAX {
            return Err(PurgeError::Full);
        }
        let written = disk.edit(STATE).and_then(|file| {
            disk.write(&file, &out, self.length)?;
            disk.sync(&file)?;
            Ok(file)
        });
        let file = written.map_err(PurgeError::System)?;
        (self.length, self.checksum) = (length, sum);
        Ok(file)
    }

    /// Writes how much of the file is on the disk. The next purge brings this there.
    ///
    /// # Errors
    ///
    /// That of the disk. The purges hold nevertheless. What was written of the number is less than it should be, because its lowest bytes
    /// are the first.
    pub(crate) fn confirm(&self, disk: &Disk, file: &File) -> io::Result<()> {
        disk.write(file, &self.length.to_le_bytes(), self.base - CONFIRMED_BYTES)
    }
}

fn put_entry(out: &mut Vec<u8>, Entry { number, purge, .. }: &Entry) {
    let kind = match &purge.target {
        Target::Key(_) => 0,
        Target::Prefix(_) => 1,
        Target::Tag(_) => 2,
        Target::TagOfSite { .. } => 3,
    };
    out.put_u64_le(*number);
    out.put_slice(&[kind, purge.soft.into()]);
    put_bytes(out, &purge.target.text());
}

/// Reads a purge that was appended. `sum` is the checksum before it, and then its own.
fn appended(input: &mut &[u8], sum: &mut u64) -> Result<Entry, InvalidRecord> {
    let mut rest = *input;
    let entry = entry(&mut rest)?;
    let own = XxHash3_64::oneshot_with_seed(*sum, &input[..input.len() - rest.len()]);
    if rest.try_get_u64_le()? != own {
        return Err(InvalidRecord);
    }
    (*input, *sum) = (rest, own);
    Ok(entry)
}

fn entry(input: &mut &[u8]) -> Result<Entry, InvalidRecord> {
    let number = input.try_get_u64_le()?;
    let (kind, soft) = (input.try_get_u8()?, input.try_get_u8()? != 0);
    let bytes = get_bytes(input)?;
    let target = match kind {
        0 => Target::Key(Key::from_bytes(bytes).ok_or(InvalidRecord)?),
        1 => Target::Prefix(bytes.to_vec()),
        2 | 3 => Target::of_tag(bytes),
        _ => return Err(InvalidRecord),
    };
    Ok(Entry { number, purge: Purge { target, soft }, is_durable: true, applied_at: None })
}

/// The limit of the bytes of a target. URIs are shorter. The file has room for [`super::PENDING_MAX`] of them.
pub(crate) const TARGET_BYTES_MAX: usize = 16 * 1024 - 64;

/// Returns the version of the file on the disk.
pub(crate) fn version_on_disk(disk: &Disk, access: Access) -> io::Result<Version> {
    let file = disk.read(STATE, access)?;
    let length = file.metadata()?.len();
    let access = disk.access_to_open(access);
    let mut numbers = [0; 16];
    read_at(&file, &mut numbers, NUMBERS_AT, access)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| numbers[at + byte]));
    Ok(Version { next: number(0), forgotten: number(8), length })
}

/// Writes the file with a state as [`State::encode`] returns it. Returns when it is on the disk.
pub(crate) fn write(disk: &Disk, state: &[u8]) -> io::Result<Written> {
    let length = state.len() as u64 + CONFIRMED_BYTES;
    let bytes = [state, &length.to_le_bytes()].concat();
    let name = format!("{TEMPORARY}/{STATE}");
    disk.remove(&name)?;
    let file = disk.create(&name)?;
    disk.write(&file, &bytes, 0)?;
    disk.sync(&file)?;
    disk.rename(&name, STATE)?;
    disk.sync_names()?;
    let sum = state.last_chunk().copied().unwrap_or_default();
    Ok(Written { base: length, length, checksum: u64::from_le_bytes(sum), is_swept: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_decoded_to_the_same_purges_and_any_change_is_damage() {
        let mut state = State::new().next_run();
        let purge = |target, soft| Purge { target, soft };
        let list = [
            purge(Target::Key(Key::new(true, b"a", b"/b")), false),
            purge(Target::Prefix(b"https://a/".into()), true),
            purge(Target::Tag(b"c".into()), false),
            purge(Target::TagOfSite { site: b"a.org".into(), tag: b"c".into() }, true),
        ];
        let durable = state.purges.number(&list[..2], true);
        state.purges.add(durable, clock::now());
        let volatile = state.purges.number(&list[..1], false);
        state.purges.add(volatile, clock::now());
        let State { seed, run, purges } = &state;
        let mut bytes = State::encode(seed, *run, purges);
        let mut sum = u64::from_le_bytes(*bytes.last_chunk().unwrap());
        bytes.put_u64_le(0);
        let base = bytes.len();
        let mut ends = vec![base];
        for entry in purges.number(&list[2..], true) {
            let begin = bytes.len();
            put_entry(&mut bytes, &entry);
            sum = XxHash3_64::oneshot_with_seed(sum, &bytes[begin..]);
            bytes.put_u64_le(sum);
            ends.push(bytes.len());
        }
        // All but the last one were confirmed.
        bytes[base - 8..base].copy_from_slice(&(ends[1] as u64).to_le_bytes());
        let found = |bytes: &[u8]| {
            let State { seed: found, run, purges } = State::decode(bytes)?;
            assert_eq!((found, run), (*seed, 1));
            let purges: Vec<_> = purges.durable().map(|entry| entry.purge).collect();
            Ok::<_, InvalidRecord>(list.iter().filter(|purge| purges.contains(purge)).count())
        };
        assert_eq!((found(&bytes).unwrap(), found(&bytes[..base - 8]).unwrap()), (4, 2));
        assert_eq!(State::decode(&bytes).unwrap().purges.next, (1 << 32) + 5);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let is_damage =
                |bytes| if at < ends[1] { found(bytes).is_err() } else { found(bytes).unwrap() == 3 };
            // Less is confirmed with some other bits of the length.
            let is_length = (base - 8..base).contains(&at);
            assert!(is_damage(&damaged) || is_length && found(&damaged).unwrap() == 4, "byte {at}");
            assert!(is_damage(&bytes[..at]) || at == base - 8, "byte {at}");
        }
    }
}
