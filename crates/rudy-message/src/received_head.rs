//! Response heads that a proxy passes on.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::semantics::field::{ChangeFields, KnownField, KnownFields, NameStarts};
use crate::{FieldLine, Fields};

/// Room for the lines of most heads.
const LINES_BYTES: usize = 512;

/// The fields of a response head that is being received. Copying each as soon as it is checked costs a third of parsing the head again.
///
/// They never contain `Connection`, `Content-Length` or `Transfer-Encoding`: the connection adds these fields.
#[derive(Debug, Clone, Default)]
pub struct ReceivedFields {
    /// Each with its CRLF, names in lower case, at most one `Date`.
    lines: Vec<u8>,
    /// Most lookups of a missing field need no search: which known fields there are, and what the other names look like.
    known: KnownFields,
    name_starts: NameStarts,
}

impl ReceivedFields {
    /// Adds a valid field, unless it belongs to the connection, or is another `Date`.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_line(&FieldLine::new(name, value));
    }

    /// As [`Self::push`]: most lines are copied as they are.
    pub fn push_line(&mut self, line: &FieldLine<'_>) {
        match line.known {
            Some(KnownField::Connection | KnownField::ContentLength | KnownField::TransferEncoding) => return,
            Some(KnownField::Date) if self.known.contains(KnownField::Date) => return,
            Some(field) => self.known.insert(field),
            None => self.name_starts.insert(line.name),
        }
        if self.lines.capacity() == 0 {
            self.lines = Vec::with_capacity(LINES_BYTES);
        }
        let start = self.lines.len();
        line.encode(&mut self.lines);
        make_lowercase(&mut self.lines[start..start + line.name.len()]);
    }

    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.places(name).next().map(|(_, value)| &self.lines[value])
    }

    /// Returns the places of the lines with this name: of each line with its end, and of its value.
    fn places(&self, name: &HeaderName) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let name = name.as_str().as_bytes();
        let (lines, mut start) = (&self.lines[..], 0);
        let mut next = move || {
            loop {
                let line = &lines[start..];
                let (begin, end) = (start, start + memchr::memchr(b'\n', line)? + 1);
                start = end;
                // Most names differ in their length.
                if line.get(name.len()) == Some(&b':') && line.starts_with(name) {
                    return Some((begin..end, begin + name.len() + 2..end - 2));
                }
            }
        };
        let may_be_there = match KnownField::of(name) {
            Some(field) => self.known.contains(field),
            None => self.name_starts.may_have(name),
        };
        std::iter::from_fn(move || if may_be_there { next() } else { None })
    }

    fn remove(&mut self, name: &HeaderName) {
        let mut kept = Vec::new();
        let mut end = 0;
        for (line, _) in self.places(name) {
            kept.extend_from_slice(&self.lines[end..line.start]);
            end = line.end;
        }
        if end == 0 {
            return;
        }
        kept.extend_from_slice(&self.lines[end..]);
        self.lines = kept;
        if let Some(field) = KnownField::of(name.as_str().as_bytes()) {
            self.known.remove(field);
        }
    }

    /// Returns the fields in a map.
    #[must_use]
    pub fn to_map(&self) -> HeaderMap {
        let lines = Bytes::copy_from_slice(&self.lines);
        let fields = || Fields::new(&lines);
        let mut map = HeaderMap::with_capacity(fields().count());
        for (name, value) in fields() {
            // The lines are valid, and their number is limited, so no field gets lost.
            let value = HeaderValue::from_maybe_shared(lines.slice_ref(value));
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value) {
                map.append(name, value);
            }
        }
        map
    }

    /// Returns the head of the response with this status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> ReceivedHead {
        ReceivedHead { status, fields: self, map: OnceLock::new() }
    }
}

/// As `make_ascii_lowercase`, in blocks for which the compiler needs no loop. The last one may overlap the one before it.
fn make_lowercase(name: &mut [u8]) {
    for block in name.as_chunks_mut::<8>().0 {
        block.make_ascii_lowercase();
    }
    match name.last_chunk_mut::<8>() {
        Some(block) => block.make_ascii_lowercase(),
        None => name.make_ascii_lowercase(),
    }
}

