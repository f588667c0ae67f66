//! The fields that have been added to a request.

use http::header::HeaderName;

use crate::semantics::field::{KnownField, KnownFields, NameStarts};
use crate::text::put_field;

/// The fields that have been added.
#[derive(Debug, Clone, Default)]
pub(super) struct AddedFields {
    /// Encoded lines: values would be shared memory, and an upstream gets lines.
    pub(super) lines: Vec<u8>,
    pub(super) known: KnownFields,
    /// Of these fields, and of some that have been removed again.
    pub(super) name_starts: NameStarts,
}

/// Room for the lines that a proxy adds.
const ADDED_BYTES: usize = 192;

impl AddedFields {
    /// Adds a line with a valid value.
    pub(super) fn push(&mut self, name: &HeaderName, value: &[u8]) {
        let name = name.as_str().as_bytes();
        if let Some(field) = KnownField::of(name) {
            self.known.insert(field);
        }
        self.name_starts.insert(name);
        if self.lines.capacity() == 0 {
            self.lines = Vec::with_capacity(ADDED_BYTES);
        }
        put_field(name, value, &mut self.lines);
    }

    /// Returns the names in lower case, and the values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.lines[..];
        std::iter::from_fn(move || next_line(&mut rest))
    }

    pub(super) fn of(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(other, _)| *other == name.as_str().as_bytes()).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, name: &HeaderName) {
        let name = name.as_str().as_bytes();
        if !self.iter().any(|(other, _)| other == name) {
            return;
        }
        let mut kept = Vec::with_capacity(self.lines.len());
        for (other, value) in self.iter().filter(|(other, _)| *other != name) {
            put_field(other, value, &mut kept);
        }
        self.lines = kept;
        if let Some(field) = KnownField::of(name) {
            self.known.remove(field);
        }
    }
}

/// Returns the first of the encoded lines.
pub(super) fn next_line<'l>(rest: &mut &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
    let (colon, end) = (memchr::memchr(b':', rest)?, memchr::memchr(b'\n', rest)?);
    let (name, value) = (&rest[..colon], &rest[colon + 2..end - 1]);
    *rest = &rest[end + 1..];
    Some((name, value))
}
