//! Purges: which objects may not be used, or only after a validation, because they are older than a purge that concerns them.
//!
//! Purges have numbers, and each object has the number that the next purge had when its request was sent to the origin: its
//! [`Epoch`]. So clocks do not matter. A purge of a prefix or a tag cannot know which objects it concerns without reading all of
//! them. It is written to a list on the disk, and every hit of an older object is compared with the list. Meanwhile, the scan of the
//! [background](crate::background) removes the objects; then the purge is applied, and is forgotten some time later.

mod hidden;
pub(crate) mod list;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use rudy_cache::Key;

use self::hidden::Hidden;
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
    /// Returns the length of its text.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Key(key) => key.as_bytes().len(),
            Self::Prefix(bytes) | Self::Tag(bytes) => bytes.len(),
            Self::TagOfSite { site, tag } => site.len() + 1 + tag.len(),
        }
    }

    /// Returns the tag as it is a key in [`Purges::tags`]. No field has a line feed, and so no tag.
    pub(crate) fn tag(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Key(_) | Self::Prefix(_) => None,
            Self::Tag(tag) => Some(Cow::Borrowed(tag)),
            Self::TagOfSite { site, tag } => Some(of_site(site, tag).into()),
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
    /// As many purges as the limit allows are being applied.
    #[error("{PENDING_MAX} purges are being applied to the cache; try again later")]
    Full,
    /// A key, prefix or tag is longer than 16 KiB.
    #[error("a key, prefix or tag is longer than 16 KiB")]
    TooLong,
    /// The disk is full, or failed.
    #[error("the purge cannot be written to the disk: {0}")]
    System(io::Error),
}

/// The limit of purges that are not yet applied. Each hit may have to be compared with every prefix among them.
pub(crate) const PENDING_MAX: usize = 4096;

/// The limit of purges in memory. Beyond it, applied ones are forgotten early: transfers that began before them are not stored.
const REMEMBERED_MAX: usize = 65_536;

/// A purge with its number.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) purge: Purge,
    /// Whether it is in the list on the disk.
    pub(crate) is_durable: bool,
    /// When all objects that it concerns had been removed.
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
struct Numbers {
    hard: u64,
    soft: u64,
}

impl Numbers {
    fn add(&mut self, number: u64, soft: bool) {
        let last = if soft { &mut self.soft } else { &mut self.hard };
        *last = number.max(*last);
    }

    fn effect(self, epoch: Epoch) -> Effect {
        match epoch.0 {
            epoch if epoch <= self.hard => Effect::Gone,
            epoch if epoch <= self.soft => Effect::Stale,
            _ => Effect::None,
        }
    }
}

/// The purges that are not forgotten.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    /// By number.
    entries: VecDeque<Entry>,
    /// The number of the next purge.
    pub(crate) next: u64,
    /// All purges up to this number are forgotten.
    pub(crate) forgotten: u64,
    /// The number of those that are not applied.
    pending: usize,
    keys: HashMap<Box<[u8]>, Numbers>,
    tags: HashMap<Box<[u8]>, Numbers>,
    /// The numbers of purges of prefixes, the prefixes, and whether they are soft.
    prefixes: VecDeque<(u64, Box<[u8]>, bool)>,
    /// Objects that this process has invalidated without the lock of the folder.
    pub(crate) hidden: Hidden,
}

