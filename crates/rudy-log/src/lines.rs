//! Splits a stream of bytes into lines.

use memchr::memchr;

/// The longest line in bytes; the rest of it is dropped. It exceeds any line that people read, and bounds the
/// memory for a file without newlines.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Receives a line without its line end, and whether the line was cut.
pub type OnLine<'a> = dyn FnMut(&[u8], bool) + 'a;

/// Splits bytes into lines, and stores the unfinished one.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
    /// The line was too long and was passed on; its rest is skipped.
    is_skipping: bool,
}

impl Lines {
    /// Passes the lines that these bytes complete to `on_line`, and stores the rest.
    pub fn push(&mut self, mut bytes: &[u8], on_line: &mut OnLine<'_>) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.end_line(&bytes[..end], on_line);
            bytes = &bytes[end + 1..];
        }
        self.store(bytes, on_line);
    }

    /// Passes an unfinished last line to `on_line`.
    pub fn finish(&mut self, on_line: &mut OnLine<'_>) {
        self.is_skipping = false;
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            on_line(without_cr(&partial), false);
        }
    }

    fn end_line(&mut self, rest: &[u8], on_line: &mut OnLine<'_>) {
        // Most lines are complete in one read and need no copy.
        if self.partial.is_empty() && !self.is_skipping && rest.len() <= LINE_BYTES_MAX {
            return on_line(without_cr(rest), false);
        }
        self.store(rest, on_line);
        if !std::mem::take(&mut self.is_skipping) {
            on_line(without_cr(&std::mem::take(&mut self.partial)), false);
        }
    }

    fn store(&mut self, bytes: &[u8], on_line: &mut OnLine<'_>) {
        if self.is_skipping {
            return;
        }
        let room = LINE_BYTES_MAX - self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            on_line(&std::mem::take(&mut self.partial), true);
            self.is_skipping = true;
        }
    }
}

/// Removes a carriage return, which is part of the line end.
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines_of<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, bool)> {
        let mut found = Vec::new();
        let mut lines = Lines::default();
        let mut on_line = |line: &[u8], is_cut| found.push((line.to_vec(), is_cut));
        for read in reads {
            lines.push(read, &mut on_line);
        }
        lines.finish(&mut on_line);
        found
    }

    #[test]
    fn a_line_ends_with_its_newline_or_with_the_file() {
        for (text, expected) in [
            ("", &[][..]),
            ("\n", &[""]),
            ("a\nb\n", &["a", "b"]),
            ("a\r\n\r\nb\rc\r\n", &["a", "", "b\rc"]),
            ("a\nb", &["a", "b"]),
        ] {
            let found = lines_of([text.as_bytes()]);
            let found: Vec<_> =
                found.iter().map(|(line, _)| String::from_utf8(line.clone()).unwrap()).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_cut_and_the_next_one_is_whole() {
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        let whole = vec![b'y'; LINE_BYTES_MAX];
        let text = [&long[..], b"\n", &whole, b"\nz\n"].concat();
        let expected = [(long[..LINE_BYTES_MAX].to_vec(), true), (whole, false), (b"z".to_vec(), false)];
        for read_bytes in [1000, LINE_BYTES_MAX, text.len()] {
            assert_eq!(lines_of(text.chunks(read_bytes)), expected, "reads of {read_bytes} bytes");
        }
    }

    #[test]
    fn bytes_without_newline_use_bounded_memory() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.push(&[b'x'; 10_000], &mut |_, _| {});
            assert!(lines.partial.capacity() <= 2 * LINE_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_the_reads(text in "[ab\r\n]{0,60}", cut in 0..60usize, cut_again in 0..60usize) {
            let text = text.as_bytes();
            let (first, second) = (cut.min(cut_again).min(text.len()), cut.max(cut_again).min(text.len()));
            let reads = [&text[..first], &text[first..second], &text[second..]];
            prop_assert_eq!(lines_of(reads), lines_of([text]));
        }
    }
}
