//! Instructions of applications to the server in front of them, in response fields that servers have defined.

use http::{HeaderName, HeaderValue};

use crate::FieldLine;

/// The field of nginx that names a replacement by the path of a URI.
pub static X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// The fields that name a replacement: that of nginx, and those of Apache and old lighttpd, whose value is a path in the file system.
const REPLACEMENTS: [HeaderName; 3] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("x-lighttpd-send-file"),
];

/// What all other instructions begin with.
const PREFIX: &[u8] = b"x-accel-";

/// The instructions in a response. Their fields are not passed on, because they tell a client about paths of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Whether the body is passed on at once (`X-Accel-Buffering: no`).
    pub is_unbuffered: bool,
    /// What to send instead of the response.
    pub replacement: Option<Replacement>,
}

/// What an application names instead of a response of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The field.
    pub name: HeaderName,
    /// Its value.
    pub value: HeaderValue,
}

impl Instructions {
    /// Takes a line whose field is an instruction, and returns whether it is. Most responses have none, and need no memory for them.
    #[inline]
    pub fn take(instructions: &mut Option<Box<Self>>, line: &FieldLine<'_>) -> bool {
        let is_instruction = matches!(line.name, [b'x' | b'X', ..]) && is_name(line.name);
        if is_instruction {
            instructions.get_or_insert_default().add(line);
        }
        is_instruction
    }

    fn add(&mut self, line: &FieldLine<'_>) {
        if line.name.eq_ignore_ascii_case(b"x-accel-buffering") {
            self.is_unbuffered |= line.value.eq_ignore_ascii_case(b"no");
        }
        let Some(rank) = rank(line.name) else { return };
        // Of several, the first line of the first of the fields counts.
        let known = self.replacement.as_ref().and_then(|known| self::rank(known.name.as_str().as_bytes()));
        if known.is_none_or(|known| rank < known)
            && let Ok(value) = HeaderValue::from_bytes(line.value)
        {
            self.replacement = Some(Replacement { name: REPLACEMENTS[rank].clone(), value });
        }
    }
}

fn is_name(name: &[u8]) -> bool {
    let has_prefix = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    has_prefix || rank(name).is_some()
}

fn rank(name: &[u8]) -> Option<usize> {
    REPLACEMENTS.iter().position(|known| name.eq_ignore_ascii_case(known.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_taken_and_the_first_line_of_the_first_field_counts() {
        for (lines, left, is_unbuffered, replacement) in [
            (&[("X-Frame-Options", "DENY"), ("x", "1"), ("X-Accel", "1")][..], 3, false, None),
            (&[("X-Accel-Buffering", "No"), ("X-Accel-Expires", "0")], 0, true, None),
            (&[("X-ACCEL-LIMIT-RATE", "1"), ("X-Accel-Charset", "a"), ("X-Accel-", "")], 0, false, None),
            (&[("X-Sendfile-Type", "a")], 1, false, None),
            (&[("X-Sendfile", "/a"), ("x-sendfile", "/b")], 0, false, Some(("x-sendfile", "/a"))),
            (
                &[("X-LIGHTTPD-send-file", "/a"), ("X-Accel-Redirect", "/b"), ("X-Sendfile", "/c")],
                0,
                false,
                Some(("x-accel-redirect", "/b")),
            ),
        ] {
            let mut found = None;
            let is_left = |(name, value): &&(&str, &str)| {
                !Instructions::take(&mut found, &FieldLine::new(name.as_bytes(), value.as_bytes()))
            };
            assert_eq!(lines.iter().filter(is_left).count(), left, "{lines:?}");
            assert_eq!(found.is_none(), left == lines.len(), "{lines:?}");
            let found = found.unwrap_or_default();
            let named = found.replacement.as_ref();
            let named = named.map(|found| (found.name.as_str(), found.value.to_str().unwrap()));
            assert_eq!((found.is_unbuffered, named), (is_unbuffered, replacement), "{lines:?}");
        }
    }
}
