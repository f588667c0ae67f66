//! Dictionaries of structured fields (RFC 8941 §3.2), as far as cache directives need their values.
//!
//! The whole syntax is checked, because one error anywhere makes a targeted field void (RFC 9213 §2.1). The parser is small
//! enough to be read; a crate for structured fields would add its own types, numbers and Base64.

use rudy_message::syntax::{is_token, parse_digits};

/// The value of a member. Parameters are ignored (RFC 9213 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Boolean(bool),
    /// A non-negative integer, with its digits.
    Integer(&'a [u8]),
    String(Vec<u8>),
    Token(&'a [u8]),
    /// A negative integer, a decimal, a byte sequence or an inner list: no directive has such a value.
    Other,
}

/// Parses a dictionary (§4.2.2). Of members with the same key, the last one counts. `None` if the text is not a dictionary.
pub(super) fn parse(text: &[u8]) -> Option<Vec<(&[u8], Value<'_>)>> {
    let mut reader = Reader(text);
    let mut members: Vec<(&[u8], Value<'_>)> = Vec::new();
    reader.skip(b" ");
    while !reader.0.is_empty() {
        let key = reader.key()?;
        let value = if reader.accept(b'=') { reader.value()? } else { Value::Boolean(true) };
        reader.parameters()?;
        // At most 100 distinct directives: searching a list is then faster than hashing, and no field can make it slow.
        match members.iter().position(|(known, _)| *known == key) {
            Some(index) => members[index].1 = value,
            None if members.len() < MEMBERS_MAX => members.push((key, value)),
            None => return None,
        }
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        let has_next = reader.accept(b',');
        reader.skip(b" \t");
        if !has_next || reader.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// Most responses have fewer than ten directives.
const MEMBERS_MAX: usize = 100;

/// The rest of the text.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Consumes the byte if it is the next one.
    fn accept(&mut self, byte: u8) -> bool {
        let accepted = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(accepted)..];
        accepted
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    fn take_while(&mut self, matches: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().position(|byte| !matches(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// §4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        let starts = self.0.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
        let is_key = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
        starts.then(|| self.take_while(is_key))
    }

    /// Parses an item or an inner list, without its parameters.
    fn value(&mut self) -> Option<Value<'a>> {
        if self.accept(b'(') { self.inner_list() } else { self.bare_item() }
    }

    /// §4.2.1.2, after the opening parenthesis.
    fn inner_list(&mut self) -> Option<Value<'a>> {
        loop {
            self.skip(b" ");
            if self.accept(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// §4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.accept(b';') {
            self.skip(b" ");
            self.key()?;
            if self.accept(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// §4.2.3.1.
    fn bare_item(&mut self) -> Option<Value<'a>> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => self.boolean(),
            b':' => self.bytes(),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                Some(Value::Token(self.take_while(|byte| is_token(byte) || b":/".contains(&byte))))
            }
            _ => None,
        }
    }

    /// §4.2.4: an integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Value<'a>> {
        let is_negative = self.accept(b'-');
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        let is_decimal = self.accept(b'.');
        let fraction = self.take_while(|byte| is_decimal && byte.is_ascii_digit());
        let limits = if is_decimal { (1..=12, 1..=3) } else { (1..=15, 0..=0) };
        if !limits.0.contains(&whole.len()) || !limits.1.contains(&fraction.len()) {
            return None;
        }
        let is_integer = !is_decimal && (!is_negative || parse_digits(whole) == Some(0));
        Some(if is_integer { Value::Integer(whole) } else { Value::Other })
    }

    /// §4.2.5.
    fn string(&mut self) -> Option<Value<'a>> {
        let inner = &self.0[1..];
        let (mut at, mut content) = (0, Vec::new());
        loop {
            match *inner.get(at)? {
                b'"' => break,
                b'\\' => {
                    let escaped = *inner.get(at + 1).filter(|byte| b"\"\\".contains(byte))?;
                    content.push(escaped);
                    at += 2;
                }
                byte @ b' '..=b'~' => {
                    content.push(byte);
                    at += 1;
                }
                _ => return None,
            }
        }
        self.0 = &inner[at + 1..];
        Some(Value::String(content))
    }

    /// §4.2.7. The content has no meaning here, so only its alphabet is checked.
    fn bytes(&mut self) -> Option<Value<'a>> {
        self.accept(b':');
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        self.accept(b':').then_some(Value::Other)
    }

    /// §4.2.8.
    fn boolean(&mut self) -> Option<Value<'a>> {
        let (value, rest) = match self.0 {
            [b'?', b'1', rest @ ..] => (true, rest),
            [b'?', b'0', rest @ ..] => (false, rest),
            _ => return None,
        };
        self.0 = rest;
        Some(Value::Boolean(value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(text: &str) -> Option<String> {
        let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |(key, value): &(&[u8], Value<'_>)| {
            let value = match value {
                Value::Boolean(value) => value.to_string(),
                Value::Integer(digits) => utf8(digits),
                Value::String(text) => format!("<{}>", utf8(text)),
                Value::Token(token) => utf8(token),
                Value::Other => "other".into(),
            };
            format!("{}={value}", utf8(key))
        };
        parse(text.as_bytes()).map(|members| members.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rfc_8941_section_3_2_members_have_typed_values() {
        for (text, expected) in [
            ("", ""),
            ("  ", ""),
            ("a", "a=true"),
            ("max-age=60 ,\tno-store", "max-age=60 no-store=true"),
            (" a=?0, b=?1;p=1 ", "a=false b=true"),
            (r#"a="b\"c\\", d=e:/f;g;h="i""#, r#"a=<b"c\> d=e:/f"#),
            ("a=-1, b=1.5, c=:aGk=:, d=(1 b \"c\";x  ?1), e=()", "a=other b=other c=other d=other e=other"),
            ("a=-0, b=007, *c.d_e=*x", "a=0 b=007 *c.d_e=*x"),
            ("a=1, b, a=2", "a=2 b=true"),
            ("a=999999999999999", "a=999999999999999"),
        ] {
            assert_eq!(show(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn rfc_8941_section_4_2_one_error_makes_the_field_void() {
        for text in [
            "A",
            "max-age=",
            "a=1,",
            ",",
            "a,,b",
            "a b",
            "a = 1",
            "a=1;",
            "a=1;B",
            "1",
            "a=1.",
            "a=1.2345",
            "a=--1",
            "a=1000000000000000",
            "a=1234567890123.1",
            "a=\"b",
            "a=\"\\x\"",
            "a=\"\u{e9}\"",
            "a=?2",
            "a=?",
            "a=:b",
            "a=(1",
            "a=(1\"b\")",
            "a=@1",
            "a=,b",
            "\ta",
        ] {
            assert_eq!(show(text), None, "{text}");
        }
        let many: Vec<_> = (0..=MEMBERS_MAX).map(|number| format!("a{number}")).collect();
        assert_eq!(show(&many.join(",")), None);
        assert!(show(&many[1..].join(",")).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(text in "[a=\",;:()?1. \\\\-]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
