//! Frames of HTTP/3, and what has arrived of them.

use bytes::{Bytes, BytesMut};
use rudy_http::qpack::{Decoder, encode_stateless, put_prefix};
use rudy_quic::quinn_proto::Dir;
use rudy_quic::streams::id;

use super::{h3_kind, h3_stream};
use crate::Http2Response;

/// What has arrived on a stream.
#[derive(Default)]
pub(super) struct Incoming {
    /// The type of a unidirectional stream, when it has arrived.
    kind: Option<u64>,
    /// What is no whole frame yet.
    bytes: BytesMut,
    /// What is left of a DATA frame, whose payload is added as it arrives.
    data: usize,
    /// The frames of the control stream.
    pub(super) frames: Vec<(u64, Bytes)>,
    pub(super) response: Http2Response,
}

impl Incoming {
    /// Adds bytes of a stream, and parses whole frames. A unidirectional stream has its type before them.
    pub(super) fn receive(&mut self, stream: u64, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let is_uni = id(stream).dir() == Dir::Uni;
        if is_uni && self.kind.is_none() {
            let Some((kind, length)) = read_varint(&self.bytes) else { return };
            let _kind = self.bytes.split_to(length);
            self.kind = Some(kind);
        }
        // The streams of QPACK have no frames.
        if self.kind.is_some_and(|kind| kind != h3_stream::CONTROL) {
            return self.bytes.clear();
        }
        loop {
            let data = self.bytes.split_to(self.data.min(self.bytes.len()));
            self.data -= data.len();
            self.response.body.extend_from_slice(&data);
            match self.next_frame() {
                None => return,
                Some((h3_kind::DATA, _)) => {}
                Some((h3_kind::HEADERS, section)) => self.response.decode_qpack(&section),
                Some(frame) => self.frames.push(frame),
            }
        }
    }

    /// Takes the next frame: a whole one, or the head of a DATA frame.
    fn next_frame(&mut self) -> Option<(u64, Bytes)> {
        if self.data > 0 {
            return None;
        }
        let (kind, kind_bytes) = read_varint(&self.bytes)?;
        let (length, length_bytes) = read_varint(&self.bytes[kind_bytes..])?;
        let (head, length) = (kind_bytes + length_bytes, usize::try_from(length).ok()?);
        if kind == h3_kind::DATA {
            self.data = length;
        } else if self.bytes.len() < head + length {
            return None;
        }
        let _head = self.bytes.split_to(head);
        let payload = if kind == h3_kind::DATA { BytesMut::new() } else { self.bytes.split_to(length) };
        Some((kind, payload.freeze()))
    }
}

impl Http2Response {
    /// Adds the fields of a HEADERS frame.
    fn decode_qpack(&mut self, section: &[u8]) {
        let mut fields = Vec::new();
        let mut field = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
        let decoder = Decoder::new(0);
        let section = decoder.section(section).expect("a valid section");
        section.decode(&mut Vec::new(), &mut field).expect("a valid section");
        self.add_head(&fields);
    }
}

/// The first fields of a request.
pub fn h3_head<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Encodes a HEADERS frame, without the dynamic table.
pub fn h3_headers<T: AsRef<[u8]>>(fields: &[(T, T)]) -> Vec<u8> {
    let mut section = BytesMut::new();
    put_prefix(&mut section);
    for (name, value) in fields {
        encode_stateless(name.as_ref(), value.as_ref(), &mut section);
    }
    h3_frame(h3_kind::HEADERS, &section)
}

/// Encodes a frame.
pub fn h3_frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&varint(kind)[..], &varint(payload.len() as u64), payload].concat()
}

/// Encodes an integer (RFC 9000 §16).
/// Panics if it is too large.
pub fn varint(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    match value {
        0..0x40 => vec![bytes[7]],
        0x40..0x4000 => vec![0x40 | bytes[6], bytes[7]],
        0x4000..0x4000_0000 => [&[0x80 | bytes[4]], &bytes[5..]].concat(),
        _ => {
            assert!(value < 1 << 62, "the integer has 62 bits");
            [&[0xc0 | bytes[0]], &bytes[1..]].concat()
        }
    }
}

/// Reads an integer. Returns it with its length; `None` if it is not complete.
fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, length))
}
