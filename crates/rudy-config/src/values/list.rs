//! Lists that can be a single value.

use crate::read::{Invalid, Setting, Value};
use crate::shape::Shape;

/// What is reported about a list that needs a value.
pub(super) const EMPTY_LIST: &str =
    "the list is empty\nexpected at least one value\nremove the key to use its default";

/// One value, or a list of at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OneOrMany<T>(Vec<T>);

impl<T> OneOrMany<T> {
    /// All values.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> FromIterator<T> for OneOrMany<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T> From<OneOrMany<T>> for Vec<T> {
    fn from(values: OneOrMany<T>) -> Self {
        values.0
    }
}

impl<T: Setting> Setting for OneOrMany<T> {
    const SHAPE: Shape = Shape::Either(&[&T::SHAPE, &Shape::List(&T::SHAPE, 1)]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.elements() {
            None => T::read(value).map(|one| Self(vec![one])),
            Some(elements) if elements.is_empty() => value.invalid(EMPTY_LIST),
            Some(_) => value.list().map(Self),
        }
    }

    /// A single value is written without brackets.
    fn written(&self) -> Option<String> {
        if let [one] = self.0.as_slice() { one.written() } else { self.0.written() }
    }
}
