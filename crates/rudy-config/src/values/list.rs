//! Lists that can be a single value.

use crate::read::{Invalid, Setting, Value, Words};
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

/// At least one word: a list, or a text with colons in between, as other servers have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordList<T>(Vec<T>);

impl<T: Words> WordList<T> {
    /// All words.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T: Words + Setting> Setting for WordList<T> {
    const SHAPE: Shape = Shape::Either(&[&Shape::List(&T::SHAPE, 1), &Shape::Text { is_required: true }]);

    fn read(value: &Value<'_>) -> Result<Self, Invalid> {
        match (value.as_text(), value.elements()) {
            (Some(text), _) => {
                // Reports all that are none.
                let words: Vec<_> = text.split(':').map(|word| value.word_in(word)).collect();
                words.into_iter().collect::<Result<_, _>>().map(Self)
            }
            (None, Some(elements)) if elements.is_empty() => value.invalid(EMPTY_LIST),
            (None, _) => value.list().map(Self),
        }
    }

    fn written(&self) -> Option<String> {
        self.0.written()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::from_text;

    /// A colour.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, crate::Words)]
    enum Colour {
        Red,
        #[setting(name = "blue", alias = "azure", alias = "navy")]
        Blue,
    }

    #[test]
    fn words_have_other_spellings_and_colons_in_between() {
        let list = |text: &str| from_text::<BTreeMap<String, WordList<Colour>>>(&format!("key = {text}"));
        for text in ["['red', 'blue']", "['red', 'navy']", "'red:azure'"] {
            assert_eq!(list(text).unwrap()["key"].as_slice(), [Colour::Red, Colour::Blue], "{text}");
        }
        assert_eq!(list("'azure'").unwrap()["key"].written().as_deref(), Some("[\"blue\"]"));
        assert_eq!(list("'a:red:b'").unwrap_err().len(), 2);
        for (text, expected) in [
            ("'red:nav'", "expected \"red\" or \"blue\", found \"nav\": did you mean \"navy\"?"),
            ("'red:'", "found \"\""),
            ("['bleu']", "did you mean \"blue\"?"),
            ("[]", "the list is empty"),
            ("1", "expected a list, found an integer"),
        ] {
            let problems = list(text).unwrap_err();
            let lines: Vec<_> = problems.iter().map(crate::Problem::line).collect();
            assert!(lines.len() == 1 && lines[0].contains(expected), "{text}: {lines:?}");
        }
    }
}