/// A response head that was received. Its lines are sent as they are; a map of the fields is made only if something needs it.
#[derive(Debug, Clone)]
pub struct ReceivedHead {
    status: StatusCode,
    fields: ReceivedFields,
    map: OnceLock<Box<HeaderMap>>,
}

impl ReceivedHead {
    /// Returns the status of the response.
    #[must_use]
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the fields in a map, which is made by the first call.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.map.get_or_init(|| Box::new(self.fields.to_map()))
    }

    /// Returns the fields in a map of their own.
    #[must_use]
    pub fn take_headers(&mut self) -> HeaderMap {
        self.map.take().map_or_else(|| self.fields.to_map(), |map| *map)
    }

    /// Whether it has a `Date`.
    #[inline]
    pub(crate) fn has_date(&self) -> bool {
        self.fields.known.contains(KnownField::Date)
    }

    /// Returns the lines.
    #[inline]
    pub(crate) fn lines(&self) -> &[u8] {
        &self.fields.lines
    }

    /// Returns the fields.
    #[must_use]
    #[inline]
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(self.lines())
    }
}

impl ChangeFields for ReceivedHead {
    fn get_all<'s>(&'s self, name: &HeaderName) -> impl Iterator<Item = &'s [u8]> {
        self.fields.places(name).map(|(_, value)| &self.fields.lines[value])
    }

    fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.fields.get(name)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.map.take();
        self.fields.remove(name);
    }

    /// Adds a line, unless its field belongs to the connection, or is another `Date`.
    fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.map.take();
        // White space around a value is not part of it (RFC 9110 §5.5).
        self.fields.push(name.as_str().as_bytes(), value.as_bytes().trim_ascii());
    }
}

#[cfg(test)]
mod tests {
    use http::header::{DATE, SERVER};

    use super::*;

    #[test]
    fn the_lines_of_the_connection_are_neither_sent_nor_in_the_map() {
        let mut fields = ReceivedFields::default();
        for (name, value) in [
            ("Server", "a"),
            ("Date", "Thu"),
            ("X-A", "1"),
            ("Date", "Fri"),
            ("Connection", "x-b"),
            ("x-a", "3"),
            ("Content-Length", "5"),
            ("Transfer-Encoding", "chunked"),
        ] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let head = fields.with_status(StatusCode::OK);
        assert_eq!(head.lines(), b"server: a\r\ndate: Thu\r\nx-a: 1\r\nx-a: 3\r\n");
        assert_eq!((head.get(&SERVER), head.get(&DATE)), (Some(&b"a"[..]), Some(&b"Thu"[..])));
        let get = |name: &'static str| head.get(&HeaderName::from_static(name));
        assert_eq!((get("x-a"), get("x"), get("x-b"), get("serve")), (Some(&b"1"[..]), None, None, None));
        let fields: Vec<_> =
            head.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(fields, [("server", &b"a"[..]), ("date", b"Thu"), ("x-a", b"1"), ("x-a", b"3")]);
    }

    #[test]
    fn changes_are_those_of_a_map() {
        let names = ["date", "x-a", "x-b", "etag"].map(HeaderName::from_static);
        let mut head = ReceivedFields::default().with_status(StatusCode::OK);
        let mut map = HeaderMap::new();
        // A pseudo-random sequence of changes (a linear congruential generator).
        let mut state = 1_u32;
        for step in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let name = &names[(state >> 8) as usize % names.len()];
            let value = HeaderValue::from(step);
            match state >> 30 {
                0 => {
                    head.remove(name);
                    map.remove(name);
                }
                1 => {
                    head.set(name.clone(), value.clone());
                    map.insert(name, value);
                }
                // Of `Date`, there is one line.
                _ if *name == DATE && map.contains_key(name) => {}
                _ => {
                    head.add(name.clone(), value.clone());
                    map.append(name, value);
                }
            }
            for name in &names {
                assert!(head.get_all(name).eq(ChangeFields::get_all(&map, name)), "{name} at {step}");
                assert_eq!(head.contains(name), map.contains_key(name));
            }
            assert_eq!(head.has_date(), map.contains_key(DATE));
            assert_eq!(*head.headers(), map);
        }
    }
}
