//! All samples of a watch, as series of counts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use rudy_observe::{By, Descriptors, Group, Sockets, State};

use super::counts::{Counter, Counts};

/// What a series counts: a counter, in all or for one remote address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) counter: Counter,
    pub(super) remote: Option<Remote>,
}

/// A remote address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Remote {
    pub(super) address: String,
    pub(super) is_incoming: bool,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counter {
            Counter::Udp | Counter::Unix => write!(f, "{} sockets", self.counter)?,
            Counter::InNoTable => f.write_str("sockets in no table")?,
            counter => counter.fmt(f)?,
        }
        match &self.remote {
            Some(remote) if remote.is_incoming => write!(f, " from {}", remote.address)?,
            Some(remote) => write!(f, " to {}", remote.address)?,
            None => {}
        }
        f.write_str(if self.counter.has_descriptor() { "" } else { " without descriptor" })
    }
}

/// The number of samples that are kept. Above, pairs of samples become one with the smaller counts, which
/// does not change the minimum of any longer time.
const SAMPLES_MAX: usize = 1200;

/// The number of series that are kept: 10 MB of samples. Further remote addresses are counted with their
/// state only.
const SERIES_MAX: usize = 1000;

/// The samples of a watch.
#[derive(Debug, Default)]
pub(super) struct History {
    begin: Option<Instant>,
    times_s: Vec<f64>,
    series: BTreeMap<Key, Vec<f64>>,
    /// The descriptors of the last sample.
    pub(super) descriptors: Option<Descriptors>,
    /// The number of all samples.
    pub(super) samples: u64,
}

impl History {
    pub(super) fn push(&mut self, sockets: &Sockets, counts: &Counts) {
        let begin = *self.begin.get_or_insert(counts.at);
        if self.times_s.len() == SAMPLES_MAX {
            self.halve();
        }
        self.times_s.push(counts.at.saturating_duration_since(begin).as_secs_f64());
        for (counter, number) in counts.iter() {
            self.set(Key { counter, remote: None }, number);
        }
        for group in sockets.grouped(By::RemoteAddress) {
            self.push_group(&group);
        }
        let samples = self.times_s.len();
        self.series.values_mut().for_each(|series| series.resize(samples, 0.0));
        self.descriptors = Some(counts.descriptors);
        self.samples += 1;
    }

    fn push_group(&mut self, group: &Group) {
        let with =
            group.with_descriptor.iter().map(|(state, count)| (Counter::WithDescriptor(*state), count));
        let without =
            group.without_descriptor.iter().map(|(state, count)| (Counter::WithoutDescriptor(*state), count));
        for (counter, count) in with.chain(without) {
            let remote = Remote { address: group.name.clone(), is_incoming: group.is_incoming };
            self.set(Key { counter, remote: Some(remote) }, *count as u64);
        }
    }

    /// Sets the last count of a series. A new one was 0 before.
    fn set(&mut self, key: Key, number: u64) {
        let samples = self.times_s.len();
        if self.series.len() >= SERIES_MAX && key.remote.is_some() && !self.series.contains_key(&key) {
            return;
        }
        let series = self.series.entry(key).or_default();
        series.resize(samples.saturating_sub(1), 0.0);
        series.push(rudy_units::float(number));
    }

    fn halve(&mut self) {
        self.times_s = self.times_s.iter().step_by(2).copied().collect();
        for series in self.series.values_mut() {
            *series =
                series.chunks(2).map(|pair| pair.iter().copied().fold(f64::INFINITY, f64::min)).collect();
        }
        // A remote address that has gone makes room for others.
        self.series.retain(|key, series| key.remote.is_none() || series.iter().any(|count| *count > 0.0));
    }

    /// The time from the first to the last sample.
    pub(super) fn seconds(&self) -> f64 {
        self.times_s.last().copied().unwrap_or(0.0)
    }

    pub(super) fn times_s(&self) -> &[f64] {
        &self.times_s
    }

    /// The counts of what can leak. The total of all sockets is left out, because their states are counted,
    /// and so are listening sockets.
    pub(super) fn series(&self) -> impl Iterator<Item = (&Key, &[f64])> {
        let is_cause =
            |key: &&Key| !matches!(key.counter, Counter::Sockets | Counter::WithDescriptor(State::Listen));
        let series = self.series.iter().map(|(key, series)| (key, series.as_slice()));
        series.filter(move |(key, _)| is_cause(key))
    }

    pub(super) fn counts(&self, counter: Counter) -> &[f64] {
        self.series.get(&Key { counter, remote: None }).map_or(&[], Vec::as_slice)
    }
}
