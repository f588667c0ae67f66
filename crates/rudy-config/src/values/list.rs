//! Lists that can be a single value.

use crate::read::{Invalid, Setting, Value};
use crate::shape::Shape;

/// What is reported about a list that needs a value.
pub(super) const EMPTY_LIST: &str =
    "the list is empty\nexpected at least one value\nremove the key to use its default";

/// One value, or a list of at least `MIN`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OneOrMany<T, const MIN: usize = 1>(Vec<T>);

impl<T, const MIN: usize> OneOrMany<T, MIN> {
    /// All values.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MIN: usize> FromIterator<T> for OneOrMany<T, MIN> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T, const MIN: usize> From<OneOrMany<T, MIN>> for Vec<T> {
    fn from(values: OneOrMany<T, MIN>) -> Self {
        values.0
    }
}

impl<T: Setting, const MIN: usize> Setting for OneOrMany<T, MIN> {
    const SHAPE: Shape = Shape::Either(&[&T::SHAPE, &Shape::List(&T::SHAPE, MIN)]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match value.elements() {
            None => T::read(value).map(|one| Self(vec![one])),
            Some(elements) if elements.len() < MIN => value.invalid(EMPTY_LIST),
            Some(_) => value.list().map(Self),
        }
    }

    /// A single value is written without brackets.
    fn written(&self) -> Option<String> {
        if let [one] = self.0.as_slice() { one.written() } else { self.0.written() }
    }
}
