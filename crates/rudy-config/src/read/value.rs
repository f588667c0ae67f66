//! A value of a file, and how types read it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rudy_units::visible;
use toml::de::{DeTable, DeValue};

use super::setting::{Setting, Table, Words};
use super::table::TableReader;
use super::{Invalid, Reader, two_lines};
use crate::diagnostics::Problem;
use crate::location::Location;
use crate::nearest::nearest;
use crate::shape::{TableInfo, Word};

/// A value of a file, or the key of an entry.
#[derive(Clone)]
pub struct Value<'r> {
    pub(super) reader: &'r Reader<'r>,
    content: &'r DeValue<'r>,
    pub(super) location: Location,
    is_key: bool,
}

impl<'r> Value<'r> {
    pub(super) fn new(reader: &'r Reader<'r>, content: &'r DeValue<'r>, location: Location) -> Self {
        Self { reader, content, location, is_key: false }
    }

    /// Where it is written.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Reads it as a `T`. If it is invalid, it is recorded.
    pub(super) fn read<T: Setting>(&self) -> Result<T, Invalid> {
        self.read_with(T::read)
    }

    pub(super) fn read_with<T>(&self, read: impl FnOnce(&Self) -> Result<T, Invalid>) -> Result<T, Invalid> {
        // The problem of a placeholder without a value has been reported.
        let is_skipped = self.reader.skipped.contains(&self.location);
        let value = if is_skipped { Err(Invalid(())) } else { read(self) };
        value.inspect_err(|_| self.reader.invalid.borrow_mut().push(self.location.clone()))
    }

