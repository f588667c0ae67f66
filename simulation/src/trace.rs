//! What happened, in order: a hash that two runs of a seed share, and a story for people.

use std::fmt::{self, Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

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

impl State {
    fn count(&mut self, at: Duration) {
        at.hash(&mut self.hasher);
        self.events += 1;
    }
}

/// Hashes what is written.
struct Hashed<'h>(&'h mut DefaultHasher);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Trace {
    /// Creates a trace without events, which begins now.
    #[must_use]
    pub fn new(keeps_story: bool) -> Self {
        Self { start: Instant::now(), keeps_story, state: Mutex::default() }
    }

    /// Notes an event of the network, which only the hash has.
    pub(crate) fn event(&self, connection: u64, what: &str, details: impl Debug) {
        let mut state = self.state.lock();
        state.count(self.start.elapsed());
        (connection, what).hash(&mut state.hasher);
        // A text of its own for each event would cost more than the network.
        let _ = write!(Hashed(&mut state.hasher), "{details:?}");
    }

    /// Notes something that a reader of the story understands.
    pub fn tell(&self, text: &str) {
        let at = self.start.elapsed();
        let mut state = self.state.lock();
        state.count(at);
        text.hash(&mut state.hasher);
        if self.keeps_story {
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
