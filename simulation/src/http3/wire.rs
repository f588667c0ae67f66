//! Frames (RFC 9114 §7) and field sections (RFC 9204 §4.5) of a client that has no dynamic table.

/// The types of frames that the world knows.
pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const GOAWAY: u64 = 0x7;

/// The types of streams in one direction (RFC 9114 §6.2, RFC 9204 §4.2).
pub(super) const CONTROL: u64 = 0x0;
pub(super) const ENCODER: u64 = 0x2;
pub(super) const DECODER: u64 = 0x3;

/// Error codes (RFC 9114 §8.1).
pub(super) const NO_ERROR: u64 = 0x100;
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
pub(super) const REQUEST_CANCELLED: u64 = 0x10c;

/// The statuses of the static table, with their indices (RFC 9204 Appendix A).
const STATUSES: [(u64, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

/// Appends an integer (RFC 9000 §16).
pub(super) fn put_integer(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value.to_be_bytes()[7]),
        0x40..0x4000 => out.extend_from_slice(&(value | 0x4000).to_be_bytes()[6..]),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value | 0x8000_0000).to_be_bytes()[4..]),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Removes the integer at the start. `None` if it is not complete.
pub(super) fn take_integer(input: &mut &[u8]) -> Option<u64> {
    let length = 1_usize << (input.first()? >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> 2 >> (64 - 8 * length)))
}

/// Encodes a frame.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_integer(kind, &mut out);
    put_integer(payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

/// Encodes a HEADERS frame whose fields are literals.
pub(super) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        put_prefixed(name.len(), 3, 0x20, &mut section);
        section.extend_from_slice(name.as_bytes());
        put_prefixed(value.len(), 7, 0, &mut section);
        section.extend_from_slice(value.as_bytes());
    }
    frame(HEADERS, &section)
}

/// Appends an integer with a prefix of some bits (RFC 7541 §5.1).
fn put_prefixed(value: usize, bits: u32, pattern: u8, out: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    if value < most {
        return out.push(pattern | value.to_le_bytes()[0]);
    }
    out.push(pattern | most.to_le_bytes()[0]);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

fn take_prefixed(input: &mut &[u8], bits: u32) -> Option<u64> {
    let (first, mut rest) = input.split_first()?;
    let most = (1_u64 << bits) - 1;
    let mut value = u64::from(*first) & most;
    if value == most {
        for shift in (0..28).step_by(7) {
            let (byte, after) = rest.split_first()?;
            rest = after;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *input = rest;
    Some(value)
}

/// What a client looks at in the head of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// The id of the request that an application has responded to.
    pub(super) request: Option<String>,
    pub(super) length: Option<u64>,
}

/// Decodes a field section. `None` if it is none, or refers to a dynamic table.
pub(super) fn head(mut section: &[u8]) -> Option<Head> {
    let mut head = Head::default();
    if (take_prefixed(&mut section, 8)?, take_prefixed(&mut section, 7)?) != (0, 0) {
        return None;
    }
    while let Some(first) = section.first() {
        let (index, name) = match first {
            0x80.. if first & 0x40 == 0 => return None,
            0x80.. => {
                let index = take_prefixed(&mut section, 6)?;
                let status = STATUSES.iter().find(|status| status.0 == index);
                head.status = status.map_or(head.status, |status| status.1);
                continue;
            }
            0x40.. if first & 0x10 == 0 => return None,
            0x40.. => (Some(take_prefixed(&mut section, 4)?), Vec::new()),
            0x20.. => (None, text(&mut section, 3)?),
            _ => return None,
        };
        let value = text(&mut section, 7)?;
        let number = || std::str::from_utf8(&value).ok()?.parse::<u64>().ok();
        match (index, &name[..]) {
            (Some(24..=28 | 63..=71), _) => head.status = u16::try_from(number()?).ok()?,
            // The name `content-length`.
            (Some(4), _) => head.length = number(),
            (None, b"x-request") => head.request = String::from_utf8(value).ok(),
            _ => {}
        }
    }
    Some(head)
}

/// Takes a string, whose length has a prefix of some bits behind that of the Huffman code.
fn text(section: &mut &[u8], bits: u32) -> Option<Vec<u8>> {
    let is_huffman = section.first()? >> bits & 1 == 1;
    let length = usize::try_from(take_prefixed(section, bits)?).ok()?;
    let (text, rest) = section.split_at_checked(length)?;
    *section = rest;
    // Others than those that clients look at are empty.
    Some(if is_huffman { huffman(text).unwrap_or_default() } else { text.to_vec() })
}

/// Codes with their lengths in bits (RFC 7541 Appendix B): the digits, and the letters of `x-request`.
const CODES: [(u32, u8, u8); 18] = [
    (5, 0x0, b'0'),
    (5, 0x1, b'1'),
    (5, 0x2, b'2'),
    (6, 0x19, b'3'),
    (6, 0x1a, b'4'),
    (6, 0x1b, b'5'),
    (6, 0x1c, b'6'),
    (6, 0x1d, b'7'),
    (6, 0x1e, b'8'),
    (6, 0x1f, b'9'),
    (7, 0x79, b'x'),
    (6, 0x16, b'-'),
    (6, 0x2c, b'r'),
    (5, 0x5, b'e'),
    (7, 0x76, b'q'),
    (6, 0x2d, b'u'),
    (5, 0x8, b's'),
    (5, 0x9, b't'),
];

/// Decodes a text that consists of [`CODES`].
fn huffman(text: &[u8]) -> Option<Vec<u8>> {
    let (mut decoded, mut code, mut bits) = (Vec::new(), 0_u8, 0);
    for bit in text.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        (code, bits) = (code << 1 | bit, bits + 1);
        if let Some(known) = CODES.iter().find(|known| (known.0, known.1) == (bits, code)) {
            decoded.push(known.2);
            (code, bits) = (0, 0);
        } else if bits == 8 {
            return None;
        }
    }
    // The padding is the start of a long code.
    (code == (1 << bits) - 1).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_examples_of_the_standard() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut out = Vec::new();
            put_integer(value, &mut out);
            assert_eq!((&out[..], take_integer(&mut &bytes[..])), (bytes, Some(value)));
            assert_eq!(take_integer(&mut &bytes[1..1]), None);
        }
    }

    #[test]
    fn heads_have_fields_in_all_forms() {
        let expected = |status, request: &str, length| {
            Some(Head { status, request: Some(request.to_owned()), length: Some(length) })
        };
        let literal = headers(&[("x-request", "4321"), ("other", &"o".repeat(300))]);
        // A status and a length by their indices, then the literals.
        let section = [&[0, 0, 0xd9, 0x54, 2, b'1', b'7'], &literal[5..]].concat();
        assert_eq!(head(&section), expected(200, "4321", 17));
        // `:status: 502`, whose value has a code, and `x-request: 98`, whose name has one.
        let codes = b"\0\0\x5f\x09\x82\x6c\x02\x2f\0\xf2\xb5\x85\xed\x69\x50\x9f\x0298";
        assert_eq!(head(codes), Some(Head { status: 502, request: Some("98".to_owned()), length: None }));
        assert_eq!(head(&[0, 0, 0x80]), None, "an entry of the dynamic table");
        assert_eq!(head(&[1, 0]), None);
    }
}
