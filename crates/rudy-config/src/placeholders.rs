//! Hides values from the environment in messages.

use std::borrow::Cow;

/// Values from the environment with their placeholders, the longest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placeholders(Vec<(String, String)>);

impl Placeholders {
    /// Adds a value from the environment, and how the file spells it.
    pub fn add(&mut self, value: &str, placeholder: &str) {
        // Hosts are stored in lower case.
        for value in [value.to_owned(), value.to_ascii_lowercase()] {
            let pair = (value, placeholder.to_owned());
            if !pair.0.is_empty() && !self.0.contains(&pair) {
                self.0.push(pair);
            }
        }
        self.0.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    }

    /// Adds those of another configuration.
    pub fn extend(&mut self, others: &Self) {
        others.0.iter().for_each(|(value, placeholder)| self.add(value, placeholder));
    }

    /// Replaces values with their placeholders, unless they are part of a longer word or number.
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for (value, placeholder) in &self.0 {
            if masked.contains(value.as_str()) {
                masked = Cow::Owned(replace_words(&masked, value, placeholder));
            }
        }
        masked
    }
}

fn replace_words(text: &str, value: &str, placeholder: &str) -> String {
    let mut out = String::new();
    let mut end = 0;
    for (start, _) in text.match_indices(value) {
        let is_piece = |inner: Option<char>, outer: Option<char>| {
            inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
        };
        let after = start + value.len();
        let begins_inside = is_piece(value.chars().next(), text[..start].chars().next_back());
        let ends_inside = is_piece(value.chars().next_back(), text[after..].chars().next());
        if !begins_inside && !ends_inside {
            out.push_str(&text[end..start]);
            out.push_str(placeholder);
            end = after;
        }
    }
    out + &text[end..]
}
