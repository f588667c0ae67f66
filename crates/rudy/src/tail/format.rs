//! Formats a line: unchanged, with the name of its file, or as JSON.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rudy_handlers::follow::Line;
use rudy_log::{LINE_BYTES_MAX, LocalClock};
use rudy_units::{is_interpreted, visible_json};
use serde::Serialize;

/// The maximum width of the column of names, in characters.
const NAME_WIDTH_MAX: usize = 40;
/// The maximum number of names that have a color and a column width. Files with a date in their name come and
/// go.
const NAMES_MAX: usize = 1000;
/// Cyan, green, yellow, magenta, blue, red: the first eight terminal colors without those that are invisible
/// on black or white.
const COLORS: [u8; 6] = [36, 32, 33, 35, 34, 31];

/// Where the lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    Program,
    Terminal,
    ColorTerminal,
}

#[derive(Debug)]
pub(super) struct LineFormatter {
    json: bool,
    has_names: bool,
    destination: Destination,
    names: Vec<PathBuf>,
    width: usize,
    clock: LocalClock,
}

/// A line as JSON.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    file: Cow<'a, str>,
    line: Cow<'a, str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl LineFormatter {
    pub(super) fn new(json: bool, has_names: bool, destination: Destination) -> Self {
        Self { json, has_names, destination, names: Vec::new(), width: 0, clock: LocalClock::new() }
    }

    /// Adds the name of a file, which determines its color and the width of the column.
    pub(super) fn add_name(&mut self, name: &Path) {
        if self.names.iter().any(|known| known == name) {
            return;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
            self.width = 0;
        }
        self.width = self.width.max(width_of(name).min(NAME_WIDTH_MAX));
        self.names.push(name.to_owned());
    }

    /// Appends a line that was read at `time` to `out`.
    pub(super) fn line(&mut self, line: &Line<'_>, time: SystemTime, out: &mut Vec<u8>) {
        if self.json {
            self.object(line, time, out);
        } else {
            if self.has_names {
                self.name(line.file, out);
            }
            self.text(line.text, out);
            if line.is_cut {
                out.extend_from_slice(format!(" [cut after {LINE_BYTES_MAX} bytes]").as_bytes());
            }
        }
        out.push(b'\n');
    }

    fn object(&mut self, line: &Line<'_>, time: SystemTime, out: &mut Vec<u8>) {
        let object = Object {
            time: self.clock.rfc3339(time).to_string(),
            file: line.file.to_string_lossy(),
            line: String::from_utf8_lossy(line.text),
            cut: line.is_cut,
        };
        // An object of strings can always be serialized.
        let json = serde_json::to_string(&object).unwrap_or_default();
        out.extend_from_slice(visible_json(&json).as_bytes());
    }

    fn name(&self, name: &Path, out: &mut Vec<u8>) {
        let padding = " ".repeat(self.width.saturating_sub(width_of(name)));
        let number = self.names.iter().position(|known| known == name).unwrap_or(0);
        let (begin, end) = if self.destination == Destination::ColorTerminal {
            (format!("\x1b[{}m", COLORS[number % COLORS.len()]), "\x1b[0m")
        } else {
            (String::new(), "")
        };
        let name = rudy_units::visible(&name.to_string_lossy());
        out.extend_from_slice(format!("{begin}{name}{padding} |{end} ").as_bytes());
    }

    /// Appends the text of a line. A program gets the bytes unchanged. For a terminal, control characters are
    /// escaped, because any client may write to a log; only tabs and colors are left.
    fn text(&self, text: &[u8], out: &mut Vec<u8>) {
        if self.destination == Destination::Program
            || !text.iter().any(|byte| byte.is_ascii_control() || !byte.is_ascii())
        {
            return out.extend_from_slice(text);
        }
        let text = String::from_utf8_lossy(text);
        let mut rest = &*text;
        let mut has_color = false;
        while let Some(c) = rest.chars().next() {
            let length = color_length(rest);
            if length > 0 {
                if self.destination == Destination::ColorTerminal {
                    has_color = true;
                    out.extend_from_slice(&rest.as_bytes()[..length]);
                }
                rest = &rest[length..];
                continue;
            }
            if is_interpreted(c) && c != '\t' {
                out.extend_from_slice(c.escape_default().to_string().as_bytes());
            } else {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            rest = &rest[c.len_utf8()..];
        }
        if has_color {
            out.extend_from_slice(b"\x1b[0m");
        }
    }
}

