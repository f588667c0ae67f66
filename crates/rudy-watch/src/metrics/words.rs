//! Names that are counted: a bounded number, which is found without a lock.

use std::sync::OnceLock;

/// Up to `N - 1` names in the order of their first use. All others have the last place.
#[derive(Debug)]
pub(super) struct Words<const N: usize>([OnceLock<Box<str>>; N]);

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<const N: usize> Words<N> {
    /// Returns the place of a name.
    pub(super) fn place(&self, name: &str) -> usize {
        let places = self.0.iter().take(N - 1);
        let mut places = places.map(|place| &**place.get_or_init(|| name.into()));
        places.position(|known| known == name).unwrap_or(N - 1)
    }

    /// Returns the name at a place; `None` for a place without a name.
    pub(super) fn name(&self, place: usize) -> Option<&str> {
        if place == N - 1 { Some("other") } else { self.0.get(place)?.get().map(|name| &**name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_share_the_last_place() {
        let words: Words<3> = Words::default();
        assert_eq!(["hit", "miss", "hit", "stale", "bypass"].map(|name| words.place(name)), [0, 1, 0, 2, 2]);
        assert_eq!([0, 1, 2].map(|place| words.name(place)), [Some("hit"), Some("miss"), Some("other")]);
    }
}
