//! The counters of sockets, and how they change.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use crate::{Descriptors, Sockets, State, by_state};

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Descriptors,
    Sockets,
    /// TCP sockets with a descriptor.
    Held(State),
    Udp,
    Unix,
    Other,
    /// Connections without a descriptor.
    Unheld(State),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors => f.write_str("descriptors"),
            Self::Sockets => f.write_str("sockets"),
            Self::Held(state) | Self::Unheld(state) => state.fmt(f),
            Self::Udp => f.write_str("udp"),
            Self::Unix => f.write_str("unix"),
            Self::Other => f.write_str("other"),
        }
    }
}

/// The counters of one sample.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    pub(super) at: Instant,
    pub(super) descriptors: Descriptors,
    numbers: BTreeMap<What, u64>,
}

impl Counts {
    pub(super) fn of(sockets: &Sockets) -> Self {
        let mut numbers = BTreeMap::new();
        numbers.insert(What::Descriptors, sockets.descriptors.open.unwrap_or(0));
        numbers.insert(What::Sockets, sockets.total() as u64);
        let others = [(What::Udp, sockets.udp), (What::Unix, sockets.unix), (What::Other, sockets.other)];
        numbers.extend(
            others.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| (what, count as u64)),
        );
        for (state, tally) in by_state(&sockets.held) {
            numbers.insert(What::Held(state), tally.sockets as u64);
        }
        for (state, tally) in by_state(&sockets.unheld) {
            numbers.insert(What::Unheld(state), tally.sockets as u64);
        }
        Self { at: sockets.at, descriptors: sockets.descriptors, numbers }
    }

    pub(super) fn number(&self, what: What) -> u64 {
        self.numbers.get(&what).copied().unwrap_or(0)
    }

    /// All counters that are or were not zero, with their change.
    pub(super) fn since(&self, first: &Self) -> BTreeMap<What, i64> {
        let counted = self.numbers.keys().chain(first.numbers.keys());
        counted
            .map(|what| (*what, self.number(*what).cast_signed() - first.number(*what).cast_signed()))
            .collect()
    }
}
