//! Maps from a part of a request to a text, which placeholders stand for.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use rudy_config::{Invalid, Setting, Shape, Table, Value, two_lines, written_as_text};
use rudy_units::visible;

use super::template::{Piece, Subject, Template};
use crate::wildcard::Wildcard;

/// Maps by name: `{map.NAME}` is the text that a map has for a request. Clones share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maps(Arc<HashMap<String, MapTable>>);

/// A map from a part of a request to a text.
#[derive(Debug, Clone, PartialEq, Eq, Table)]
pub struct MapTable {
    /// What is looked up: a text with placeholders, such as `{cookie.tenant}`, `{header.X-Env}`, `{query.lang}`, `{host}` or `{path}`.
    #[setting(read = Key, example = "{cookie.tenant}")]
    pub from: Template,
    /// The texts. A key is a whole value, or a pattern in which `*` matches any characters: the longest pattern that matches is used.
    #[setting(example = { acme = "blue", "b*" = "green" })]
    pub values: Texts,
    /// The text for all other values.
    #[setting(read = Text, default = Text(String::new()))]
    pub default: String,
}

impl Maps {
    /// No maps.
    #[must_use]
    pub fn none() -> &'static Self {
        static NONE: LazyLock<Maps> = LazyLock::new(Maps::default);
        &NONE
    }

    /// Whether there is a map with this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the text of a map for a request.
    ///
    /// # Errors
    ///
    /// As [`Template::fill_value`].
    pub(super) fn text(&self, name: &str, subject: &Subject<'_>) -> Result<&str, String> {
        let Some(map) = self.0.get(name) else { return Ok("") };
        let mut value = map.from.fill_value(subject)?;
        if map.from.pieces() == [Piece::Host] {
            value.make_ascii_lowercase();
        }
        Ok(map.values.of(&value).unwrap_or(&map.default))
    }
}

impl Setting for Maps {
    const SHAPE: Shape = Shape::Map(&MapTable::SHAPE, Some("^[A-Za-z0-9_-]+$"));

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let maps = value.entries::<MapName, MapTable>()?.into_iter();
        Ok(Self(Arc::new(maps.map(|(name, map)| (name.0, map)).collect())))
    }
}

/// The name of a map.
#[derive(Debug, Clone)]
struct MapName(String);

impl FromStr for MapName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if !text.is_empty() && text.chars().all(is_part) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("\"{}\" is not the name of a map: write letters, digits, \"-\" and \"_\"", visible(text)))
    }
}

impl std::fmt::Display for MapName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

written_as_text!(MapName, "the name of a map (\"tenant\")", {
    doc: "The name of a map.",
    pattern: "^[A-Za-z0-9_-]+$",
    examples: ["tenant"],
});

/// The texts of a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    whole: HashMap<Vec<u8>, String>,
    /// The longest first.
    patterns: Vec<(Wildcard, String)>,
}

impl Texts {
    fn of(&self, value: &[u8]) -> Option<&str> {
        let matches = |(pattern, _): &&(Wildcard, String)| pattern.matches(value, |_| true);
        let by_pattern = || self.patterns.iter().find(matches).map(|(_, text)| text);
        self.whole.get(value).or_else(by_pattern).map(String::as_str)
    }
}

impl Setting for Texts {
    const SHAPE: Shape = Shape::Map(&String::SHAPE, None);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let mut texts = Self::default();
        for (key, Text(text)) in value.entries::<String, Text>()? {
            match key.parse::<Wildcard>() {
                Ok(pattern) if key.contains('*') => texts.patterns.push((pattern, text)),
                _ => drop(texts.whole.insert(key.into_bytes(), text)),
            }
        }
        texts.patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.as_str().len()));
        Ok(texts)
    }
}

/// A text that can be in a header field and in a target.
struct Text(String);

impl Setting for Text {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let text = value.text()?;
        if text.chars().any(char::is_control) {
            return value.invalid("the text of a map cannot contain line feeds or control characters");
        }
        Ok(Self(text.to_owned()))
    }

    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

/// What is looked up: placeholders that do not depend on the route.
struct Key(Template);

impl Setting for Key {
    const SHAPE: Shape = String::SHAPE;

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        let template = Template::parse(value.text()?);
        let template = template.or_else(|(title, expected)| value.invalid(two_lines(title, expected)))?;
        let depends = |piece: &Piece| {
            matches!(piece, Piece::Rest | Piece::Group(_) | Piece::HostGroup(_) | Piece::Map(_))
        };
        if template.as_fixed().is_some() || template.pieces().iter().any(depends) {
            let expected = "expected for example \"{cookie.tenant}\", \"{header.X-Env}\", \"{query.lang}\" or \"{host}\"";
            return value.invalid(two_lines("this is no part of a request", expected));
        }
        Ok(Self(template))
    }
}

impl From<Key> for Template {
    fn from(key: Key) -> Self {
        key.0
    }
}
