//! Reads a file into types that implement [`Setting`], in one pass.
//!
//! A type reports a problem with its value at the place where it is, and the rest is read on: the result has all valid values, so
//! that further checks can run before the problems are shown. A value whose problem has been reported is recorded as invalid, so
//! that its consequences, such as a required key that has no value then, are not reported as well.

mod setting;
mod table;
mod value;

use std::cell::RefCell;
use std::fmt;

use toml::de::{DeTable, DeValue};

pub use self::setting::{Choice, Located, Setting, Table, Words};
pub use self::table::TableReader;
pub use self::value::Value;
use crate::diagnostics::Problem;
use crate::hints::Hints;
use crate::location::Location;
use crate::sources::Sources;

/// The value is invalid. It can only be made by a report of the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid(());

/// Formats the two lines of a problem: the problem, and the expected value.
pub fn two_lines(title: impl fmt::Display, label: impl fmt::Display) -> String {
    format!("{title}\n{label}")
}

/// The result of reading a file.
pub(crate) struct Outcome<T> {
    /// The valid values; `None` if the file as a whole is invalid.
    pub(crate) value: Option<T>,
    /// The problems found.
    pub(crate) problems: Vec<Problem>,
    /// The locations of invalid values.
    pub(crate) invalid: Vec<Location>,
}

/// What the values of one file have in common.
pub(crate) struct Reader<'a> {
    sources: &'a Sources,
    hints: &'a dyn Hints,
    /// Locations of values with a placeholder, where text may be a number.
    expanded: &'a [Location],
    /// Values that are invalid before they are read: placeholders without a value.
    skipped: Vec<Location>,
    problems: RefCell<Vec<Problem>>,
    /// All invalid values. Nothing searches it while values are read: a file can have thousands of mistakes.
    invalid: RefCell<Vec<Location>>,
}

/// Reads a table from a text, without hints, for the tests of tables.
///
/// # Errors
///
/// All problems.
pub fn from_text<T: Setting>(text: &str) -> Result<T, Vec<Problem>> {
    let location = Location::none();
    let document =
        DeTable::parse(text).map_err(|error| vec![Problem::value(&location, error.message().to_owned())])?;
    let sources = Sources::default();
    let reader = Reader::new(&sources, &(), &[], Vec::new());
    let Outcome { value, problems, .. } = reader.read(document.into_inner(), &location);
    value.filter(|_| problems.is_empty()).ok_or(problems)
}

impl<'a> Reader<'a> {
    /// Relative paths start from the folder of their file. Values in `skipped` are not read.
    pub(crate) fn new(
        sources: &'a Sources,
        hints: &'a dyn Hints,
        expanded: &'a [Location],
        skipped: Vec<Location>,
    ) -> Self {
        Self { sources, hints, expanded, skipped, problems: RefCell::default(), invalid: RefCell::default() }
    }

    /// Reads a file into a `T`.
    pub(crate) fn read<T: Setting>(self, document: DeTable<'_>, location: &Location) -> Outcome<T> {
        let document = DeValue::Table(document);
        let value = Value::new(&self, &document, location.clone()).read().ok();
        Outcome { value, problems: self.problems.into_inner(), invalid: self.invalid.into_inner() }
    }

    fn report(&self, problem: Problem) -> Invalid {
        self.problems.borrow_mut().push(problem);
        Invalid(())
    }
}
