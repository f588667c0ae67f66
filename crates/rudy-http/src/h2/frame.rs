//! The layout of frames (RFC 9113 §4.1), and the encoding of those without state.

use bytes::{BufMut, BytesMut};

use super::ErrorCode;

/// The size of the head of a frame.
pub const HEAD_BYTES: usize = 9;

/// The maximum size of a payload that this side accepts: the default of SETTINGS_MAX_FRAME_SIZE, which no peer may exceed.
/// It is also the maximum that this side sends: larger frames save nothing, and delay streams of a higher priority.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The maximum size of the data that this side sends in a frame: with its head, the frame fits a TLS record of 16 KiB.
pub const DATA_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - HEAD_BYTES;

/// What a client sends first (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The types of frames (RFC 9113 §6, RFC 9218 §7.1).
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0x0;
    pub(in crate::h2) const HEADERS: u8 = 0x1;
    pub(in crate::h2) const PRIORITY: u8 = 0x2;
    pub(in crate::h2) const RST_STREAM: u8 = 0x3;
    pub(in crate::h2) const SETTINGS: u8 = 0x4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 0x5;
    pub(in crate::h2) const PING: u8 = 0x6;
    pub(in crate::h2) const GOAWAY: u8 = 0x7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 0x8;
    pub(in crate::h2) const CONTINUATION: u8 = 0x9;
    pub(in crate::h2) const PRIORITY_UPDATE: u8 = 0x10;
}

/// The flags of frames.
pub(super) mod flag {
    pub(in crate::h2) const END_STREAM: u8 = 0x1;
    pub(in crate::h2) const ACK: u8 = 0x1;
    pub(in crate::h2) const END_HEADERS: u8 = 0x4;
    pub(in crate::h2) const PADDED: u8 = 0x8;
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [length @ .., _, _, _, _, _, _] = bytes;
        let [_, _, _, kind, flags, stream @ ..] = bytes;
        Self {
            length: usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]),
            kind: *kind,
            flags: *flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes(*stream) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame. `length` is at most [`PAYLOAD_BYTES_MAX`].
pub(super) fn put_head(kind: u8, flags: u8, stream: u32, length: usize, out: &mut BytesMut) {
    out.put_uint(length as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
}

pub(super) fn put_reset(stream: u32, code: ErrorCode, out: &mut BytesMut) {
    put_head(kind::RST_STREAM, 0, stream, 4, out);
    out.put_u32(code.0);
}

pub(super) fn put_window_update(stream: u32, increment: u32, out: &mut BytesMut) {
    put_head(kind::WINDOW_UPDATE, 0, stream, 4, out);
    out.put_u32(increment);
}

pub(super) fn put_ping(flags: u8, payload: [u8; 8], out: &mut BytesMut) {
    put_head(kind::PING, flags, 0, 8, out);
    out.put_slice(&payload);
}

pub(super) fn put_go_away(last_stream: u32, code: ErrorCode, reason: &str, out: &mut BytesMut) {
    put_head(kind::GOAWAY, 0, 0, 8 + reason.len(), out);
    out.put_u32(last_stream);
    out.put_u32(code.0);
    out.put_slice(reason.as_bytes());
}

/// Begins a frame whose payload follows in `out`; [`end_block`] completes it. Returns its position.
pub(super) fn begin_block(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.put_bytes(0, HEAD_BYTES);
    start
}

/// Completes a header block that begins at `start`: as HEADERS, and as CONTINUATION where it is larger than a frame.
pub(super) fn end_block(start: usize, stream: u32, ends_stream: bool, out: &mut BytesMut) {
    let length = out.len() - start - HEAD_BYTES;
    let end_stream = if ends_stream { flag::END_STREAM } else { 0 };
    if length <= PAYLOAD_BYTES_MAX {
        let mut head = &mut out[start..start + HEAD_BYTES];
        head.put_uint(length as u64, 3);
        head.put_u8(kind::HEADERS);
        head.put_u8(flag::END_HEADERS | end_stream);
        head.put_u32(stream);
        return;
    }
    let block = out.split_off(start + HEAD_BYTES);
    out.truncate(start);
    let mut pieces = block.chunks(PAYLOAD_BYTES_MAX).peekable();
    let mut kind = kind::HEADERS;
    while let Some(piece) = pieces.next() {
        let end_headers = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
        let end_stream = if kind == kind::HEADERS { end_stream } else { 0 };
        put_head(kind, end_headers | end_stream, stream, piece.len(), out);
        out.put_slice(piece);
        kind = kind::CONTINUATION;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_as_it_is_encoded() {
        let mut out = BytesMut::new();
        put_head(kind::DATA, flag::END_STREAM | flag::PADDED, 0x7fff_fffe, 16_383, &mut out);
        assert_eq!(out[..], [0, 0x3f, 0xff, 0, 9, 0x7f, 0xff, 0xff, 0xfe]);
        // The reserved bit is ignored (RFC 9113 §4.1).
        out[5] |= 0x80;
        let head = FrameHead::parse(out[..].try_into().unwrap());
        assert_eq!((head.length, head.kind, head.stream), (16_383, kind::DATA, 0x7fff_fffe));
        assert!(head.has(flag::END_STREAM) && head.has(flag::PADDED) && !head.has(flag::PRIORITY));
    }

    #[test]
    fn a_large_block_continues_in_further_frames() {
        for (length, expected) in [
            (0, vec![(kind::HEADERS, 5, 0)]),
            (PAYLOAD_BYTES_MAX, vec![(kind::HEADERS, 5, PAYLOAD_BYTES_MAX)]),
            (
                2 * PAYLOAD_BYTES_MAX + 1,
                vec![
                    (kind::HEADERS, 1, PAYLOAD_BYTES_MAX),
                    (kind::CONTINUATION, 0, PAYLOAD_BYTES_MAX),
                    (kind::CONTINUATION, 4, 1),
                ],
            ),
        ] {
            let mut out = BytesMut::from(&b"before"[..]);
            let start = begin_block(&mut out);
            out.put_bytes(b'x', length);
            end_block(start, 3, true, &mut out);
            let (mut rest, mut frames) = (&out[6..], Vec::new());
            while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
                let head = FrameHead::parse(head);
                assert_eq!(head.stream, 3);
                frames.push((head.kind, head.flags, head.length));
                rest = &after[head.length..];
            }
            assert_eq!((frames, rest), (expected, &b""[..]));
        }
    }
}
