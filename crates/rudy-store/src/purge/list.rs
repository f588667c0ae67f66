//! The file with the seed of a store and its durable purges.
//!
//! ```text
//! u64 magic, 16 bytes seed, u64 run, u64 next, u64 forgotten, u32 count of purges
//! each: u64 number, u8 kind, u8 soft, u32 length, bytes
//! u64 checksum of all of it
//! ```
//!
//! A purge rewrites the whole file, under another name first: it is small, because the background scan applies purges soon. If the
//! file is missing or damaged, purges may be lost. Then the store has a new seed, and all its objects are unknown: at worst a miss.

use std::hash::BuildHasher;
use std::io;

use bytes::{Buf, BufMut};
use rudy_cache::Key;
use rudy_cache::encoding::{InvalidRecord, get_bytes, put_bytes, take};
use rudy_cache::index::Seed;
use rudy_runtime::random::RandomState;
use twox_hash::XxHash3_64;

use super::{Entry, Purge, Purges, Target};
use crate::disk::{Access, Disk, read_at};
use crate::layout::{STATE, TEMPORARY};

const MAGIC: u64 = u64::from_le_bytes(*b"RUDYSTA1");

/// A file of this size has more purges than the limit allows, with URIs of 16 KiB.
const BYTES_MAX: u64 = 64 << 20;

/// The offset of `next` and `forgotten`.
const NUMBERS_AT: u64 = 32;

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
        Self { seed, run: 0, purges: Purges::new(1, 0, Vec::new()) }
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

    /// Encodes a state with the durable purges among `entries`.
    pub(crate) fn encode<'a>(
        seed: &Seed,
        run: u64,
        (next, forgotten): (u64, u64),
        entries: impl Iterator<Item = &'a Entry>,
    ) -> Vec<u8> {
        let entries: Vec<_> = entries.filter(|entry| entry.is_durable).collect();
        let mut out = Vec::with_capacity(64);
        out.put_u64_le(MAGIC);
        out.put_slice(seed);
        for number in [run, next, forgotten] {
            out.put_u64_le(number);
        }
        out.put_u32_le(u32::try_from(entries.len()).expect("purges are limited"));
        for Entry { number, purge, .. } in entries {
            let tag = purge.target.tag().unwrap_or_default();
            let (kind, bytes) = match &purge.target {
                Target::Key(key) => (0, key.as_bytes()),
                Target::Prefix(prefix) => (1, prefix.as_slice()),
                Target::Tag(_) => (2, &*tag),
                Target::TagOfSite { .. } => (3, &*tag),
            };
            out.put_u64_le(*number);
            out.put_slice(&[kind, purge.soft.into()]);
            put_bytes(&mut out, bytes);
        }
        out.put_u64_le(XxHash3_64::oneshot(&out));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let (mut input, sum) = bytes.split_last_chunk::<8>().ok_or(InvalidRecord)?;
        if u64::from_le_bytes(*sum) != XxHash3_64::oneshot(input) || input.try_get_u64_le()? != MAGIC {
            return Err(InvalidRecord);
        }
        let seed = take(&mut input, 16)?.try_into().map_err(|_| InvalidRecord)?;
        let [run, next, forgotten] =
            [input.try_get_u64_le()?, input.try_get_u64_le()?, input.try_get_u64_le()?];
        let count = input.try_get_u32_le()?;
        let entries = (0..count).map(|_| entry(&mut input)).collect::<Result<Vec<_>, _>>()?;
        if !input.is_empty() {
            return Err(InvalidRecord);
        }
        Ok(Self { seed, run, purges: Purges::new(next, forgotten, entries) })
    }
}

fn entry(input: &mut &[u8]) -> Result<Entry, InvalidRecord> {
    let number = input.try_get_u64_le()?;
    let (kind, soft) = (input.try_get_u8()?, input.try_get_u8()? != 0);
    let bytes = get_bytes(input)?;
    let target = match kind {
        0 => Target::Key(Key::from_bytes(bytes).ok_or(InvalidRecord)?),
        1 => Target::Prefix(bytes.to_vec()),
        2 => Target::Tag(bytes.to_vec()),
        3 => {
            let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(InvalidRecord)?;
            Target::TagOfSite { site: bytes[..end].to_vec(), tag: bytes[end + 1..].to_vec() }
        }
        _ => return Err(InvalidRecord),
    };
    Ok(Entry { number, purge: Purge { target, soft }, is_durable: true, applied_at: None })
}

/// The limit of the bytes of a target. URIs are shorter. The file has room for [`super::PENDING_MAX`] of them.
pub(crate) const TARGET_BYTES_MAX: usize = 16 * 1024 - 64;

/// Returns the numbers of the next purge and the last forgotten one in the file of the state.
pub(crate) fn numbers_on_disk(disk: &Disk, access: Access) -> io::Result<(u64, u64)> {
    let file = disk.read(STATE, access)?;
    let access = disk.access_to_open(access);
    let mut numbers = [0; 16];
    read_at(&file, &mut numbers, NUMBERS_AT, access)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| numbers[at + byte]));
    Ok((number(0), number(8)))
}

/// Writes the file, and returns when it is on the disk.
pub(crate) fn write(disk: &Disk, bytes: &[u8]) -> io::Result<()> {
    let name = format!("{TEMPORARY}/{STATE}");
    disk.remove(&name)?;
    let file = disk.create(&name)?;
    disk.write(&file, bytes, 0)?;
    disk.sync(&file)?;
    disk.rename(&name, STATE)?;
    disk.sync_names()
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
        let durable = state.purges.number(&list, true);
        state.purges.add(durable);
        let volatile = state.purges.number(&list[..1], false);
        state.purges.add(volatile);
        let State { seed, run, purges } = &state;
        let bytes = State::encode(seed, *run, (purges.next, purges.forgotten), purges.entries());
        let decoded = State::decode(&bytes).unwrap();
        assert_eq!((decoded.seed, decoded.run, decoded.purges.next), (*seed, 1, (1 << 32) + 5));
        let purges: Vec<_> = decoded.purges.entries().map(|entry| entry.purge.clone()).collect();
        assert_eq!(purges, list);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(State::decode(&damaged).is_err() && State::decode(&bytes[..at]).is_err(), "byte {at}");
        }
    }
}
