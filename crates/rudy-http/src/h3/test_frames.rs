//! Frames written by hand, for the tests of both sides.

use bytes::BytesMut;

use super::frame::{kind, put_head};
use super::reader::{Frame, FrameReader, Payload};
use super::varint;
use crate::qpack::{Decoder, encode_stateless, put_prefix};

/// What a peer sends on a stream, and whether the stream ends after it.
pub(super) type Piece<'p> = (u64, &'p [u8], bool);

/// Cuts a piece at these positions. The last part has the end of the stream, and at least one byte.
pub(super) fn cut<'p>((stream, bytes, ends): Piece<'p>, positions: &[usize]) -> Vec<Piece<'p>> {
    let (mut rest, mut start, mut parts) = (bytes, 0, Vec::new());
    for at in positions.iter().copied().filter(|at| *at < bytes.len()) {
        let (part, after) = rest.split_at(at - start);
        parts.push((stream, part, false));
        (rest, start) = (after, at);
    }
    parts.push((stream, rest, ends));
    parts
}

pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_head(kind, payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out.to_vec()
}

pub(super) fn number(value: u64) -> Vec<u8> {
    let mut out = BytesMut::new();
    varint::put(value, &mut out);
    out.to_vec()
}

pub(super) fn data(payload: &[u8]) -> Vec<u8> {
    frame(kind::DATA, payload)
}

pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_prefix(&mut out);
    for (name, value) in fields {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out.to_vec()
}

pub(super) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(kind::HEADERS, &section(fields))
}

/// Describes frames, the last of which is complete.
pub(super) fn described(mut bytes: &[u8]) -> Vec<String> {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    while let Some(frame) = reader.read(&mut bytes, |_, _| Ok(Payload::Whole)).unwrap() {
        let Frame::Whole(kind, payload) = frame else { unreachable!() };
        frames.push(match kind {
            kind::DATA => format!("DATA {}", payload.escape_ascii()),
            kind::HEADERS => format!("HEADERS {}", fields(payload).join(", ")),
            kind::GOAWAY => format!("GOAWAY {}", varint::only(payload).unwrap()),
            _ => format!("{kind} {payload:?}"),
        });
    }
    assert!(reader.is_between_frames(), "the last frame is complete");
    frames
}

fn fields(section: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = |name: &[u8], value: &[u8]| {
        if name != b"date" {
            fields.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
        }
    };
    Decoder::new(0).section(section).unwrap().decode(&mut Vec::new(), &mut field).unwrap();
    fields
}
