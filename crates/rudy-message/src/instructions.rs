//! Instructions of applications to the server in front of them, in response fields that servers have defined.

use http::{HeaderName, HeaderValue};

use crate::FieldLine;
use crate::syntax::parse_digits;

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
    /// Bytes per second of the response (`X-Accel-Limit-Rate`); 0 without a limit.
    pub rate: Option<u64>,
    /// The charset of a text (`X-Accel-Charset`).
    pub charset: Option<Box<str>>,
    /// How long a cache of this server may use the response (`X-Accel-Expires`).
    pub expires: Option<Expires>,
    /// What to send instead of the response.
    pub replacement: Option<Replacement>,
    /// The fields whose values are invalid.
    pub invalid: Vec<Replacement>,
}

/// How long a response is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expires {
    /// A number of seconds. A response with 0 is not stored.
    In(u64),
    /// Until this Unix time.
    At(u64),
}

impl Expires {
    fn parse(value: &[u8]) -> Option<Self> {
        match value {
            [b'@', time @ ..] => parse_digits(time).map(Self::At),
            seconds => parse_digits(seconds).map(Self::In),
        }
    }

    /// Returns for how many seconds the response is fresh at this Unix time.
    #[must_use]
    pub fn seconds(self, now: u64) -> u64 {
        match self {
            Self::In(seconds) => seconds,
            Self::At(time) => time.saturating_sub(now),
        }
    }
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

    /// Sets what a field instructs. The first valid line of each counts. Returns `false` if the value is invalid.
    fn set(&mut self, line: &FieldLine<'_>) -> bool {
        let is = |name: &str| line.name.eq_ignore_ascii_case(name.as_bytes());
        if is("x-accel-limit-rate") {
            self.rate = self.rate.or(parse_digits(line.value));
            return self.rate.is_some();
        }
        if is("x-accel-charset") {
            self.charset = self.charset.take().or_else(|| parse_charset(line.value));
            return self.charset.is_some();
        }
        if is("x-accel-expires") {
            self.expires = self.expires.or_else(|| Expires::parse(line.value));
            return self.expires.is_some();
        }
        let is_no = line.value.eq_ignore_ascii_case(b"no");
        let is_buffering = is("x-accel-buffering");
        self.is_unbuffered |= is_buffering && is_no;
        !is_buffering || is_no || line.value.eq_ignore_ascii_case(b"yes")
    }

    fn add(&mut self, line: &FieldLine<'_>) {
        if !self.set(line)
            && let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(line.name), HeaderValue::from_bytes(line.value))
        {
            self.invalid.push(Replacement { name, value });
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

/// Returns the name of a charset (RFC 2978 §2.3).
fn parse_charset(value: &[u8]) -> Option<Box<str>> {
    let is_valid = !value.is_empty()
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'+-^_`{}~.:".contains(byte));
    str::from_utf8(value).ok().filter(|_| is_valid).map(Into::into)
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

    #[test]
    fn the_first_valid_value_of_an_instruction_counts_and_others_are_invalid() {
        for (name, value, expected, invalid) in [
            ("X-Accel-Limit-Rate", "1000", (Some(1000), None, None), 0),
            ("x-accel-limit-rate", "1k", (None, None, None), 1),
            ("x-accel-limit-rate", "", (None, None, None), 1),
            ("X-Accel-Charset", "iso-8859-1", (None, Some("iso-8859-1"), None), 0),
            ("x-accel-charset", "a b", (None, None, None), 1),
            ("X-Accel-Expires", "0", (None, None, Some(Expires::In(0))), 0),
            ("x-accel-expires", "@1700000000", (None, None, Some(Expires::At(1_700_000_000))), 0),
            ("x-accel-expires", "-1", (None, None, None), 1),
            ("x-accel-expires", "@", (None, None, None), 1),
            ("x-accel-buffering", "yes", (None, None, None), 0),
            ("x-accel-buffering", "on", (None, None, None), 1),
            ("x-accel-mapping", "/=/", (None, None, None), 0),
        ] {
            let mut found = None;
            assert!(Instructions::take(&mut found, &FieldLine::new(name.as_bytes(), value.as_bytes())));
            let found = found.unwrap_or_default();
            let values = (found.rate, found.charset.as_deref(), found.expires);
            assert_eq!((values, found.invalid.len()), (expected, invalid), "{name}: {value}");
        }
        assert_eq!([Expires::In(5), Expires::At(90), Expires::At(107)].map(|it| it.seconds(100)), [5, 0, 7]);
    }
}
