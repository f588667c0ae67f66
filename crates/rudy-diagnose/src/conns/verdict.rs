//! Whether a process leaks, and when its descriptors run out.

use std::time::Duration;

use rudy_observe::State;
use rudy_stats::growth::{Growth, SAMPLES_MIN, persistent};

use super::counts::Counter;
use super::history::{History, Key};

/// The result of a watch.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict {
    /// What leaks: first what takes descriptors, then the fastest.
    pub(super) leaks: Vec<Leak>,
    /// What grows, but not for long enough, because a pool may be filling.
    pub(super) growing: Vec<Leak>,
    pub(super) run_out: Option<RunOut>,
    /// Whether the watch was long enough to find a leak.
    pub(super) is_long_enough: bool,
    pub(super) watched_s: f64,
    pub(super) samples: u64,
}

/// A counter and why it is a leak.
#[derive(Debug, Clone)]
pub(super) struct Leak {
    pub(super) key: Key,
    pub(super) reason: Reason,
}

/// Why a counter is a leak.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reason {
    /// It grows persistently.
    Grows(Growth),
    /// It holds most of the descriptors of a process that has no more, so it cannot grow.
    Holds {
        /// Its sockets in the last sample.
        sockets: f64,
        /// The maximum number of descriptors.
        limit: u64,
    },
}

/// When the descriptors run out, in seconds from the last sample.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_field_names, reason = "the names have their unit")]
pub(super) struct RunOut {
    pub(super) in_s: f64,
    pub(super) earliest_s: f64,
    /// `None` if it may never happen.
    pub(super) latest_s: Option<f64>,
}

/// How many times longer the growth of connections must persist if they may be a pool that fills: with a
/// minimum of 100 s, five minutes, which is longer than most idle timeouts.
pub(super) const PATIENCE_FOR_POOLS: f64 = 3.0;

/// From this share of the limit on, growth counts as a leak at once: what comes next is an error in any case.
const NEARLY_OUT: f64 = 0.9;

/// Without descriptors, closed sockets with this share of the limit are the reason.
const MOST: f64 = 0.5;

/// A remote address with this share of the growth explains it.
const EXPLAINS: f64 = 0.8;

impl Verdict {
    /// Judges a watch. Growth is a leak when it persists for `time_min`.
    pub(super) fn of(history: &History, time_min: Duration) -> Self {
        let watched_s = history.seconds();
        let end = end_of_growth(history);
        let grown = history.series().filter_map(|(key, counts)| {
            let growth = persistent(&history.times_s()[..end], &counts[..end])?;
            Some(Leak { key: key.clone(), reason: Reason::Grows(growth) })
        });
        let grown: Vec<Leak> = grown.collect();
        let is_certain = |leak: &Leak| {
            let factor = if is_never_healthy(leak.key.counter) { 1.0 } else { PATIENCE_FOR_POOLS };
            let is_old = watched_s >= factor * time_min.as_secs_f64();
            !is_freed_by_kernel(leak.key.counter) && (is_old || is_nearly_out(history))
        };
        let (mut leaks, growing): (Vec<_>, Vec<_>) = explained(&grown).into_iter().partition(is_certain);
        if leaks.is_empty() {
            leaks = holding(history, end);
        }
        Self {
            run_out: RunOut::of(history, &leaks, &grown),
            leaks,
            growing,
            is_long_enough: watched_s >= time_min.as_secs_f64() && history.times_s().len() >= SAMPLES_MIN,
            watched_s,
            samples: history.samples,
        }
    }

    pub(super) fn is_leak(&self) -> bool {
        !self.leaks.is_empty()
    }
}

/// The number of samples before the descriptors have run out. A process without descriptors cannot leak
/// further, which is no sign of health.
fn end_of_growth(history: &History) -> usize {
    let descriptors = history.counts(Counter::Descriptors);
    let Some(limit) = history.descriptors.and_then(|descriptors| descriptors.limit) else {
        return history.times_s().len();
    };
    // Some programs keep one descriptor for the error message, and close the connection that they accept with
    // it.
    let full = rudy_units::float(limit.saturating_sub(limit / 50 + 1));
    descriptors.iter().rposition(|count| *count < full).map_or(0, |last| last + 1)
}

