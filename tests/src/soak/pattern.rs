//! Body contents in which each byte shows its position. A body that is mixed with another one, has a gap or repeats a part does
//! not match its seed.

use std::fmt::Write as _;

/// Bytes per line: the seed, the line number and a constant text.
pub(super) const LINE_BYTES: usize = 64;
const TAIL: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHI";

/// The content for a seed, read piece by piece.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    seed: u32,
    offset: usize,
}

impl Pattern {
    pub(super) fn new(seed: u32) -> Self {
        Self { seed, offset: 0 }
    }

    /// Returns the next `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        let (begin, end) = (self.offset, self.offset + length);
        let mut lines = String::with_capacity(length + 2 * LINE_BYTES);
        for line in begin / LINE_BYTES..end.div_ceil(LINE_BYTES) {
            writeln!(lines, "{:08x} {line:08x} {TAIL}", self.seed).expect("writing to a string never fails");
        }
        self.offset = end;
        let skipped = begin % LINE_BYTES;
        lines.into_bytes()[skipped..skipped + length].to_vec()
    }

    /// Whether the next bytes are `bytes`.
    pub(super) fn check(&mut self, bytes: &[u8]) -> bool {
        self.take(bytes.len()) == bytes
    }
}

/// The hash `fnv1a64` of PHP, which is a few lines in any language.
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn finish(&self) -> u64 {
        self.0
    }
}

/// The response to `do=sum` for a body of this length and hash.
pub(super) fn sum(length: usize, hash: &Fnv) -> String {
    format!("{length} {:016x}\n", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_does_not_depend_on_the_pieces_read() {
        let whole = Pattern::new(7).take(1000);
        let mut pieces = Pattern::new(7);
        for length in [0, 1, 63, 64, 65, 807] {
            let begin = pieces.offset;
            assert!(pieces.check(&whole[begin..begin + length]), "{length} bytes at {begin}");
        }
        assert_eq!(pieces.offset, whole.len());
    }

    #[test]
    fn another_seed_and_another_offset_do_not_match() {
        let whole = Pattern::new(7).take(256);
        assert!(!Pattern::new(8).check(&whole));
        assert!(!Pattern::new(7).check(&whole[LINE_BYTES..]));
    }

    #[test]
    fn the_hash_matches_the_published_test_vectors() {
        // Noll's test vectors, draft-eastlake-fnv.
        let mut hash = Fnv::new();
        assert_eq!(hash.finish(), 0xcbf2_9ce4_8422_2325);
        hash.update(b"foobar");
        assert_eq!(hash.finish(), 0x8594_4171_f739_67e8);
    }
}
