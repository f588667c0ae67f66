//! The error type of the deserializer: a message with a location.

use std::fmt;

use serde::de;

use crate::diagnostics::{Location, Problem};
use crate::hints::{Hints, missing};

/// An error of a value, or of a key.
#[derive(Debug)]
pub(super) struct Error {
    /// Lines: the problem, the expected value, the advice. Empty if already reported.
    text: String,
    missing: Option<&'static str>,
    location: Option<Location>,
    is_key: bool,
}

/// Formats the two lines of a [`de::Error::custom`]: the problem and the expected value.
pub fn two_lines(title: impl fmt::Display, label: impl fmt::Display) -> String {
    format!("{title}\n{label}")
}

impl Error {
    /// An error that was already reported.
    pub(super) fn reported(location: &Location) -> Self {
        Self { text: String::new(), missing: None, location: Some(location.clone()), is_key: false }
    }

    /// Sets the location, unless a more specific one is set.
    pub(super) fn at(mut self, location: &Location) -> Self {
        self.location.get_or_insert_with(|| location.clone());
        self
    }

    /// Sets the location to a key instead of a value.
    pub(super) fn at_key(mut self, location: &Location) -> Self {
        self.is_key = self.location.is_none();
        self.at(location)
    }

    pub(super) fn location(&self) -> Option<&Location> {
        self.location.as_ref()
    }

    /// The name of the missing key.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Converts the error into a problem; `None` if already reported.
    pub(super) fn into_problem(self, at: &Location, hints: &dyn Hints) -> Option<Problem> {
        if let Some(key) = self.missing {
            return Some(missing(hints, at, key));
        }
        let mut lines = self.text.lines();
        let title = lines.next()?;
        let problem = if self.is_key { Problem::key(at, title) } else { Problem::value(at, title) };
        let problem = problem.label(lines.next().unwrap_or_default());
        Some(match lines.next() {
            Some(help) => problem.help(help),
            None => problem,
        })
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { text: message.to_string(), missing: None, location: None, is_key: false }
    }

    fn missing_field(key: &'static str) -> Self {
        Self { missing: Some(key), ..Self::custom("") }
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match unexpected {
            de::Unexpected::Signed(number) => {
                Self::custom(two_lines(format_args!("{number} is out of range"), "expected 0 or more"))
            }
            de::Unexpected::Unsigned(number) => {
                Self::custom(two_lines(format_args!("{number} is out of range"), "expected a smaller number"))
            }
            other => Self::custom(format_args!("expected {expected}, found {other}")),
        }
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match unexpected {
            de::Unexpected::Str(_) => "a string",
            de::Unexpected::Unsigned(_) | de::Unexpected::Signed(_) => "an integer",
            de::Unexpected::Float(_) => "a number",
            de::Unexpected::Bool(_) => "true or false",
            de::Unexpected::Seq => "a list",
            de::Unexpected::Map | de::Unexpected::NewtypeStruct => "a table",
            de::Unexpected::Other(what) => what,
            _ => "another value",
        };
        Self::custom(format_args!("expected {expected}, found {found}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