/// The closed sockets that hold most of the descriptors, if the process has had none for as many samples as a
/// verdict needs. Growth shows nothing here: it was too fast, or it ended before the watch began.
fn holding(history: &History, end_of_growth: usize) -> Vec<Leak> {
    let Some(limit) = history.descriptors.and_then(|descriptors| descriptors.limit) else {
        return Vec::new();
    };
    if history.times_s().len() < end_of_growth + SAMPLES_MIN {
        return Vec::new();
    }
    let most = MOST * rudy_units::float(limit);
    let held = history.series().filter(|(key, counts)| {
        is_never_healthy(key.counter) && counts[end_of_growth..].iter().all(|count| *count >= most)
    });
    let mut held: Vec<Leak> = held
        .filter_map(|(key, counts)| {
            let reason = Reason::Holds { sockets: *counts.last()?, limit };
            Some(Leak { key: key.clone(), reason })
        })
        .collect();
    if held.iter().any(|leak| leak.key.remote.is_some()) {
        held.retain(|leak| leak.key.remote.is_some());
    }
    held
}

impl Leak {
    /// The growth, if it is the reason.
    pub(super) fn growth(&self) -> Option<Growth> {
        match self.reason {
            Reason::Grows(growth) => Some(growth),
            Reason::Holds { .. } => None,
        }
    }

    fn per_s(&self) -> f64 {
        self.growth().map_or(0.0, |growth| growth.per_s)
    }
}

fn is_nearly_out(history: &History) -> bool {
    let Some(descriptors) = history.descriptors else { return false };
    let (Some(open), Some(limit)) = (descriptors.open, descriptors.limit) else { return false };
    rudy_units::float(open) >= NEARLY_OUT * rudy_units::float(limit)
}

/// Whether only a fault makes this grow: sockets that the peer or both sides have closed, but not this
/// process.
fn is_never_healthy(counter: Counter) -> bool {
    use State::{CloseWait, Closed, Closing, LastAck, TimeWait};
    match counter {
        Counter::WithDescriptor(CloseWait | LastAck | Closing | TimeWait | Closed) | Counter::InNoTable => {
            true
        }
        Counter::Descriptors
        | Counter::Sockets
        | Counter::Udp
        | Counter::Unix
        | Counter::WithDescriptor(_)
        | Counter::WithoutDescriptor(_) => false,
    }
}

/// Whether the kernel frees these after a minute. Their number follows the rate of connections, and grows during the
/// first minute of a client that always closes.
fn is_freed_by_kernel(counter: Counter) -> bool {
    counter == Counter::WithoutDescriptor(State::TimeWait)
}

/// Leaves out what others explain: a state whose growth is that of one remote address, and descriptors that
/// are these sockets.
fn explained(leaks: &[Leak]) -> Vec<Leak> {
    let by_remote = |state: &Leak| {
        let mut remotes = leaks.iter().filter(|leak| leak.key.counter == state.key.counter);
        remotes.any(|leak| leak.key.remote.is_some() && leak.per_s() >= EXPLAINS * state.per_s())
    };
    let by_sockets = |descriptors: &Leak| {
        let sockets = leaks.iter().filter(|leak| {
            leak.key.remote.is_none()
                && leak.key.counter != Counter::Descriptors
                && leak.key.counter.has_descriptor()
        });
        sockets.map(Leak::per_s).sum::<f64>() >= EXPLAINS * descriptors.per_s()
    };
    let is_shown = |leak: &&Leak| match leak.key.counter {
        Counter::Descriptors => !by_sockets(leak),
        _ => leak.key.remote.is_some() || !by_remote(leak),
    };
    let mut shown: Vec<Leak> = leaks.iter().filter(is_shown).cloned().collect();
    // What takes descriptors comes first, because they run out.
    let takes_none = |leak: &Leak| !leak.key.counter.has_descriptor();
    shown.sort_by(|first, second| {
        takes_none(first).cmp(&takes_none(second)).then(second.per_s().total_cmp(&first.per_s()))
    });
    shown
}

impl RunOut {
    /// By the growth of all descriptors if it is known, else by that of the fastest leak with descriptors.
    fn of(history: &History, leaks: &[Leak], grown: &[Leak]) -> Option<Self> {
        let descriptors = history.descriptors?;
        let left = rudy_units::float(descriptors.limit?.saturating_sub(descriptors.open?));
        let with_descriptor = leaks.iter().filter(|leak| leak.key.counter.has_descriptor());
        let fastest = with_descriptor.max_by(|first, second| first.per_s().total_cmp(&second.per_s()))?;
        let of_all = grown.iter().find(|leak| leak.key.counter == Counter::Descriptors);
        let Some(growth) = of_all.unwrap_or(fastest).growth() else {
            // Nothing is left.
            return Some(Self { in_s: 0.0, earliest_s: 0.0, latest_s: Some(0.0) });
        };
        let latest_s = (growth.per_s_low > 0.0).then(|| left / growth.per_s_low);
        Some(Self { in_s: left / growth.per_s, earliest_s: left / growth.per_s_high, latest_s })
    }
}
