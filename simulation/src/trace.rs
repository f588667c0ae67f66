//! What happened, in order: a hash that two runs of a seed share, and a story for people.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The events of a run.
pub struct Trace {
    start: Instant,
    keeps_story: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hasher: DefaultHasher,
    events: u64,
    story: Vec<String>,
}

impl Trace {
    /// Creates a trace without events, which begins now.
    #[must_use]
    pub fn new(keeps_story: bool) -> Self {
        Self { start: Instant::now(), keeps_story, state: Mutex::default() }
    }

    /// Notes an event of the network, which only the hash has.
    pub(crate) fn event(&self, connection: u64, what: &str, details: impl Debug) {
        self.note(&format!("connection {connection}: {what} {details:?}"), false);
    }

    /// Notes something that a reader of the story understands.
    pub fn tell(&self, text: &str) {
        self.note(text, true);
    }

    fn note(&self, text: &str, is_told: bool) {
        let at = self.start.elapsed();
        let mut state = self.state.lock();
        (at, text).hash(&mut state.hasher);
        state.events += 1;
        if self.keeps_story && is_told {
            state.story.push(format!("{:>12.6} s  {text}", at.as_secs_f64()));
        }
    }

    /// Returns the hash of all events.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.state.lock().hasher.finish()
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.state.lock().events
    }

    /// Returns the story.
    #[must_use]
    pub fn story(&self) -> Vec<String> {
        self.state.lock().story.clone()
    }
}
