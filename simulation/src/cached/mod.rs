//! The response cache in the world: items whose origin changes them at known times, clients that request them, an operator who purges,
//! and a disk that fails. The [`Ledger`] knows what a cache may send (RFC 9111).

mod client;
mod ledger;

use std::sync::Arc;
use std::time::Duration;

use rudy_admin::{PurgeRequest, PurgedBy};

pub(crate) use self::client::CachedClient;
pub(crate) use self::ledger::Ledger;
use crate::disk::{Death, SimDisk};

/// How many items there are.
const ITEMS: u64 = 14;

/// Something that can be cached. Its number says everything about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item(pub(crate) u64);

/// What the origin permits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) is_stored: bool,
    pub(super) has_tag: bool,
    /// How long it is fresh, in seconds, as are the others.
    pub(super) lifetime: u64,
    pub(super) stale_while_revalidate: u64,
    pub(super) stale_if_error: u64,
}

impl Item {
    pub(super) fn rules(self) -> Rules {
        let stored = Rules { is_stored: true, has_tag: true, ..Rules::default() };
        match self.0 % 7 {
            0 => Rules { lifetime: 10, ..stored },
            1 => Rules { lifetime: 3, stale_if_error: 20, has_tag: false, ..stored },
            2 => Rules::default(),
            3 => stored,
            4 => Rules { lifetime: 2, stale_while_revalidate: 4, ..stored },
            5 => Rules { lifetime: 2, stale_if_error: 20, ..stored },
            _ => Rules { lifetime: 60, ..stored },
        }
    }

    pub(super) fn cache_control(self) -> String {
        let Rules { is_stored, lifetime, stale_while_revalidate, stale_if_error, .. } = self.rules();
        match (is_stored, lifetime) {
            (false, _) => "no-store".to_owned(),
            (true, 0) => "no-cache".to_owned(),
            _ => format!(
                "max-age={lifetime}, stale-while-revalidate={stale_while_revalidate}, stale-if-error={stale_if_error}"
            ),
        }
    }

    /// Returns the version that the origin has at this time.
    pub(super) fn version(self, at: Duration) -> u64 {
        let period_s = [3, 1_000_000, 7, 20].get(usize::try_from(self.0 % 4).unwrap_or(0)).copied();
        at.as_secs() / period_s.unwrap_or(1)
    }

    /// Whether the origin responds to requests with errors at this time: of items that may be sent in their place, every third four
    /// seconds.
    pub(super) fn is_down(self, at: Duration) -> bool {
        self.rules().stale_if_error > 0 && at.as_secs() / 4 % 3 == 2
    }

    /// Returns the length of a version. Versions differ in it, so that none can be mistaken for another one.
    pub(super) fn length(self, version: u64) -> usize {
        let lengths = [200, 0, 3_000, 20_000, 70_000, 90_000, 150_000];
        let length = lengths[usize::try_from(self.0 % 13 % 7).unwrap_or(0)];
        let more = usize::try_from(version % 5).unwrap_or(0) * 17;
        if length == 0 { 0 } else { length + more }
    }

    /// Returns what decides the bytes of a version.
    pub(super) fn content(self, version: u64) -> u64 {
        (self.0 + 1) * 1_000_000 + version
    }

    /// Returns the strong entity tag of a version.
    pub(super) fn tag(self, version: u64) -> Option<String> {
        self.rules().has_tag.then(|| format!("\"{}-{version}\"", self.0))
    }

    /// Whether the origin sends it in chunks, without a length.
    pub(super) fn is_chunked(self) -> bool {
        self.0 % 3 == 1
    }
}

/// The cache, as the operator knows it.
pub(crate) struct Cached {
    pub(crate) disk: &'static SimDisk,
    pub(crate) ledger: Arc<Ledger>,
}

/// A purge that begins.
pub(crate) struct Purge {
    pub(crate) request: PurgeRequest,
    /// All items, if it is none.
    item: Option<Item>,
    begun: Duration,
}

impl Cached {
    /// Chooses a purge.
    pub(crate) fn purge(&self, random: &mut fastrand::Rng) -> Purge {
        let item = self.ledger.item(random);
        let (by, item) = match random.u32(..5) {
            // Both mean the same (RFC 3986 §6.2).
            0 => {
                let prefix = ["http://site.test/cached/", "http://Site.TEST:80/cached/"][random.usize(..2)];
                (PurgedBy::Prefix(prefix.to_owned()), None)
            }
            1 | 2 => (PurgedBy::Tag(format!("item-{}", item.0)), Some(item)),
            _ => (PurgedBy::Url(format!("http://site.test/cached/{}", item.0)), Some(item)),
        };
        let request = PurgeRequest { by: vec![by], soft: random.u32(..3) == 0, wait: false };
        Purge { request, item, begun: self.ledger.now() }
    }

    /// Notes the result of a purge. One that has failed may have had its effect or not.
    pub(crate) fn purged(&self, purge: &Purge, result: &Result<(), String>) {
        self.ledger.tell(&format!("operator: {:?}: {result:?}", purge.request));
        match result {
            Ok(()) => self.ledger.purged(purge.item, purge.begun),
            Err(_) if self.ledger.is_takeover() || !self.disk.faults().is_empty() => {}
            Err(why) => self.ledger.fault(format!("a purge has failed: {why}")),
        }
    }

    /// Ends all processes.
    pub(crate) fn die(&self, death: Death) {
        self.disk.die(death);
        self.ledger.end_all_takeovers();
        if death == Death::PowerFailure || !self.disk.faults().is_empty() {
            self.ledger.forget_changes();
        }
    }
}
