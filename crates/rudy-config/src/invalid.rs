//! The invalid values of a configuration, which were skipped.

use std::collections::BTreeSet;
use std::iter::successors;

use crate::location::Location;

/// The locations of invalid values. They are in order, so that a search does not visit all: a file can have thousands of mistakes.
#[derive(Debug, Default)]
pub struct InvalidValues(pub(crate) BTreeSet<Location>);

impl InvalidValues {
    /// Returns those at this location and inside it.
    pub fn inside<'i>(&'i self, outer: &'i Location) -> impl Iterator<Item = &'i Location> {
        // Another key, such as `a-b`, may be between `a` and `a.b`.
        let more = self.0.range(outer.key("")..).take_while(|invalid| invalid.is_in(outer));
        self.0.get(outer).into_iter().chain(more)
    }

    /// Whether a value at this location or inside it is invalid.
    #[must_use]
    pub fn any_in(&self, outer: &Location) -> bool {
        self.inside(outer).next().is_some()
    }

    /// Whether the value at this location was skipped, alone or with a table around it.
    pub(crate) fn encloses(&self, location: &Location) -> bool {
        successors(Some(location.clone()), Location::parent).any(|outer| self.0.contains(&outer))
    }

    /// Whether a key of the same table is probably a misspelling of this one.
    pub(crate) fn misspells(&self, key: &Location) -> bool {
        key.parent().is_some_and(|table| self.inside(&table).any(|invalid| invalid.is_probably(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a file.
    fn at(keys: &str) -> Location {
        Location::file(0).join(keys)
    }

    #[test]
    fn a_search_finds_what_a_comparison_with_each_finds() {
        let keys = ["", "a", "a-b", "a.b", "a.b.c", "a-b.c", "a.0", "a.01.b", "ab", "b.a", "b.a.c"].map(at);
        for chosen in 0_u32..1 << keys.len() {
            let is_chosen = |(number, _): &(usize, &Location)| chosen >> number & 1 == 1;
            let list: Vec<_> = keys.iter().enumerate().filter(is_chosen).map(|(_, at)| at.clone()).collect();
            let invalid = InvalidValues(list.iter().cloned().collect());
            for key in &keys {
                assert_eq!(invalid.any_in(key), list.iter().any(|one| one.is_in(key)), "{key:?} {list:?}");
                assert_eq!(invalid.encloses(key), list.iter().any(|one| key.is_in(one)), "{key:?} {list:?}");
                let misspells = key.parent().is_some() && list.iter().any(|one| one.is_probably(key));
                assert_eq!(invalid.misspells(key), misspells, "{key:?} {list:?}");
            }
            assert!(!invalid.any_in(&Location::file(1)));
        }
    }
}
