//! A buffer for received bytes that are not consumed yet.

/// A buffer for received bytes. Its capacity is at most twice its length, and 0 while it is empty, because a peer controls
/// how long the bytes stay here.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    /// The number of consumed bytes at the front.
    consumed: usize,
}

impl ReceiveBuffer {
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
        // `extend_from_slice` would double the capacity. Growing by a quarter also avoids a reallocation for each byte.
        if self.bytes.capacity() - self.bytes.len() < more.len() {
            self.bytes.reserve_exact(more.len().max(self.bytes.len() / 4));
        }
        self.bytes.extend_from_slice(more);
    }

    /// Drops the first `count` bytes. The rest moves to a smaller buffer each time its length has halved, so each byte is
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
        fn the_buffer_contains_the_pushed_bytes_that_are_not_consumed(
            steps in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..300), 0..300_usize), 1..40)
        ) {
            let (mut buffer, mut model) = (ReceiveBuffer::default(), Vec::new());
            for (more, count) in steps {
                buffer.push(&more);
                model.extend_from_slice(&more);
                let count = count.min(model.len());
                buffer.consume(count);
                model.drain(..count);
                prop_assert_eq!((buffer.as_slice(), buffer.len()), (&model[..], model.len()));
                prop_assert!(buffer.bytes.capacity() <= 2 * model.len());
            }
            prop_assert_eq!(buffer.into_vec(), model);
        }
    }
}
