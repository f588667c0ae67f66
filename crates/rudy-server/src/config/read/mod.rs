//! Reads a file into structs, by serde, and says everything that is wrong with it at once, each with its place.
//!
//! serde stops at the first error. [`read`] notes the place of the error, and reads the file again without what is there, until
//! no error is left. What comes of it has all values that are right, so that more can be checked before the errors are shown.

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

/// The most problems of one file that are looked for. Each has the file read once more.
const PROBLEMS_MAX: usize = 100;

/// Names of newtypes by which a type asks [`Value`] for more than serde knows of.
pub(crate) mod ask {
    /// A table as such, and any other value as it is: for types with a short form.
    pub(crate) const SHORT: &str = "$short";
    /// As [`SHORT`], for a type whose short form is a path.
    pub(crate) const SHORT_PATH: &str = "$short_path";
    /// A list as such, and any other value as its only element.
    pub(crate) const LIST: &str = "$list";
    /// A path, relative to the folder of the file.
    pub(crate) const PATH: &str = "$path";
    /// A program: a path if it has a slash, otherwise a name to look for in `PATH`.
    pub(crate) const PROGRAM: &str = "$program";
    /// A value with its place: [`crate::config::Located`].
    pub(crate) const AT: &str = "$at";
}

/// What came of reading a file.
pub(super) struct Outcome<T> {
    /// Everything that is right; nothing where the file as a whole is wrong.
    pub(super) value: Option<T>,
    /// The places that were left out.
    pub(super) wrong: Vec<Location>,
}

/// One reading after the other of the same file.
struct Reader<'a> {
    folder: &'a Path,
    /// Places of values that were made by a placeholder: a number may be written there as text.
    expanded: &'a [Location],
    problems: RefCell<Vec<Problem>>,
    /// What is left out by the next reading.
    wrong: RefCell<Vec<Location>>,
}

/// Reads a file into a `T`. `folder` is what relative paths start from; `wrong` is left out, and what else is
/// wrong goes to `problems`.
pub(super) fn read<T: DeserializeOwned>(
    document: &DeTable<'_>,
    location: &Location,
    folder: &Path,
    expanded: &[Location],
    wrong: Vec<Location>,
    problems: &mut Vec<Problem>,
) -> Outcome<T> {
    let reader = Reader { folder, expanded, problems: RefCell::default(), wrong: RefCell::new(wrong) };
    let document = DeValue::Table(document.clone());
    let value = loop {
        match T::deserialize(Value::new(&reader, &document, location.clone())) {
            Ok(value) => break Some(value),
            Err(error) => {
                let at = error.location().cloned().unwrap_or_else(|| location.clone());
                let is_known = reader.wrong.borrow().contains(&at);
                reader.note(error, &at);
                if at == *location || is_known || reader.problems.borrow().len() >= PROBLEMS_MAX {
                    break None;
                }
                reader.wrong.borrow_mut().push(at);
            }
        }
    };
    problems.append(&mut reader.problems.into_inner());
    Outcome { value, wrong: reader.wrong.into_inner() }
}

/// Reads a table that is no file, as tests need it.
#[cfg(test)]
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Problem>> {
    let document = DeTable::parse(text).unwrap();
    let mut problems = Vec::new();
    let outcome = read(document.get_ref(), &Location::none(), Path::new(""), &[], Vec::new(), &mut problems);
    outcome.value.filter(|_| problems.is_empty()).ok_or(problems)
}

impl Reader<'_> {
    fn is_wrong(&self, location: &Location) -> bool {
        self.wrong.borrow().contains(location)
    }

    /// Whether something at the place or inside of it is left out.
    fn has_wrong(&self, location: &Location) -> bool {
        self.wrong.borrow().iter().any(|wrong| wrong.is_in(location))
    }

    fn say(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Turns an error of serde into a problem, unless it follows from what was said before.
    fn note(&self, error: error::Error, at: &Location) {
        let is_misspelt = |key: &str| self.wrong.borrow().iter().any(|wrong| wrong.is_near(&at.key(key)));
        let is_consequence =
            error.missing().is_some_and(|key| self.has_wrong(&at.key(key)) || is_misspelt(key));
        if !is_consequence && let Some(problem) = error.into_problem(at) {
            self.say(problem);
        }
    }
}
