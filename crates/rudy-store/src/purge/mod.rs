//! Purges: which objects may not be used, or only after a validation, because they are older than a purge that concerns them.
//!
//! Purges have numbers, and each object has the number that the next purge had when its request was sent to the origin: its
//! [`Epoch`]. So clocks do not matter. A purge is written to a list on the disk, and the first hit of each older object is compared
//! with the list. So from the purge on, nothing that it concerns is used; what remains is to remove the files:
//!
//! - Those of a key are removed at once.
//! - Those of a tag are not known without reading all objects. They leave when they are met or evicted, and with the next *sweep*,
//!   which reads all objects: an hour after the first purge, or when the tags need much memory.
//! - A prefix is compared with every object, so it causes a sweep at once.
//!
//! Some time later, the purge is forgotten.

mod hidden;
mod known;
pub(crate) mod list;
mod tags;

use std::borrow::Cow;
use std::io;
use std::time::Instant;

use http::HeaderName;
use rudy_cache::Key;

pub(crate) use self::known::Purges;
use crate::record::Epoch;

/// A purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Which objects.
    pub target: Target,
    /// Whether they remain stored, and need a validation before their next use.
    pub soft: bool,
}

/// The objects that a purge concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Those of a key, with all variants.
    Key(Key),
    /// Those whose key begins with these bytes: `https://example.org/a`.
    Prefix(Vec<u8>),
    /// Those with this tag in `Cache-Tag` or `Surrogate-Key`.
    Tag(Vec<u8>),
    /// Those of them that have this value of [`SITE`], or none. The value has no line feed.
    TagOfSite {
        /// The value of the field.
        site: Vec<u8>,
        /// The tag.
        tag: Vec<u8>,
    },
}

/// The field of a stored response that names its site, if it has tags.
pub static SITE: HeaderName = HeaderName::from_static("rudy-cache-site");

impl Target {
    /// Returns its text: that of the key, the prefix, or the tag.
    pub(crate) fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Key(key) => key.as_bytes().into(),
            Self::Prefix(prefix) => prefix.into(),
            Self::Tag(_) | Self::TagOfSite { .. } => self.tag().unwrap_or_default(),
        }
    }

    /// Returns the target with this text of a tag.
    pub(crate) fn of_tag(text: &[u8]) -> Self {
        match text.iter().position(|byte| *byte == b'\n') {
            Some(end) => Self::TagOfSite { site: text[..end].to_vec(), tag: text[end + 1..].to_vec() },
            None => Self::Tag(text.to_vec()),
        }
    }

    /// Returns the tag as it is a key in [`tags::Tags`]. No field has a line feed, and so no tag.
    pub(crate) fn tag(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Key(_) | Self::Prefix(_) => None,
            Self::Tag(tag) => Some(Cow::Borrowed(tag)),
            Self::TagOfSite { site, tag } => Some(tags::of_site(site, tag).into()),
        }
    }
}

/// Why a purge failed. Nothing was purged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// Another process has the lock of the folder.
    #[error("another process has the lock of the cache; purge there")]
    Busy,
    /// As many prefixes as the limit allows are being applied, or the list is full.
    #[error("{PENDING_MAX} prefixes, or {} MiB of other purges, are being applied to the cache; try again later", list::BYTES_MAX >> 20)]
    Full,
    /// A key, prefix or tag is longer than 16 KiB.
    #[error("a key, prefix or tag is longer than 16 KiB")]
    TooLong,
    /// The disk is full, or failed.
    #[error("the purge cannot be written to the disk: {0}")]
    System(io::Error),
}

/// The limit of prefixes that are not yet applied. Each hit may have to be compared with every one of them.
pub(crate) const PENDING_MAX: usize = 4096;

/// A purge with its number.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) purge: Purge,
    /// Whether it is in the list on the disk.
    pub(crate) is_durable: bool,
    /// When all objects that it concerns had been removed. Of a tag: when it was added, because [`tags::Tags`] keeps it.
    pub(crate) applied_at: Option<Instant>,
}

/// The effect of purges on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// It needs a validation.
    Stale,
    /// It may not be used.
    Gone,
}

/// The numbers of the newest purges of a target.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    hard: u64,
    soft: u64,
}

impl Numbers {
    fn add(&mut self, number: u64, soft: bool) {
        let last = if soft { &mut self.soft } else { &mut self.hard };
        *last = number.max(*last);
    }

    fn merge(&mut self, other: Self) {
        self.add(other.hard, false);
        self.add(other.soft, true);
    }

    fn newest(self) -> u64 {
        self.hard.max(self.soft)
    }

    fn effect(self, epoch: Epoch) -> Effect {
        match epoch.0 {
            epoch if epoch <= self.hard => Effect::Gone,
            epoch if epoch <= self.soft => Effect::Stale,
            _ => Effect::None,
        }
    }
}
