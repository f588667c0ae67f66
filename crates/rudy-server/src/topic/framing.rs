//! How lines are written for those who listen: as Server-Sent Events, or as they are.

use std::fmt::Write;

use bytes::Bytes;

/// How the lines of a topic are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-Sent Events (HTML standard, §9.2.5), each with its id.
    Sse,
    /// Lines.
    Plain,
}

/// Names a message of a topic: the topic's own beginning, and the message's number in it. After a restart the numbers
/// begin again, and an old id must not be taken for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    /// When the topic was made, in microseconds since 1970.
    pub(crate) epoch: u64,
    /// The message's number, from 1.
    pub(crate) number: u64,
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
        // Only what we write ourselves: no sign, no leading zero.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl Framing {
    /// Adds a message to `out`.
    pub(super) fn message(self, id: Id, text: &str, out: &mut String) {
        match self {
            Self::Plain => {
                out.push_str(text);
                out.push('\n');
            }
            Self::Sse => {
                // A string takes all that is written to it.
                let _ = writeln!(out, "id: {id}");
                // A carriage return would end the line, and the rest be taken for a field.
                for line in text.split('\r') {
                    out.push_str("data: ");
                    out.push_str(line);
                    out.push('\n');
                }
                out.push('\n');
            }
        }
    }

    /// What is said before everything else: how long a client that loses its connection waits before it comes back.
    pub(crate) fn hello(self, retry_ms: u128) -> String {
        match self {
            Self::Sse => format!("retry: {retry_ms}\n\n"),
            Self::Plain => String::new(),
        }
    }

    /// Says that messages are missing: how many, where that is known.
    pub(super) fn gap(self, missing: Option<u64>) -> String {
        match (self, missing) {
            (Self::Sse, Some(missing)) => format!("event: gap\ndata: {{\"missing\":{missing}}}\n\n"),
            (Self::Sse, None) => "event: gap\ndata: {\"missing\":null}\n\n".to_owned(),
            (Self::Plain, Some(missing)) => format!("[{missing} lines are missing here]\n"),
            (Self::Plain, None) => "[lines are missing here]\n".to_owned(),
        }
    }

    /// What is sent when there is nothing to say, so that a dead connection is noticed: a comment. Plain text has none.
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
    fn a_message_is_one_event_whatever_is_in_it() {
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
    fn an_id_is_read_as_it_was_written_and_nothing_else_is() {
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
