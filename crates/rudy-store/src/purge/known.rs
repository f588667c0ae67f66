//! The purges that a process knows, in its memory.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::hidden::Hidden;
use super::list::Version;
use super::tags::Tags;
use super::{Effect, Entry, Numbers, Purge, Target};
use crate::record::Epoch;
use http::HeaderMap;

/// The limit of recent purges in memory. Beyond it, applied ones are forgotten early: transfers that began before them are not stored.
const REMEMBERED_MAX: usize = 65_536;

/// The purges that are not forgotten.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    /// The recent ones by number: transfers may have begun before them.
    entries: VecDeque<Entry>,
    /// The number of the next purge.
    pub(crate) next: u64,
    /// All purges up to this number are forgotten: no transfer that began before them is stored.
    pub(crate) forgotten: u64,
    /// A sweep has applied all purges before this number.
    swept: u64,
    /// The number of keys and prefixes that are not applied.
    pending: usize,
    /// How often purges were forgotten here.
    pub(crate) forgets: u64,
    keys: HashMap<Box<[u8]>, Numbers>,
    tags: Tags,
    /// The numbers of purges of prefixes, the prefixes, and whether they are soft.
    prefixes: VecDeque<(u64, Box<[u8]>, bool)>,
    /// Objects that this process has invalidated without the lock of the folder.
    pub(crate) hidden: Hidden,
    /// What was in the file when they were read.
    pub(crate) version: Version,
}

