//! Reads the keys of a table. Unknown keys are reported and skipped.

use toml::de::DeTable;

use super::setting::{Choice, Setting};
use super::{Invalid, Value};
use crate::diagnostics::Problem;
use crate::hints;
use crate::location::Location;
use crate::shape::TableInfo;

/// A table whose keys are being read. The struct of the table and its parts share it.
pub struct TableReader<'r> {
    value: Value<'r>,
    table: &'r DeTable<'r>,
    /// The locations of keys that the table does not have.
    unknown: Vec<Location>,
}

impl<'r> TableReader<'r> {
    /// Reports unknown keys.
    pub(super) fn new(value: Value<'r>, table: &'r DeTable<'r>, info: &'static TableInfo) -> Self {
        let Value { reader, location, .. } = &value;
        let mut unknown = Vec::new();
        for key in table.keys() {
            let key = key.get_ref().as_ref();
            if info.has(key) {
                continue;
            }
            let location = location.key(key);
            reader.report(hints::unknown(reader.hints, &location, key, &info.names()));
            unknown.push(location);
        }
        reader.invalid.borrow_mut().extend_from_slice(&unknown);
        Self { value, table, unknown }
    }

    /// The location of the table.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.value.location
    }

    /// Reads the value of a key. `None` if it is missing or invalid.
    #[must_use]
    pub fn optional<T: Setting>(&self, key: &'static str) -> Option<T> {
        self.value_of(key)?.read().ok()
    }

    /// Reads the value of a required key.
    ///
    /// # Errors
    ///
    /// It is missing or invalid, which has been reported.
    pub fn required<T: Setting>(&self, key: &'static str) -> Result<T, Invalid> {
        match self.value_of(key) {
            Some(value) => value.read(),
            None => Err(self.missing(key)),
        }
    }

    fn value_of(&self, key: &str) -> Option<Value<'r>> {
        let content = self.table.get(key)?;
        Some(Value::new(self.value.reader, content.get_ref(), self.location().key(key)))
    }

    /// Reports a missing key, unless an unknown one was probably meant.
    fn missing(&self, key: &str) -> Invalid {
        let Value { reader, location, .. } = &self.value;
        let missing = location.key(key);
        if self.unknown.iter().any(|unknown| unknown.is_probably(&missing)) {
            return Invalid(());
        }
        reader.report(hints::missing(reader.hints, location, key))
    }

    /// Reports a problem with the table.
    #[must_use]
    pub fn report(&self, problem: Problem) -> Invalid {
        self.value.reader.report(problem)
    }

    /// Reads the only one of the keys of a choice that the table has.
    ///
    /// # Errors
    ///
    /// It has none of them or several, or the value is invalid.
    pub fn choice<T: Choice>(&self) -> Result<T, Invalid> {
        let Value { reader, location, .. } = &self.value;
        let (table, choice) = reader.hints.choice();
        let mut given = T::KEYS.iter().map(|key| key.name).filter(|key| self.table.contains_key(*key));
        let Some(first) = given.next() else {
            if self.unknown.is_empty() {
                let names: Vec<_> = T::KEYS.iter().map(|key| format!("`{}`", key.name)).collect();
                return Err(reader.report(without_choice(location, table, choice, &names)));
            }
            return Err(Invalid(()));
        };
        if let Some(second) = given.next() {
            let title =
                format!("a {table} can only have one {choice}; this one has `{first}` and `{second}`");
            let problem = Problem::key(&location.key(second), title).label(format!("a second {choice}"));
            reader.invalid.borrow_mut().push(location.key(second));
            return Err(reader.report(problem.also(&location.key(first), "the first")));
        }
        let Some(value) = self.value_of(first) else { return Err(Invalid(())) };
        value.read_with(|value| T::read(first, value))
    }
}

/// Reports a table without any of the keys of which it needs one.
fn without_choice(location: &Location, table: &str, choice: &str, names: &[String]) -> Problem {
    let problem = Problem::value(location, format!("this {table} has no {choice}"));
    let [before @ .., last] = names else { return problem };
    problem.label(format!("expected {} or {last}", before.join(", ")))
}
