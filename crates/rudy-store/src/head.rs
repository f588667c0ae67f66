//! The file of an object: where its parts are, and their checksums.
//!
//! ```text
//! 0     slot 0: u64 magic, u64 sequence, u64 length and u64 checksum of the body, u64 offset, u32 length, u32 zero and
//!       u64 checksum of the record, u64 checksum of the slot
//! 64    slot 1, or zeros
//! 128   body
//!       record
//! ```
//!
//! A file is written completely, and then gets its name. Afterwards only its record changes: the new record is written where the
//! current one is not, and then the slot that is not in use. After a crash between the two, the older slot is valid, with its
//! record; any other state of a slot is damage. All checksums are XXH3 with the id of the object as the seed, so a file under the
//! name of another is damaged. All numbers are little-endian.

use rudy_cache::index::ObjectId;
use twox_hash::XxHash3_64;

/// The offset of the body.
pub(crate) const HEAD_BYTES: u64 = 128;

const SLOT_BYTES: usize = 64;

/// With the version of the format. Files of another version are damaged: a lost cache is a cold cache.
const MAGIC: u64 = u64::from_le_bytes(*b"RUDYOBJ1");

/// The limit of a record: a message head and a URI, each with its own limit of some 100 KiB.
pub(crate) const RECORD_BYTES_MAX: u32 = 1 << 20;

/// The head of a file.
pub(crate) type Head = [u8; 2 * SLOT_BYTES];

/// Where body and record of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The number of changes of the record. Even in slot 0, odd in slot 1.
    pub(crate) sequence: u64,
    pub(crate) body_bytes: u64,
    pub(crate) body_checksum: u64,
    pub(crate) record_at: u64,
    pub(crate) record_bytes: u32,
    pub(crate) record_checksum: u64,
}

/// The head of a file is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidHead;

impl Slot {
    /// Creates the slot of a new file, whose record follows the body.
    pub(crate) fn first(id: ObjectId, body_bytes: u64, body_checksum: u64, record: &[u8]) -> Self {
        Self {
            sequence: 0,
            body_bytes,
            body_checksum,
            record_at: HEAD_BYTES + body_bytes,
            record_bytes: 0,
            record_checksum: 0,
        }
        .with_record(id, record)
    }

    /// Creates the slot of the next record. Its place is before the current record if there is room, else behind it.
    pub(crate) fn next(&self, id: ObjectId, record: &[u8]) -> Self {
        let first = HEAD_BYTES + self.body_bytes;
        let has_room = self.record_at - first >= record.len() as u64;
        let record_at = if has_room { first } else { self.record_at + u64::from(self.record_bytes) };
        Self { sequence: self.sequence + 1, record_at, ..*self }.with_record(id, record)
    }

    fn with_record(self, id: ObjectId, record: &[u8]) -> Self {
        let record_bytes = u32::try_from(record.len()).expect("records are limited to 1 MiB");
        Self { record_bytes, record_checksum: checksum(id, record), ..self }
    }

