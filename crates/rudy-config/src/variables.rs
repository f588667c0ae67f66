//! Expands environment variables in text: `${NAME}`, `${NAME:-default}`, and `$${` for a literal `${`.
//!
//! Messages show the placeholder, because the value can be a secret.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::diagnostics::Problem;
use crate::location::Location;
use crate::placeholders::Placeholders;

/// Expands the text values of a file.
pub(crate) struct Expansion<'a> {
    /// Looks up a variable.
    pub(crate) lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) placeholders: &'a mut Placeholders,
    pub(crate) problems: &'a mut Vec<Problem>,
    /// The locations of placeholders.
    pub(crate) expanded: Vec<Location>,
    /// The locations of placeholders that have no value.
    pub(crate) invalid: Vec<Location>,
}

impl Expansion<'_> {
    pub(crate) fn table(&mut self, table: &mut DeTable<'_>, location: &Location) {
        for (key, value) in table.iter_mut() {
            self.value(value.get_mut(), &location.key(key.get_ref()));
        }
    }

    fn value(&mut self, value: &mut DeValue<'_>, location: &Location) {
        match value {
            DeValue::Table(table) => self.table(table, location),
            DeValue::Array(array) => {
                for (index, value) in array.iter_mut().enumerate() {
                    self.value(value.get_mut(), &location.index(index));
                }
            }
            DeValue::String(text) if text.contains("${") => match self.text(text) {
                Ok(new) => {
                    *text = Cow::Owned(new);
                    self.expanded.push(location.clone());
                }
                Err((title, label)) => {
                    self.problems.push(Problem::value(location, title).label(label));
                    self.invalid.push(location.clone());
                }
            },
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> Result<String, (String, String)> {
        let (mut out, mut is_secret) = (String::new(), false);
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                out.push_str(&rest[..at - 1]);
                out.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            out.push_str(&rest[..at]);
            let unclosed = || ("the placeholder is not closed".to_owned(), "expected \"${NAME}\"".to_owned());
            let end = rest[at..].find('}').map(|length| at + length).ok_or_else(unclosed)?;
            let (value, is_default) = self.variable(rest, at..end)?;
            out.push_str(&value);
            is_secret |= !is_default;
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        // Mask the whole text as well: in the middle of a word, the value alone would not be found.
        if is_secret {
            self.placeholders.add(&out, text);
        }
        Ok(out)
    }

    /// Returns the value of the placeholder at `range`, which ends before its brace, and whether it is the default.
    fn variable(&mut self, text: &str, range: Range<usize>) -> Result<(String, bool), (String, String)> {
        let inner = &text[range.start + 2..range.end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) || name.as_bytes()[0].is_ascii_digit() {
            let title = format!("\"{name}\" is not the name of an environment variable");
            return Err((
                title,
                "expected \"${NAME}\" or \"${NAME:-default}\"; write `$${` for a literal `${`".to_owned(),
            ));
        }
        // The first closing brace would end the default.
        if default.is_some_and(|default| default.contains("${")) {
            let label = "write the default without a placeholder".to_owned();
            return Err(("a default cannot contain a placeholder".to_owned(), label));
        }
        // As in a shell, the default also replaces an empty value.
        let value = (self.lookup)(name).filter(|value| default.is_none() || !value.is_empty());
        match (value, default) {
            (Some(value), _) => {
                self.placeholders.add(&value, &text[range.start..=range.end]);
                Ok((value, false))
            }
            (None, Some(default)) => Ok((default.to_owned(), true)),
            (None, None) => Err((
                format!("the environment variable `{name}` is not set"),
                format!("set it, or write \"${{{name}:-default}}\""),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<(String, Placeholders), String> {
        let (mut placeholders, mut problems) = (Placeholders::default(), Vec::new());
        let lookup = |name: &str| match name {
            "PORT" => Some("8080".to_owned()),
            "NAME" => Some("Secret".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let mut expansion = Expansion {
            lookup: &lookup,
            placeholders: &mut placeholders,
            problems: &mut problems,
            expanded: Vec::new(),
            invalid: Vec::new(),
        };
        let text = expansion.text(text).map_err(|(title, _)| title)?;
        Ok((text, placeholders))
    }

    #[test]
    fn a_placeholder_is_replaced_by_its_value_or_default() {
        for (text, expected) in [
            ("plain $ {x} $x", Ok("plain $ {x} $x")),
            ("127.0.0.1:${PORT}", Ok("127.0.0.1:8080")),
            ("${PORT}${PORT}", Ok("80808080")),
            ("${NONE:-1}", Ok("1")),
            ("${NONE:-}", Ok("")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-x}", Ok("x")),
            ("$${PORT}", Ok("${PORT}")),
            ("${NONE}", Err("the environment variable `NONE` is not set")),
            ("${PORT", Err("the placeholder is not closed")),
            ("${NONE:-${PORT}}", Err("a default cannot contain a placeholder")),
            ("${}", Err("\"\" is not the name of an environment variable")),
            ("${1A}", Err("\"1A\" is not the name of an environment variable")),
            ("${A B}", Err("\"A B\" is not the name of an environment variable")),
        ] {
            assert_eq!(
                expand(text).map(|(text, _)| text),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn messages_show_the_placeholder_instead_of_the_value() {
        let (_, placeholders) = expand("${PORT}").unwrap();
        for (text, shown) in [
            ("http://127.0.0.1:8080/", "http://127.0.0.1:${PORT}/"),
            ("8080", "${PORT}"),
            ("18080 80801 8080a", "18080 80801 8080a"),
            ("8080,8080", "${PORT},${PORT}"),
        ] {
            assert_eq!(placeholders.mask(text), shown);
        }
        let (_, placeholders) = expand("/srv/app${NAME}s/${NONE:-x}").unwrap();
        for (text, shown) in [
            ("cannot open /srv/appSecrets/x: no", "cannot open /srv/app${NAME}s/${NONE:-x}: no"),
            ("secret.org", "${NAME}.org"),
            ("secrets.org", "secrets.org"),
        ] {
            assert_eq!(placeholders.mask(text), shown);
        }
        let (_, placeholders) = expand("${NONE:-8080}").unwrap();
        assert_eq!(placeholders.mask("8080"), "8080", "a default is in the file already");
    }
}
