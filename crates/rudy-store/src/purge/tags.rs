//! The purges of tags: the newest of each tag, until a sweep has removed what it concerns.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use rudy_runtime::random::RandomState;

use super::{Numbers, SITE};

/// What a tag needs in a table and on the heap, beside its text: measured, 82 bytes for 100,000 of 20 bytes, before the table grows.
const TAG_BYTES: usize = 96;

/// The memory of all tags beyond which a sweep begins: some 140,000 of 20 bytes.
const SWEEP_BYTES: usize = 16 << 20;

/// The time after the first purge until a sweep begins. Until then, files of purged objects use space.
const SWEEP_AFTER: Duration = Duration::from_hours(1);

/// The purged tags.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// By the text of [`super::Target::tag`].
    numbers: HashMap<Box<[u8]>, Numbers, RandomState>,
    /// The sites of purges: few.
    sites: Vec<Box<[u8]>>,
    bytes: usize,
    /// When a tag was added to none.
    since: Option<Instant>,
}

impl Tags {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Adds a purge of a tag, which is of a site if its text has a line feed.
    pub(super) fn add(&mut self, tag: &[u8], number: u64, soft: bool, now: Instant) {
        if let Some(end) = tag.iter().position(|byte| *byte == b'\n')
            && !self.sites.iter().any(|known| **known == tag[..end])
        {
            self.sites.push(tag[..end].into());
        }
        self.since.get_or_insert(now);
        let bytes = &mut self.bytes;
        let numbers = self.numbers.entry(tag.into()).or_insert_with(|| {
            *bytes += tag.len() + TAG_BYTES;
            Numbers::default()
        });
        numbers.add(number, soft);
    }

    /// Returns the newest purges of the tags of a response.
    pub(super) fn of(&self, fields: &HeaderMap) -> Numbers {
        let mut numbers = Numbers::default();
        let site = fields.get(&SITE).map(HeaderValue::as_bytes);
        // A response without a site may be of any.
        let sites =
            self.sites.iter().map(|known| &**known).filter(|known| site.is_none_or(|site| site == *known));
        for tag in tags(fields) {
            let of_sites = sites.clone().filter_map(|site| self.numbers.get(of_site(site, tag).as_slice()));
            self.numbers.get(tag).into_iter().chain(of_sites).for_each(|of_tag| numbers.merge(*of_tag));
        }
        numbers
    }

    /// Returns each tag with its newest purges: their numbers, and whether they are soft.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64, bool)> {
        self.numbers.iter().flat_map(|(tag, Numbers { hard, soft })| {
            let both = [(&**tag, *hard, false), (&**tag, *soft, true)];
            both.into_iter().filter(|(_, number, _)| *number > 0)
        })
    }

    /// When the next sweep is due. `None` if there is nothing to sweep.
    pub(super) fn sweep_at(&self) -> Option<Instant> {
        let since = self.since?;
        if self.bytes >= SWEEP_BYTES { Some(since) } else { since.checked_add(SWEEP_AFTER) }
    }

    /// Forgets the tags whose newest purges have at most this number, and those that a sweep has applied, which are before `swept`.
    /// Returns whether there were any.
    pub(super) fn forget(&mut self, forgotten: u64, swept: u64) -> bool {
        let before = self.numbers.len();
        let bytes = &mut self.bytes;
        self.numbers.retain(|tag, numbers| {
            let is_kept = numbers.newest() > forgotten || numbers.newest() >= swept;
            *bytes -= if is_kept { 0 } else { tag.len() + TAG_BYTES };
            is_kept
        });
        if self.numbers.is_empty() {
            *self = Self::default();
        }
        self.numbers.len() < before
    }

    /// Notes that a sweep has applied the purges before a number.
    pub(super) fn swept(&mut self, next: u64, now: Instant) {
        let has_newer = self.numbers.values().any(|numbers| numbers.newest() >= next);
        self.since = has_newer.then_some(now);
    }
}

/// Returns the tag of a site as a key of [`Tags::numbers`].
pub(super) fn of_site(site: &[u8], tag: &[u8]) -> Vec<u8> {
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
