//! Lines made of text and fields in braces, such as the combined format.

use std::fmt;
use std::io::Write;

use http::StatusCode;
use rudy_pipeline::routing::template::{Part, split};

use super::field::{Field, Source, Value};
use super::{put_address, put_number};

/// The combined format of Apache and nginx, which every log analyzer can read, with three more columns.
const COMBINED: &str = "{client} - {user} [{time_local}] \"{request}\" {status} {body_bytes} \"{referer}\" \"{user_agent}\" \
                        {duration_us} {wait_us} {ended}";

/// The maximum length of a template in bytes.
const TEMPLATE_BYTES_MAX: usize = 4096;

/// A line with fields in braces. An unknown value is written as `-`, an unknown status as `000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Field {
        field: Field,
        /// Whether it is between quotes, so that its spaces do not end a column.
        is_quoted: bool,
    },
}

impl Template {
    /// Returns the combined format, followed by the duration in microseconds, the time to the first byte of the response in
    /// microseconds, and how the exchange ended.
    #[must_use]
    pub fn combined() -> Self {
        COMBINED.parse().expect("all fields of the combined format exist")
    }

    /// Returns the fields in it.
    pub(super) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Field { field, .. } => Some(field),
            Piece::Literal(_) => None,
        })
    }

    /// Appends the line of an exchange, its newline included.
    pub(super) fn write(&self, source: &Source<'_>, line: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => line.extend_from_slice(text.as_bytes()),
                Piece::Field { field, is_quoted } => {
                    field.with_value(source, |value| {
                        put_value(value.as_ref(), field, *is_quoted, line);
                    });
                }
            }
        }
        line.push(b'\n');
    }
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > TEMPLATE_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(format!(
                "a format is a line of at most {TEMPLATE_BYTES_MAX} bytes, without control characters"
            ));
        }
        let mut is_quoted = false;
        let pieces = split(text).into_iter().map(|part| match part {
            Part::Literal(literal) => {
                is_quoted ^= literal.matches('"').count() % 2 == 1;
                Ok(Piece::Literal(literal))
            }
            Part::Placeholder(name) => Ok(Piece::Field { field: Field::parse(name)?, is_quoted }),
        });
        let pieces: Vec<_> = pieces.collect::<Result<_, String>>()?;
        if !pieces.iter().any(|piece| matches!(piece, Piece::Field { .. })) {
            return Err(
                "expected \"combined\", \"json\", or a line with fields such as {client} and {status}"
                    .to_owned(),
            );
        }
        Ok(Self(pieces))
    }
}

impl fmt::Display for Template {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Literal(text) => f.write_str(text),
            Piece::Field { field: Field::Header(name), .. } => write!(f, "{{header.{name}}}"),
            Piece::Field { field: Field::Response(name), .. } => write!(f, "{{response.{name}}}"),
            Piece::Field { field: Field::OfUpstream(name), .. } => write!(f, "{{upstream.{name}}}"),
            Piece::Field { field, .. } => write!(f, "{{{}}}", field.name()),
        })
    }
}

/// Returns a line with the number of dropped ones, as a comment that log analyzers skip.
pub(super) fn dropped(lines: u64, time: &str) -> String {
    format!("# [{time}] {lines} lines dropped here, because writing is too slow or the disk was full\n")
}

fn put_value(value: Option<&Value<'_>>, field: &Field, is_quoted: bool, line: &mut Vec<u8>) {
    match value {
        // Log analyzers need three digits. There is no status if the peer closed the connection before the response.
        None if *field == Field::Status => line.extend_from_slice(b"000"),
        None => line.push(b'-'),
        Some(Value::Text(text)) => put_escaped(text, is_quoted, line),
        Some(Value::Texts(texts)) => {
            for (index, text) in texts.iter().enumerate() {
                if index > 0 {
                    line.push(b' ');
                }
                put_escaped(text, is_quoted, line);
            }
        }
        Some(Value::Plain(text)) => line.extend_from_slice(text.as_bytes()),
        Some(Value::Address(peer)) => put_address(*peer, line),
        Some(Value::Number(number)) => put_number(*number, line),
        Some(Value::Flag(flag)) => line.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Some(Value::Status(status)) => line.extend_from_slice(StatusCode::as_str(status).as_bytes()),
    }
}

/// Appends text and escapes quotes, line breaks and control characters as `\xHH`, as nginx does, and spaces outside of quotes.
fn put_escaped(bytes: &[u8], is_quoted: bool, line: &mut Vec<u8>) {
    if bytes.is_empty() && !is_quoted {
        return line.push(b'-');
    }
    for &byte in bytes {
        if matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\' || byte == b' ' && is_quoted {
            line.push(byte);
        } else {
            line.write_fmt(format_args!("\\x{byte:02X}")).expect("writing to a Vec cannot fail");
        }
    }
}
