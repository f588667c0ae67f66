//! Formats the messages of a topic as Server-Sent Events or as plain lines.

use std::fmt::Write;

use bytes::Bytes;

/// The format of a topic's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-Sent Events (HTML standard, §9.2.5), each with its id.
    Sse,
    /// One line for each message.
    Plain,
}

/// Identifies a message: the time at which its topic was created, and the number of the message in the topic.
/// Numbers start at 1 again after a restart, so the number alone would not be unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// The time at which the topic was created, in microseconds since 1970.
    pub epoch: u64,
    /// The number of the message, from 1.
    pub number: u64,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{}", self.epoch, self.number)
    }
}

impl std::str::FromStr for Id {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (epoch, number) = text.split_once('-').ok_or(())?;
        let epoch = u64::from_str_radix(epoch, 16).map_err(drop)?;
        let id = Self { epoch, number: number.parse().map_err(drop)? };
        // Accept only the exact form that `Display` writes: no sign, no leading zeros.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl Framing {
    /// Appends a message to `out`.
    pub(super) fn message(self, id: Id, text: &str, out: &mut String) {
        match self {
            Self::Plain => {
                out.push_str(text);
                out.push('\n');
            }
            Self::Sse => {
                // Writing to a `String` cannot fail.
                let _ = writeln!(out, "id: {id}");
                // A carriage return ends a line of an event, so the rest would be parsed as another field.
                for line in text.split('\r') {
                    out.push_str("data: ");
                    out.push_str(line);
                    out.push('\n');
                }
                out.push('\n');
            }
        }
    }

    /// Returns what a new subscriber receives first: how long to wait before it reconnects.
    #[must_use]
    pub fn preamble(self, retry_ms: u128) -> String {
        match self {
            Self::Sse => format!("retry: {retry_ms}\n\n"),
            Self::Plain => String::new(),
        }
    }

    /// Returns a notice that messages are missing, with their number if it is known.
    pub(super) fn gap(self, missing: Option<u64>) -> String {
        match (self, missing) {
            (Self::Sse, Some(missing)) => format!("event: gap\ndata: {{\"missing\":{missing}}}\n\n"),
            (Self::Sse, None) => "event: gap\ndata: {\"missing\":null}\n\n".to_owned(),
            (Self::Plain, Some(missing)) => format!("[{missing} lines are missing here]\n"),
            (Self::Plain, None) => "[lines are missing here]\n".to_owned(),
        }
    }

    /// Returns a comment that keeps an idle connection alive and reveals a dead one. Plain text has no
    /// comments.
    pub(super) fn heartbeat(self) -> Option<Bytes> {
        (self == Self::Sse).then(|| Bytes::from_static(b":\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = Id { epoch: 0x00ab_cdef, number: 7 };

    fn message(framing: Framing, text: &str) -> String {
        let mut out = String::new();
        framing.message(ID, text, &mut out);
        out
    }

    #[test]
    fn a_message_is_always_one_event() {
        for (text, expected) in [
            ("hello", "id: abcdef-7\ndata: hello\n\n"),
            ("", "id: abcdef-7\ndata: \n\n"),
            ("a\rid: 1\r\rb", "id: abcdef-7\ndata: a\ndata: id: 1\ndata: \ndata: b\n\n"),
        ] {
            assert_eq!(message(Framing::Sse, text), expected);
        }
        assert_eq!(message(Framing::Plain, "a\rb"), "a\rb\n");
    }

    #[test]
    fn an_id_parses_only_in_the_form_it_is_written_in() {
        assert_eq!(ID.to_string().parse(), Ok(ID));
        for wrong in [
            "",
            "7",
            "-7",
            "abcdef-",
            "abcdef-+7",
            "abcdef-07",
            "ABCDEF-7",
            "abcdef-7-7",
            "x-7",
            "1-99999999999999999999",
        ] {
            assert_eq!(wrong.parse::<Id>(), Err(()), "{wrong}");
        }
    }
}