impl Purges {
    /// Returns the purges of a file. Transfers that began before them belong to another process.
    pub(crate) fn new(next: u64, forgotten: u64, entries: Vec<Entry>, now: Instant) -> Self {
        let mut purges = Self { next, forgotten, ..Self::default() };
        for entry in entries {
            purges.next = purges.next.max(entry.number + 1);
            match entry.purge.target.tag() {
                Some(tag) => purges.tags.add(&tag, entry.number, entry.purge.soft, now),
                None => purges.push(entry, now),
            }
        }
        purges
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.next)
    }

    /// Replaces them by those of a file. It knows nothing of what is hidden in this process.
    pub(crate) fn replace(&mut self, purges: Self) {
        let (hidden, forgets) = (std::mem::take(&mut self.hidden), self.forgets + 1);
        *self = Self { forgets, hidden, ..purges };
    }

    /// Returns the recent purges.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the durable purges.
    pub(crate) fn durable(&self) -> impl Iterator<Item = Entry> {
        let of_tags = self.tags.iter().map(|(tag, number, soft)| {
            let target = Target::of_tag(tag);
            Entry { number, purge: Purge { target, soft }, is_durable: true, applied_at: None }
        });
        let others =
            self.entries.iter().filter(|entry| entry.is_durable && entry.purge.target.tag().is_none());
        others.cloned().chain(of_tags)
    }

    /// Returns the number of keys and prefixes that are not applied.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the number of tags whose objects a sweep will remove.
    pub(crate) fn unswept_tags(&self) -> usize {
        self.tags.len()
    }

    /// Returns the keys that are not applied.
    pub(crate) fn pending_keys(&self) -> Vec<Purge> {
        let keys = self.pending_entries().filter(|entry| matches!(entry.purge.target, Target::Key(_)));
        keys.map(|entry| entry.purge.clone()).collect()
    }

    /// Returns the purges that are not applied. They are usually the last, so all others are rarely looked at.
    fn pending_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev().filter(|entry| entry.applied_at.is_none()).take(self.pending)
    }

    /// The number of the newest purge that may concern an object. Zero if there is none.
    pub(crate) fn newest(&self) -> u64 {
        let is_empty = self.keys.is_empty() && self.tags.is_empty() && self.prefixes.is_empty();
        if is_empty { 0 } else { self.next - 1 }
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
    pub(crate) fn add(&mut self, entries: Vec<Entry>, now: Instant) {
        for entry in entries {
            self.next = entry.number + 1;
            self.push(entry, now);
        }
    }

    fn push(&mut self, mut entry: Entry, now: Instant) {
        let Entry { number, purge: Purge { target, soft }, applied_at, .. } = &mut entry;
        match target {
            Target::Key(key) => self.keys.entry(key.as_bytes().into()).or_default().add(*number, *soft),
            Target::Tag(_) | Target::TagOfSite { .. } => {
                self.tags.add(&target.tag().unwrap_or_default(), *number, *soft, now);
                *applied_at = Some(now);
            }
            Target::Prefix(prefix) => self.prefixes.push_back((*number, prefix.as_slice().into(), *soft)),
        }
        self.pending += usize::from(applied_at.is_none());
        self.entries.push_back(entry);
    }

    /// Returns what the purges mean for an object.
    pub(crate) fn effect(&self, epoch: Epoch, key: &[u8], fields: Option<&HeaderMap>) -> Effect {
        // Most objects are younger than all purges.
        if self.newest() < epoch.0 {
            return Effect::None;
        }
        let mut numbers = self.keys.get(key).copied().unwrap_or_default();
        if let Some(fields) = fields.filter(|_| !self.tags.is_empty()) {
            numbers.merge(self.tags.of(fields));
        }
        for (number, prefix, soft) in self.prefixes.iter().rev().take_while(|(number, ..)| *number >= epoch.0)
        {
            if key.starts_with(prefix) {
                numbers.add(*number, *soft);
            }
        }
        numbers.effect(epoch)
    }

    /// Whether an object of this epoch may be stored: no purge that could concern it is forgotten.
    pub(crate) fn knows(&self, epoch: Epoch) -> bool {
        epoch.0 > self.forgotten
    }

    /// Marks purges as applied.
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

    /// When a sweep is due: at once for a prefix.
    pub(crate) fn sweep_at(&self, now: Instant) -> Option<Instant> {
        let has_prefix = self.pending_entries().any(|entry| matches!(entry.purge.target, Target::Prefix(_)));
        if has_prefix { Some(now) } else { self.tags.sweep_at() }
    }

    /// Notes that a sweep has applied all purges before a number.
    pub(crate) fn swept(&mut self, next: u64, now: Instant) {
        self.applied(|entry| entry.number < next, now);
        self.swept = next;
        self.tags.swept(next, now);
        self.forgets += u64::from(self.tags.forget(self.forgotten, next));
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

    /// When the oldest recent purge will be forgotten. `None` if it is not applied, or there is none.
    pub(crate) fn forget_at(&self, memory: Duration) -> Option<Instant> {
        self.entries.front()?.applied_at?.checked_add(memory + memory / 10)
    }

    /// Forgets the oldest purges, which are applied. Those of tags remain until the next sweep.
    pub(crate) fn forget(&mut self, count: usize) {
        let mut has_tags = false;
        for Entry { number, purge, .. } in self.entries.drain(..count) {
            self.forgotten = self.forgotten.max(number);
            match &purge.target {
                Target::Key(key) => {
                    let key = key.as_bytes();
                    if self.keys.get(key).is_some_and(|last| last.newest() == number) {
                        self.keys.remove(key);
                    }
                }
                Target::Tag(_) | Target::TagOfSite { .. } => has_tags |= number < self.swept,
                Target::Prefix(_) => drop(self.prefixes.pop_front()),
            }
        }
        if has_tags {
            self.tags.forget(self.forgotten, self.swept);
        }
        self.forgets += u64::from(count > 0);
    }
}

#[cfg(test)]
mod tests {
    use rudy_cache::Key;

    use super::*;

    fn purges(targets: &[(Target, bool)]) -> Purges {
        let mut purges = Purges::new(10, 9, Vec::new(), Instant::now());
        let list: Vec<_> =
            targets.iter().map(|(target, soft)| Purge { target: target.clone(), soft: *soft }).collect();
        purges.add(purges.number(&list, true), Instant::now());
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
        purges.swept(purges.next, Instant::now());
        assert!(!purges.tags.is_empty(), "transfers may have begun before");
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
        let [a, b] = [b"/a", b"/b"].map(|path| Key::new(true, b"a", path));
        let mut purges = purges(&[(Target::Key(a), false), (Target::Key(b.clone()), false)]);
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
        assert_eq!(purges.effect(Epoch(11), b.as_bytes(), None), Effect::Gone);
        purges.forget(1);
        assert_eq!(purges.effect(Epoch(11), b.as_bytes(), None), Effect::None);
    }

    /// Returns an object's fate by the tag `a`.
    fn tagged(purges: &Purges, epoch: u64) -> Effect {
        let fields = crate::tests::fields(&[("cache-tag", "a")]);
        purges.effect(Epoch(epoch), b"", Some(&fields))
    }

    #[test]
    fn a_purge_of_a_tag_holds_until_a_sweep_that_began_after_it() {
        let tag = |soft| Purge { target: Target::Tag(b"a".into()), soft };
        let mut purges = purges(&[(tag(false).target, false)]);
        let (now, hour) = (Instant::now(), Duration::from_hours(1));
        let due = purges.sweep_at(now).unwrap();
        assert!(now < due && due <= now + hour);
        purges.forget(1);
        assert_eq!((tagged(&purges, 10), purges.entries().count()), (Effect::Gone, 0));
        assert!(!purges.knows(Epoch(10)), "no transfer has to be compared with it");
        // A sweep begins, and another purge comes.
        let next = purges.next;
        purges.add(purges.number(&[tag(true)], true), now);
        purges.swept(next, now + hour);
        assert_eq!([10, 11].map(|epoch| tagged(&purges, epoch)), [Effect::Gone, Effect::Stale]);
        assert_eq!(purges.sweep_at(now), Some(now + 2 * hour));
        purges.swept(purges.next, now + hour);
        assert_eq!((purges.sweep_at(now), purges.unswept_tags()), (None, 1));
        let forgets = purges.forgets;
        purges.forget(1);
        assert_eq!((tagged(&purges, 11), purges.unswept_tags(), purges.newest()), (Effect::None, 0, 0));
        assert!(purges.forgets > forgets);
    }

    #[test]
    fn many_tags_cause_a_sweep_before_their_time() {
        let mut purges = purges(&[]);
        let now = Instant::now();
        for number in 0..200_000 {
            let target = Target::Tag(format!("product-{number:012}").into_bytes());
            purges.add(purges.number(&[Purge { target, soft: false }], true), now);
            purges.forget(1);
        }
        assert_eq!((purges.sweep_at(now), purges.unswept_tags()), (Some(now), 200_000));
    }
}
