//! The ring of a topic's latest messages, each formatted once. Pure: no clock, no lock, no waker.

use std::collections::VecDeque;

use bytes::Bytes;

use super::framing::{Framing, Id};

/// The largest piece that is sent at once, unless a single message is larger. A connection may hold a copy of
/// the piece while its client does not read, and there can be thousands of such clients.
const PIECE_BYTES_MAX: usize = 8 * 1024;

/// Maximum number of bytes that an event adds to its line: `id: `, an id of 12 and up to 20 digits, `data: ` and
/// three line ends.
const FRAME_BYTES: usize = 48;

/// The limits of the messages that a topic stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// The number of messages. The oldest batch is stored whole, so there may be a few more.
    pub messages: u64,
    /// The number of bytes, formatted. The latest batch is always stored.
    pub bytes: u64,
}

/// Lines that are published together.
#[derive(Debug, Default)]
pub struct Batch {
    text: String,
    /// The end of each line in `text`.
    ends: Vec<usize>,
}

impl Batch {
    /// Adds a line.
    pub fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.ends.push(self.text.len());
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns an upper bound of the formatted size in bytes. An empty line counts too.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * FRAME_BYTES
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

/// The result of a read that starts at a message number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Bytes to send, and the number of the next message.
    Piece(Bytes, u64),
    /// `missing` messages are no longer stored; `oldest` is the number of the first stored one.
    Gone { missing: u64, oldest: u64 },
    /// The message has not been published yet.
    Nothing,
}

/// Messages by number. New ones replace the oldest.
#[derive(Debug)]
pub(super) struct Ring {
    batches: VecDeque<StoredBatch>,
    bytes: u64,
    /// The number of the next message.
    next: u64,
}

/// Messages that were published together, stored contiguously: a subscriber that needs all of them receives one
/// piece, which shares the bytes with all other subscribers.
#[derive(Debug)]
struct StoredBatch {
    first: u64,
    text: Bytes,
    /// The offsets of the second and later messages.
    later_starts: Box<[u32]>,
}

impl StoredBatch {
    fn message_count(&self) -> u64 {
        self.later_starts.len() as u64 + 1
    }

    /// Returns as many messages starting at `number` as fit into one piece, and the number after them.
    /// `number` must be in this batch.
    fn piece(&self, number: u64) -> (Bytes, u64) {
        let nth = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let start = if nth == 0 { 0 } else { self.later_starts[nth - 1] as usize };
        let fits = |end: &u32| *end as usize <= start + PIECE_BYTES_MAX;
        if self.text.len() <= start + PIECE_BYTES_MAX || nth == self.later_starts.len() {
            return (self.text.slice(start..), self.first + self.message_count());
        }
        let ends = &self.later_starts[nth..];
        let count = ends.partition_point(fits).max(1);
        (self.text.slice(start..ends[count - 1] as usize), number + count as u64)
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self { batches: VecDeque::new(), bytes: 0, next: 1 }
    }
}

impl Ring {
    /// Returns the number of the next message.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of the oldest stored message, or that of the next one if none is stored.
    pub(super) fn oldest(&self) -> u64 {
        self.batches.front().map_or(self.next, |batch| batch.first)
    }

    /// Adds the lines of a batch and drops the oldest batches beyond `history`. A batch must be smaller than
    /// 4 GiB; its producers stop at 64 KiB.
    pub(super) fn push(&mut self, batch: &Batch, framing: Framing, epoch: u64, history: History) {
        if batch.is_empty() {
            return;
        }
        let first = self.next;
        let mut text = String::with_capacity(batch.bytes());
        let mut starts = Vec::with_capacity(batch.ends.len());
        for line in batch.lines() {
            starts.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            framing.message(Id { epoch, number: self.next }, line, &mut text);
            self.next += 1;
        }
        text.shrink_to_fit();
        self.bytes += text.len() as u64;
        self.batches.push_back(StoredBatch { first, text: text.into(), later_starts: starts[1..].into() });
        while self.exceeds(history) {
            let oldest = self.batches.pop_front();
            self.bytes -= oldest.map_or(0, |batch| batch.text.len() as u64);
        }
    }

    /// Reads from a message to the end of its batch, or until the piece is full.
    pub(super) fn read(&self, number: u64) -> Read {
        let oldest = self.oldest();
        if number < oldest {
            return Read::Gone { missing: oldest - number, oldest };
        }
        // Batches are sorted by their first number.
        let after = self.batches.partition_point(|batch| batch.first <= number);
        match after.checked_sub(1).map(|index| &self.batches[index]) {
            Some(batch) if number < batch.first + batch.message_count() => {
                let (piece, after) = batch.piece(number);
                Read::Piece(piece, after)
            }
            _ => Read::Nothing,
        }
    }

