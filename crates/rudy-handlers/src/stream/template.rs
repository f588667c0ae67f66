//! The text of a chunk: a template with placeholders for a number and a path.

use std::fmt::Write;

use bytes::Bytes;
use rudy_pipeline::routing::template::{Part, split};

use super::StreamFormat;

/// A template, already framed for its format, so that its expansion can be sent unchanged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template(Box<[Piece]>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(Box<str>),
    Number,
    Path,
}

/// What is wrong with a template, and what was expected.
pub(super) type TemplateError = (String, String);

impl Template {
    /// Parses a template from the configuration.
    pub(super) fn new(text: &str, format: StreamFormat) -> Result<Self, TemplateError> {
        let pieces = parse(text)?;
        Ok(Self(match format {
            StreamFormat::Plain => pieces.into_iter().chain([literal("\n")]).collect(),
            StreamFormat::Sse => event(pieces),
        }))
    }

    /// Returns whether the template contains the path.
    pub(super) fn shows_path(&self) -> bool {
        self.0.contains(&Piece::Path)
    }

    /// Expands the placeholders with one allocation of the exact length. The path must not contain line
    /// breaks.
    pub(super) fn expand(&self, number: u64, path: &str) -> Bytes {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let length = self.0.iter().map(|piece| match piece {
            Piece::Literal(text) => text.len(),
            Piece::Number => digits,
            Piece::Path => path.len(),
        });
        let mut text = String::with_capacity(length.sum());
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Number => {
                    let _cannot_fail = write!(text, "{number}");
                }
                Piece::Path => text.push_str(path),
            }
        }
        text.into()
    }
}

/// Parses a text. Braces around anything but lowercase letters are text, so JSON needs no escapes.
fn parse(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let pieces = split(text).into_iter().map(|part| match part {
        Part::Literal(text) => Ok(literal(&text)),
        Part::Placeholder("n") => Ok(Piece::Number),
        Part::Placeholder("path") => Ok(Piece::Path),
        Part::Placeholder(name) if name.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            Err((format!("unknown placeholder {{{name}}}"), "expected {n} or {path}".to_owned()))
        }
        Part::Placeholder(name) => Ok(literal(&format!("{{{name}}}"))),
    });
    pieces.collect()
}

/// Frames an event (HTML standard, §9.2.6): its id, a `data` line for each line of the text, and an empty
/// line. A line ends with LF, CR, or both.
fn event(pieces: Vec<Piece>) -> Box<[Piece]> {
    let lines = pieces.into_iter().map(|piece| match piece {
        Piece::Literal(text) => {
            literal(&text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\ndata: "))
        }
        placeholder => placeholder,
    });
    let id = [literal("id: "), Piece::Number, literal("\ndata: ")];
    id.into_iter().chain(lines).chain([literal("\n\n")]).collect()
}

fn literal(text: &str) -> Piece {
    Piece::Literal(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, format: StreamFormat) -> String {
        let expanded = Template::new(text, format).unwrap().expand(1090, "/a%0Ab");
        String::from_utf8(expanded.to_vec()).unwrap()
    }

    #[test]
    fn a_line_is_the_expanded_template() {
        for (text, line) in [
            ("Chunk {n} for id {path}", "Chunk 1090 for id /a%0Ab\n"),
            ("{n}{path}{n}", "1090/a%0Ab1090\n"),
            ("", "\n"),
            (r#"{"n":{n},"path":"{path}"}"#, "{\"n\":1090,\"path\":\"/a%0Ab\"}\n"),
            ("{{n}} {N} { } {", "{1090} {N} { } {\n"),
            ("für {n}", "für 1090\n"),
        ] {
            assert_eq!(expand(text, StreamFormat::Plain), line, "{text}");
        }
    }

    #[test]
    fn an_event_has_an_id_and_a_data_line_for_each_line() {
        for (text, event) in [
            ("Chunk {n}", "id: 1090\ndata: Chunk 1090\n\n"),
            ("", "id: 1090\ndata: \n\n"),
            ("a\nb\r\nc\rd\n", "id: 1090\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
            ("a\n\n{path}", "id: 1090\ndata: a\ndata: \ndata: /a%0Ab\n\n"),
            ("event: {n}\nid: 7", "id: 1090\ndata: event: 1090\ndata: id: 7\n\n"),
        ] {
            assert_eq!(expand(text, StreamFormat::Sse), event, "{text:?}");
        }
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        let (title, label) = Template::new("{n} {paht}", StreamFormat::Plain).unwrap_err();
        assert_eq!(
            (title.as_str(), label.as_str()),
            ("unknown placeholder {paht}", "expected {n} or {path}")
        );
    }

    #[test]
    fn a_number_has_the_computed_length() {
        let template = Template::new("{n}", StreamFormat::Plain).unwrap();
        for number in [0, 1, 9, 10, 99, 100, u64::MAX] {
            assert_eq!(template.expand(number, ""), format!("{number}\n"));
        }
    }

    /// Parses one event as the HTML standard defines (§9.2.6). Returns its id and its data, and checks that
    /// there is nothing else.
    fn read_event(text: &str) -> (String, String) {
        let lines = text.replace("\r\n", "\n").replace('\r', "\n");
        let lines = lines.strip_suffix("\n\n").expect("an empty line ends it");
        let mut fields = lines.split('\n').map(|line| line.split_once(": ").expect("every line is a field"));
        let (name, id) = fields.next().unwrap();
        assert_eq!(name, "id");
        let data = fields.inspect(|(name, _)| assert_eq!(*name, "data")).map(|(_, line)| line);
        (id.to_owned(), data.collect::<Vec<_>>().join("\n"))
    }

    proptest::proptest! {
        /// For any template, a browser receives the same text as in a plain stream.
        #[test]
        fn an_event_carries_the_text_of_the_line(text in "([a-z:é \r\n]|\\{n\\}|\\{path\\}|[{}]){0,20}", number: u64) {
            let in_both = [StreamFormat::Plain, StreamFormat::Sse].map(|format| {
                let template = Template::new(&text, format).ok()?;
                String::from_utf8(template.expand(number, "/a%0Ab").to_vec()).ok()
            });
            if let [Some(plain), Some(event)] = in_both {
                let plain = plain.strip_suffix('\n').unwrap();
                let plain = plain.replace("\r\n", "\n").replace('\r', "\n");
                proptest::prop_assert_eq!(read_event(&event), (number.to_string(), plain));
            }
        }
    }
}