/// Returns the length of the control sequence for colors (SGR, ECMA-48 §8.3.117) at the start of a text, or
/// 0.
fn color_length(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let length = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || b";:".contains(byte)).count();
    if parameters[length..].starts_with('m') { "\x1b[".len() + length + 1 } else { 0 }
}

fn width_of(name: &Path) -> usize {
    rudy_units::visible(&name.to_string_lossy()).chars().count()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn shown(mut formatter: LineFormatter, lines: &[(&str, &[u8])]) -> String {
        let mut out = Vec::new();
        for (name, _) in lines {
            formatter.add_name(Path::new(name));
        }
        for (name, text) in lines {
            let line = Line { file: Path::new(name), text, is_cut: false };
            formatter.line(&line, UNIX_EPOCH, &mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn names_have_a_column_and_colors_on_a_terminal() {
        let lines: &[(&str, &[u8])] = &[("a.log", b"one"), ("error.log", b"two")];
        assert_eq!(shown(LineFormatter::new(false, false, Destination::Program), lines), "one\ntwo\n");
        let named = "a.log     | one\nerror.log | two\n";
        assert_eq!(shown(LineFormatter::new(false, true, Destination::Terminal), lines), named);
        let colored = "\x1b[36ma.log     |\x1b[0m one\n\x1b[32merror.log |\x1b[0m two\n";
        assert_eq!(shown(LineFormatter::new(false, true, Destination::ColorTerminal), lines), colored);
    }

    #[test]
    fn control_sequences_of_a_log_do_not_reach_a_terminal() {
        let line: &[(&str, &[u8])] = &[("a", b"\x1b[31mred\x1b[2J\x07\tcaf\xc3\xa9 \xff\x1b[")];
        for (destination, expected) in [
            (Destination::Program, "\x1b[31mred\x1b[2J\x07\tcafé \u{fffd}\x1b[\n"),
            (Destination::Terminal, "red\\u{1b}[2J\\u{7}\tcafé \u{fffd}\\u{1b}[\n"),
            (Destination::ColorTerminal, "\x1b[31mred\\u{1b}[2J\\u{7}\tcafé \u{fffd}\\u{1b}[\x1b[0m\n"),
        ] {
            assert_eq!(shown(LineFormatter::new(false, false, destination), line), expected);
        }
    }

    #[test]
    fn a_cut_line_is_marked() {
        for (json, expected) in [(false, "[cut after 65536 bytes]\n"), (true, "\"cut\":true}\n")] {
            let mut out = Vec::new();
            let line = Line { file: Path::new("a"), text: b"x", is_cut: true };
            LineFormatter::new(json, false, Destination::Program).line(&line, UNIX_EPOCH, &mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(out.ends_with(expected), "{out}");
        }
    }

    #[test]
    fn a_json_line_has_its_file_and_the_time() {
        let json = shown(
            LineFormatter::new(true, true, Destination::ColorTerminal),
            &[("a\n", b"caf\xc3\xa9 \"\xff\x1b")],
        );
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&object["file"], &object["line"]), (&"a\n".into(), &"café \"\u{fffd}\u{1b}".into()));
        assert!(object["time"].as_str().unwrap().starts_with("19"), "{json}");
        assert_eq!(object.get("cut"), None);
    }

    #[test]
    fn a_json_line_contains_no_control_characters() {
        let json = shown(
            LineFormatter::new(true, false, Destination::Terminal),
            &[("a\u{9b}", "\u{9b}2J\u{7f}\x07".as_bytes())],
        );
        assert!(!json.trim_end().chars().any(char::is_control), "{json:?}");
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&object["file"], &object["line"]), (&"a\u{9b}".into(), &"\u{9b}2J\u{7f}\u{7}".into()));
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let mut formatter = LineFormatter::new(false, true, Destination::Program);
        (0..10 * NAMES_MAX).for_each(|n| formatter.add_name(Path::new(&format!("{n:0100}"))));
        assert!(formatter.names.len() <= NAMES_MAX && formatter.width == NAME_WIDTH_MAX);
    }
}