impl Purges {
    pub(crate) fn new(next: u64, forgotten: u64, entries: Vec<Entry>) -> Self {
        let mut purges = Self { next, forgotten, ..Self::default() };
        for entry in entries {
            purges.push(entry);
        }
        purges
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.next)
    }

    /// Returns the number of the next purge and of the last forgotten one.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (self.next, self.forgotten)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the number of purges that are not applied.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Gives purges their numbers, without adding them.
    pub(crate) fn number(&self, purges: &[Purge], is_durable: bool) -> Vec<Entry> {
        let entry = |(number, purge): (u64, &Purge)| Entry {
            number,
            purge: purge.clone(),
            is_durable,
            applied_at: None,
        };
        (self.next..).zip(purges).map(entry).collect()
    }

    /// Adds purges with the next numbers.
    pub(crate) fn add(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.next = entry.number + 1;
            self.push(entry);
        }
    }

    fn push(&mut self, entry: Entry) {
        let Entry { number, purge: Purge { target, soft }, applied_at, .. } = &entry;
        match target {
            Target::Key(key) => self.keys.entry(key.as_bytes().into()).or_default().add(*number, *soft),
            Target::Tag(_) | Target::TagOfSite { .. } => {
                let tag = target.tag().unwrap_or_default();
                self.tags.entry(tag.as_ref().into()).or_default().add(*number, *soft);
            }
            Target::Prefix(prefix) => self.prefixes.push_back((*number, prefix.as_slice().into(), *soft)),
        }
        self.pending += usize::from(applied_at.is_none());
        self.entries.push_back(entry);
    }

    /// Returns what the purges mean for an object.
    pub(crate) fn effect(&self, epoch: Epoch, key: &[u8], fields: Option<&HeaderMap>) -> Effect {
        // The newest are last: most objects are older than none.
        if self.entries.back().is_none_or(|entry| entry.number < epoch.0) {
            return Effect::None;
        }
        let mut numbers = self.keys.get(key).copied().unwrap_or_default();
        if !self.tags.is_empty() {
            let site = fields.and_then(|fields| fields.get(&SITE)).map(HeaderValue::as_bytes);
            for tag in fields.into_iter().flat_map(tags) {
                for of_tag in self.tags.get(tag).into_iter().chain(self.of_site(site, tag)) {
                    numbers.add(of_tag.hard, false);
                    numbers.add(of_tag.soft, true);
                }
            }
        }
        for (number, prefix, soft) in self.prefixes.iter().rev().take_while(|(number, ..)| *number >= epoch.0)
        {
            if key.starts_with(prefix) {
                numbers.add(*number, *soft);
            }
        }
        numbers.effect(epoch)
    }

    /// Returns the purges of a tag of one site that concern an object of a site. An object without a site may be of any.
    fn of_site<'p>(&'p self, site: Option<&'p [u8]>, tag: &'p [u8]) -> impl Iterator<Item = &'p Numbers> {
        let of_this = site.and_then(|site| self.tags.get(of_site(site, tag).as_slice()));
        let of_any = self.tags.iter().filter(move |(key, _)| {
            let end = key.strip_suffix(tag).filter(|_| site.is_none());
            end.is_some_and(|start| start.ends_with(b"\n"))
        });
        of_this.into_iter().chain(of_any.map(|(_, numbers)| numbers))
    }

    /// Whether an object of this epoch may be stored: no purge that could concern it is forgotten.
    pub(crate) fn knows(&self, epoch: Epoch) -> bool {
        epoch.0 > self.forgotten
    }

    /// Marks purges as applied, by their numbers.
    pub(crate) fn applied(&mut self, is_applied: impl Fn(&Entry) -> bool, now: Instant) {
        // Those that are not are usually the last.
        let mut left = self.pending;
        for entry in self.entries.iter_mut().rev() {
            if left == 0 {
                return;
            }
            if entry.applied_at.is_none() {
                left -= 1;
                if is_applied(entry) {
                    entry.applied_at = Some(now);
                    self.pending -= 1;
                }
            }
        }
    }

    /// Returns how many of the oldest purges can be forgotten: all that were applied long enough ago, or exceed the limit. Zero
    /// until [`Purges::forget_at`]: forgetting is work, so it is done for many at once.
    pub(crate) fn forgettable(&self, now: Instant, memory: Duration) -> usize {
        let surplus = if self.entries.len() > REMEMBERED_MAX { REMEMBERED_MAX / 10 } else { 0 };
        if surplus == 0 && self.forget_at(memory).is_none_or(|at| now < at) {
            return 0;
        }
        let is_old = |(at, entry): &(usize, &Entry)| {
            let applied_at = entry.applied_at;
            applied_at.is_some_and(|then| *at < surplus || now.duration_since(then) >= memory)
        };
        self.entries.iter().enumerate().take_while(is_old).count()
    }

    /// When the oldest purge will be forgotten. `None` if it is not applied, or there is none.
    pub(crate) fn forget_at(&self, memory: Duration) -> Option<Instant> {
        self.entries.front()?.applied_at?.checked_add(memory + memory / 10)
    }

    /// Forgets the oldest purges, which are applied.
    pub(crate) fn forget(&mut self, count: usize) {
        for Entry { number, purge, .. } in self.entries.drain(..count) {
            self.forgotten = self.forgotten.max(number);
            let (numbers, text) = match &purge.target {
                Target::Key(key) => (&mut self.keys, Cow::Borrowed(key.as_bytes())),
                Target::Tag(_) | Target::TagOfSite { .. } => {
                    (&mut self.tags, purge.target.tag().unwrap_or_default())
                }
                Target::Prefix(_) => {
                    self.prefixes.pop_front();
                    continue;
                }
            };
            if numbers.get(&*text).is_some_and(|last| last.hard.max(last.soft) == number) {
                numbers.remove(&*text);
            }
        }
    }
}

/// Returns the tag of a site as a key of [`Purges::tags`].
fn of_site(site: &[u8], tag: &[u8]) -> Vec<u8> {
    [site, &b"\n"[..], tag].concat()
}

