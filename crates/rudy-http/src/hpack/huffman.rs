//! Huffman-coded strings (RFC 7541 §5.2).

use super::DecodeError;
use super::huffman_code::{CODE_BITS, CODES, INDEX_BITS, SHORT_CODES, SHORTEST_BITS, long_code};

/// The maximum number of bits of padding (§5.2).
const PADDING_BITS_MAX: u32 = 7;

/// Returns the length of an encoded string, in bytes.
#[inline]
pub(crate) fn encoded_length(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(CODE_BITS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Encodes `text` into `out`, which must have its [`encoded_length`].
pub(crate) fn encode(text: &[u8], out: &mut [u8]) {
    // At most 31 bits are pending, and a code has at most 30.
    let (mut pending, mut pending_bits, mut at) = (0_u64, 0_u32, 0);
    for byte in text {
        let index = usize::from(*byte);
        let bits = u32::from(CODE_BITS[index]);
        pending = pending << bits | u64::from(CODES[index]);
        pending_bits += bits;
        if pending_bits >= 32 {
            pending_bits -= 32;
            let word = (pending << (32 - pending_bits) >> 32) as u32;
            out[at..at + 4].copy_from_slice(&word.to_be_bytes());
            at += 4;
        }
    }
    // The padding is the start of EOS, which consists of ones.
    let last = pending << (64 - pending_bits - 1) << 1 | u64::MAX >> pending_bits;
    let rest = &mut out[at..];
    rest.copy_from_slice(&last.to_be_bytes()[..rest.len()]);
}

/// Appends the decoded string to `out`.
pub(super) fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut at = out.len();
    out.resize(at + encoded.len() * 8 / SHORTEST_BITS, 0);
    // The next bits of the string, from the highest bit on. Some bits after them can be set too: those of the next byte.
    let (mut window, mut window_bits) = (0_u64, 0_u32);
    let mut input = encoded;
    loop {
        while window_bits >= INDEX_BITS {
            let (symbol, bits) = short_code(window);
            if bits == 0 {
                break;
            }
            out[at] = symbol;
            at += 1;
            window <<= bits;
            window_bits -= u32::from(bits);
        }
        refill(&mut window, &mut window_bits, &mut input);
        let (mut symbol, mut bits) = short_code(window);
        if bits == 0 {
            (symbol, bits) = long_code((window >> 32) as u32).ok_or(DecodeError::HuffmanEndOfString)?;
        }
        // After a refill, an incomplete code is the end of the string.
        let Some(rest_bits) = window_bits.checked_sub(u32::from(bits)) else { break };
        out[at] = symbol;
        at += 1;
        window <<= bits;
        window_bits = rest_bits;
    }
    out.truncate(at);
    // A code that consists of ones has at least 8 bits, therefore the padding is not a symbol.
    let is_padding = window_bits <= PADDING_BITS_MAX && window == !(u64::MAX >> window_bits);
    if is_padding { Ok(()) } else { Err(DecodeError::HuffmanPadding) }
}

#[inline]
fn short_code(window: u64) -> (u8, u8) {
    SHORT_CODES[(window >> (64 - INDEX_BITS)) as usize]
}

/// Adds bytes from `input` to the window. It then has at least 56 bits, or all bits up to the end of the string.
#[inline]
fn refill(window: &mut u64, window_bits: &mut u32, input: &mut &[u8]) {
    if let Some(word) = input.first_chunk() {
        *window |= u64::from_be_bytes(*word) >> *window_bits;
        let bytes = (63 - *window_bits) / 8;
        *window_bits += 8 * bytes;
        *input = &input[bytes as usize..];
    } else {
        while *window_bits <= 56
            && let Some((byte, rest)) = input.split_first()
        {
            *window |= u64::from(*byte) << (56 - *window_bits);
            *window_bits += 8;
            *input = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; encoded_length(text)];
        encode(text, &mut out);
        out
    }

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = b"before".to_vec();
        decode(encoded, &mut out).map(|()| out.split_off(6))
    }

    /// Returns a number of at most 64 bits as bytes, followed by ones.
    fn padded(number: u64, bits: u32) -> Vec<u8> {
        let whole = u128::from(number) << (128 - bits) | u128::MAX >> bits;
        whole.to_be_bytes()[..bits.div_ceil(8) as usize].to_vec()
    }

    #[test]
    fn every_symbol_is_decoded_alone_and_after_others() {
        for symbol in 0..=u8::MAX {
            for before in 0..40 {
                let text = [&vec![b'a'; before][..], &[symbol]].concat();
                assert_eq!(decoded(&encoded(&text)), Ok(text));
            }
            let twice = [symbol; 9];
            assert_eq!(decoded(&encoded(&twice)).as_deref(), Ok(&twice[..]));
        }
        assert_eq!(decoded(b""), Ok(Vec::new()));
    }

    #[test]
    fn a_symbol_without_its_last_byte_is_rejected() {
        for symbol in 0..=u8::MAX {
            let bytes = encoded(&[symbol]);
            let is_rejected = decoded(&bytes[..bytes.len() - 1]).is_err();
            assert_eq!(is_rejected, bytes.len() > 1, "{symbol}");
        }
    }

    #[test]
    fn padding_has_at_most_seven_bits_all_ones() {
        for symbol in 0..=u8::MAX {
            let index = usize::from(symbol);
            let (code, bits) = (u64::from(CODES[index]), u32::from(CODE_BITS[index]));
            let spare = bits.next_multiple_of(8) - bits;
            for padding in 0..1_u64 << spare {
                let bytes = padded(code << spare | padding, bits + spare);
                let is_ones = padding == (1 << spare) - 1;
                // Other padding of five bits or more can be a symbol.
                match decoded(&bytes) {
                    Ok(text) if is_ones => assert_eq!(text, [symbol]),
                    Ok(text) => assert!(spare >= 5 && text.len() == 2 && encoded(&text) == bytes),
                    Err(error) => assert!(!is_ones && error == DecodeError::HuffmanPadding),
                }
            }
            for ones in 8..30 {
                let long = padded(code << ones | ((1 << ones) - 1), bits + ones);
                let is_eos = (bits + ones).next_multiple_of(8) - bits >= 30;
                let error =
                    if is_eos { DecodeError::HuffmanEndOfString } else { DecodeError::HuffmanPadding };
                assert_eq!(decoded(&long), Err(error), "{symbol} and {ones} ones");
            }
        }
        for length in 1..=3 {
            assert_eq!(decoded(&vec![0xff; length]), Err(DecodeError::HuffmanPadding));
        }
    }

    #[test]
    fn the_symbol_for_the_end_is_rejected() {
        for before in 0..20 {
            let mut bytes = encoded(&vec![b'a'; before]);
            bytes.extend([0xff; 4]);
            bytes.extend(encoded(b"abc"));
            assert_eq!(decoded(&bytes), Err(DecodeError::HuffmanEndOfString));
        }
    }
}
