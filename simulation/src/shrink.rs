//! Makes a run that fails smaller: fewer clients, fewer events.

use crate::operator::Action;
use crate::run::{Options, Outcome, run};

/// What is left out of a run. What is left behaves as before: everything has chance of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduction {
    /// The clients that stay away, a bit for each.
    pub without_clients: u32,
    /// What the operator does not do, a bit for each action.
    pub without_actions: u32,
    /// How many requests each client sends at most.
    pub requests_max: u32,
    /// Whether clients follow the protocols.
    pub clients_follow: bool,
    /// Whether applications respond.
    pub origins_respond: bool,
    /// Whether no connection breaks, and nothing is split.
    pub network_is_calm: bool,
    /// Whether there is no TLS.
    pub without_tls: bool,
}

impl Default for Reduction {
    fn default() -> Self {
        Self {
            without_clients: 0,
            without_actions: 0,
            requests_max: u32::MAX,
            clients_follow: false,
            origins_respond: false,
            network_is_calm: false,
            without_tls: false,
        }
    }
}

impl Reduction {
    /// Returns reductions that leave out one thing more.
    fn further(self) -> impl Iterator<Item = Self> {
        let bits = |known: u32, count: u32| {
            (0..count).map(move |bit| known | 1 << bit).filter(move |new| *new != known)
        };
        let clients =
            bits(self.without_clients, 8).map(move |without_clients| Self { without_clients, ..self });
        let count = u32::try_from(Action::ALL.len()).unwrap_or(u32::MAX);
        let actions =
            bits(self.without_actions, count).map(move |without_actions| Self { without_actions, ..self });
        let requests = [1, 2, 4, 8].into_iter().filter(move |max| *max < self.requests_max);
        let requests = requests.map(move |requests_max| Self { requests_max, ..self });
        let flags = [
            Self { clients_follow: true, ..self },
            Self { origins_respond: true, ..self },
            Self { network_is_calm: true, ..self },
            Self { without_tls: true, ..self },
        ];
        clients.chain(actions).chain(flags).filter(move |new| *new != self).chain(requests)
    }
}

/// Returns the smallest run that still fails, of those that leave out one thing after the other. The fault may be another one.
#[must_use]
pub fn shrink(options: Options) -> Outcome {
    let mut options = Options { keeps_story: true, ..options };
    let mut smallest = run(options);
    'smaller: loop {
        for reduction in options.reduction.further() {
            let smaller = Options { reduction, ..options };
            let outcome = run(smaller);
            if !outcome.faults.is_empty() {
                (options, smallest) = (smaller, outcome);
                continue 'smaller;
            }
        }
        return smallest;
    }
}
