//! Bytes that were received and not yet consumed.

/// Takes at most twice the memory that its bytes need, and none while there are no bytes: a peer decides how long they are kept.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// Bytes at the front that are consumed already.
    consumed: usize,
}

impl Pending {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.consumed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, more: &[u8]) {
        if more.is_empty() {
            return;
        }
        self.bytes.drain(..std::mem::take(&mut self.consumed));
        // Without this it would grow to twice its size for a byte. A quarter is enough not to move with each byte.
        if self.bytes.capacity() - self.bytes.len() < more.len() {
            self.bytes.reserve_exact(more.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(more);
    }

    /// Drops the first `count` bytes. The rest moves to a buffer of its size as often as it has halved, so that each byte is
    /// copied once on average.
    pub(super) fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.bytes.capacity() > 2 * self.len() {
            *self = Self { bytes: self.as_slice().to_vec(), consumed: 0 };
        }
    }

    pub(super) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.drain(..self.consumed);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_was_pushed_and_not_consumed(
            steps in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..300), 0..300_usize), 1..40)
        ) {
            let (mut pending, mut model) = (Pending::default(), Vec::new());
            for (more, count) in steps {
                pending.push(&more);
                model.extend_from_slice(&more);
                let count = count.min(model.len());
                pending.consume(count);
                model.drain(..count);
                prop_assert_eq!((pending.as_slice(), pending.len()), (&model[..], model.len()));
                prop_assert!(pending.bytes.capacity() <= 2 * model.len());
            }
            prop_assert_eq!(pending.into_vec(), model);
        }
    }
}
