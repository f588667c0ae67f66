//! Bytes into lines, however they are cut into reads.

use memchr::memchr;

/// The longest line that is held, in bytes; what is beyond is left out. No line that a person reads is so long, and a
/// file without newlines must not take our memory.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Takes a line without its end, and whether something of it was left out.
pub(crate) type OnLine<'a> = dyn FnMut(&[u8], bool) + 'a;

/// The beginning of a line whose end has not come yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    /// The line was too long and has been handed out; its rest is passed over.
    is_passing_over: bool,
}

impl Lines {
    /// Hands out the lines that these bytes end, and holds what is left.
    pub(crate) fn push(&mut self, mut bytes: &[u8], on_line: &mut OnLine<'_>) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.end_line(&bytes[..end], on_line);
            bytes = &bytes[end + 1..];
        }
        self.hold(bytes, on_line);
    }

    /// No more will come: hands out what is held.
    pub(crate) fn finish(&mut self, on_line: &mut OnLine<'_>) {
        self.is_passing_over = false;
        let partial = std::mem::take(&mut self.partial);
        if !partial.is_empty() {
            on_line(without_cr(&partial), false);
        }
    }

    fn end_line(&mut self, rest: &[u8], on_line: &mut OnLine<'_>) {
        // Nearly every line lies whole in one read, and is not copied.
        if self.partial.is_empty() && !self.is_passing_over && rest.len() <= LINE_BYTES_MAX {
            return on_line(without_cr(rest), false);
        }
        self.hold(rest, on_line);
        if !std::mem::take(&mut self.is_passing_over) {
            on_line(without_cr(&std::mem::take(&mut self.partial)), false);
        }
    }

    fn hold(&mut self, bytes: &[u8], on_line: &mut OnLine<'_>) {
        if self.is_passing_over {
            return;
        }
        let room = LINE_BYTES_MAX - self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            on_line(&std::mem::take(&mut self.partial), true);
            self.is_passing_over = true;
        }
    }
}

/// A carriage return before the newline belongs to the line's end.
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
    fn a_line_too_long_is_cut_and_the_next_one_is_whole() {
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        let whole = vec![b'y'; LINE_BYTES_MAX];
        let text = [&long[..], b"\n", &whole, b"\nz\n"].concat();
        let expected = [(long[..LINE_BYTES_MAX].to_vec(), true), (whole, false), (b"z".to_vec(), false)];
        for read_bytes in [1000, LINE_BYTES_MAX, text.len()] {
            assert_eq!(lines_of(text.chunks(read_bytes)), expected, "reads of {read_bytes} bytes");
        }
    }

    #[test]
    fn what_has_no_newline_takes_no_more_than_a_line() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.push(&[b'x'; 10_000], &mut |_, _| {});
            assert!(lines.partial.capacity() <= 2 * LINE_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn reads_do_not_show_in_the_lines(text in "[ab\r\n]{0,60}", cut in 0..60usize, cut_again in 0..60usize) {
            let text = text.as_bytes();
            let (first, second) = (cut.min(cut_again).min(text.len()), cut.max(cut_again).min(text.len()));
            let reads = [&text[..first], &text[first..second], &text[second..]];
            prop_assert_eq!(lines_of(reads), lines_of([text]));
        }
    }
}
