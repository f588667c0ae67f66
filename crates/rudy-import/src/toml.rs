//! Writes TOML with comments.

use std::fmt::Write;

/// The longest line of a value; longer ones are split.
const WIDTH: usize = 110;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Integer(u64),
    Bool(bool),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl Value {
    /// One value alone, or a list of several.
    pub(crate) fn one_or_many(mut values: Vec<Self>) -> Self {
        if values.len() == 1 { values.remove(0) } else { Self::List(values) }
    }

    /// One text alone, or a list of several.
    pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::one_or_many(texts.into_iter().map(Self::Text).collect())
    }

    /// A table.
    pub(crate) fn table<K: Into<String>>(keys: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Table(keys.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn inline(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Integer(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::List(values) => {
                let values: Vec<_> = values.iter().map(Self::inline).collect();
                format!("[{}]", values.join(", "))
            }
            Self::Table(keys) if keys.is_empty() => "{}".to_owned(),
            Self::Table(keys) => {
                let pairs: Vec<_> =
                    unique(keys).map(|(key, value)| format!("{} = {}", bare(key), value.inline())).collect();
                format!("{{ {} }}", pairs.join(", "))
            }
        }
    }
}

/// The keys of a table: of several with one name, the last one counts.
fn unique(keys: &[(String, Value)]) -> impl Iterator<Item = &(String, Value)> {
    keys.iter()
        .enumerate()
        .filter(|(at, (key, _))| !keys[at + 1..].iter().any(|(other, _)| other == key))
        .map(|(_, pair)| pair)
}

/// A key, quoted if it needs to be.
fn bare(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { quoted(key) }
}

/// Begins a variable of the environment in a text. Texts of files do not have it: the parsers reject it.
pub(crate) const VARIABLE: char = '\u{E000}';

/// A text in quotes. `${` would be a variable of the environment.
fn quoted(text: &str) -> String {
    let text = text.replace("${", "$${").replace(VARIABLE, "${");
    let is_literal = |letter: char| letter != '\'' && !letter.is_control();
    if text.contains(['\\', '"']) && text.chars().all(is_literal) {
        return format!("'{text}'");
    }
    let mut result = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => result.extend(['\\', letter]),
            '\n' => result.push_str("\\n"),
            '\t' => result.push_str("\\t"),
            '\r' => result.push_str("\\r"),
            // Writing to a string cannot fail.
            _ if letter.is_control() => _ = write!(result, "\\u{:04X}", u32::from(letter)),
            _ => result.push(letter),
        }
    }
    result + "\""
}

/// A table with comments above it. The order of its keys is that in which they are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) comments: Vec<String>,
    /// Whether no further settings belong to it.
    pub(crate) is_done: bool,
    keys: Vec<(String, Value)>,
}

impl Table {
    /// Sets a key, instead of an earlier value.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// Sets a key at the beginning.
    pub(crate) fn set_first(&mut self, key: &str, value: impl Into<Value>) {
        self.remove(key);
        self.keys.insert(0, (key.to_owned(), value.into()));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The keys in their order.
    pub(crate) fn keys(&self) -> &[(String, Value)] {
        &self.keys
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.keys.iter().position(|(name, _)| name == key)?;
        Some(self.keys.remove(at).1)
    }

    /// Adds a comment, unless it is there already.
    pub(crate) fn comment(&mut self, comment: impl Into<String>) {
        let comment = comment.into();
        if !self.comments.contains(&comment) {
            self.comments.push(comment);
        }
    }

    /// Writes the table under its header. Wide tables in it get headers of their own.
    pub(crate) fn write(&self, header: &str, path: &str, output: &mut String) {
        for comment in &self.comments {
            output.push_str("# ");
            output.extend(comment.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
            output.push('\n');
        }
        output.push_str(header);
        let is_wide = |(key, value): &&(String, Value)| {
            matches!(value, Value::Table(keys) if !keys.is_empty())
                && key.len() + value.inline().chars().count() + 3 > WIDTH
        };
        for (key, value) in self.keys.iter().filter(|pair| !is_wide(pair)) {
            write_pair(key, value, output);
        }
        for (key, value) in self.keys.iter().filter(is_wide) {
            let Value::Table(keys) = value else { continue };
            let dot = if path.is_empty() { "" } else { "." };
            _ = writeln!(output, "\n[{path}{dot}{}]", bare(key));
            for (key, value) in unique(keys) {
                write_pair(key, value, output);
            }
        }
    }
}

fn write_pair(key: &str, value: &Value, output: &mut String) {
    let (key, line) = (bare(key), value.inline());
    match value {
        Value::List(values) if key.len() + line.chars().count() + 3 > WIDTH => {
            _ = writeln!(output, "{key} = [");
            for value in values {
                _ = writeln!(output, "    {},", value.inline());
            }
            output.push_str("]\n");
        }
        _ => _ = writeln!(output, "{key} = {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_as_they_were() {
        for text in ["", "a", "a\"b", "a\\.b", "it's \\", "new\nline\t\u{1}", "é", "'\"\\"] {
            let mut output = String::new();
            write_pair("key", &text.into(), &mut output);
            let read: toml::Table = toml::from_str(&output).unwrap();
            assert_eq!(read["key"].as_str(), Some(text), "{output}");
        }
        assert_eq!(quoted("${HOME}"), "\"$${HOME}\"");
    }
}
