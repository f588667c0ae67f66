//! The record of an object: its metadata in its file.
//!
//! ```text
//! u8 version, u64 epoch, u32 length of the key, key
//! u8 count of sets of names, each: u8 count of names, each: u16 length, name
//! u8 whether there is a response, and the response (rudy_cache::Stored)
//! ```

use bytes::{Buf, BufMut};
use http::HeaderName;
use rudy_cache::Stored;
use rudy_cache::encoding::{InvalidRecord, get_bytes, get_name, put_bytes, put_name};

const VERSION: u8 = 1;

/// The limit of the sets of field names on which the responses of a key depend. An origin normally has one.
const NAME_SETS_MAX: usize = 4;

/// The limit of the names in a set: more are not stored.
pub(crate) const NAMES_MAX: usize = 32;

/// When a request was sent to the origin, in relation to purges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(crate) u64);

/// The metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Purges after it do not concern the object.
    pub(crate) epoch: Epoch,
    /// The URI.
    pub(crate) key: Box<[u8]>,
    /// The names of fields on which other responses of the key depend, the newest set last. Only for the base object of a key.
    pub(crate) vary: Vec<Vec<HeaderName>>,
    /// `None` if the object only has `vary`.
    pub(crate) stored: Option<Stored>,
}

impl Record {
    /// Adds a set of names. Returns whether it is new.
    pub(crate) fn add_names(&mut self, names: &[HeaderName]) -> bool {
        if self.vary.iter().any(|known| known == names) {
            return false;
        }
        if self.vary.len() == NAME_SETS_MAX {
            self.vary.remove(0);
        }
        self.vary.push(names.to_vec());
        true
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.put_u8(VERSION);
        out.put_u64_le(self.epoch.0);
        put_bytes(&mut out, &self.key);
        out.put_u8(count(self.vary.len()));
        for names in &self.vary {
            out.put_u8(count(names.len()));
            for name in names {
                put_name(&mut out, name);
            }
        }
        out.put_u8(self.stored.is_some().into());
        if let Some(stored) = &self.stored {
            stored.encode(&mut out);
        }
        out
    }

    pub(crate) fn decode(mut input: &[u8]) -> Result<Self, InvalidRecord> {
        if input.try_get_u8()? != VERSION {
            return Err(InvalidRecord);
        }
        let epoch = Epoch(input.try_get_u64_le()?);
        let key = get_bytes(&mut input)?.into();
        let sets = input.try_get_u8()?;
        let vary = (0..sets).map(|_| names(&mut input)).collect::<Result<_, _>>()?;
        let stored = match input.try_get_u8()? {
            0 if input.is_empty() => None,
            1 => Some(Stored::decode(input)?),
            _ => return Err(InvalidRecord),
        };
        Ok(Self { epoch, key, vary, stored })
    }
}

fn count(length: usize) -> u8 {
    u8::try_from(length).expect("sets and names are limited")
}

fn names(input: &mut &[u8]) -> Result<Vec<HeaderName>, InvalidRecord> {
    let names = input.try_get_u8()?;
    (0..names).map(|_| get_name(input)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let names = vec![HeaderName::from_static("accept"), HeaderName::from_static("accept-language")];
        let stored = crate::tests::stored(&[("cache-tag", "a"), ("etag", "\"b\"")], &[]);
        Record {
            epoch: Epoch(7),
            key: b"http://a/b".as_slice().into(),
            vary: vec![names, vec![]],
            stored: Some(stored),
        }
    }

    #[test]
    fn a_record_is_decoded_to_the_same_metadata() {
        for record in [record(), Record { stored: None, ..record() }] {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Ok(record));
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..length]), Err(InvalidRecord), "{length} bytes");
            }
            assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()), Err(InvalidRecord));
        }
    }

    #[test]
    fn the_oldest_set_of_names_leaves() {
        let mut record = Record { vary: Vec::new(), ..record() };
        let names = ["a", "b", "c", "d", "e"].map(|name| vec![HeaderName::from_static(name)]);
        assert!(names.iter().all(|names| record.add_names(names)));
        assert!(!record.add_names(&names[4]));
        assert_eq!(record.vary, names[1..]);
    }
}
