//! The Huffman code of RFC 7541 Appendix B, and the tables made from it.
//!
//! The code is canonical: codes of the same length are consecutive numbers in the order of their symbols, and longer codes
//! follow shorter ones. The lengths therefore determine all codes.

/// The length of the code of each byte, in bits.
pub(super) static CODE_BITS: [u8; 256] = BITS;

#[rustfmt::skip]
const BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // controls
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // space and marks
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // digits
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // upper case
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // lower case
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // not ASCII
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The length of the longest code, in bits.
pub(super) const LONGEST_BITS: usize = 30;

/// The length of the shortest code, in bits.
pub(super) const SHORTEST_BITS: usize = 5;

/// The number of bits that index [`SHORT_CODES`]. All letters, digits and frequent marks have shorter codes, and the table
/// has 2 KiB.
pub(super) const INDEX_BITS: u32 = 10;

/// The code of each byte, in its lowest bits.
pub(super) static CODES: [u32; 256] = CANONICAL.codes;

/// The symbol with its length in bits for each bit sequence that begins with a short code. The length 0 means a longer code.
pub(super) static SHORT_CODES: [(u8, u8); 1 << INDEX_BITS] = short_codes();

/// The codes of one length.
#[derive(Clone, Copy)]
pub(super) struct LongCodes {
    /// The first code, from the highest bit on.
    first: u32,
    /// The first code of greater length, from the highest bit on.
    end: u32,
    /// The index of the symbol with the first code in [`Canonical::symbols`].
    index: usize,
}

/// The codes of each length. Empty lengths have equal `first` and `end`.
static LONG_CODES: [LongCodes; LONGEST_BITS + 1] = CANONICAL.lengths;
static SYMBOLS: [u8; 256] = CANONICAL.symbols;

/// Returns the symbol of the code at the start of `window` and its length in bits. `None` if the code is that of EOS, which
/// is 30 ones. The code must have more than [`INDEX_BITS`] bits.
pub(super) fn long_code(window: u32) -> Option<(u8, u8)> {
    let mut bits = u8::try_from(INDEX_BITS).ok()?;
    for codes in &LONG_CODES[INDEX_BITS as usize + 1..] {
        bits += 1;
        if window < codes.end {
            let offset = (window - codes.first) >> (u32::BITS - u32::from(bits));
            return Some((SYMBOLS[codes.index + offset as usize], bits));
        }
    }
    None
}

struct Canonical {
    codes: [u32; 256],
    /// All symbols, by length and value of their codes.
    symbols: [u8; 256],
    lengths: [LongCodes; LONGEST_BITS + 1],
}

const CANONICAL: Canonical = canonical();

const fn canonical() -> Canonical {
    let mut tables = Canonical {
        codes: [0; 256],
        symbols: [0; 256],
        lengths: [LongCodes { first: 0, end: 0, index: 0 }; LONGEST_BITS + 1],
    };
    let (mut bits, mut code, mut index) = (1, 0_u32, 0);
    while bits <= LONGEST_BITS {
        code <<= 1;
        let first = code;
        let first_index = index;
        let mut symbol = 0_u8;
        loop {
            if BITS[symbol as usize] as usize == bits {
                tables.codes[symbol as usize] = code;
                tables.symbols[index] = symbol;
                code += 1;
                index += 1;
            }
            if symbol == u8::MAX {
                break;
            }
            symbol += 1;
        }
        let shift = u32::BITS as usize - bits;
        tables.lengths[bits] = LongCodes { first: first << shift, end: code << shift, index: first_index };
        bits += 1;
    }
    // The code that is left is that of EOS.
    assert!(index == 256 && code == (1 << LONGEST_BITS) - 1);
    tables
}

const fn short_codes() -> [(u8, u8); 1 << INDEX_BITS] {
    let mut table = [(0, 0); 1 << INDEX_BITS];
    let mut symbol = 0_u8;
    loop {
        let bits = BITS[symbol as usize];
        if bits as u32 <= INDEX_BITS {
            let spare = INDEX_BITS - bits as u32;
            let first = (CANONICAL.codes[symbol as usize] as usize) << spare;
            let mut index = first;
            while index < first + (1 << spare) {
                table[index] = (symbol, bits);
                index += 1;
            }
        }
        if symbol == u8::MAX {
            return table;
        }
        symbol += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_appendix_b() {
        for (symbol, code, bits) in [
            (0, 0x1ff8, 13),
            (1, 0x7f_ffd8, 23),
            (b'\n', 0x3fff_fffc, 30),
            (b'\r', 0x3fff_fffd, 30),
            (22, 0x3fff_fffe, 30),
            (b'0', 0, 5),
            (b'a', 3, 5),
            (b'%', 0x15, 6),
            (b'X', 0xfc, 8),
            (b'?', 0x3fc, 10),
            (b'\\', 0x7_fff0, 19),
            (127, 0xfff_fffc, 28),
            (176, 0x1f_ffe0, 21),
            (249, 0xfff_fffe, 28),
            (255, 0x3ff_ffee, 26),
        ] {
            let index = usize::from(symbol);
            assert_eq!((CODES[index], CODE_BITS[index]), (code, bits), "{symbol}");
        }
    }
}
