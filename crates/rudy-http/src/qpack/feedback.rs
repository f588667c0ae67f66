//! The decoder streams of both sides (RFC 9204 §4.4).

use bytes::BytesMut;

use super::DecodeError;
use crate::hpack::integer;

/// The bits before a number, and the number of its bits in the first byte: of the stream of a section that is decoded (§4.4.1), of a stream
/// whose sections are not (§4.4.2), and of inserted entries (§4.4.3).
const ACKNOWLEDGEMENT: (u8, u32) = (0x80, 7);
const CANCELLATION: (u8, u32) = (0x40, 6);
const INCREMENT: (u8, u32) = (0, 6);

/// Appends a Section Acknowledgment.
pub(super) fn put_acknowledgement(stream: u64, out: &mut BytesMut) {
    integer::encode_long(stream, ACKNOWLEDGEMENT.1, ACKNOWLEDGEMENT.0, out);
}

/// Appends a Stream Cancellation.
pub(super) fn put_cancellation(stream: u64, out: &mut BytesMut) {
    integer::encode_long(stream, CANCELLATION.1, CANCELLATION.0, out);
}

/// Appends an Insert Count Increment, unless it is 0.
pub(super) fn put_increment(inserted: u64, out: &mut BytesMut) {
    if inserted > 0 {
        integer::encode_long(inserted, INCREMENT.1, INCREMENT.0, out);
    }
}

/// The maximum number of bytes of the number of a stream after its prefix: 62 bits.
const CONTINUATION_BYTES_MAX: u8 = 9;

/// The state of the decoder stream of the peer. Without a dynamic table for what this side sends, only Stream Cancellation is valid (§4.4.2), and without a meaning.
#[derive(Debug, Default)]
pub(crate) struct Feedback {
    /// The number of bytes after the prefix of an incomplete number; `None` between instructions.
    continuation: Option<u8>,
}

impl Feedback {
    /// Handles bytes of the stream. Returns the number of instructions that are complete.
    pub(crate) fn receive(&mut self, input: &[u8]) -> Result<usize, DecodeError> {
        let mut count = 0;
        for byte in input {
            let is_last = match self.continuation {
                None if byte & 0xc0 != 0x40 => return Err(DecodeError::NothingToAcknowledge),
                None => byte & 0x3f != 0x3f,
                Some(CONTINUATION_BYTES_MAX..) => {
                    return Err(crate::hpack::DecodeError::IntegerTooLarge.into());
                }
                Some(_) => *byte < 0x80,
            };
            self.continuation =
                if is_last { None } else { Some(self.continuation.map_or(0, |bytes| bytes + 1)) };
            count += usize::from(is_last);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellations_are_counted_and_acknowledgements_rejected() {
        let long = [&[0x7f][..], &[0xff; 8], &[0x7f]].concat();
        for (input, expected) in [
            (&b""[..], Ok(0)),
            (b"\x40\x44\x7e", Ok(3)),
            (b"\x7f\x00\x40", Ok(2)),
            (b"\x7f\x80", Ok(0)),
            (&long, Ok(1)),
            (&[&[0x7f][..], &[0xff; 10]].concat(), Err(crate::hpack::DecodeError::IntegerTooLarge.into())),
            (b"\x40\x80", Err(DecodeError::NothingToAcknowledge)),
            (b"\x01", Err(DecodeError::NothingToAcknowledge)),
        ] {
            assert_eq!(Feedback::default().receive(input), expected, "{}", input.escape_ascii());
            let mut bytewise = Feedback::default();
            let counts: Result<Vec<_>, _> = input.chunks(1).map(|byte| bytewise.receive(byte)).collect();
            assert_eq!(counts.map(|counts| counts.iter().sum()), expected, "{}", input.escape_ascii());
        }
    }
}