    /// Reports that it is invalid. The lines are the problem, the expected value and the advice, of which the last two may be missing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn invalid<T>(&self, lines: impl AsRef<str>) -> Result<T, Invalid> {
        let mut lines = lines.as_ref().lines();
        let title = lines.next().unwrap_or_default();
        let at = &self.location;
        let problem = if self.is_key { Problem::key(at, title) } else { Problem::value(at, title) };
        let problem = problem.label(lines.next().unwrap_or_default());
        Err(self.reader.report(match lines.next() {
            Some(help) => problem.help(help),
            None => problem,
        }))
    }

    /// Reports that something else is expected, with what to write if that is known.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn expected<T>(&self, what: &str) -> Result<T, Invalid> {
        let message = format!("expected {what}, found {}", self.type_name());
        let write = match self.content {
            DeValue::Table(_) if what == "a list" => Some(format!("write [[{}]]", self.location.keys())),
            DeValue::Integer(number) if what == "a string" => Some(format!("write \"{}\"", number.as_str())),
            _ => self.reader.hints.example(&self.location, what),
        };
        match write {
            Some(line) => self.invalid(two_lines(message, line)),
            None => self.invalid(message),
        }
    }

    /// The type of this value, for people.
    fn type_name(&self) -> &'static str {
        match self.content {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// Whether it is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.content.is_table()
    }

    /// Whether it is an empty table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.content, DeValue::Table(table) if table.is_empty())
    }

    /// Whether a `T` can be of its kind: a text, an integer, a list.
    #[must_use]
    pub fn may_be<T: Setting>(&self) -> bool {
        T::SHAPE.accepts(self.content)
    }

    /// The value of a boolean.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        if let DeValue::Boolean(is_on) = self.content { Some(*is_on) } else { None }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_text(&self) -> Option<&'r str> {
        if let DeValue::String(text) = self.content { Some(text) } else { None }
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// It is another value.
    pub fn text(&self) -> Result<&'r str, Invalid> {
        self.as_text().map_or_else(|| self.expected("a string"), Ok)
    }

    /// Reads a text with a notation of its own. `what` describes it, with an example: `a host ("example.org")`.
    ///
    /// # Errors
    ///
    /// It is another value, or the text is not in the notation.
    pub fn parse<T: FromStr<Err = String>>(&self, what: &str) -> Result<T, Invalid> {
        let Some(text) = self.as_text() else { return self.expected(what) };
        self.parse_text(text, what)
    }

    /// Like [`Self::parse`], or reads an integer as its text.
    ///
    /// # Errors
    ///
    /// See [`Self::parse`].
    pub fn parse_or_integer<T: FromStr<Err = String>>(&self, what: &str) -> Result<T, Invalid> {
        match self.number() {
            Some(number) => self.parse_text(&number.to_string(), what),
            None => self.parse(what),
        }
    }

    fn parse_text<T: FromStr<Err = String>>(&self, text: &str, what: &str) -> Result<T, Invalid> {
        text.parse().or_else(|why: String| {
            // The label already has an example.
            let what = what.split(" (").next().unwrap_or_default();
            self.invalid(two_lines(format_args!("\"{}\" is not {what}", visible(text)), visible(&why)))
        })
    }

    /// The value of an integer.
    pub(crate) fn number(&self) -> Option<i128> {
        let DeValue::Integer(number) = self.content else { return None };
        i128::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// The value of a number with a decimal point.
    pub(crate) fn float(&self) -> Option<f64> {
        if let DeValue::Float(number) = self.content { number.as_str().parse().ok() } else { None }
    }

    /// Reads an integer from `min` to `max`.
    ///
    /// # Errors
    ///
    /// It is another value, or out of range.
    pub fn integer(&self, min: u64, max: u64) -> Result<u64, Invalid> {
        let number = match self.content {
            DeValue::Integer(_) => self.number(),
            // The value of an environment variable is text.
            DeValue::String(text) if self.reader.expanded.contains(&self.location) => text.parse().ok(),
            _ => return self.expected("an integer"),
        };
        let Some(number) = number else { return self.invalid("this is not an integer") };
        let within = u64::try_from(number).ok().filter(|number| (min..=max).contains(number));
        within.map_or_else(
            || {
                let bounds =
                    if max == u64::MAX { format!("{min} or more") } else { format!("{min} to {max}") };
                self.invalid(two_lines(
                    format_args!("{number} is out of range"),
                    format_args!("expected {bounds}"),
                ))
            },
            Ok,
        )
    }

    /// Reads a word of an enumeration.
    ///
    /// # Errors
    ///
    /// It is none of the words.
    pub fn word<T: Words>(&self) -> Result<T, Invalid> {
        let (text, found) = match self.content {
            DeValue::String(text) => (&**text, format!("\"{}\"", visible(text))),
            DeValue::Boolean(false) => ("off", self.type_name().to_owned()),
            _ => ("", self.type_name().to_owned()),
        };
        match word_of(text).filter(|_| self.as_text().is_some()) {
            Some(value) => Ok(value),
            None => self.no_word::<T>(text, &found),
        }
    }

    /// Reads a part of its text as a word of an enumeration.
    ///
    /// # Errors
    ///
    /// It is none of the words.
    pub(crate) fn word_in<T: Words>(&self, part: &str) -> Result<T, Invalid> {
        word_of(part).map_or_else(|| self.no_word(part, &format!("\"{}\"", visible(part))), Ok)
    }

    /// Reports that a text is none of the words.
    fn no_word<T: Words>(&self, text: &str, found: &str) -> Result<T, Invalid> {
        let names: Vec<_> = T::WORDS.iter().map(|word| format!("\"{}\"", word.text)).collect();
        let title = format!("expected {}, found {found}", names.join(" or "));
        let near = nearest(text, T::WORDS.iter().flat_map(Word::spellings));
        let label = near.map(|near| format!("did you mean \"{near}\"?"));
        self.invalid(two_lines(title, label.unwrap_or_default()))
    }

    /// Returns a path relative to the folder of the file.
    #[must_use]
    pub fn relative_to_file(&self, path: &Path) -> PathBuf {
        self.reader.sources.folder_of(&self.location).join(path)
    }

    /// Reads a path relative to the folder of the file. With `is_program`, a name without a slash stays a name in `PATH`.
    ///
    /// # Errors
    ///
    /// It is no text, or empty.
    pub(crate) fn path(&self, is_program: bool) -> Result<PathBuf, Invalid> {
        let text = self.text()?;
        if text.is_empty() {
            return self.invalid("the value is empty");
        }
        let is_name = is_program && !text.contains('/');
        Ok(if is_name { PathBuf::from(text) } else { self.relative_to_file(Path::new(text)) })
    }

    /// The values of a list, each for its type. `None` if it is no list.
    #[must_use]
    pub fn elements(&self) -> Option<Vec<Self>> {
        let DeValue::Array(array) = self.content else { return None };
        let element = |(index, element): (usize, &'r toml::Spanned<DeValue<'r>>)| {
            Self::new(self.reader, element.get_ref(), self.location.index(index))
        };
        Some(array.iter().enumerate().map(element).collect())
    }

    /// Reads a list without its invalid elements. If an invalid one is not a table, or no element is left, the whole list is invalid,
    /// because it would mean something else.
    ///
    /// # Errors
    ///
    /// It is no list, or the list is invalid.
    pub fn list<T: Setting>(&self) -> Result<Vec<T>, Invalid> {
        let Some(elements) = self.elements() else { return self.expected("a list") };
        let (mut values, mut is_whole) = (Vec::with_capacity(elements.len()), true);
        for element in &elements {
            match element.read() {
                Ok(value) => values.push(value),
                Err(Invalid(())) => is_whole &= element.is_table(),
            }
        }
        let has_any = elements.is_empty() || !values.is_empty();
        if is_whole && has_any { Ok(values) } else { Err(Invalid(())) }
    }

    /// Reads a table with any keys, without the invalid entries.
    ///
    /// # Errors
    ///
    /// It is no table.
    pub fn entries<K: Setting, T: Setting>(&self) -> Result<Vec<(K, T)>, Invalid> {
        self.entries_with(|_, value| T::read(value))
    }

    /// Like [`Self::entries`], if the key decides how the value is read.
    ///
    /// # Errors
    ///
    /// It is no table.
    pub fn entries_with<K: Setting, T>(
        &self,
        read: impl Fn(&K, &Value<'_>) -> Result<T, Invalid>,
    ) -> Result<Vec<(K, T)>, Invalid> {
        let DeValue::Table(table) = self.content else { return self.expected("a table") };
        let mut entries = Vec::new();
        for (key, content) in table {
            let location = self.location.key(key.get_ref());
            let text = DeValue::String(Cow::Borrowed(key.get_ref()));
            let key = Value { reader: self.reader, content: &text, location, is_key: true };
            let Ok(name) = key.read::<K>() else { continue };
            let value = Value::new(self.reader, content.get_ref(), key.location.clone());
            if let Ok(value) = value.read_with(|value| read(&name, value)) {
                entries.push((name, value));
            }
        }
        Ok(entries)
    }

    /// Reads a table with known keys.
    ///
    /// # Errors
    ///
    /// It is no table, or a required key is missing or invalid.
    pub fn table<T: Table>(&self) -> Result<T, Invalid> {
        match self.content {
            DeValue::Table(table) => T::read_keys(&self.keys(table, T::TABLE)),
            _ => self.expected("a table"),
        }
    }

    fn keys(&self, table: &'r DeTable<'r>, info: &'static TableInfo) -> TableReader<'r> {
        TableReader::new(self.clone(), table, info)
    }

    /// Reads a table with known keys, or its short form. `what` is what messages expect.
    ///
    /// # Errors
    ///
    /// It is neither, or a required key is missing or invalid.
    pub fn table_or<T: Table + From<S>, S: Setting>(&self, what: &str) -> Result<T, Invalid> {
        match self.content {
            DeValue::Table(table) => T::read_keys(&self.keys(table, T::TABLE)),
            short if S::SHAPE.accepts(short) => S::read(self).map(T::from),
            _ => self.expected(what),
        }
    }
}

/// Returns the value of a word, in any of its spellings.
fn word_of<T: Words>(text: &str) -> Option<T> {
    let mut words = T::VALUES.iter().zip(T::WORDS);
    words.find(|(_, word)| word.spellings().any(|spelling| spelling == text)).map(|(value, _)| *value)
}
