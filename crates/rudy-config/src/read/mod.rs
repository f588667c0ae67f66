//! Deserializes a file into structs with serde, and reports all errors at once, each with its location.
//!
//! serde stops at the first error. [`Reader`] records the location of the error, and reads the file again without that value, until
//! no error is left. The result has all valid values, so that further checks can run before the errors are shown.

mod error;
mod table;
mod value;

use std::cell::RefCell;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

pub use self::error::two_lines;
use self::value::Value;
use crate::diagnostics::{Location, Problem};
use crate::hints::Hints;

/// The maximum number of problems per file. Each one costs another pass.
const PROBLEMS_MAX: usize = 100;

/// Names of newtypes that select a special treatment in [`Value`], as serde has no other channel.
pub mod marker {
    /// For types with a short form: a table is visited as a newtype, any other value directly.
    pub const SHORT: &str = "$short";
    /// Like [`SHORT`], for types whose short form is a path.
    pub const SHORT_PATH: &str = "$short_path";
    /// For [`OrOff`](crate::OrOff): `false` is visited directly, any other value as a newtype.
    pub const OR_OFF: &str = "$or_off";
    /// A list, or a single value instead of a list of one.
    pub const LIST: &str = "$list";
    /// A path relative to the folder of the file.
    pub const PATH: &str = "$path";
    /// A program: a path if it has a slash, otherwise a name in `PATH`.
    pub const PROGRAM: &str = "$program";
    /// A value with its location: [`crate::Located`].
    pub const AT: &str = "$at";
}

/// The result of reading a file.
pub(crate) struct Outcome<T> {
    /// The valid values; `None` if the file as a whole is invalid.
    pub(crate) value: Option<T>,
    /// The errors found.
    pub(crate) problems: Vec<Problem>,
    /// The locations of the skipped values.
    pub(crate) invalid: Vec<Location>,
}

/// The state of all passes over one file.
pub(crate) struct Reader<'a> {
    folder: &'a Path,
    hints: &'a dyn Hints,
    /// Locations of values with a placeholder, where text may be a number.
    expanded: &'a [Location],
    problems: RefCell<Vec<Problem>>,
    /// The values that the next pass skips.
    invalid: RefCell<Vec<Location>>,
}

/// Reads a table from a text, without hints, for the tests of tables.
///
/// # Errors
///
/// All problems.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Problem>> {
    let location = Location::none();
    let document =
        DeTable::parse(text).map_err(|error| vec![Problem::value(&location, error.message().to_owned())])?;
    let Outcome { value, problems, .. } =
        Reader::new(Path::new(""), &(), &[], Vec::new()).read(document.get_ref(), &location);
    value.filter(|_| problems.is_empty()).ok_or(problems)
}

impl<'a> Reader<'a> {
    /// Relative paths start from `folder`. Values in `invalid` are skipped.
    pub(crate) fn new(
        folder: &'a Path,
        hints: &'a dyn Hints,
        expanded: &'a [Location],
        invalid: Vec<Location>,
    ) -> Self {
        Self { folder, hints, expanded, problems: RefCell::default(), invalid: RefCell::new(invalid) }
    }

    /// Reads a file into a `T`.
    pub(crate) fn read<T: DeserializeOwned>(self, document: &DeTable<'_>, location: &Location) -> Outcome<T> {
        let document = DeValue::Table(document.clone());
        let value = loop {
            match T::deserialize(Value::new(&self, &document, location.clone())) {
                Ok(value) => break Some(value),
                Err(error) => {
                    let at = error.location().cloned().unwrap_or_else(|| location.clone());
                    let is_known = self.invalid.borrow().contains(&at);
                    self.report_error(error, &at);
                    if at == *location || is_known || self.problems.borrow().len() >= PROBLEMS_MAX {
                        break None;
                    }
                    self.invalid.borrow_mut().push(at);
                }
            }
        };
        Outcome { value, problems: self.problems.into_inner(), invalid: self.invalid.into_inner() }
    }

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
        if !is_consequence && let Some(problem) = error.into_problem(at, self.hints) {
            self.report(problem);
        }
    }
}