/// Returns the tags of a response: `Cache-Tag` separates them by commas, `Surrogate-Key` by whitespace.
fn tags(fields: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let split = |name: &'static str, is_separator: fn(&u8) -> bool| {
        let values = fields.get_all(name).into_iter();
        values.flat_map(move |value| value.as_bytes().split(is_separator)).map(<[u8]>::trim_ascii)
    };
    let cache_tags = split("cache-tag", |byte| *byte == b',');
    cache_tags.chain(split("surrogate-key", u8::is_ascii_whitespace)).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purges(targets: &[(Target, bool)]) -> Purges {
        let mut purges = Purges::new(10, 9, Vec::new());
        let list: Vec<_> =
            targets.iter().map(|(target, soft)| Purge { target: target.clone(), soft: *soft }).collect();
        purges.add(purges.number(&list, true));
        purges
    }

    #[test]
    fn a_purge_concerns_older_objects_only() {
        let tagged =
            crate::tests::fields(&[("cache-tag", "a, b"), ("cache-tag", "c"), ("surrogate-key", " d  e ")]);
        let tag = |tag: &str| Target::Tag(tag.into());
        let prefix = |prefix: &str| Target::Prefix(prefix.into());
        let key = |path: &str| Target::Key(Key::new(true, b"a", path.as_bytes()));
        for (target, soft, expected) in [
            (tag("a"), false, Effect::Gone),
            (tag("b"), true, Effect::Stale),
            (tag("c"), false, Effect::Gone),
            (tag("e"), false, Effect::Gone),
            (tag("a, b"), false, Effect::None),
            (tag("A"), false, Effect::None),
            (tag(""), false, Effect::None),
            (prefix("https://a/x"), false, Effect::Gone),
            (prefix(""), true, Effect::Stale),
            (prefix("https://a/xyz1"), false, Effect::None),
            (key("/xyz"), false, Effect::Gone),
            (key("/xyz"), true, Effect::Stale),
            (key("/xy"), false, Effect::None),
        ] {
            let purges = purges(&[(target.clone(), soft)]);
            let effect = |epoch| purges.effect(Epoch(epoch), b"https://a/xyz", Some(&tagged));
            assert_eq!(effect(10), expected, "{target:?}");
            assert_eq!(effect(11), Effect::None, "{target:?}");
            assert_eq!(purges.epoch(), Epoch(11));
        }
    }

    #[test]
    fn a_purge_of_a_tag_of_a_site_concerns_no_other_site() {
        let target = |site: &str| Target::TagOfSite { site: site.into(), tag: b"b".into() };
        let of =
            |site: &'static str| crate::tests::fields(&[("cache-tag", "a, b"), ("rudy-cache-site", site)]);
        let mut purges = purges(&[(target("a.org"), false)]);
        for (fields, expected) in [
            (of("a.org"), Effect::Gone),
            (of("b.org"), Effect::None),
            (of("xa.org"), Effect::None),
            (crate::tests::fields(&[("cache-tag", "b")]), Effect::Gone),
            (crate::tests::fields(&[("cache-tag", "xb")]), Effect::None),
        ] {
            assert_eq!(purges.effect(Epoch(10), b"https://a/", Some(&fields)), expected, "{fields:?}");
        }
        purges.applied(|_| true, Instant::now());
        purges.forget(1);
        assert!(purges.tags.is_empty());
    }

    #[test]
    fn a_hard_purge_is_stronger_than_a_later_soft_one() {
        let (target, other) = (Target::Prefix(b"a".into()), Target::Tag(b"b".into()));
        let purges = purges(&[(target.clone(), false), (other, true), (target, true)]);
        let effects = [10, 11, 12, 13].map(|epoch| purges.effect(Epoch(epoch), b"a", None));
        assert_eq!(effects, [Effect::Gone, Effect::Stale, Effect::Stale, Effect::None]);
    }

    #[test]
    fn applied_purges_are_forgotten_in_order() {
        let (a, b) = (Target::Tag(b"a".into()), Target::Tag(b"b".into()));
        let mut purges = purges(&[(a, false), (b, false)]);
        let (now, memory) = (Instant::now(), Duration::from_mins(1));
        purges.applied(|entry| entry.number == 11, now);
        assert_eq!((purges.forgettable(now + memory, memory), purges.pending()), (0, 1));
        assert_eq!(purges.forget_at(memory), None);
        purges.applied(|_| true, now + memory);
        let forget_at = purges.forget_at(memory).unwrap();
        assert_eq!(forget_at, now + 2 * memory + memory / 10);
        assert_eq!(purges.forgettable(now + 2 * memory, memory), 0);
        assert_eq!(purges.forgettable(forget_at, memory), 2);
        purges.forget(1);
        assert!(purges.knows(Epoch(11)) && !purges.knows(Epoch(10)));
        let tagged = crate::tests::fields(&[("cache-tag", "b")]);
        assert_eq!(purges.effect(Epoch(11), b"", Some(&tagged)), Effect::Gone);
        purges.forget(1);
        assert_eq!(purges.effect(Epoch(11), b"", Some(&tagged)), Effect::None);
    }
}
