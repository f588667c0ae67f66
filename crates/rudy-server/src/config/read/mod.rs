//! Deserializes a file into structs with serde, and reports all errors at once, each with its location.
//!
//! serde stops at the first error. [`read`] records the location of the error, and reads the file again without that value, until
//! no error is left. The result has all valid values, so that further checks can run before the errors are shown.

mod error;
mod table;
mod value;

use std::cell::RefCell;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

pub(crate) use self::error::two_lines;
use self::value::Value;
use super::diagnostics::{Location, Problem};

/// The maximum number of problems per file. Each one costs another pass.
const PROBLEMS_MAX: usize = 100;

/// Names of newtypes that select a special treatment in [`Value`], as serde has no other channel.
pub(crate) mod marker {
    /// For types with a short form: a table is visited as a newtype, any other value directly.
    pub(crate) const SHORT: &str = "$short";
    /// Like [`SHORT`], for types whose short form is a path.
    pub(crate) const SHORT_PATH: &str = "$short_path";
    /// For [`OrOff`](crate::config::OrOff): `false` is visited directly, any other value as a newtype.
    pub(crate) const OR_OFF: &str = "$or_off";
    /// A list, or a single value instead of a list of one.
    pub(crate) const LIST: &str = "$list";
    /// A path relative to the folder of the file.
    pub(crate) const PATH: &str = "$path";
    /// A program: a path if it has a slash, otherwise a name in `PATH`.
    pub(crate) const PROGRAM: &str = "$program";
    /// A value with its location: [`crate::config::Located`].
    pub(crate) const AT: &str = "$at";
}

/// The result of reading a file.
pub(super) struct Outcome<T> {
    /// The valid values; `None` if the file as a whole is invalid.
    pub(super) value: Option<T>,
    /// The locations of the skipped values.
    pub(super) invalid: Vec<Location>,
}

/// The state of all passes over one file.
struct Reader<'a> {
    folder: &'a Path,
    /// Locations of values with a placeholder, where text may be a number.
    expanded: &'a [Location],
    problems: RefCell<Vec<Problem>>,
    /// The values that the next pass skips.
    invalid: RefCell<Vec<Location>>,
}

/// Reads a file into a `T`. Relative paths start from `folder`. Values in `invalid` are skipped, and further errors are added to
/// `problems`.
pub(super) fn read<T: DeserializeOwned>(
    document: &DeTable<'_>,
    location: &Location,
    folder: &Path,
    expanded: &[Location],
    invalid: Vec<Location>,
    problems: &mut Vec<Problem>,
) -> Outcome<T> {
    let reader = Reader { folder, expanded, problems: RefCell::default(), invalid: RefCell::new(invalid) };
    let document = DeValue::Table(document.clone());
    let value = loop {
        match T::deserialize(Value::new(&reader, &document, location.clone())) {
            Ok(value) => break Some(value),
            Err(error) => {
                let at = error.location().cloned().unwrap_or_else(|| location.clone());
                let is_known = reader.invalid.borrow().contains(&at);
                reader.report_error(error, &at);
                if at == *location || is_known || reader.problems.borrow().len() >= PROBLEMS_MAX {
                    break None;
                }
                reader.invalid.borrow_mut().push(at);
            }
        }
    };
    problems.append(&mut reader.problems.into_inner());
    Outcome { value, invalid: reader.invalid.into_inner() }
}

/// Reads a table from a text, for tests.
#[cfg(test)]
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Problem>> {
    let document = DeTable::parse(text).unwrap();
    let mut problems = Vec::new();
    let outcome = read(document.get_ref(), &Location::none(), Path::new(""), &[], Vec::new(), &mut problems);
    outcome.value.filter(|_| problems.is_empty()).ok_or(problems)
}

impl Reader<'_> {
    fn is_invalid(&self, location: &Location) -> bool {
        self.invalid.borrow().contains(location)
    }

    /// Whether a skipped value is at the location or inside it.
    fn contains_invalid(&self, location: &Location) -> bool {
        self.invalid.borrow().iter().any(|invalid| invalid.is_in(location))
    }

    fn report(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Reports an error of serde, unless it is a consequence of an earlier problem.
    fn report_error(&self, error: error::Error, at: &Location) {
        let is_misspelt =
            |key: &str| self.invalid.borrow().iter().any(|invalid| invalid.is_probably(&at.key(key)));
        let is_consequence =
            error.missing().is_some_and(|key| self.contains_invalid(&at.key(key)) || is_misspelt(key));
        if !is_consequence && let Some(problem) = error.into_problem(at) {
            self.report(problem);
        }
    }
}
