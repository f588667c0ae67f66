//! Encodes field sections (RFC 9204 §4.5).

use bytes::{BufMut, BytesMut};
use rudy_message::Compression;

use super::static_table;
use crate::field_section::Compress;
use crate::hpack::integer;
use crate::hpack::static_table::Match;
use crate::hpack::string::{self, LENGTH_PREFIX_BITS};

/// The bits before an index, and the number of bits of the index in the first byte: of a field of the static table (§4.5.2), and of
/// its name before a literal value (§4.5.4).
const INDEXED: (u8, u32) = (0xc0, 6);
const NAME_INDEXED: (u8, u32) = (0x50, 4);

/// The same for the length of a literal name (§4.5.6).
const LITERAL: (u8, u32) = (0x20, 3);

/// The bits that mark a field that must never be indexed.
const NAME_INDEXED_SECRET: u8 = 0x20;
const LITERAL_SECRET: u8 = 0x10;

/// Begins a section without references to the dynamic table: the Required Insert Count is 0, and so is the Base (§4.5.1).
pub fn put_prefix(out: &mut BytesMut) {
    out.put_slice(&[0, 0]);
}

/// Appends a field that uses the static table only, so that it is valid in the sections of all connections. The name must be lower case
/// (RFC 9114 §4.2).
pub fn encode_stateless(name: &[u8], value: &[u8], out: &mut BytesMut) {
    debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "a field name in HTTP/3 is lower case");
    match static_table::find(name, value) {
        Match::Field(index) => return integer::encode(index, INDEXED.1, INDEXED.0, out),
        Match::Name(index) => integer::encode(index, NAME_INDEXED.1, NAME_INDEXED.0, out),
        Match::None => string::encode::<{ LITERAL.1 }, { LITERAL.0 }>(name, out),
    }
    string::encode::<LENGTH_PREFIX_BITS, 0>(value, out);
}

/// Appends a field like [`encode_stateless`], with a mark for proxies, which must not add it to a table either: for secrets, whose length a
/// table would reveal (§7.1.3).
pub fn encode_secret(name: &[u8], value: &[u8], out: &mut BytesMut) {
    match static_table::find(name, value) {
        Match::Field(index) | Match::Name(index) => {
            integer::encode(index, NAME_INDEXED.1, NAME_INDEXED.0 | NAME_INDEXED_SECRET, out);
        }
        Match::None => string::encode::<{ LITERAL.1 }, { LITERAL.0 | LITERAL_SECRET }>(name, out),
    }
    string::encode::<LENGTH_PREFIX_BITS, 0>(value, out);
}

/// The compression without state.
pub(crate) struct Qpack;

impl Compress for Qpack {
    const COMPRESSION: Compression = Compression::Qpack;

    #[inline]
    fn put_field(name: &[u8], value: &[u8], out: &mut BytesMut) {
        encode_stateless(name, value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_example_of_appendix_b() {
        let mut section = BytesMut::new();
        put_prefix(&mut section);
        encode_stateless(b":path", b"/index.html", &mut section);
        // The example has no Huffman code.
        assert_eq!(section[..3], [0, 0, 0x51]);
        assert!(section.len() < 15);
    }

    #[test]
    fn each_representation_has_its_first_byte() {
        for (name, value, bytes) in [
            (&b":method"[..], &b"GET"[..], &[0xd1][..]),
            (b":status", b"500", &[0xff, 8]),
            (b"date", b"1", &[0x56, 1, b'1']),
            (b"user-agent", b"\0", &[0x5f, 80, 1, 0]),
            (b"{", b"", &[0x21, b'{', 0]),
            (b"aaa", b"", &[0x2a, 0x18, 0xc7, 0]),
        ] {
            let mut out = BytesMut::new();
            encode_stateless(name, value, &mut out);
            assert_eq!(out, bytes, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn a_secret_has_its_mark_and_no_index() {
        for (name, value, bytes) in [
            (&b":method"[..], &b"\0"[..], &[0x7f, 0, 1, 0][..]),
            (b"age", b"0", &[0x72, 1, b'0']),
            (b"{", b"", &[0x31, b'{', 0]),
            (b"aaa", b"", &[0x3a, 0x18, 0xc7, 0]),
        ] {
            let mut out = BytesMut::new();
            encode_secret(name, value, &mut out);
            assert_eq!(out, bytes, "{}", name.escape_ascii());
        }
    }
}
