//! Formats nouns and names, and shows text from elsewhere: a terminal would interpret its control characters, which can change what is
//! on the screen, the title, and on some terminals the next command.

use std::fmt::Display;
use std::io::{self, Write};

/// A count with its noun: `1 request`, `2 requests`, `1,000 processes`.
#[must_use]
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let number = crate::count(count);
    match noun {
        _ if count == 1 => format!("{number} {noun}"),
        noun if noun.ends_with('s') => format!("{number} {noun}es"),
        noun => format!("{number} {noun}s"),
    }
}

/// Whether a terminal interprets a character instead of showing it: the controls C0, C1 and DEL, those for bidirectional text, which
/// reorder what is shown (CVE-2021-42574), and the separators of lines and paragraphs.
#[must_use]
pub fn is_interpreted(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes what a terminal interprets in a text from elsewhere, also line ends.
#[must_use]
pub fn visible(text: &str) -> String {
    escaped(text, |_| false, |c| c.escape_default().to_string())
}

/// Escapes what a terminal interprets in an output with foreign text, but not line ends and tabs.
#[must_use]
pub fn visible_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'), |c| c.escape_default().to_string())
}

/// Formats a JSON value. JSON escapes neither DEL nor C1 nor controls of bidirectional text (RFC 8259 §7), but it may escape every
/// character.
#[must_use]
pub fn visible_json(value: &impl Display) -> String {
    escaped(&value.to_string(), |c| c == '\n', |c| format!("\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_interpreted(c) && !is_kept(c) {
            shown.push_str(&escape(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A writer for the output of commands, which escapes as [`visible_lines`]. Each write has whole characters, as those of `write!`.
#[derive(Debug)]
pub struct Visible<W>(pub W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes a stream of bytes for a terminal, however it is divided. The line ends of HTTP and Windows stay.
#[derive(Debug, Default)]
pub struct VisibleStream {
    /// The start of a character, or of a line end.
    pending: Vec<u8>,
}

impl VisibleStream {
    /// Returns what can be shown of the bytes so far.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let complete = self.pending.len() - unfinished(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        visible_lines(&String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    }

    /// Returns the rest at the end of the stream.
    pub fn finish(&mut self) -> String {
        visible_lines(&String::from_utf8_lossy(&std::mem::take(&mut self.pending)))
    }
}

/// Returns the length of the start of a character or a line end behind all others.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let starts = (1..=bytes.len().min(3)).find(|length| bytes[bytes.len() - length] & 0xC0 != 0x80);
    let start = starts.map_or(&bytes[bytes.len()..], |length| &bytes[bytes.len() - length..]);
    match std::str::from_utf8(start) {
        // Without a length, the bytes may become a character.
        Err(error) if error.error_len().is_none() => start.len(),
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_has_its_plural() {
        assert_eq!([counted(0_u64, "thread"), counted(1_u64, "thread")], ["0 threads", "1 thread"]);
        assert_eq!(
            [counted(1_u64, "process"), counted(2000_usize, "process")],
            ["1 process", "2,000 processes"]
        );
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(visible("a\x1b[2Jb\nc\u{e9}"), "a\\u{1b}[2Jb\\nc\u{e9}");
    }

    /// The kinds of characters that a terminal interprets, each in a text.
    const HARMFUL: [(&str, &str); 8] = [
        ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
        ("\x07\x08\r", "\\u{7}\\u{8}\\r"),
        ("\0", "\\u{0}"),
        ("\x7f", "\\u{7f}"),
        ("\u{9b}2J\u{85}\u{9d}", "\\u{9b}2J\\u{85}\\u{9d}"),
        ("\u{202e}cod.exe\u{2066}\u{2069}", "\\u{202e}cod.exe\\u{2066}\\u{2069}"),
        ("\u{200e}\u{200f}\u{61c}", "\\u{200e}\\u{200f}\\u{61c}"),
        ("\u{2028}\u{2029}é\u{65e5}", "\\u{2028}\\u{2029}é\u{65e5}"),
    ];

    #[test]
    fn what_a_terminal_interprets_is_escaped_everywhere() {
        for (text, expected) in HARMFUL {
            assert_eq!((visible(text).as_str(), visible_lines(text).as_str()), (expected, expected));
            let mut written = Visible(Vec::new());
            write!(written, "{text}").unwrap();
            assert_eq!(String::from_utf8(written.0).unwrap(), expected);
        }
        assert_eq!(
            (visible("a\n\tb"), visible_lines("a\n\tb")),
            ("a\\n\\tb".to_owned(), "a\n\tb".to_owned())
        );
        assert_eq!(visible_json(&"{\n\"a\": \"\u{9b}\u{202e}\"}"), "{\n\"a\": \"\\u009b\\u202e\"}");
    }

    #[test]
    fn a_stream_is_shown_alike_however_it_is_divided() {
        let all: String = HARMFUL.iter().map(|(text, _)| *text).collect();
        let mut bytes = [all.as_bytes(), b"\r\nb\xff\x9b\xe6\x97\n\xf0\x9f\x98\x80\xe6\x97"].concat();
        bytes.push(b'\r');
        let shown = |size: usize| {
            let mut stream = VisibleStream::default();
            bytes.chunks(size).map(|chunk| stream.push(chunk)).collect::<String>() + &stream.finish()
        };
        let whole = shown(bytes.len());
        assert!(
            !whole.chars().any(|c| is_interpreted(c) && c != '\n') && whole.contains("\nb\u{fffd}"),
            "{whole}"
        );
        for size in 1..bytes.len() {
            assert_eq!(shown(size), whole, "in chunks of {size} bytes");
        }
    }
}
