//! The last messages of a topic, framed once for everybody. Pure: no clock, no lock, no waker.

use std::collections::VecDeque;

use bytes::Bytes;

use super::framing::{Framing, Id};

/// The most that is sent in one piece, unless one message alone has more. The connection may hold a copy of it for a
/// client that does not read, and thousands of those should not take much together.
const PIECE_BYTES_MAX: usize = 8 * 1024;

/// Around a line that is framed as an event: `id: `, an id of 12 and up to 20 digits, `data: ` and three line ends.
const FRAME_BYTES: usize = 48;

/// How much of a topic is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// So many messages, and the rest of those that were published together with the oldest.
    pub(crate) messages: u64,
    /// So many bytes as they are sent, or the last batch if that alone has more.
    pub(crate) bytes: u64,
}

/// Lines that are published together.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Draft {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.ends.push(self.text.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that it takes when it is framed, or a little more: an empty line takes some, too.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * FRAME_BYTES
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }
}

/// What there is from a number on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// These bytes, and the number after them.
    Piece(Bytes, u64),
    /// So many messages are gone; the oldest that is kept has this number.
    Gone { missing: u64, oldest: u64 },
    /// Nothing yet.
    Nothing,
}

/// Messages by number, the oldest given up as new ones come.
#[derive(Debug)]
pub(super) struct Ring {
    batches: VecDeque<Batch>,
    bytes: u64,
    /// The number of the next message.
    next: u64,
}

/// Messages that were published together and lie one after the other, so that whoever reads all of them is sent one
/// piece, and the same bytes as everybody else.
#[derive(Debug)]
struct Batch {
    first: u64,
    text: Bytes,
    /// Where the second message begins, and so on: nothing for a single one.
    later_starts: Box<[u32]>,
}

impl Batch {
    fn messages(&self) -> u64 {
        self.later_starts.len() as u64 + 1
    }

    /// From this message on, which is one of its own, as much as goes into a piece; and the number after it.
    fn piece(&self, number: u64) -> (Bytes, u64) {
        let nth = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        let start = if nth == 0 { 0 } else { self.later_starts[nth - 1] as usize };
        let fits = |end: &u32| *end as usize <= start + PIECE_BYTES_MAX;
        if self.text.len() <= start + PIECE_BYTES_MAX || nth == self.later_starts.len() {
            return (self.text.slice(start..), self.first + self.messages());
        }
        let ends = &self.later_starts[nth..];
        let taken = ends.partition_point(fits).max(1);
        (self.text.slice(start..ends[taken - 1] as usize), number + taken as u64)
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self { batches: VecDeque::new(), bytes: 0, next: 1 }
    }
}

impl Ring {
    /// The number that the next message gets.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of the oldest message that is kept; that of the next one where there is none.
    pub(super) fn oldest(&self) -> u64 {
        self.batches.front().map_or(self.next, |batch| batch.first)
    }

    /// Adds the lines of a draft, and gives up what is beyond the history. A draft has 4 GiB at most: its makers stop at
    /// 64 KiB.
    pub(super) fn push(&mut self, draft: &Draft, framing: Framing, epoch: u64, history: History) {
        if draft.is_empty() {
            return;
        }
        let first = self.next;
        let mut text = String::with_capacity(draft.bytes());
        let mut starts = Vec::with_capacity(draft.ends.len());
        for line in draft.lines() {
            starts.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            framing.message(Id { epoch, number: self.next }, line, &mut text);
            self.next += 1;
        }
        text.shrink_to_fit();
        self.bytes += text.len() as u64;
        self.batches.push_back(Batch { first, text: text.into(), later_starts: starts[1..].into() });
        while self.has_too_much(history) {
            let oldest = self.batches.pop_front();
            self.bytes -= oldest.map_or(0, |batch| batch.text.len() as u64);
        }
    }

    /// What there is from this message on: to the end of the batch in which it is, or of the piece.
    pub(super) fn read(&self, number: u64) -> Read {
        let oldest = self.oldest();
        if number < oldest {
            return Read::Gone { missing: oldest - number, oldest };
        }
        // The batches are in order of their first numbers.
        let after = self.batches.partition_point(|batch| batch.first <= number);
        match after.checked_sub(1).map(|index| &self.batches[index]) {
            Some(batch) if number < batch.first + batch.messages() => {
                let (piece, after) = batch.piece(number);
                Read::Piece(piece, after)
            }
            _ => Read::Nothing,
        }
    }