    fn exceeds(&self, history: History) -> bool {
        let Some(second) = self.batches.get(1) else { return false };
        self.bytes > history.bytes || self.next - second.first >= history.messages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HISTORY: History = History { messages: 5, bytes: 1000 };

    fn batch(lines: impl IntoIterator<Item = String>) -> Batch {
        let mut batch = Batch::default();
        lines.into_iter().for_each(|line| batch.push(&line));
        batch
    }

    /// Publishes batches with these numbers of lines; the text of each line is its number.
    fn ring(batches: &[u64], history: History) -> Ring {
        let mut ring = Ring::default();
        for lines in batches {
            let lines = (ring.next..ring.next + lines).map(|number| number.to_string());
            ring.push(&batch(lines), Framing::Plain, 1, history);
        }
        ring
    }

    #[test]
    fn messages_published_together_are_read_in_one_piece() {
        let ring = ring(&[1, 3, 1], HISTORY);
        for (number, expected) in [
            (1, Read::Piece("1\n".into(), 2)),
            (2, Read::Piece("2\n3\n4\n".into(), 5)),
            (3, Read::Piece("3\n4\n".into(), 5)),
            (5, Read::Piece("5\n".into(), 6)),
            (6, Read::Nothing),
            (1000, Read::Nothing),
        ] {
            assert_eq!(ring.read(number), expected, "{number}");
        }
    }

    #[test]
    fn a_piece_has_a_size_limit_and_only_complete_messages() {
        let mut ring = Ring::default();
        let lengths = [PIECE_BYTES_MAX / 2, PIECE_BYTES_MAX / 2, PIECE_BYTES_MAX, 3 * PIECE_BYTES_MAX, 1, 1];
        // The newline counts.
        let lines = lengths.map(|length| "x".repeat(length - 1));
        ring.push(&batch(lines), Framing::Plain, 1, History { messages: 9, bytes: u64::MAX });
        let (mut number, mut pieces) = (1, Vec::new());
        while let Read::Piece(piece, after) = ring.read(number) {
            pieces.push((number, piece.len()));
            number = after;
        }
        let piece = PIECE_BYTES_MAX;
        assert_eq!(pieces, [(1, piece), (3, piece), (4, 3 * piece), (5, 2)]);
    }

    #[test]
    fn the_oldest_batches_are_dropped() {
        for (case, batches, history, oldest) in [
            ("nothing", &[][..], HISTORY, 1),
            ("at the limit", &[1, 1, 1, 1, 1], HISTORY, 1),
            ("over the limit", &[1, 1, 1, 1, 1, 1], HISTORY, 2),
            ("a batch is dropped as a whole", &[3, 3, 1], HISTORY, 1),
            ("a batch is dropped when the rest is enough", &[3, 3, 2], HISTORY, 4),
            ("a large batch stays", &[1, 100], HISTORY, 2),
            ("bytes count too", &[1, 1, 1], History { messages: 100, bytes: 4 }, 2),
            ("the latest batch always stays", &[1, 1, 1], History { messages: 100, bytes: 0 }, 3),
        ] {
            let ring = ring(batches, history);
            assert_eq!(ring.oldest(), oldest, "{case}");
            if oldest > 1 {
                assert_eq!(ring.read(1), Read::Gone { missing: oldest - 1, oldest }, "{case}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_reader_receives_every_message_once_or_the_number_of_missing_ones(
            operations in proptest::collection::vec((0..7u64, any::<bool>()), 0..40),
        ) {
            let mut ring = Ring::default();
            let (mut next, mut received) = (1, Vec::new());
            for (lines, reads) in operations {
                let lines = (ring.next..ring.next + lines).map(|number| number.to_string());
                ring.push(&batch(lines), Framing::Plain, 1, HISTORY);
                let bytes: usize = ring.batches.iter().map(|batch| batch.text.len()).sum();
                prop_assert_eq!(ring.bytes, bytes as u64);
                while reads && next < ring.next {
                    match ring.read(next) {
                        Read::Piece(text, after) => {
                            let text = String::from_utf8(text.to_vec()).unwrap();
                            received.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
                            next = after;
                        }
                        Read::Gone { missing, oldest } => {
                            received.extend(next..next + missing);
                            next = oldest;
                        }
                        Read::Nothing => prop_assert!(false, "message {} is stored", next),
                    }
                }
            }
            prop_assert_eq!(received, (1..next).collect::<Vec<_>>());
        }
    }
}
