//! The counters of sockets, and how they change.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use rudy_observe::{Descriptors, Sockets, State, by_state};

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    Descriptors,
    Sockets,
    /// TCP sockets with a descriptor.
    WithDescriptor(State),
    Udp,
    Unix,
    InNoTable,
    /// Connections without a descriptor.
    WithoutDescriptor(State),
}

impl Counter {
    /// The name as a JSON key: `close_wait`.
    pub(super) fn key(self) -> String {
        match self {
            Self::WithDescriptor(state) | Self::WithoutDescriptor(state) => state_key(state),
            counter => counter.to_string().replace(' ', "_"),
        }
    }

    pub(super) fn has_descriptor(self) -> bool {
        !matches!(self, Self::WithoutDescriptor(_))
    }
}

/// The name of a state as a JSON key: `close_wait`.
pub(super) fn state_key(state: State) -> String {
    state.name().to_ascii_lowercase()
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors => f.write_str("descriptors"),
            Self::Sockets => f.write_str("sockets"),
            Self::WithDescriptor(state) | Self::WithoutDescriptor(state) => state.fmt(f),
            Self::Udp => f.write_str("udp"),
            Self::Unix => f.write_str("unix"),
            Self::InNoTable => f.write_str("in no table"),
        }
    }
}

/// The counters of one sample.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    pub(super) at: Instant,
    pub(super) descriptors: Descriptors,
    numbers: BTreeMap<Counter, u64>,
}

impl Counts {
    pub(super) fn of(sockets: &Sockets) -> Self {
        let mut numbers = BTreeMap::new();
        numbers.insert(Counter::Descriptors, sockets.descriptors.open.unwrap_or(0));
        numbers.insert(Counter::Sockets, sockets.total() as u64);
        let others = [
            (Counter::Udp, sockets.udp),
            (Counter::Unix, sockets.unix),
            (Counter::InNoTable, sockets.in_no_table()),
        ];
        let others = others.into_iter().filter(|(_, count)| *count > 0);
        numbers.extend(others.map(|(counter, count)| (counter, count as u64)));
        for (state, tally) in by_state(&sockets.with_descriptor) {
            numbers.insert(Counter::WithDescriptor(state), tally.sockets as u64);
        }
        for (state, tally) in by_state(&sockets.without_descriptor) {
            numbers.insert(Counter::WithoutDescriptor(state), tally.sockets as u64);
        }
        Self { at: sockets.at, descriptors: sockets.descriptors, numbers }
    }

    pub(super) fn number(&self, counter: Counter) -> u64 {
        self.numbers.get(&counter).copied().unwrap_or(0)
    }

    /// All counters that are not zero.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        self.numbers.iter().map(|(counter, number)| (*counter, *number))
    }

    /// All counters that are or were not zero, with their change.
    pub(super) fn since(&self, first: &Self) -> BTreeMap<Counter, i64> {
        let counters = self.numbers.keys().chain(first.numbers.keys());
        let change = |counter| self.number(counter).cast_signed() - first.number(counter).cast_signed();
        counters.map(|counter| (*counter, change(*counter))).collect()
    }
}