    /// Returns the offset of the slot in the file, and its bytes.
    pub(crate) fn encode(&self, id: ObjectId) -> (u64, [u8; SLOT_BYTES]) {
        let mut bytes = [0; SLOT_BYTES];
        let numbers = [
            MAGIC,
            self.sequence,
            self.body_bytes,
            self.body_checksum,
            self.record_at,
            self.record_bytes.into(),
            self.record_checksum,
        ];
        for (number, place) in numbers.into_iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(id, &bytes[..SLOT_BYTES - 8]);
        bytes[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        ((self.sequence % 2) * SLOT_BYTES as u64, bytes)
    }

    /// Returns the head of a new file.
    pub(crate) fn head(&self, id: ObjectId) -> Head {
        let mut head = [0; 2 * SLOT_BYTES];
        head[..SLOT_BYTES].copy_from_slice(&self.encode(id).1);
        head
    }

    /// Returns the current slot of a head.
    pub(crate) fn select(id: ObjectId, head: &Head) -> Result<Self, InvalidHead> {
        let (first, second) = head.split_at(SLOT_BYTES);
        let first = Self::decode(id, first)?;
        if second == [0; SLOT_BYTES] {
            return if first.sequence == 0 { Ok(first) } else { Err(InvalidHead) };
        }
        let second = Self::decode(id, second)?;
        let is_pair = first.sequence % 2 == 0 && first.sequence.abs_diff(second.sequence) == 1;
        let current = if first.sequence > second.sequence { first } else { second };
        if is_pair { Ok(current) } else { Err(InvalidHead) }
    }

    fn decode(id: ObjectId, bytes: &[u8]) -> Result<Self, InvalidHead> {
        let numbers: [u64; 8] = std::array::from_fn(|at| {
            u64::from_le_bytes(bytes[8 * at..][..8].try_into().expect("eight bytes"))
        });
        let [magic, sequence, body_bytes, body_checksum, record_at, record_bytes, record_checksum, sum] =
            numbers;
        let body_end = HEAD_BYTES.checked_add(body_bytes).ok_or(InvalidHead)?;
        let record_bytes = u32::try_from(record_bytes).map_err(|_| InvalidHead)?;
        let is_valid = magic == MAGIC
            && sum == checksum(id, &bytes[..SLOT_BYTES - 8])
            && record_bytes <= RECORD_BYTES_MAX
            && (body_end..body_end + 4 * u64::from(RECORD_BYTES_MAX)).contains(&record_at);
        let slot = Self { sequence, body_bytes, body_checksum, record_at, record_bytes, record_checksum };
        if is_valid { Ok(slot) } else { Err(InvalidHead) }
    }

    /// Whether the bodies are the same.
    pub(crate) fn is_of_same_body(&self, other: &Self) -> bool {
        (self.body_bytes, self.body_checksum) == (other.body_bytes, other.body_checksum)
    }

    /// Returns the end of the record.
    pub(crate) fn record_end(&self) -> u64 {
        self.record_at + u64::from(self.record_bytes)
    }
}

/// Computes the checksum of a part of an object.
pub(crate) fn checksum(id: ObjectId, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(checksum_seed(id), bytes)
}

/// Returns the state of a checksum that is computed in pieces.
pub(crate) fn checksum_of_pieces(id: ObjectId) -> XxHash3_64 {
    XxHash3_64::with_seed(checksum_seed(id))
}

fn checksum_seed(id: ObjectId) -> u64 {
    let bytes = id.to_bytes();
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    half(0) ^ half(8).rotate_left(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 16] = [5; 16];

    fn update(head: &mut Head, slot: &Slot, id: ObjectId) {
        let (offset, bytes) = slot.encode(id);
        head[usize::try_from(offset).unwrap()..][..SLOT_BYTES].copy_from_slice(&bytes);
    }

    #[test]
    fn the_newest_slot_is_current_and_its_record_is_not_where_the_last_one_was() {
        let id = ObjectId::from_bytes(ID);
        let mut slot = Slot::first(id, 10, 1, &[0; 100]);
        let mut head = slot.head(id);
        assert_eq!(Slot::select(id, &head), Ok(slot));
        for length in [100, 99, 120, 30, 500, 1, 600, 600] {
            let last = slot.record_at..slot.record_end();
            slot = slot.next(id, &vec![1; length]);
            assert!(slot.record_end() <= last.start || slot.record_at >= last.end);
            assert!(slot.record_at >= HEAD_BYTES + 10 && slot.record_end() < 2000);
            update(&mut head, &slot, id);
            assert_eq!(Slot::select(id, &head), Ok(slot));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_head_is_damage() {
        let id = ObjectId::from_bytes(ID);
        let slot = Slot::first(id, 10, 1, &[0; 100]);
        let mut head = slot.head(id);
        for used in [1, 2] {
            for bit in 0..head.len() * 8 {
                let mut damaged = head;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Slot::select(id, &damaged), Err(InvalidHead), "{used} slots, bit {bit}");
            }
            update(&mut head, &slot.next(id, &[1; 50]), id);
        }
    }

    #[test]
    fn a_head_of_another_object_is_damage() {
        let slot = Slot::first(ObjectId::from_bytes(ID), 10, 1, &[0; 100]);
        let head = slot.head(ObjectId::from_bytes(ID));
        assert_eq!(Slot::select(ObjectId::from_bytes([6; 16]), &head), Err(InvalidHead));
    }
}
