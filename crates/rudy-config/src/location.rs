//! Where a value is in the files of a configuration.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::nearest::nearest;

/// The location of a value, present or missing: its file and the path of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    pub(crate) source: usize,
    pub(crate) pointer: String,
}

impl Location {
    /// A whole file.
    #[must_use]
    pub fn file(source: usize) -> Self {
        Self { source, pointer: String::new() }
    }

    /// No file, for a configuration from flags.
    #[must_use]
    pub fn none() -> Self {
        Self::file(usize::MAX)
    }

    /// The value of a key in this table.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let dot = if self.pointer.is_empty() { "" } else { "." };
        Self { source: self.source, pointer: format!("{}{dot}{key}", self.pointer) }
    }

    /// An element of this array.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.key(&index.to_string())
    }

    /// Whether it is `other` or inside `other`.
    #[must_use]
    pub fn is_in(&self, other: &Self) -> bool {
        let rest = self.pointer.strip_prefix(&other.pointer);
        self.source == other.source
            && rest.is_some_and(|rest| rest.is_empty() || other.pointer.is_empty() || rest.starts_with('.'))
    }

    /// The keys after those of `outer`, which encloses it or is it.
    pub(crate) fn rest_after(&self, outer: &Self) -> &str {
        self.pointer.strip_prefix(&outer.pointer).unwrap_or_default().trim_start_matches('.')
    }

    /// The value at these keys in it.
    pub(crate) fn join(&self, rest: &str) -> Self {
        if rest.is_empty() { self.clone() } else { self.key(rest) }
    }

    /// Whether it is probably a misspelling of `other`, in the same table.
    pub(crate) fn is_probably(&self, other: &Self) -> bool {
        let key = |location: &Self| location.pointer.rsplit('.').next().unwrap_or_default().to_owned();
        self.parent() == other.parent() && nearest(&key(self), [key(other).as_str()].into_iter()).is_some()
    }

    /// The keys as in a table header: `site.route`.
    #[must_use]
    pub fn keys(&self) -> String {
        let keys: Vec<_> = self.pointer.split('.').filter(|key| key.parse::<usize>().is_err()).collect();
        keys.join(".")
    }

    /// The last of its keys, also of an element of an array.
    #[must_use]
    pub fn last_key(&self) -> &str {
        let mut keys = self.pointer.rsplit('.');
        keys.find(|key| key.parse::<usize>().is_err()).unwrap_or_default()
    }

    /// The enclosing table or list; `None` for a file.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let pointer = self.pointer.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
        (!self.pointer.is_empty()).then_some(Self { source: self.source, pointer })
    }
}

/// Where values are written that a table has from elsewhere, by where they are read.
#[derive(Debug, Default)]
pub(crate) struct Mounts(pub(crate) BTreeMap<Location, Location>);

impl Mounts {
    /// Where a value is written.
    pub(crate) fn origin<'l>(&self, location: &'l Location) -> Cow<'l, Location> {
        if self.0.is_empty() {
            return Cow::Borrowed(location);
        }
        let mut within = Some(location.clone());
        while let Some(at) = within {
            if let Some(origin) = self.0.get(&at) {
                return Cow::Owned(origin.join(location.rest_after(&at)));
            }
            within = at.parent();
        }
        Cow::Borrowed(location)
    }
}
