//! The layout of frames (RFC 9114 §7.1), and the encoding of those without state.

use bytes::{BufMut, BytesMut};

use super::varint;
use crate::qpack::put_prefix;

/// The types of frames (RFC 9114 §7.2, RFC 9218 §7.2).
pub(super) mod kind {
    pub(in crate::h3) const DATA: u64 = 0x0;
    pub(in crate::h3) const HEADERS: u64 = 0x1;
    pub(in crate::h3) const CANCEL_PUSH: u64 = 0x3;
    pub(in crate::h3) const SETTINGS: u64 = 0x4;
    pub(in crate::h3) const PUSH_PROMISE: u64 = 0x5;
    pub(in crate::h3) const GOAWAY: u64 = 0x7;
    pub(in crate::h3) const MAX_PUSH_ID: u64 = 0xd;
    pub(in crate::h3) const PRIORITY_UPDATE: u64 = 0xf0700;
    pub(in crate::h3) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf0701;

    /// Whether frames of a type are only allowed on the control stream.
    pub(in crate::h3) fn is_of_control_stream(kind: u64) -> bool {
        matches!(
            kind,
            CANCEL_PUSH | SETTINGS | GOAWAY | MAX_PUSH_ID | PRIORITY_UPDATE | PRIORITY_UPDATE_OF_PUSH
        )
    }

    /// Whether frames of a type are those of HTTP/2, which are errors (§7.2.8).
    pub(in crate::h3) fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// The bytes that are left for the head of a frame whose length is not known yet: its type, and a length of two bytes.
const RESERVED_BYTES: usize = 3;

/// The largest length that fits there.
const RESERVED_LENGTH_MAX: usize = 0x3fff;

/// Appends the head of a frame.
pub(super) fn put_head(kind: u64, length: u64, out: &mut BytesMut) {
    varint::put(kind, out);
    varint::put(length, out);
}

pub(super) fn put_go_away(id: u64, out: &mut BytesMut) {
    let mut payload = BytesMut::new();
    varint::put(id, &mut payload);
    put_head(kind::GOAWAY, payload.len() as u64, out);
    out.extend_from_slice(&payload);
}

/// Appends a HEADERS frame, whose fields refer to no dynamic table.
pub(super) fn put_section(out: &mut BytesMut, put_fields: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_bytes(0, RESERVED_BYTES);
    put_prefix(out);
    put_fields(out);
    let length = out.len() - start - RESERVED_BYTES;
    if length <= RESERVED_LENGTH_MAX {
        let mut head = &mut out[start..start + RESERVED_BYTES];
        head.put_uint(kind::HEADERS, 1);
        // Not always the shortest form, but valid (RFC 9000 §16).
        head.put_uint(length as u64 | 0x4000, 2);
        return;
    }
    let section = out.split_off(start + RESERVED_BYTES);
    out.truncate(start);
    put_head(kind::HEADERS, length as u64, out);
    out.extend_from_slice(&section);
}