    fn has_too_much(&self, history: History) -> bool {
        let Some(second) = self.batches.get(1) else { return false };
        self.bytes > history.bytes || self.next - second.first >= history.messages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HISTORY: History = History { messages: 5, bytes: 1000 };

    fn draft(lines: impl IntoIterator<Item = String>) -> Draft {
        let mut draft = Draft::default();
        lines.into_iter().for_each(|line| draft.push(&line));
        draft
    }

    /// Publishes batches of so many lines; each line is its number.
    fn ring(batches: &[u64], history: History) -> Ring {
        let mut ring = Ring::default();
        for lines in batches {
            let lines = (ring.next..ring.next + lines).map(|number| number.to_string());
            ring.push(&draft(lines), Framing::Plain, 1, history);
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
    fn a_piece_is_bounded_and_a_message_is_whole() {
        let mut ring = Ring::default();
        let lengths = [PIECE_BYTES_MAX / 2, PIECE_BYTES_MAX / 2, PIECE_BYTES_MAX, 3 * PIECE_BYTES_MAX, 1, 1];
        // With its newline, each has the length.
        let lines = lengths.map(|length| "x".repeat(length - 1));
        ring.push(&draft(lines), Framing::Plain, 1, History { messages: 9, bytes: u64::MAX });
        let (mut number, mut pieces) = (1, Vec::new());
        while let Read::Piece(piece, after) = ring.read(number) {
            pieces.push((number, piece.len()));
            number = after;
        }
        let piece = PIECE_BYTES_MAX;
        assert_eq!(pieces, [(1, piece), (3, piece), (4, 3 * piece), (5, 2)]);
    }

    #[test]
    fn the_oldest_are_given_up() {
        for (what, batches, history, oldest) in [
            ("nothing", &[][..], HISTORY, 1),
            ("as many as are kept", &[1, 1, 1, 1, 1], HISTORY, 1),
            ("one more", &[1, 1, 1, 1, 1, 1], HISTORY, 2),
            ("a batch goes as a whole", &[3, 3, 1], HISTORY, 1),
            ("a batch goes when the others suffice", &[3, 3, 2], HISTORY, 4),
            ("a large batch stays", &[1, 100], HISTORY, 2),
            ("bytes count too", &[1, 1, 1], History { messages: 100, bytes: 4 }, 2),
            ("the last one stays whatever it has", &[1, 1, 1], History { messages: 100, bytes: 0 }, 3),
        ] {
            let ring = ring(batches, history);
            assert_eq!(ring.oldest(), oldest, "{what}");
            if oldest > 1 {
                assert_eq!(ring.read(1), Read::Gone { missing: oldest - 1, oldest }, "{what}");
            }
        }
    }

    proptest! {
        #[test]
        fn whoever_reads_on_gets_every_message_once_and_is_told_what_is_gone(
            acts in proptest::collection::vec((0..7u64, any::<bool>()), 0..40),
        ) {
            let mut ring = Ring::default();
            let (mut next, mut seen) = (1, Vec::new());
            for (lines, reads) in acts {
                let lines = (ring.next..ring.next + lines).map(|number| number.to_string());
                ring.push(&draft(lines), Framing::Plain, 1, HISTORY);
                let bytes: usize = ring.batches.iter().map(|batch| batch.text.len()).sum();
                prop_assert_eq!(ring.bytes, bytes as u64);
                while reads && next < ring.next {
                    match ring.read(next) {
                        Read::Piece(text, after) => {
                            let text = String::from_utf8(text.to_vec()).unwrap();
                            seen.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
                            next = after;
                        }
                        Read::Gone { missing, oldest } => {
                            seen.extend(next..next + missing);
                            next = oldest;
                        }
                        Read::Nothing => prop_assert!(false, "{} is there", next),
                    }
                }
            }
            prop_assert_eq!(seen, (1..next).collect::<Vec<_>>());
        }
    }
}
