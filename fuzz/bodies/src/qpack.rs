//! QPACK: instructions and sections of any bytes are decoded within bounded memory, in any pieces. Encoded again without a table, the
//! fields are the same. The input has a byte with the capacity, and then parts, each after a byte with its kind and its length.

use bytes::BytesMut;
use rudy_http::qpack::{DecodeError, Decoder, encode_secret, encode_stateless, put_prefix};

type Field = (Vec<u8>, Vec<u8>);

/// The memory of a table in addition to its capacity, and that of an instruction of twice the capacity.
const SPARE_BYTES: usize = 2048;

pub(crate) fn run(input: &[u8]) {
    let Some((&capacity, mut rest)) = input.split_first() else { return };
    let capacity = u32::from(capacity) * 17;
    let (mut decoder, mut second_decoder) = (Decoder::new(capacity), Decoder::new(capacity));
    while let Some((&head, after)) = rest.split_first() {
        let (part, after) = after.split_at(usize::from(head >> 1).min(after.len()));
        rest = after;
        let is_valid = if head & 1 == 0 {
            receive(&mut decoder, &mut second_decoder, part)
        } else {
            decode(&decoder, &second_decoder, part)
        };
        assert!(decoder.heap_bytes() <= 4 * capacity as usize + SPARE_BYTES, "{}", decoder.heap_bytes());
        // An error closes the connection.
        if !is_valid {
            return;
        }
    }
}

/// Handles instructions at once, and byte by byte.
fn receive(decoder: &mut Decoder, second_decoder: &mut Decoder, instructions: &[u8]) -> bool {
    let (mut out, mut second_out) = (BytesMut::new(), BytesMut::new());
    let whole = decoder.receive_instructions(instructions, &mut out);
    let mut bytes = instructions.chunks(1);
    let bytewise: Result<usize, DecodeError> = bytes
        .try_fold(0, |count, byte| Ok(count + second_decoder.receive_instructions(byte, &mut second_out)?));
    assert_eq!(bytewise, whole);
    assert_eq!(second_decoder.inserted(), decoder.inserted());
    whole.is_ok()
}

/// Decodes a section, which may be blocked.
fn decode(decoder: &Decoder, second_decoder: &Decoder, section: &[u8]) -> bool {
    let fields = fields(decoder, section);
    assert_eq!(self::fields(second_decoder, section), fields);
    let Ok(Some(fields)) = fields else { return fields.is_ok() };
    // Names in HTTP/3 are lower case.
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let mut encoded = BytesMut::new();
    put_prefix(&mut encoded);
    for (index, (name, value)) in fields.iter().enumerate() {
        let encode = if index % 5 == 4 { encode_secret } else { encode_stateless };
        encode(name, value, &mut encoded);
    }
    assert_eq!(self::fields(&Decoder::new(0), &encoded), Ok(Some(fields)));
    true
}

/// Returns the fields of a section; `None` if it is blocked.
fn fields(decoder: &Decoder, section: &[u8]) -> Result<Option<Vec<Field>>, DecodeError> {
    let section = decoder.section(section)?;
    if section.is_blocked() {
        assert!(section.required() > decoder.inserted());
        return Ok(None);
    }
    let mut fields = Vec::new();
    section.decode(&mut Vec::new(), &mut |name, value| fields.push((name.to_vec(), value.to_vec())))?;
    Ok(Some(fields))
}
