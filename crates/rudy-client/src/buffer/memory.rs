//! The part of a body that is in memory.

use std::collections::VecDeque;
use std::mem;

use bytes::{Bytes, BytesMut};

/// Smaller pieces are merged by copying. Without a copy, each would hold the whole receive buffer that
/// contains it, and cost an entry of 32 bytes and a system call for its write.
const COPY_BYTES: usize = 4096;

/// Pieces in order. Allocates nothing while empty.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pieces: VecDeque<Bytes>,
    /// The small pieces after them, merged.
    tail: BytesMut,
    bytes: usize,
}

impl Memory {
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds a piece. The first one is not copied: most bodies have only one.
    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if piece.len() < COPY_BYTES && self.bytes > 0 {
            return self.push_slice(&piece);
        }
        self.bytes += piece.len();
        self.close_tail();
        self.pieces.push_back(piece);
    }

    /// Adds a copy of bytes.
    pub(super) fn push_slice(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.tail.extend_from_slice(bytes);
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.close_tail();
        }
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }

    /// Drops the first `bytes`, which must be whole pieces.
    pub(super) fn discard(&mut self, bytes: u64) {
        let left = (self.bytes as u64).saturating_sub(bytes);
        while self.bytes as u64 > left && self.pop().is_some() {}
    }

    /// Returns all pieces. Later pushes do not change them.
    pub(super) fn pieces(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.pieces.iter().cloned().collect()
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(mem::take(&mut self.tail).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_merged_and_large_ones_are_not_copied() {
        let mut memory = Memory::default();
        let (first, large) = (Bytes::from(vec![1; 10]), Bytes::from(vec![4; COPY_BYTES]));
        memory.push(first.clone());
        memory.push(Bytes::from(vec![2; 10]));
        memory.push_slice(&[3; 10]);
        memory.push(Bytes::new());
        memory.push(large.clone());
        memory.push_slice(&[5; 10]);
        assert_eq!(memory.len(), 40 + COPY_BYTES);
        let pieces: Vec<_> = std::iter::from_fn(|| memory.pop()).collect();
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [10, 20, COPY_BYTES, 10]);
        assert_eq!((pieces[0].as_ptr(), pieces[2].as_ptr()), (first.as_ptr(), large.as_ptr()), "no copies");
        assert_eq!(memory.len(), 0);
    }
}
